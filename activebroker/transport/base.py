"""What the runtime needs of a transport."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

Arrival = tuple[bytes | memoryview, Sequence[Any]]  # a frame's head, and its buffers


class Transport(Protocol):
    """Carries frames to peers, in order while a connection lasts; may lose them when it breaks.

    All methods but `wake` belong to one thread.
    """

    address: str | None  # where peers can dial this node

    def receive(self, timeout: float | None) -> list[Arrival]:
        """Wait until frames arrive, `wake` is called, or `timeout` seconds have passed."""
        ...

    def transmit(self, peer: str, address: str | None, frames: Sequence[Arrival]) -> None:
        """Send frames to a peer. Without a connection or an address they are dropped."""
        ...

    def heard(self) -> Iterable[str]:
        """Peers of which part of a frame has come since this was asked before."""
        ...

    def forget(self, peer: str) -> None:
        """Drop the connection to a peer."""
        ...

    def wake(self) -> None:
        """Make `receive` return; any thread may call it."""
        ...

    def close(self) -> None: ...

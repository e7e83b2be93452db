"""What the runtime needs of a transport."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

Outgoing = tuple[bytes, Sequence[Any]]  # a frame's head, and its buffers
Arrival = tuple[str, bytes | memoryview, Sequence[Any]]  # the same, after the peer it came from


class Transport(Protocol):
    """Carries frames to peers, in order while a connection lasts; may lose them when it breaks.

    A peer that sends what is no frame, and a connection that cannot be made, cost that connection
    and a line in the log. What a method raises is a fault of this process, which ends the node.

    All methods but `wake` belong to one thread.
    """

    address: str | None  # where peers can dial this node

    def receive(self, timeout: float | None) -> list[Arrival]:
        """Wait until frames arrive, `wake` is called, or `timeout` seconds have passed."""
        ...

    def transmit(self, peer: str, address: str | None, frames: Sequence[Outgoing]) -> None:
        """Send frames to a peer. Without a connection or an address they are dropped."""
        ...

    def heard(self) -> Iterable[str]:
        """Peers of which part of a frame has come since this was asked before."""
        ...

    def hung_up(self) -> Iterable[str]:
        """Peers whose last connection has ended since this was asked before. Whoever sends to one
        learns whether its process has ended, too."""
        ...

    def ended(self) -> Iterable[str]:
        """Peers of which it has turned out since this was asked before that their process has
        ended: they have hung up, and nobody listens any more where they did."""
        ...

    def knock(self, peer: str, address: str) -> None:
        """See whether anybody is there where a silent peer listens."""
        ...

    def absent(self) -> Iterable[str]:
        """Peers of which it has turned out since this was asked before that nobody was there."""
        ...

    def forget(self, peer: str) -> None:
        """Drop the connection to a peer."""
        ...

    def wake(self) -> None:
        """Make `receive` return; any thread may call it."""
        ...

    def close(self) -> None: ...

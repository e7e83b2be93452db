"""What cannot leave its process, because threads and sockets there are its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NoReturn, SupportsIndex

from activebroker.core.errors import NotPicklable


class Bound(ABC):
    """Bound to its process: pickling or copying it, or what holds it, raises NotPicklable."""

    @property
    @abstractmethod
    def _address(self) -> str | None:
        """Where other processes join its fabric."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        address = self._address
        raise NotPicklable(
            f"{self!r} belongs to this process: it cannot be pickled, as for a task, an actor or "
            "another process, nor copied. "
            + (
                "An embedded fabric is in one process; several share one that `activebroker "
                "broker` or ray_deploy.RayFabric runs."
                if address is None
                else "Pass its name, and the fabric's address and key, and connect there: "
                f"`activebroker.connect({address!r}, key)`."
            )
        )

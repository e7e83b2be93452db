"""Objects that cannot leave their process, because they use its threads and sockets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NoReturn, SupportsIndex

from activebroker.core.errors import NotPicklable


class Bound(ABC):
    """Bound to its process: to pickle or copy it, or anything that holds it, raises
    NotPicklable."""

    @property
    @abstractmethod
    def _address(self) -> str | None:
        """The address where other processes join its fabric."""

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

"""A supplier: puts events into a channel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from activebroker.broker.messages import CloseSupplier, Offload
from activebroker.core.errors import DeadlineExceeded
from activebroker.fabric.bound import Bound
from activebroker.fabric.closing import Closing
from activebroker.runtime import PublishBuffer

if TYPE_CHECKING:
    from activebroker.fabric.fabric import Fabric

PATIENCE = 60.0  # seconds that a publisher waits for slow consumers


class Supplier(Closing, Bound):
    """Get it from `channel.supplier(name)`. Its events arrive in order, each exactly once."""

    def __init__(self, fabric: Fabric, channel: str, name: str, buffer: PublishBuffer) -> None:
        self.name = name
        self.channel = channel
        self._fabric = fabric
        self._buffer = buffer
        self._closed = False

    @property
    def published(self) -> int:
        """How many events were published."""
        return self._buffer.published

    def publish(self, content: Any, timeout: float = PATIENCE) -> None:
        """Publish one event.

        Waits while consumers do not keep up. Raises EventRefused where the content does not fit
        the channel's type, DeadlineExceeded after `timeout` seconds without room, Closed.
        """
        self._buffer.put(content, timeout)

    def publish_batch(self, rows: Any, timeout: float = PATIENCE) -> int:
        """Publish many events, all or none; return how many.

        `rows` is a pyarrow RecordBatch or Table, a pandas DataFrame, or a list of contents.
        Raises as `publish` does.
        """
        return self._buffer.put_table(rows, timeout)

    def offload(
        self, to: str, consumers: Iterable[str] | None = None, timeout: float = 30.0
    ) -> None:
        """Hand the fan-out to a broker: from now on it gets each event once and serves the
        consumers; none of them notices.

        `consumers` names processes (nodes): only the subscriptions and filters there are handed
        over, this supplier goes on serving the others and those who come later. Without it all are,
        and who comes later is served by that broker too.
        Raises UnknownPlace (also for a process that this supplier does not serve itself),
        MoveFailed.
        """
        if isinstance(consumers, str):
            consumers = (consumers,)
        named = None if consumers is None else tuple(consumers)
        self._fabric.derive_elsewhere(Offload(self.channel, self.name, to, timeout, named))

    def flush(self) -> None:
        """Wait until what was published is on its way. Raises DeadlineExceeded."""
        if not self._buffer.wait_empty(PATIENCE):
            raise DeadlineExceeded(
                f"Consumers of channel {self.channel!r} have not taken what {self.name!r} "
                f"published within {PATIENCE:g} s."
            )

    def close(self) -> None:
        """End this supplier's stream behind what it has published."""
        if self._closed:
            return
        self._closed = True
        self._buffer.close(f"Supplier {self.name!r} was closed.")
        self.flush()
        self._fabric.forget_supplier(self)
        self._fabric.request(CloseSupplier(self.channel, self.name))

    @property
    def _owner(self) -> Fabric:
        return self._fabric

    def __repr__(self) -> str:
        return f"<supplier {self.name!r} of channel {self.channel!r}>"

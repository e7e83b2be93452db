"""A supplier: puts events into a channel."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from activebroker.core.errors import ActiveBrokerError, Closed, Unreachable
from activebroker.fabric.bound import Bound
from activebroker.fabric.closing import CLOSING, Publishing
from activebroker.fabric.membership import PUBLISHING, Membership
from activebroker.protocol.requests import CloseSupplier, Offload
from activebroker.runtime import PublishBuffer
from activebroker.spark import SparkPlace

log = logging.getLogger(__name__)


class Supplier(Publishing, Bound):
    """Puts events into a channel; they arrive in order, each exactly once. Get it from
    `channel.supplier(name)`."""

    def __init__(
        self, membership: Membership, channel: str, name: str, buffer: PublishBuffer
    ) -> None:
        self.name = name
        self.channel = channel
        self._membership = membership
        self._buffer = buffer
        self._closed = False

    @property
    def published(self) -> int:
        """How many events were published."""
        return self._buffer.published

    def publish(self, content: Any, timeout: float = PUBLISHING) -> None:
        """Publish one event.

        Waits while consumers do not keep up. Raises EventRefused if the content does not fit the
        channel's type, or an earlier content could not be encoded; DeadlineExceeded once nothing
        was taken for `timeout` seconds; Closed; and Unreachable if the fabric is gone, with the
        number of events that were not acknowledged.
        """
        self._buffer.put(content, timeout)

    def publish_batch(
        self, rows: Any, timeout: float = PUBLISHING, *, first_seq: int | None = None
    ) -> int:
        """Publish many events, all or none; return how many.

        `rows` is a pyarrow RecordBatch or Table, a pandas DataFrame, or a list of contents. With
        `first_seq`, not less than `published`, they are numbered from there on, and come into a log
        all or none, whoever dies: who opens a supplier with a `stream` of its own can publish a
        batch again, and a log drops it if it has it.

        Raises as `publish` does.
        """
        return self._buffer.put_table(rows, timeout, first_seq)

    def offload(
        self,
        to: str | SparkPlace,
        consumers: Iterable[str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        """Hand the fan-out to a broker: from now on the broker gets each event once and serves the
        consumers, which do not notice.

        `consumers` are names of processes (nodes): only the subscriptions and filters there are
        handed over, and this supplier goes on serving the others and later ones. Without it, the
        broker serves all consumers, and also those that come later.

        Raises UnknownPlace (also for a process that this supplier does not serve itself),
        MoveFailed.
        """
        if isinstance(consumers, str):
            consumers = (consumers,)
        named = None if consumers is None else tuple(consumers)
        membership = self._membership
        membership.at_place(
            to,
            lambda place: membership.derive_elsewhere(
                Offload(self.channel, self.name, place, timeout, named)
            ),
        )

    def flush(self, timeout: float = PUBLISHING, *, acknowledged: bool = False) -> None:
        """Wait until what was published is on its way; if it is to be `acknowledged`, until it
        cannot be lost by the death of any process: it is on disk in the channel's logs, and filters
        at brokers have a checkpoint after it.

        Raises DeadlineExceeded once nothing was taken for `timeout` seconds, or not all was
        acknowledged within them, and EventRefused or Unreachable if events were lost.
        """
        if acknowledged:
            self._membership.sync(self._buffer, timeout)
        else:
            self._membership.flush(self._buffer, timeout)

    def close(self) -> None:
        """End this supplier's stream after what it has published.

        Waits until its events are taken. Raises as `flush` does: DeadlineExceeded once nothing was
        taken for 10 seconds; the events are still delivered then, as long as the fabric is open.
        """
        if self._closed:
            return
        self._closed = True
        self.end()
        try:
            self._close(CloseSupplier(self.channel, self.name))
        finally:  # until then, it is opened again if its fabric is joined again
            self._membership.forget(self)
            self._membership.publish_no_more(self._buffer)

    def _close(self, end: CloseSupplier) -> None:
        try:
            self.flush(CLOSING)
        except ActiveBrokerError:
            self._membership.tell(end)
            raise
        try:
            self._membership.request(end, CLOSING)
        except (Closed, Unreachable) as error:
            self._buffer.flush(0.0)  # raises unless all its events have arrived
            log.info("supplier %r was closed without an answer: %s", self.name, error)

    def end(self) -> None:
        """Publish nothing more. What was published is still delivered."""
        self._buffer.close(Closed(f"Supplier {self.name!r} was closed."))

    @property
    def _address(self) -> str | None:
        return self._membership.address

    def __repr__(self) -> str:
        return f"<supplier {self.name!r} of channel {self.channel!r}>"

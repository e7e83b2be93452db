"""A subscription: takes events from a channel."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator

from activebroker.core.errors import Closed, DeadlineExceeded, Unreachable
from activebroker.events import Batch, Event, Unreadable
from activebroker.fabric.bound import Bound
from activebroker.fabric.calling import Calling
from activebroker.fabric.closing import CLOSING, Closing, time_left
from activebroker.fabric.failures import FailureLog
from activebroker.fabric.membership import Membership
from activebroker.filters import Failure
from activebroker.protocol.requests import Unsubscribe
from activebroker.runtime import EventQueue, turn

log = logging.getLogger(__name__)
TURN = 64  # events that woken coroutines take together before others of their loop get a turn
SAMPLES = 10  # rows of a batch that are shown if they cannot be decoded


class Subscription(Closing, Bound):
    """A consumer's own place in a channel. Get it from `channel.subscribe()`.

    Iterate over events, or over `batches()`, with `for` or `async for`. The subscription remembers
    its place: an iteration that is stopped, cancelled or timed out loses no event, and the next
    iteration goes on from there. Threads and coroutines may share a subscription; each event goes
    to one of them.

    Iteration ends when the channel was closed, or when you closed the subscription or the fabric.
    If the stream ends for another reason, each iteration raises that reason, after the events that
    have come: Unreachable if what fed the subscription, or this process's node, was lost;
    FilterStopped; SlowConsumer.

    `timeout` is the longest wait for the next event, in seconds. After it iteration raises
    DeadlineExceeded, and can go on. None waits as long as the fabric lives.

    `errors` counts and shows the events that are lost because this process cannot decode them, for
    example without their class; the others are not affected.
    """

    def __init__(
        self,
        membership: Membership,
        inlet: int,
        events: EventQueue,
        callback: Callable[[Event], object] | None,
        timeout: float | None,
    ) -> None:
        self.channel = events.channel
        self.timeout = timeout
        self.errors = FailureLog()
        self._membership = membership
        self._inlet = inlet
        self._queue = events
        self._queue.unreadable = self._lost
        self._closed = False
        self._calling = (
            None
            if callback is None
            else Calling(events, callback, lambda: self.timeout, self.close)
        )

    @property
    def dropped(self) -> int:
        """How many events were dropped, as `when_slow` says, since this consumer was slow."""
        return self._queue.dropped

    def batches(self) -> Batches:
        """The batches as they come: `batch.columns` is a pyarrow RecordBatch. If events were taken
        before, the first one is what is left of their batch."""
        return Batches(self)

    def __iter__(self) -> Iterator[Event]:
        queue = self._queue
        while True:
            yield from queue.rows  # rows that are not taken stay there
            if not queue.fetch() and not queue.wait(self.timeout):
                return

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        # A wait may be cancelled: an event is taken only right before it is returned.
        queue = self._queue
        while (event := next(queue.rows, None)) is None:
            if queue.fetch(turn(TURN)):
                await _others_turn()
            elif await queue.arrives(self.timeout):
                queue.fetch(turn(TURN))
            else:
                raise StopAsyncIteration
        return event

    def join(self, timeout: float | None = None) -> None:
        """Wait until the callback has seen the last event; raise what it raised.

        Raises DeadlineExceeded after `timeout` seconds.
        """
        if self._calling is not None:
            self._calling.join(timeout)

    def close(self) -> None:
        """Take no more events; those that have come can still be iterated over. Raises what the
        callback has raised, if it has."""
        if not self._closed:
            since = self._queue.since
            goes_on = since is None or not (since.ends or since.until is not None)
            self._closed, over = True, goes_on and self._queue.complete
            self._membership.forget(self)
            self._membership.close_inlet(self._inlet)
            if not over:
                self._unsubscribe()
        if self._calling is not None and not self._calling.here:
            self.join(time_left(CLOSING))

    def _unsubscribe(self) -> None:
        try:
            self._membership.request(Unsubscribe(self.channel, self._inlet), CLOSING)
        except (Closed, Unreachable, DeadlineExceeded) as error:
            log.info("unsubscribed from %r without an answer: %s", self.channel, error)

    @property
    def _closes_at_once(self) -> bool:
        return self._calling is None and (self._closed or self._queue.complete)

    @property
    def _address(self) -> str | None:
        return self._membership.address

    def __repr__(self) -> str:
        return f"<subscription to {self.channel!r}>"

    def _lost(self, batch: Batch, rows: list[Unreadable]) -> None:
        samples = tuple(
            Failure.of(row.error, self.channel, "", batch.supplier, row.seq, row.content)
            for row in rows[:SAMPLES]
        )
        self.errors.add(len(rows), samples)
        log.error(
            "%d events of supplier %r on channel %r are lost: they cannot be decoded in this "
            "process (%s)",
            len(rows),
            batch.supplier,
            self.channel,
            rows[0].reason,
        )


class Batches:
    """The batches of a subscription, for `for` and for `async for`."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._queue = subscription._queue

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        while (batch := self._queue.batch()) is None:
            if not self._queue.wait(self._subscription.timeout):
                raise StopIteration
        return batch

    def __aiter__(self) -> AsyncIterator[Batch]:
        return self

    async def __anext__(self) -> Batch:
        await _others_turn()
        while (batch := self._queue.batch()) is None:
            if not await self._queue.arrives(self._subscription.timeout):
                raise StopAsyncIteration
        return batch


async def _others_turn() -> None:
    import asyncio  # here: it costs a tenth of the time that `import activebroker` may take

    await asyncio.sleep(0)

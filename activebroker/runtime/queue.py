"""The consumer's end: batches wait here until the user takes them.

What is here counts against the credit of its flow, which bounds the queue. If events are dropped
for a slow consumer, the policy bounds the queue instead, and credit is given back as events come.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from operator import length_hint

from activebroker.core.errors import ActiveBrokerError, DeadlineExceeded
from activebroker.events import Batch, Event, EventType, Unreadable
from activebroker.protocol.specs import Since
from activebroker.runtime.backlog import SlowPolicy, Waiting, backlog_of
from activebroker.runtime.waiting import Condition

REPORT_BYTES = 512 << 10  # consumption is reported in steps of this many bytes


class EventQueue:
    """The batches of one subscription, for any number of threads and coroutines."""

    def __init__(
        self, channel: str, type: EventType, policy: SlowPolicy, since: Since | None = None
    ) -> None:
        self.channel = channel
        self.since = since  # where in the channel's log it begins
        self.type = type
        self.policy = policy
        # The events of the batch in hand that nobody has taken yet. An iterator over a list: its
        # `next` is atomic.
        self.rows: Iterator[Event] = iter(())
        # Called with the rows that cannot be decoded in this process.
        self.unreadable: Callable[[Batch, list[Unreadable]], None] = lambda batch, rows: None
        self.attend: Callable[[], None] = lambda: None  # called when there is something new
        self._consumed: Callable[[int, int], None] = lambda flow, nbytes: None
        self._ended = False
        self._error: ActiveBrokerError | None = None
        self._batch: Batch | None = None
        self._reset()
        self._unreported: dict[int, int] = {}

    def _reset(self) -> None:
        self._lock = threading.Lock()  # held for moments, never while user code runs
        self._changed = Condition(self._lock)
        self._hand = threading.Lock()  # held to change the batch in hand
        self._backlog = backlog_of(self.policy)

    @property
    def dropped(self) -> int:
        """How many events were dropped."""
        return self._backlog.dropped

    # --- for the node's thread ----------------------------------------------------------------

    def put(self, flow: int, batch: Batch, nbytes: int) -> None:
        with self._lock:
            self._backlog.put(Waiting(flow, batch, nbytes, time.monotonic()))
            self._changed.notify_all()
        self.attend()
        if self.policy.drops:
            self._report(flow, nbytes)

    def attach(self, consumed: Callable[[int, int], None]) -> None:
        """Take events from a node, after what is here; `consumed(flow, nbytes)` gives credit."""
        with self._hand:  # the flows of the node before need no credit any more
            self._consumed = consumed
            self._unreported.clear()

    def end(self, error: ActiveBrokerError | None) -> None:
        """Nothing more comes; only the first call counts."""
        with self._lock:
            if not self._ended:
                self._ended, self._error = True, error
                self._changed.notify_all()
        self.attend()

    def disown(self, error: ActiveBrokerError) -> None:
        """In the child of a fork: drop what has come, which is the parent's. A thread that does not
        exist here may hold a lock."""
        self._reset()
        self.rows, self.attend = iter(()), lambda: None
        self.end(error)

    def left(self, now: float) -> float | None:
        """Seconds until the first batch has waited for too long; None if nothing waits."""
        with self._lock:
            oldest = self._backlog.oldest
        return None if oldest is None else oldest + self.policy.patience - now

    # --- for the user's threads and coroutines ------------------------------------------------

    def fetch(self, rows: int | None = None) -> bool:
        """Take a batch in hand, or its first `rows`, unless there are rows in hand. False if there
        is nothing to take."""
        with self._hand:
            if length_hint(self.rows):
                return True  # another thread was first
            while (batch := self._take(rows)) is not None:
                self._batch, events, unreadable = batch.read()
                self.rows = iter(events)
                if unreadable:
                    self.unreadable(batch, unreadable)
                if events:
                    return True
            return False

    def batch(self, rows: int | None = None) -> Batch | None:
        """What is left of the batch in hand, or else the next batch; None if there is none."""
        with self._hand:
            if left := len(list(self.rows)):
                assert self._batch is not None
                return self._batch.slice(len(self._batch) - left, left)
            return self._take(rows)

    def wait(self, patience: float | None) -> bool:
        """Wait for a batch; False at the end of the channel.

        Raises DeadlineExceeded when nothing came for `patience` seconds (None: wait as long as the
        fabric lives), and the error that ended the stream.
        """
        with self._changed:
            came = self._changed.wait_for(self._has_changed, patience)
        return self._judge(came, patience)

    async def arrives(self, patience: float | None) -> bool:
        """`wait`, for a coroutine."""
        return self._judge(await self._changed.arrives(self._has_changed, patience), patience)

    @property
    def complete(self) -> bool:
        """Whether the channel has ended, and all its events have come."""
        with self._lock:
            return self._ended and self._error is None

    @property
    def idle(self) -> bool:
        """Whether there is nothing to take, and the stream has not ended."""
        with self._lock:
            return not self._has_changed() and not length_hint(self.rows)

    def _has_changed(self) -> bool:
        return self._ended or len(self._backlog) > 0

    def _judge(self, came: bool, patience: float | None) -> bool:
        if not came:
            raise DeadlineExceeded(f"No event came for {patience:g} s on channel {self.channel!r}.")
        if len(self._backlog) > 0:
            return True
        if self._error is not None:
            raise self._error.with_traceback(None)  # it may be raised many times
        return not self._ended

    def _take(self, rows: int | None) -> Batch | None:
        while True:
            with self._lock:
                gap = self._backlog.take_gap()
                taken = None if gap else self._backlog.take(rows)
            if gap is None:
                break
            if self.policy.on_gap is not None:
                self.policy.on_gap(gap)
        if taken is None:
            return None
        if not self.policy.drops:
            self._report(taken.flow, taken.nbytes)
        return taken.batch

    def _report(self, flow: int, nbytes: int) -> None:
        unreported = self._unreported.pop(flow, 0) + nbytes
        if unreported >= REPORT_BYTES:
            self._consumed(flow, unreported)
        else:
            self._unreported[flow] = unreported

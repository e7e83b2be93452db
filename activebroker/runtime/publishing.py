"""The supplier's end: events wait here until the node takes them as a batch.

The node takes what there is as soon as it can, so a single event leaves at once and a flood makes
large batches. When consumers are slow, the node takes nothing, the buffer fills, and `put` waits.
"""

from __future__ import annotations

import copy
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from activebroker.core.errors import ActiveBrokerError, DeadlineExceeded, EventRefused
from activebroker.events import Batch, EventType, concat, encode, from_table
from activebroker.runtime.waiting import Condition

BATCH_ROWS = 8192  # single events that become one batch at most
BATCH_BYTES = 1 << 20  # large tables are cut into about this, small ones joined up to this
ROOM_ROWS = 4 * BATCH_ROWS  # rows that may wait before `put` has to; it goes on at half of them
ROOM_BYTES = 16 << 20  # and about how many bytes
FIRST_ROWS = 64  # rows that may wait while their size is unknown


@dataclass(slots=True)
class _Rows:
    """Single events of one type, in order."""

    type: EventType
    first_seq: int
    contents: list[Any] = field(default_factory=list)
    times: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.contents)

    def halves(self) -> tuple[_Rows, _Rows]:
        middle = len(self) // 2
        first = _Rows(self.type, self.first_seq, self.contents[:middle], self.times[:middle])
        rest = self.contents[middle:], self.times[middle:]
        return first, _Rows(self.type, self.first_seq + middle, *rest)


class PublishBuffer:
    """The events of one supplier, for the node to which the buffer is attached."""

    def __init__(self, channel: str, supplier: str, type: EventType) -> None:
        self.channel = channel
        self.supplier = supplier
        self._type = type
        self._fits = type.fits
        self._filled: Callable[[], None] = lambda: None
        self._told = False
        self._lock = threading.Lock()
        self._room = Condition(self._lock)
        self._parts: deque[_Rows | Batch] = deque()
        self._rows = 0
        self._limit = FIRST_ROWS  # rows that may wait; fewer if rows are large
        self._next_seq = 0
        self._taken = 0
        self._taken_at = 0.0  # by the monotonic clock
        self._away = False  # the node is gone, and there is no other one yet
        self._closed: ActiveBrokerError | None = None
        self._lost = 0  # events accepted that may not have arrived, when it was closed
        self._refused: list[tuple[int, Exception]] = []  # events that could not be encoded, and why

    @property
    def published(self) -> int:
        """Events published so far; the sequence number of the next."""
        return self._next_seq

    @property
    def taken(self) -> int:
        """Events that the node has taken so far."""
        return self._taken

    @property
    def empty(self) -> bool:
        """Whether the node has taken everything."""
        return not self._parts

    def put(self, content: Any, patience: float) -> None:
        """Add one event.

        Raises EventRefused, also for events accepted before that could not be encoded; Closed;
        Unreachable; and DeadlineExceeded if there was no room and nothing was taken for `patience`
        seconds.
        """
        if not self._fits(content):
            content = self._type.check(content, self.channel)
        type_ = self._type.concrete(content)
        now = time.time_ns()
        with self._lock:
            if self._closed is not None or self._refused or self._rows >= self._limit:
                self._wait_for_room(patience)
            parts = self._parts
            last = parts[-1] if parts else None
            if not isinstance(last, _Rows) or last.type is not type_ or len(last) >= BATCH_ROWS:
                last = _Rows(type_, self._next_seq)
                parts.append(last)
            last.contents.append(content)
            last.times.append(now)
            self._next_seq += 1
            self._rows += 1
            if not self._told:
                self._told = True
                self._filled()

    def put_table(self, rows: Any, patience: float, first_seq: int | None = None) -> int:
        """Add many events: an Arrow batch or table, a pandas frame, or a list of contents.

        Returns how many. Raises as `put_batches` does, and then accepts none of them.
        """
        return self.put_batches(self.batches_of(rows), patience, first_seq)

    def batches_of(self, rows: Any) -> list[Batch]:
        """Many events as batches for `put_batches`. Raises EventRefused."""
        return from_table(
            self._type, rows, self.channel, self.supplier, self._next_seq, time.time_ns()
        )

    def put_batches(
        self, batches: list[Batch], patience: float, first_seq: int | None = None
    ) -> int:
        """Add all events of the batches or, with an error, none. So this waits for room only once,
        and then adds more than there is room for; the caller has them in memory anyway.

        With `first_seq` they are numbered from there on, and stay one batch. Raises as `put` does,
        and EventRefused if numbers would come again.
        """
        batches = [batch for batch in batches if len(batch)]
        if not batches:
            return 0
        count = sum(map(len, batches))
        with self._lock:
            if self._closed is not None or self._refused or self._rows >= self._limit:
                self._wait_for_room(patience)
            if first_seq is not None:
                batches = [concat(batches)]
                self._skip_to(first_seq)
            # Another thread may have published since the rows were numbered.
            if (shift := self._next_seq - batches[0].first_seq) != 0:
                batches = [_renumbered(batch, shift) for batch in batches]
            for batch in batches:
                self._parts.extend(_cut(batch) if first_seq is None else [batch])
            self._rows += count
            self._next_seq += count
            if not self._told:
                self._told = True
                self._filled()
        return count

    def _skip_to(self, seq: int) -> None:
        """Give the next event this number, and those before it to nobody."""
        if seq < self._next_seq:
            raise EventRefused(
                f"Supplier {self.supplier!r} has published event {self._next_seq - 1}: expected a "
                f"first_seq of {self._next_seq} or more, got {seq}."
            )
        self._taken += seq - self._next_seq
        self._next_seq = seq

    async def room(self, patience: float) -> None:
        """Wait until there may be room, in a coroutine whose `put` without patience found none.

        Raises DeadlineExceeded once nothing was taken for `patience` seconds.
        """
        began = time.monotonic()
        while not await self._room.arrives(self._has_room, self._left(began, patience)):
            if not self._left(began, patience):
                raise self._no_room(patience)

    def take(self) -> Batch | None:
        """The next batch, for the node's thread; None if there is none."""
        while True:
            with self._lock:
                if not self._parts:
                    self._told = False
                    return None
                part = self._parts.popleft()
                batches = self._with_followers(part) if isinstance(part, Batch) else []
                rows = sum(map(len, batches)) or len(part)
                self._rows -= rows
                self._taken += rows
                self._taken_at = time.monotonic()
                if self._rows <= self._limit // 2:
                    self._room.notify_all()
            batch = self._encoded(part) if isinstance(part, _Rows) else concat(batches)
            if batch is not None:
                break
        # The size of single events is known when they are encoded; the next ones are expected to
        # be like these.
        likely = ROOM_BYTES * len(batch) // max(batch.nbytes, 1)
        self._limit = max(1, min(ROOM_ROWS, likely))
        return batch

    def put_back(self, batches: Sequence[Batch]) -> None:
        """Put back events that the node has taken, for another node to take."""
        rows = sum(map(len, batches))
        with self._lock:
            self._away = True
            self._parts.extendleft(reversed(batches))
            self._rows += rows
            self._taken -= rows

    def attach(self, filled: Callable[[], None]) -> None:
        """Let a node take what is here, and what comes. `filled` is called when there is something
        to take, and then not again until `take` has found nothing."""
        with self._lock:
            self._away = False
            self._taken_at = time.monotonic()
            self._filled = filled
            self._told = bool(self._parts)
        if self._told:
            filled()

    def close(self, error: ActiveBrokerError) -> None:
        """Accept no more; what is here can still be taken. Only the first reason counts."""
        with self._room:
            self._closed = self._closed or error
            self._room.notify_all()

    def fail(self, error: ActiveBrokerError, acknowledged: int | None = None) -> None:
        """Let nothing be taken any more. `acknowledged`: all events before this number have
        arrived; by default those that were taken."""
        with self._room:
            arrived = self._taken if acknowledged is None else acknowledged
            self._lost = max(0, self._next_seq - arrived)
            if self._lost:
                cause = error.__cause__
                error = type(error)(
                    f"{error} Of what supplier {self.supplier!r} of channel {self.channel!r} has "
                    f"published, the last {self._lost} events were not acknowledged: they may be "
                    "lost."
                )
                error.__cause__ = cause
            # That events are lost matters more than an earlier reason.
            self._closed = error if self._lost else self._closed or error
            self._parts.clear()
            self._room.notify_all()

    def disown(self, error: ActiveBrokerError) -> None:
        """In the child of a fork: close the buffer, whose lock a thread may hold that does not
        exist here."""
        self._lock = threading.Lock()
        self._room = Condition(self._lock)
        self._parts.clear()
        self._closed = error

    def flush(self, patience: float, until: float = math.inf) -> None:
        """Wait until the node has taken everything.

        Raises EventRefused or Unreachable if events were lost, and DeadlineExceeded once nothing
        was taken for `patience` seconds, or at the monotonic time `until`.
        """
        with self._room:
            if not self._wait(lambda: not self._parts, patience, until):
                raise DeadlineExceeded(
                    f"Nobody has taken the last {self._rows} events that supplier "
                    f"{self.supplier!r} of channel {self.channel!r} has published: {self._cause()}"
                )
            self._raise_refused()
            if self._closed is not None and self._lost:
                raise _anew(self._closed)

    def _encoded(self, rows: _Rows) -> Batch | None:
        """A batch of single events. None if they cannot be encoded together; then their halves are
        taken next.

        A single event that cannot be encoded after all (a list in it has changed, say), or is too
        large, is left out. The next call that publishes or flushes raises an error about it.
        """
        try:
            return encode(rows.type, rows.contents, self.supplier, rows.first_seq, rows.times)
        except Exception as error:  # noqa: BLE001 - whatever a value's own methods raise
            refusal = error
        with self._lock:
            if len(rows) == 1:
                self._refused.append((rows.first_seq, refusal))
            else:
                self._parts.extendleft(reversed(rows.halves()))
                self._rows += len(rows)
                self._taken -= len(rows)
        return None

    def _raise_refused(self) -> None:
        """Raise an error, once, about accepted events that could not be encoded."""
        refused, self._refused = self._refused, []
        if refused:
            seq, error = refused[0]
            raise EventRefused(
                f"{len(refused)} events that {self.supplier!r} had published to channel "
                f"{self.channel!r} could not be encoded, and were left out. The first was number "
                f"{seq}: {type(error).__name__}: {error}"
            ) from error

    def _with_followers(self, first: Batch) -> list[Batch]:
        """A batch and those that wait after it, as far as they are small enough to go with it."""
        batches, nbytes = [first], first.nbytes
        while self._parts:
            following = self._parts[0]
            if not isinstance(following, Batch) or following.type is not first.type:
                break
            nbytes += following.nbytes
            if nbytes > BATCH_BYTES:
                break
            batches.append(following)
            self._parts.popleft()
        return batches

    def _wait_for_room(self, patience: float) -> None:
        there_is = self._wait(self._has_room, patience)
        self._raise_refused()
        if self._closed is not None:
            raise _anew(self._closed)
        if not there_is:
            raise self._no_room(patience)

    def _has_room(self) -> bool:
        return self._closed is not None or self._rows <= self._limit // 2

    def _no_room(self, patience: float) -> DeadlineExceeded:
        return DeadlineExceeded(
            f"Supplier {self.supplier!r} of channel {self.channel!r} could not publish, since "
            f"nothing that it had published was taken for {patience:g} s: {self._cause()}"
        )

    def _cause(self) -> str:
        if self._away:
            return "this process has lost its fabric, and is not back in it yet."
        return (
            "a consumer or filter does not keep up. `activebroker status` shows which flow waits."
        )

    def _wait(self, done: Callable[[], bool], patience: float, until: float = math.inf) -> bool:
        """Wait until `done()`; False once the node has taken nothing for `patience` seconds, or at
        the monotonic time `until`."""
        began = time.monotonic()
        while not done():
            left = min(self._left(began, patience), until - time.monotonic())
            if left <= 0:
                return False
            self._room.wait(left)
        return True

    def _left(self, began: float, patience: float) -> float:
        """Seconds until the node has taken nothing for `patience` seconds, counted from `began` at
        the earliest."""
        return max(0.0, max(began, self._taken_at) + patience - time.monotonic())


def _anew(error: ActiveBrokerError) -> ActiveBrokerError:
    """A copy of an error for one more caller, since each one adds its traceback."""
    again = copy.copy(error)
    again.__cause__ = error.__cause__
    return again


def _cut(batch: Batch) -> list[Batch]:
    """The batch in parts of about `BATCH_BYTES`."""
    parts = max(1, round(batch.nbytes / BATCH_BYTES))
    step = -(-batch.num_rows // parts)
    if parts == 1:
        return [batch]
    return [batch.slice(start, step) for start in range(0, batch.num_rows, step)]


def _renumbered(batch: Batch, shift: int) -> Batch:
    seqs = pa.array(batch.seqs + shift)
    columns = batch.columns.set_column(0, batch.columns.schema.field(0), seqs)
    return Batch(batch.supplier, batch.type, columns)

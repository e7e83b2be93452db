"""The supplier's end: events wait here until the node takes them as a batch.

The node takes what there is as soon as it can, so a lone event leaves at once and a flood makes
large batches. When consumers are slow the node does not take, the buffer fills, and `put` waits.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from activebroker.core.errors import Closed, DeadlineExceeded
from activebroker.events import Batch, EventType, concat, encode, from_table

BATCH_ROWS = 8192  # rows of single events that become one batch at the most
BATCH_BYTES = 1 << 20  # large tables are cut into about this, small ones joined up to this
ROOM_ROWS = 4 * BATCH_ROWS  # rows that may wait before `put` has to; it goes on at half of them
ROOM_BYTES = 16 << 20  # and about how many bytes
FIRST_ROWS = 64  # rows that may wait as long as their size is unknown


@dataclass(slots=True)
class _Rows:
    """Single events of one type, in order."""

    type: EventType
    first_seq: int
    contents: list[Any] = field(default_factory=list)
    times: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.contents)


class PublishBuffer:
    """Events of one supplier.

    `filled` is called when there is something to take; not again until `take` has found nothing.
    """

    def __init__(
        self, channel: str, supplier: str, type: EventType, filled: Callable[[], None]
    ) -> None:
        self.channel = channel
        self.supplier = supplier
        self._type = type
        self._fits = type.fits
        self._filled = filled
        self._told = False
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._parts: deque[_Rows | Batch] = deque()
        self._rows = 0
        self._limit = FIRST_ROWS  # rows that may wait, fewer where rows are large
        self._next_seq = 0
        self._closed: str | None = None

    @property
    def published(self) -> int:
        """Events published so far; the sequence number of the next."""
        return self._next_seq

    def put(self, content: Any, patience: float) -> None:
        """Add one event.

        Raises EventRefused, Closed, or DeadlineExceeded when there was no room for `patience`
        seconds.
        """
        if not self._fits(content):
            content = self._type.check(content, self.channel)
        type_ = self._type.concrete(content)
        now = time.time_ns()
        with self._lock:
            if self._closed is not None or self._rows >= self._limit:
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

    def put_table(self, rows: Any, patience: float) -> int:
        """Add many events: an Arrow batch or table, a pandas frame, or a list of contents.

        Returns how many. Either all are accepted or, with an error, none: so there is one wait
        for room, and then the whole table waits here, which its owner holds in memory anyway.
        """
        first_seq = self._next_seq
        whole = from_table(self._type, rows, self.channel, self.supplier, first_seq, time.time_ns())
        if whole.num_rows == 0:
            return 0
        pieces = max(1, round(whole.nbytes / BATCH_BYTES))
        step = -(-whole.num_rows // pieces)
        with self._lock:
            if self._closed is not None or self._rows >= self._limit:
                self._wait_for_room(patience)
            # Another thread may have published since the rows were numbered.
            if (shift := self._next_seq - first_seq) != 0:
                whole = _renumbered(whole, shift)
            for start in range(0, whole.num_rows, step):
                self._parts.append(whole.slice(start, step) if pieces > 1 else whole)
            self._rows += whole.num_rows
            self._next_seq += whole.num_rows
            if not self._told:
                self._told = True
                self._filled()
        return whole.num_rows

    def take(self) -> Batch | None:
        """The next batch, for the node's thread; None if there is none."""
        with self._lock:
            if not self._parts:
                self._told = False
                return None
            part = self._parts.popleft()
            batches = self._with_followers(part) if isinstance(part, Batch) else []
            self._rows -= sum(map(len, batches)) or len(part)
            if self._rows <= self._limit // 2:
                self._room.notify_all()
        if isinstance(part, _Rows):
            batch = encode(part.type, part.contents, self.supplier, part.first_seq, part.times)
        else:
            batch = concat(batches)
        # Single events have no known size before they are encoded: those to come are taken to be
        # like these.
        likely = ROOM_BYTES * len(batch) // max(batch.nbytes, 1)
        self._limit = max(1, min(ROOM_ROWS, likely))
        return batch

    def close(self, reason: str) -> None:
        """Accept no more; what is here can still be taken."""
        with self._room:
            self._closed = self._closed or reason
            self._room.notify_all()

    @property
    def empty(self) -> bool:
        """Whether the node has taken everything."""
        return not self._parts

    def wait_empty(self, patience: float) -> bool:
        """Wait until the node has taken everything; False if it has not in time."""
        with self._room:
            return self._room.wait_for(lambda: not self._parts, patience)

    def _with_followers(self, first: Batch) -> list[Batch]:
        """A batch and those behind it that wait too and are small enough to go out with it."""
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
        there_is = self._room.wait_for(
            lambda: self._closed is not None or self._rows <= self._limit // 2, patience
        )
        if self._closed is not None:
            raise Closed(self._closed)
        if not there_is:
            raise DeadlineExceeded(
                f"Supplier {self.supplier!r} of channel {self.channel!r} could not publish for "
                f"{patience:g} s: a consumer or filter does not keep up. `activebroker status` "
                "shows which flow waits."
            )


def _renumbered(batch: Batch, shift: int) -> Batch:
    seqs = pa.array(batch.seqs + shift)
    columns = batch.columns.set_column(0, batch.columns.schema.field(0), seqs)
    return Batch(batch.supplier, batch.type, columns)

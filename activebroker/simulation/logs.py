"""Logs in memory, which outlive the process that writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from activebroker.core.errors import NotInLog, ProtocolError
from activebroker.events import Batch
from activebroker.matching import Chunk, split
from activebroker.protocol.specs import NOWHERE, Offset, Offsets


@dataclass(frozen=True, slots=True)
class Record:
    """See `activebroker.node.logwriter.Record`."""

    position: int
    supplier: str
    upto: Offset
    batch: Batch | None

    @property
    def ended(self) -> bool:
        return self.batch is None

    @property
    def events(self) -> int:
        return 0 if self.batch is None else self.batch.num_rows


class MemoryLog:
    """What a disk has of one log; see `activebroker.node.logwriter.Store`. What a process has not
    committed is lost with it: see `crash`."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._pending: list[Record] = []
        self.first = 0

    @property
    def next(self) -> int:
        last = [*self.records, *self._pending][-1:]
        return last[0].position + last[0].events if last else self.first

    @property
    def offsets(self) -> Offsets:
        return {record.supplier: record.upto for record in self.records}

    def append(self, supplier: str, upto: Offset, batch: Batch | None) -> None:
        last = {record.supplier: record.upto for record in (*self.records, *self._pending)}
        if upto <= last.get(supplier, NOWHERE):
            raise ProtocolError(f"of {supplier} there is all before {last[supplier]}, not {upto}")
        self._pending.append(Record(self.next, supplier, upto, batch))

    def commit(self) -> None:
        self.records += self._pending
        self._pending.clear()

    def crash(self) -> None:
        self._pending.clear()

    def drop_before(self, position: int) -> None:
        """Keep only what is at a position or after it."""
        self.records = [each for each in self.records if each.position >= position]
        self.first = position

    def read(self, position: int, upto: int, nbytes: int) -> Sequence[Record]:
        if position < self.first:
            raise NotInLog(f"position {position} is gone, {self.first} is the first", self.first)
        found: list[Record] = []
        for record in self.records:
            end = record.position + record.events
            # An end of a stream has the position of the next event.
            if end > position or (record.ended and end == position):
                if record.position > upto or (record.events and record.position == upto):
                    break
                if nbytes <= 0:
                    break
                part = _between(record, position, upto)
                found.append(part)
                nbytes -= 0 if part.batch is None else part.batch.nbytes
        return found

    def position_of(self, time: int) -> int:
        for record in self.records:
            for row, at in enumerate(() if record.batch is None else record.batch.times):
                if at >= time:
                    return record.position + row
        return self.next

    def position_after(self, offsets: Offsets) -> int:
        for record in self.records:
            had = offsets.get(record.supplier, NOWHERE)
            if record.upto > had and record.batch is not None:
                before, _ = split(Chunk(record.batch, upto=record.upto), had, by_seq=False)
                return record.position + (0 if before is None else before.batch.num_rows)
        return self.next

    def close(self) -> None:
        """The next process opens it again."""


def _between(record: Record, position: int, upto: int) -> Record:
    batch = record.batch
    if batch is None:
        return record
    first, last = max(0, position - record.position), min(len(batch), upto - record.position)
    if (first, last) == (0, len(batch)):
        return record
    stream, count = record.upto
    part = batch.slice(first, last - first)
    return Record(
        record.position + first, record.supplier, (stream, count - len(batch) + last), part
    )

"""What the stage of a log asks of a disk: its items as records of the log, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from activebroker.core.errors import LogUnavailable, NotInLog
from activebroker.events import Batch
from activebroker.matching import Chunk
from activebroker.node.effects import LogRead, LogState, ReadLog
from activebroker.protocol.flows import StreamEnded
from activebroker.protocol.specs import Offset, Offsets, Since, later


class Record(Protocol):
    """A batch of a supplier, or the end of its stream; `upto` is the supplier's offset after it."""

    @property
    def supplier(self) -> str: ...
    @property
    def upto(self) -> Offset: ...
    @property
    def batch(self) -> Batch | None: ...
    @property
    def ended(self) -> bool: ...


class Store(Protocol):
    """A log; methods raise ActiveBrokerError, after which a log that was written to is broken."""

    @property
    def first(self) -> int:
        """The position of the first event that is left."""
        ...

    @property
    def next(self) -> int:
        """The position that the next event gets."""
        ...

    @property
    def offsets(self) -> Offsets:
        """How far each supplier has come, by what is committed."""
        ...

    def append(self, supplier: str, upto: Offset, batch: Batch | None) -> None:
        """Append a batch; None: the end of the supplier's stream."""
        ...

    def commit(self) -> None:
        """Bring to disk what was appended."""
        ...

    def read(self, position: int, upto: int, nbytes: int) -> Sequence[Record]:
        """The committed records from a position to another one, about so many bytes of them."""
        ...

    def position_of(self, time: int) -> int:
        """A position before which no event has this time, in ns since 1970, or a later one."""
        ...

    def position_after(self, offsets: Offsets) -> int:
        """A position before which no event is beyond these offsets."""
        ...

    def close(self) -> None: ...


class LogWriter:
    """Appends to one log, and reads from it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def state(self) -> LogState:
        return LogState(self._store.first, self._store.next, dict(self._store.offsets))

    def append(self, items: Iterable[Chunk | StreamEnded]) -> int:
        """Append items, and bring them to disk. Returns the first position that is kept."""
        for item in items:
            if isinstance(item, Chunk):
                self._store.append(item.batch.supplier, item.upto, item.batch)
            else:
                self._store.append(item.supplier, item.upto, None)
        self._store.commit()
        return self._store.first

    def read(self, asked: ReadLog) -> LogRead:
        """Read for a flow."""
        position, since = asked.position, asked.since
        if position is None:
            start = asked.start or Since()
            since = later(later(since, start.had), self._offsets_of(start.seqs))
            position = self._begin(start, since)
        items: tuple[Chunk | StreamEnded, ...] = ()
        if position < asked.upto:
            records = self._store.read(position, asked.upto, asked.nbytes)
            items = tuple(map(_item, records))
            if not items:
                raise LogUnavailable(
                    f"The log has nothing from position {position:,} to {asked.upto:,}, which were "
                    "appended: look for what else has changed its files."
                )
        return LogRead(asked.stage, asked.flow, position, items, since)

    def close(self) -> None:
        self._store.close()

    def _begin(self, start: Since, since: Offsets) -> int:
        """A position before which there is nothing that a subscriber wants and does not have."""
        position = start.position or self._store.first
        if position > self._store.next:
            raise NotInLog(
                f"The log has no position {position:,} yet: {self._store.next:,} is the next.",
                self._store.first,
            )
        if start.time is not None:
            position = max(position, self._store.position_of(start.time))
        return max(position, self._store.position_after(since)) if since else position

    def _offsets_of(self, seqs: dict[str, int]) -> Offsets:
        """The offsets of the first events with these numbers in each supplier's last stream."""
        known = self._store.offsets
        return {name: (known[name][0], seq) for name, seq in seqs.items() if name in known}


def _item(record: Record) -> Chunk | StreamEnded:
    if record.batch is None:
        return StreamEnded(0, 0, record.supplier, record.upto)
    return Chunk(record.batch, upto=record.upto)

"""The log of a stage, on the disk of this process's machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from activebroker.core.errors import LogInUse
from activebroker.events import Batch, EventType
from activebroker.log import Entry, Log, Reader, Record
from activebroker.node.logwriter import LogWriter
from activebroker.protocol.specs import LogSpec, Offset, Offsets

IN_USE = 3.0  # seconds to wait for another writer, which may be about to end
LOOK_UP = 0.02  # seconds between attempts
READERS = 16  # that keep their place in a log: as many slow subscribers cost no search


def open_log(spec: LogSpec, type: EventType) -> LogWriter:
    """Open a log, or begin one. Raises as `activebroker.log.Log.open` does."""
    return LogWriter(_Disk(spec, type))


class _Disk:
    """A log as a stage sees it; see `activebroker.node.logwriter.Store`."""

    def __init__(self, spec: LogSpec, type: EventType) -> None:
        path = Path(spec.path)
        self._log = _opened(
            lambda: Log.open(
                path,
                type,
                segment_bytes=spec.segment_bytes,
                keep_bytes=spec.keep_bytes,
                keep_seconds=spec.keep_seconds,
            )
        )
        self._path, self._type = path, type
        self._pending: list[Record] = []
        self._readers: dict[int, Reader] = {}  # by position: where they go on
        self._search = self._reader(self._log.first)

    @property
    def first(self) -> int:
        return self._log.first

    @property
    def next(self) -> int:
        return self._log.next

    @property
    def offsets(self) -> Offsets:
        return self._log.offsets

    def append(self, supplier: str, upto: Offset, batch: Batch | None) -> None:
        self._pending.append(Record(supplier, upto, batch, ended=batch is None))

    def commit(self) -> None:
        pending, self._pending = self._pending, []
        self._log.append(pending)
        self._log.commit()

    def read(self, position: int, upto: int, nbytes: int) -> Sequence[Record]:
        reader = self._readers.pop(position, None) or self._reader(position)
        try:
            entries = reader.read(most_bytes=nbytes)
        except BaseException:
            reader.close()
            raise
        if (other := self._readers.pop(reader.position, None)) is not None:
            other.close()
        self._readers[reader.position] = reader
        if len(self._readers) > READERS:
            self._readers.pop(next(iter(self._readers))).close()
        return [_before(upto, entry) for entry in entries if _is_before(upto, entry)]

    def position_of(self, time: int) -> int:
        return self._search.position_of(time)

    def position_after(self, offsets: Offsets) -> int:
        return self._search.position_after(offsets)

    def close(self) -> None:
        for reader in (self._search, *self._readers.values()):
            reader.close()
        self._log.close()

    def _reader(self, position: int) -> Reader:
        return Reader(self._path, self._type, position)


def _opened(open: Callable[[], Log]) -> Log:
    """Open a log, which a stage that ends, or a process, may still have in hand."""
    end = time.monotonic() + IN_USE
    while True:
        try:
            return open()
        except LogInUse:
            if time.monotonic() > end:
                raise
        time.sleep(LOOK_UP)


def _is_before(upto: int, entry: Entry) -> bool:
    return entry.position < upto or (entry.position == upto and not entry.record.events)


def _before(upto: int, entry: Entry) -> Record:
    """The record without its events from a position on."""
    record, rows = entry.record, upto - entry.position
    if record.batch is None or record.events <= rows:
        return record
    stream, count = record.upto
    return Record(
        record.supplier, (stream, count - record.events + rows), record.batch.slice(0, rows)
    )

"""The last segment of a log, open to write."""

from __future__ import annotations

from pathlib import Path

import msgspec
from xxhash import xxh3_64_intdigest as checksum

from activebroker.events import describe, dump
from activebroker.log import frames
from activebroker.log.disk import sync_file, write
from activebroker.log.records import Offset, Record
from activebroker.log.recovery import End
from activebroker.log.segments import path_of

_WRITE_BYTES = 1 << 20  # that wait at most before they are written


class Tail:
    """It goes on at its end: frames begin at byte `begin`, the next one at `size`. So far its bytes
    up to `committed` are durable, `position` is that of the next event, and `latest` the largest
    time of an event in the segment."""

    def __init__(self, directory: Path, end: End) -> None:
        self.header = end.header
        self.begin = end.begin
        self.size = self.committed = end.size
        self.position = end.position
        self.latest = end.latest
        self._types = end.types
        self._pending: list[bytes | memoryview] = []  # to be written
        self._pending_bytes = 0
        self._file = path_of(directory, end.header.number).open("ab", buffering=0)

    def append(self, record: Record) -> None:
        """Append a record. It is written now or later."""
        kind = frames.ENDED if record.ended else frames.MOVED
        payload, type_at = memoryview(b""), 0
        batch = record.batch
        if batch is not None and len(batch):
            kind, type = frames.EVENTS, batch.type
            if type.fingerprint not in self._types:
                self._types[type.fingerprint] = self.size
                self._put(frames.TYPE, memoryview(msgspec.msgpack.encode(describe(type))))
            type_at = self._types[type.fingerprint]
            (buffer,) = record.buffers or dump(batch)
            payload = memoryview(buffer).cast("B")
            self.latest = max(self.latest, int(batch.times.max()))
        self._put(kind, payload, record.supplier, record.upto, record.events, type_at)
        self.position += record.events
        if self._pending_bytes >= _WRITE_BYTES:
            self._write()

    def commit(self) -> None:
        """Make durable what was appended."""
        self._write()
        sync_file(self._file.fileno())
        self.committed = self.size

    def close(self) -> None:
        self._file.close()

    def _put(
        self,
        kind: int,
        payload: memoryview,
        supplier: str = "",
        upto: Offset = (0, 0),
        events: int = 0,
        type_at: int = 0,
    ) -> None:
        frame = frames.Frame(
            self.size,
            len(payload),
            events,
            checksum(payload, self.header.salt),
            self.position,
            self.committed,
            self.latest,
            *upto,
            type_at,
            kind,
            len(supplier.encode()),
            supplier,
        )
        self._pending += frames.pack(frame, payload, self.header.salt)
        self._pending_bytes += frame.length
        self.size = frame.end

    def _write(self) -> None:
        write(self._file.fileno(), self._pending)
        self._pending.clear()
        self._pending_bytes = 0

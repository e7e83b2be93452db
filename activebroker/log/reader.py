"""Reading a log, while it is written or not, in any thread or process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

from activebroker.core.errors import LogDamaged, NotInLog, ProtocolError
from activebroker.events import EventType, TypeRegistry
from activebroker.log.committed import Committed
from activebroker.log.frames import ENDED, EVENTS, TYPE, Frame
from activebroker.log.records import Offset, Record
from activebroker.log.searching import (
    committed_of,
    place_of,
    position_after,
    position_since,
    sealed_end,
    searched,
)
from activebroker.log.segments import Gone, Segment, damage, path_of
from activebroker.log.versions import check_version

MOST_BYTES = 1 << 20


class Entry(NamedTuple):
    """A record, and the position of its first event."""

    position: int
    record: Record


class Reader:
    """A place in a log, from which its records are read, one after the other.

    A reader sees what is committed. It holds nothing up: where retention has dropped what it would
    read next, it raises NotInLog. Events come in the version of their type in which they were
    published, as in a flow; `types` has the event types of this process. A reader is for one
    thread.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        type: EventType,
        position: int | None = None,
        *,
        types: TypeRegistry | None = None,
    ) -> None:
        """Begin at a position, or with the first event that is left.

        Raises LogUnavailable where there is no log, ChannelTypeConflict unless `type` is a version
        of its event type, and what `seek` raises.
        """
        self.path = Path(path)
        self._types = types or TypeRegistry()
        self._types.register(type)
        last = searched(self.path, lambda span: span.header(span.committed.segment))
        check_version(self.path, last.versions, type)
        place = searched(self.path, lambda span: place_of(span, position))
        self._segment, self._at, self._position = place
        self._sealed: int | None = None  # the size of the segment, once a later one has begun

    @property
    def position(self) -> int:
        """The position of the next event that `read` returns."""
        return self._position

    @property
    def first(self) -> int:
        """The position of the first event that is left."""
        return searched(self.path, lambda span: span.header(span.first).position)

    @property
    def committed(self) -> int:
        """The position after the last event that is committed."""
        return committed_of(self.path).position

    def seek(self, position: int | None) -> None:
        """Go on with the event at a position, and the records without events right before it; or
        with the first event that is left.

        Raises NotInLog if the position is not from `first` to `committed`.
        """
        place = searched(self.path, lambda span: place_of(span, position))
        self.close()
        self._segment, self._at, self._position = place
        self._sealed = None

    def position_of(self, time: int) -> int:
        """The position of the first event that was published at a time (ns) or later.

        Times of different suppliers need not go up: later events may be older.
        """
        return searched(self.path, lambda span: position_since(span, time, self._types))

    def position_after(self, offsets: Mapping[str, Offset]) -> int:
        """The position from which on nothing is missed by who has come to these offsets.

        It is that of the first record that goes beyond the offset of its supplier. Of what follows,
        the caller may have some already.
        """
        return searched(self.path, lambda span: position_after(span, offsets))

    def read(self, upto: int | None = None, most_bytes: int = MOST_BYTES) -> list[Entry]:
        """The next records; none at the end of what is committed, or at the position `upto`.

        They are about `most_bytes`, at least one. A first record that began before this reader's
        position is cut there. `upto` must be a position between two records, as `committed` is.

        Raises LogDamaged where a file is not as it was written, after all before that was returned;
        NotInLog where the next record was dropped.
        """
        committed = committed_of(self.path)
        limit = committed.position if upto is None else min(upto, committed.position)
        try:
            while True:
                entries = self._read(committed, limit, most_bytes)
                if entries or not self._go_on(committed):
                    return entries
        except Gone as gone:
            raise self._lost(gone.number) from None

    def _read(self, committed: Committed, limit: int, most_bytes: int) -> list[Entry]:
        """The next records of the segment."""
        entries: list[Entry] = []
        size = 0
        try:
            for frame, payload in self._segment.walk(self._at, self._end(committed), most_bytes):
                begin, end = frame.position, frame.position + frame.events
                if not begin <= self._position <= end <= committed.position:
                    raise self._segment.damage(
                        frame.at, f"the record there is from position {begin} to {end}"
                    )
                if self._position + min(frame.events, 1) > limit:
                    break
                if end > limit:
                    raise ProtocolError(
                        f"position {limit} is within the record from {begin} to {end}: read up to "
                        "one of those"
                    )
                if frame.kind != TYPE:
                    entries.append(self._entry(frame, payload))
                length = frame.length
                self._at, self._position, size = frame.at + length, end, size + length
                if entries and size + length > most_bytes:  # with another one like it
                    break
        except (LogDamaged, ProtocolError):
            if not entries:
                raise
        return entries

    def _entry(self, frame: Frame, payload: memoryview) -> Entry:
        if frame.kind != EVENTS:
            record = Record(frame.supplier, frame.upto, ended=frame.kind == ENDED)
        else:
            batch = self._segment.batch(frame, payload, self._types)
            if had := self._position - frame.position:
                batch = batch.slice(had, frame.events - had)
            record = Record(frame.supplier, frame.upto, batch, buffers=None if had else [payload])
        return Entry(self._position, record)

    def _end(self, committed: Committed) -> int:
        """The byte of the segment up to which it may be read."""
        if self._segment.header.number == committed.segment:
            return committed.bytes
        if self._sealed is None:
            self._sealed = sealed_end(self.path, self._segment.header)
        return self._sealed

    def _go_on(self, committed: Committed) -> bool:
        """Go on to the next segment, if this one is read to its end and there is one."""
        number, end = self._segment.header.number, self._end(committed)
        if self._at < end or number == committed.segment:
            return False
        following = Segment(self.path, number + 1)
        self.close()
        self._segment, self._at, self._sealed = following, following.begin, None
        return True

    def _lost(self, number: int) -> NotInLog | LogDamaged:
        """The error for a segment that is not there."""
        first, position = searched(
            self.path, lambda span: (span.first, span.header(span.first).position)
        )
        if first <= number:
            return damage(path_of(self.path, number), 0, "the segment is missing")
        return NotInLog(
            f"The log in {self.path} has dropped the events from position {self._position} on, and "
            f"begins at {position} now. Go on there.",
            position,
        )

    def close(self) -> None:
        self._segment.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

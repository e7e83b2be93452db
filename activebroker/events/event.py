"""The event as filters and consumers see it: a content with a header."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Event:
    """A content and the header that names where and when it was published.

    `type` is the event type's name, `supplier` who published it, `seq` its number in that
    supplier's stream (from 0, without gaps when it is published) and `time` the moment of
    publication in nanoseconds since the Unix epoch. Treat an event as immutable: other consumers
    may hold the same object. Nothing enforces it, because building an event must stay cheap.
    """

    __slots__ = ("content", "seq", "supplier", "time", "type")

    def __init__(self, content: Any, type: str, supplier: str, seq: int, time: int) -> None:
        self.content = content
        self.type = type
        self.supplier = supplier
        self.seq = seq
        self.time = time

    def replace(self, content: Any) -> Event:
        """Return an event with this header and another content."""
        return Event(content, self.type, self.supplier, self.seq, self.time)

    @property
    def datetime(self) -> datetime:
        """The time of publication in UTC, cut to microseconds."""
        return _EPOCH + timedelta(microseconds=self.time // 1000)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event):
            return NotImplemented
        return self._header() == other._header() and bool(self.content == other.content)

    def __hash__(self) -> int:
        # The header alone: contents need not be hashable, and equal events have equal headers.
        return hash(self._header())

    def _header(self) -> tuple[str, str, int, int]:
        return self.type, self.supplier, self.seq, self.time

    def __reduce__(self) -> tuple[Any, ...]:
        return Event, (self.content, self.type, self.supplier, self.seq, self.time)

    def __repr__(self) -> str:
        return (
            f"Event({self.content!r}, type={self.type!r}, supplier={self.supplier!r}, "
            f"seq={self.seq}, time={self.time})"
        )

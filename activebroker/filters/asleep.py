"""The state of a key of a keyed filter, before its instance is needed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from activebroker.events import Event
from activebroker.filters.keyed import KeyedFilter, Stream


class Asleep:
    """The state of a key whose instance has not been needed since it came here; in its place."""

    __slots__ = (
        *("_keyed_changed", "_keyed_last", "_keyed_number", "_keyed_stream", "_keyed_timers"),
        *("key", "state"),
    )

    def __init__(self, stream: Stream, key: Hashable, number: int, last: Any) -> None:
        self.key = key
        self.state: dict[str, Any] | bytes | None = None
        self._keyed_stream = stream
        self._keyed_number = number
        self._keyed_last = last
        self._keyed_timers: dict[Any, int] | None = None
        self._keyed_changed = False

    def enqueue(self, event: Event) -> object:
        enqueue: Callable[[Event], object] = self._keyed_stream.awake(self).enqueue
        return enqueue(event)


Each = KeyedFilter | Asleep

"""The timers of one node, in real time."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterator

Key = str | int  # text: the node's timers; numbers: the driver's own


class Timers:
    """Timers by key; a new one replaces an earlier one of the same key."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Key]] = []
        self._current: dict[Key, int] = {}
        self._numbers = itertools.count()

    def set(self, key: Key, after: float) -> None:
        """Let the timer `key` be due in `after` seconds."""
        number = self._current[key] = next(self._numbers)
        heapq.heappush(self._heap, (time.monotonic() + after, number, key))

    def cancel(self, key: Key) -> None:
        self._current.pop(key, None)

    def __contains__(self, key: Key) -> bool:
        return key in self._current

    def next(self) -> float | None:
        """Seconds until the next timer is due; None if none is set."""
        while self._heap and self._current.get(self._heap[0][2]) != self._heap[0][1]:
            heapq.heappop(self._heap)  # cancelled, or set anew
        if not self._heap:
            return None
        return max(0.0, self._heap[0][0] - time.monotonic())

    def due(self) -> Iterator[Key]:
        """The keys that are due, each once, in order; also those set during the iteration."""
        while self._heap and self._heap[0][0] <= time.monotonic():
            _, number, key = heapq.heappop(self._heap)
            if self._current.get(key) == number:
                del self._current[key]
                yield key

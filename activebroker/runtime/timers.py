"""The timers of one node, in real time."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterator

Key = str | int  # the node's are text; numbers are free for the driver's own


class Timers:
    """Timers by key; setting one anew replaces it."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Key]] = []
        self._current: dict[Key, int] = {}
        self._numbers = itertools.count()

    def set(self, key: Key, after: float) -> None:
        """Let `key` be due in `after` seconds."""
        number = self._current[key] = next(self._numbers)
        heapq.heappush(self._heap, (time.monotonic() + after, number, key))

    def cancel(self, key: Key) -> None:
        self._current.pop(key, None)

    def __contains__(self, key: Key) -> bool:
        return key in self._current

    def next(self) -> float | None:
        """Seconds until a timer is due; None where none is set."""
        while self._heap and self._current.get(self._heap[0][2]) != self._heap[0][1]:
            heapq.heappop(self._heap)  # cancelled, or set anew
        if not self._heap:
            return None
        return max(0.0, self._heap[0][0] - time.monotonic())

    def due(self) -> Iterator[Key]:
        """The keys that are due, each once, in order; what is set meanwhile may be among them."""
        while self._heap and self._heap[0][0] <= time.monotonic():
            _, number, key = heapq.heappop(self._heap)
            if self._current.get(key) == number:
                del self._current[key]
                yield key

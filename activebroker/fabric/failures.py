"""`channel.errors`: the events that a derived channel's filter has lost by raising."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from activebroker.filters import Failure

KEPT = 1000


class FailureLog:
    """Counts all failures; keeps the last of them with traceback, supplier and sequence."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._count = 0
        self._kept: deque[Failure] = deque(maxlen=KEPT)

    def __len__(self) -> int:
        """How many events were lost, including failures that are not kept."""
        return self._count

    def __bool__(self) -> bool:
        return self._count > 0

    def __iter__(self) -> Iterator[Failure]:
        """The failures kept, oldest first."""
        with self._lock:
            return iter(list(self._kept))

    def wait(self, count: int, patience: float = 10.0) -> bool:
        """Wait until at least `count` events were lost; False if that takes too long."""
        with self._lock:
            return self._lock.wait_for(lambda: self._count >= count, patience)

    def add(self, count: int, samples: tuple[Failure, ...]) -> None:
        with self._lock:
            self._count += count
            self._kept.extend(samples)
            self._lock.notify_all()

    def __repr__(self) -> str:
        last = f", last: {self._kept[-1].error}" if self._kept else ""
        return f"<{self._count} events lost{last}>"

"""The consumer's end: batches wait here until the user takes them.

What is here counts against the credit of its flow, which bounds the queue.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass

from activebroker.core.errors import ActiveBrokerError, DeadlineExceeded
from activebroker.events import Batch

REPORT_BYTES = 512 << 10  # consumption is reported in steps of this many bytes


@dataclass(frozen=True, slots=True)
class _End:
    error: ActiveBrokerError | None


class EventQueue:
    """Batches of one subscription. `consumed(flow, nbytes)` gives their credit back."""

    def __init__(self, consumed: Callable[[int, int], None]) -> None:
        self._queue: queue.SimpleQueue[tuple[int, Batch, int] | _End] = queue.SimpleQueue()
        self._consumed = consumed
        self._unreported: dict[int, int] = {}
        self._end: _End | None = None

    def put(self, flow: int, batch: Batch, nbytes: int) -> None:
        self._queue.put((flow, batch, nbytes))

    def end(self, error: ActiveBrokerError | None) -> None:
        self._queue.put(_End(error))

    def take(self, patience: float | None) -> Batch | None:
        """The next batch; None at the end of the channel.

        Raises DeadlineExceeded when nothing came for `patience` seconds (None: wait as long as
        the fabric lives, which ends every subscription), and the error that ended the stream.
        """
        if self._end is None:
            try:
                item = self._queue.get(timeout=patience)
            except queue.Empty:
                raise DeadlineExceeded(f"No event came for {patience:g} s.") from None
            if not isinstance(item, _End):
                flow, batch, nbytes = item
                self._report(flow, nbytes)
                return batch
            self._end = item
        if self._end.error is not None:
            raise self._end.error
        return None

    def _report(self, flow: int, nbytes: int) -> None:
        unreported = self._unreported.pop(flow, 0) + nbytes
        if unreported >= REPORT_BYTES:
            self._consumed(flow, unreported)
        else:
            self._unreported[flow] = unreported

"""Calls a callback with each event of a subscription."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable

from activebroker.core.errors import DeadlineExceeded
from activebroker.events import Event
from activebroker.fabric.callbacks import unawaited
from activebroker.runtime import EventQueue
from activebroker.runtime.pool import POOL

log = logging.getLogger(__name__)


class Calling:
    """Takes events as they come, on a thread that other callbacks and filters share.

    `timeout` returns how long to wait for the next event; `close` is called when the callback
    raises.
    """

    def __init__(
        self,
        events: EventQueue,
        callback: Callable[[Event], object],
        timeout: Callable[[], float | None],
        close: Callable[[], None],
    ) -> None:
        self._queue = events
        self._callback = callback
        self._timeout = timeout
        self._close = close
        self._strand = POOL.strand()
        self._due = False
        self._thread: int | None = None  # the one in the callback
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        events.attend = self._attend
        self._attend()

    @property
    def here(self) -> bool:
        """Whether this thread is in the callback."""
        return self._thread == threading.get_ident()

    def join(self, timeout: float | None) -> None:
        """See `Subscription.join`."""
        if not self._ended.wait(timeout):
            channel = self._queue.channel
            raise DeadlineExceeded(f"Channel {channel!r} has not ended within {timeout} s.")
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _attend(self) -> None:
        # `_run` resets the flag before it looks, so it sees all that came before.
        if not self._due:
            self._due = True
            self._strand.do(self._run)

    def _run(self) -> None:
        self._due = False
        if self._ended.is_set():
            return
        self._thread = threading.get_ident()
        over = False
        try:
            over = self._call()
        except BaseException as failure:
            channel = self._queue.channel
            log.exception("the callback on channel %r gets no more events", channel)
            self._failure, over = failure, True
            self._close()
        finally:
            self._thread = None
            if over:
                self._ended.set()
                self._strand.end()

    def _call(self) -> bool:
        """Call the callback for the events of a batch; return whether the stream has ended."""
        queue, callback, timeout = self._queue, self._callback, self._timeout()
        for event in queue.rows:
            if inspect.isawaitable(result := callback(event)):
                raise unawaited(callback, result)
        if queue.fetch():
            self._attend()  # after other tasks of this thread
            return False
        if timeout is None and queue.idle:
            return False
        if not queue.wait(timeout):
            return True
        self._attend()
        return False

"""A subscription: takes events from a channel."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING

from activebroker.broker.messages import Unsubscribe
from activebroker.core.errors import Closed, DeadlineExceeded, Unreachable
from activebroker.events import Batch, Event
from activebroker.fabric.bound import Bound
from activebroker.fabric.closing import Closing
from activebroker.runtime import EventQueue

if TYPE_CHECKING:
    from activebroker.fabric.fabric import Fabric

log = logging.getLogger(__name__)
LOOK_UP = 0.2  # seconds between looks at whether an asynchronous reader was cancelled


class Subscription(Closing, Bound):
    """Get it from `channel.subscribe()`.

    Iterate over events, or over `batches()`, or with `async for`; iteration ends when the channel
    or the subscription is closed. `timeout` is the longest wait for the next event, in seconds,
    after which iteration raises DeadlineExceeded; None waits as long as the fabric lives.
    """

    def __init__(
        self,
        fabric: Fabric,
        channel: str,
        port: int,
        events: EventQueue,
        callback: Callable[[Event], object] | None,
        timeout: float | None,
    ) -> None:
        self.channel = channel
        self.timeout = timeout
        self._fabric = fabric
        self._port = port
        self._queue = events
        self._closed = False
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        if callback is not None:
            self._thread = threading.Thread(
                target=self._call_back, args=(callback,), name=f"callback {channel}", daemon=True
            )
            self._thread.start()

    def batches(self) -> Iterator[Batch]:
        """The batches as they come: `batch.columns` is a pyarrow RecordBatch."""
        while (batch := self._queue.take(self.timeout)) is not None:
            yield batch

    def __iter__(self) -> Iterator[Event]:
        for batch in self.batches():
            yield from batch.events()

    async def __aiter__(self) -> AsyncIterator[Event]:
        import asyncio  # here: it takes a tenth of the time that `import activebroker` may

        waited = 0.0
        while True:
            try:
                batch = await asyncio.to_thread(self._queue.take, LOOK_UP)
            except DeadlineExceeded:
                waited += LOOK_UP
                if self.timeout is not None and waited >= self.timeout:
                    raise
                continue
            if batch is None:
                return
            waited = 0.0
            for event in batch.events():
                yield event

    def join(self, timeout: float | None = None) -> None:
        """Wait until the callback has seen the last event; raise what it raised.

        Raises DeadlineExceeded after `timeout` seconds.
        """
        if self._thread is None:
            return
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise DeadlineExceeded(f"Channel {self.channel!r} has not ended within {timeout} s.")
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def close(self) -> None:
        """Take no more events. Raises what the callback raised, if it did."""
        if not self._closed:
            self._closed = True
            self._fabric.forget_subscription(self)
            self._fabric.close_port(self._port)
            try:
                self._fabric.request(Unsubscribe(self.channel, self._port))
            except (Closed, Unreachable, DeadlineExceeded) as error:
                log.info("unsubscribed from %r without an answer: %s", self.channel, error)
        if self._thread is not threading.current_thread():
            self.join(10.0)

    @property
    def _owner(self) -> Fabric:
        return self._fabric

    def __repr__(self) -> str:
        return f"<subscription to {self.channel!r}>"

    def _call_back(self, callback: Callable[[Event], object]) -> None:
        try:
            for event in self:
                callback(event)
        except BaseException as failure:
            log.exception("the callback on channel %r raised; it gets no more", self.channel)
            self._failure = failure
            self.close()

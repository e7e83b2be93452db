"""The objects of asyncio."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, ParamSpec, TypeVar

import activebroker.fabric as blocking
from activebroker.aio.calls import Calls
from activebroker.aio.wrapping import ClosingWrapper, Opening, Wrapper, awaited, making, opening
from activebroker.core.errors import DeadlineExceeded
from activebroker.events import Event, EventType
from activebroker.fabric.callbacks import check_callback
from activebroker.fabric.closing import CLOSING
from activebroker.fabric.failures import FailureLog
from activebroker.fabric.membership import PUBLISHING
from activebroker.fabric.since import Since
from activebroker.fabric.subscription import Batches
from activebroker.runtime import Gap, WhenSlow
from predicate_extract import Extraction

log = logging.getLogger(__name__)
TURN = 64  # events published before others of the event loop have their turn

P = ParamSpec("P")
R = TypeVar("R")


class Subscription(ClosingWrapper[blocking.Subscription]):
    """Iterate over events, or over `batches()`, with `async for`."""

    def __init__(
        self,
        sync: blocking.Subscription,
        calls: Calls,
        callback: Callable[[Event], object] | None = None,
    ) -> None:
        super().__init__(sync, calls)
        self._task: asyncio.Task[None] | None = None
        if callback is not None:
            self._task = asyncio.create_task(self._call_back(callback))

    @property
    def channel(self) -> str:
        return self.sync.channel

    @property
    def timeout(self) -> float | None:
        """The longest wait for the next event, in seconds; None: as long as the fabric lives."""
        return self.sync.timeout

    @timeout.setter
    def timeout(self, seconds: float | None) -> None:
        self.sync.timeout = seconds

    @property
    def dropped(self) -> int:
        """How many events were dropped, as `when_slow` says, since this consumer was slow."""
        return self.sync.dropped

    @property
    def errors(self) -> FailureLog:
        """The events that are lost since they cannot be decoded in this process."""
        return self.sync.errors

    def batches(self) -> Batches:
        return self.sync.batches()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self.sync.__aiter__()

    async def __anext__(self) -> Event:
        return await self.sync.__anext__()

    async def join(self, timeout: float | None = None) -> None:
        """Wait until the callback has seen the last event; raise what it raised.

        Raises DeadlineExceeded after `timeout` seconds.
        """
        if self._task is None:
            return
        await asyncio.wait([self._task], timeout=timeout)
        if not self._task.done():
            raise DeadlineExceeded(f"Channel {self.channel!r} has not ended within {timeout} s.")
        task, self._task = self._task, None
        task.result()

    async def close(self) -> None:
        await super().close()
        await self._join_callback()

    async def __aexit__(self, *error: Any) -> None:
        await super().__aexit__(*error)
        await self._join_callback()

    async def _join_callback(self) -> None:
        if (task := self._task) is not asyncio.current_task():
            try:
                await self.join(CLOSING)
            finally:
                if task is not None:
                    task.cancel()

    async def _call_back(self, callback: Callable[[Event], object]) -> None:
        try:
            async for event in self:
                if inspect.isawaitable(result := callback(event)):
                    await result
        except Exception:
            log.exception("the callback on channel %r gets no more events", self.channel)
            await super().close()
            raise


class Supplier(ClosingWrapper[blocking.Supplier]):
    """Puts events into a channel."""

    offload = awaited(blocking.Supplier.offload)
    flush = awaited(blocking.Supplier.flush)

    def __init__(self, sync: blocking.Supplier, calls: Calls) -> None:
        super().__init__(sync, calls)
        self._turn = 0

    @property
    def name(self) -> str:
        return self.sync.name

    @property
    def channel(self) -> str:
        return self.sync.channel

    @property
    def published(self) -> int:
        """How many events were published."""
        return self.sync.published

    async def publish(self, content: Any, timeout: float = PUBLISHING) -> None:
        """Publish one event; where this is cancelled, it was not published. Raises as that of
        activebroker.Supplier."""
        self._turn += 1
        if self._turn % TURN == 0:
            await asyncio.sleep(0)
        await self._put(lambda: self.sync.publish(content, 0.0), timeout)

    async def publish_batch(
        self, rows: Any, timeout: float = PUBLISHING, *, first_seq: int | None = None
    ) -> int:
        """Publish many events, all or none, and none where this is cancelled; return how many.
        `first_seq`, and what is raised, as that of activebroker.Supplier."""
        buffer = self.sync._buffer
        batches = await self._calls.run(lambda: buffer.batches_of(rows))
        return await self._put(lambda: buffer.put_batches(batches, 0.0, first_seq), timeout)

    async def _put(self, put: Callable[[], R], timeout: float) -> R:
        while True:
            try:
                return put()
            except DeadlineExceeded:
                await self.sync._buffer.room(timeout)


class Channel(Wrapper[blocking.Channel]):
    """Suppliers put events in, consumers subscribe, filters derive new channels."""

    move = awaited(blocking.Channel.move)
    positions = awaited(blocking.Channel.positions)
    close = awaited(blocking.Channel.close)
    supplier = opening(blocking.Channel.supplier, Supplier)

    derive = making(
        blocking.Channel.derive,
        lambda made, calls: Channel(made, calls),
        undo=blocking.Channel.close,
    )
    log = making(blocking.Channel.log, lambda made, calls: Channel(made, calls))

    async def reconfigure(self, *, timeout: float = 10.0, **values: object) -> None:
        """Set parameters of this channel's filter, as `activebroker.Channel.reconfigure` does."""
        await self._calls.run(lambda: self.sync.reconfigure(timeout=timeout, **values))

    @property
    def name(self) -> str:
        return self.sync.name

    @property
    def type(self) -> EventType:
        return self.sync.type

    @property
    def parent(self) -> str | None:
        return self.sync.parent

    @property
    def extraction(self) -> Extraction | None:
        return self.sync.extraction

    @property
    def errors(self) -> FailureLog:
        """The events that this channel's filter lost by raising, where this process derived it."""
        return self.sync.errors

    def subscribe(
        self,
        callback: Callable[[Event], object] | None = None,
        *,
        timeout: float | None = None,
        when_slow: WhenSlow = "block",
        keep: int = 10_000,
        patience: float = 10.0,
        on_gap: Callable[[Gap], object] | None = None,
        since: Since | None = None,
        until: int | None = None,
        follow: bool = True,
    ) -> Opening[Subscription]:
        """Take events, as `activebroker.Channel.subscribe` does.

        A callback, `async` or not, is called in the event loop for one event after the other.
        """
        if callback is not None:
            check_callback(callback, awaited=True)
        subscribing = functools.partial(
            self.sync.subscribe,
            timeout=timeout,
            when_slow=when_slow,
            keep=keep,
            patience=patience,
            on_gap=on_gap,
            since=since,
            until=until,
            follow=follow,
        )

        async def make() -> Subscription:
            made = await self._calls.run(subscribing, undo=lambda made: made.close())
            return Subscription(made, self._calls, callback)

        return Opening(make)


class Balancing(ClosingWrapper[blocking.Balancing]):
    """Moves filters by itself until it is closed."""

    @property
    def moves(self) -> tuple[blocking.Moved, ...]:
        """What it has moved, or tried to, in order."""
        return self.sync.moves

    @property
    def failed(self) -> int:
        """How many of the moves have failed."""
        return self.sync.failed

    @property
    def active(self) -> bool:
        """Whether it still looks."""
        return self.sync.active


class Fabric(ClosingWrapper[blocking.Fabric]):
    """Get it from `connect` or `open`."""

    channel = making(blocking.Fabric.channel, Channel)
    status = awaited(blocking.Fabric.status)
    split = awaited(blocking.Fabric.split)
    stop_broker = awaited(blocking.Fabric.stop_broker)
    balance = opening(blocking.Fabric.balance, Balancing)

    async def story(self, channel: Channel | str) -> dict[str, Any]:
        """How the last move or offload of a channel went, as `activebroker.Fabric.story` tells."""
        name = channel.name if isinstance(channel, Channel) else channel
        return await self._calls.run(lambda: self.sync.story(name))

    @property
    def node(self) -> str:
        """The name of this process in the fabric."""
        return self.sync.node

    @property
    def address(self) -> str | None:
        """Where other processes join; None for an embedded fabric."""
        return self.sync.address


def _opened(make: Callable[P, blocking.Fabric]) -> Callable[P, Opening[Fabric]]:
    @functools.wraps(make)
    def make_opening(*args: P.args, **kwargs: P.kwargs) -> Opening[Fabric]:
        async def opened() -> Fabric:
            calls = Calls()
            work = functools.partial(make, *args, **kwargs)
            return Fabric(await calls.run(work, undo=lambda made: made.close()), calls)

        return Opening(opened)

    return make_opening


def open(make: Callable[P, blocking.Fabric], *args: P.args, **kwargs: P.kwargs) -> Opening[Fabric]:
    """A fabric for asyncio of any kind: `open(activebroker.Fabric, brokers=["atlanta"])`, say, or
    `open(ray_deploy.RayFabric)`. Raises what `make` raises."""
    return _opened(make)(*args, **kwargs)


connect = _opened(blocking.connect)

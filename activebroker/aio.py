"""The user's objects for asyncio: whatever waits is awaited.

>>> import asyncio
>>> from activebroker import Fabric, aio
>>> async def main():
...     async with aio.open(Fabric) as fabric:
...         numbers = await fabric.channel("numbers", object)
...         large = await numbers.derive(lambda number: number > 1)
...         async with large.subscribe() as events, numbers.supplier() as source:
...             for number in range(4):
...                 await source.publish(number)
...             await numbers.close()
...             return [event.content async for event in events]
>>> asyncio.run(main())
[2, 3]

Each object stands for one of `activebroker`, its attribute `sync`, and has its methods. Those that
open something, as `subscribe`, can be awaited or entered with `async with`, which closes in the
end. An object belongs to the event loop in which it was made.

Taking and publishing events needs no thread. Every other call runs in a thread of its own, so that
neither the event loop nor its executor is held up, at most `CALLS` of a fabric at a time. All can
be cancelled: no event is lost by it; what was opened, or derived, meanwhile is closed again; other
requests, as a move, are still carried out.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import activebroker.fabric as blocking
from activebroker.core.errors import DeadlineExceeded
from activebroker.events import Event, EventType
from activebroker.fabric.callbacks import check_callback
from activebroker.fabric.closing import CLOSING, Closing
from activebroker.fabric.failures import FailureLog
from activebroker.fabric.subscription import Batches
from activebroker.fabric.supplier import PATIENCE
from activebroker.runtime import Gap, WhenSlow
from predicate_extract import Extraction

log = logging.getLogger(__name__)
CALLS = 32  # of a fabric, that wait at a time
TURN = 64  # events published before others of the event loop have their turn

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")
C = TypeVar("C", bound=Closing)


class Calls:
    """Runs what waits in threads of its own, a bounded number of them."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(CALLS)

    async def run(self, work: Callable[[], R], undo: Callable[[R], object] | None = None) -> R:
        """What `work` returns or raises. `undo` is done to what nobody takes any more."""
        await self._free.acquire()
        future = _start(work)
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: _tell(loop, self._free.release))
        try:
            return await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError:
            if undo is not None:
                future.add_done_callback(functools.partial(_undo, undo))
            raise


async def close(work: Callable[[], None]) -> None:
    """Run what closes something, to its end, in a thread that is always there for it."""
    await asyncio.shield(asyncio.wrap_future(_start(work)))


def _start(work: Callable[[], R]) -> Future[R]:
    future: Future[R] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
            future.set_exception(error)

    threading.Thread(target=run, name="activebroker call", daemon=True).start()
    return future


def _tell(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(what)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _undo(undo: Callable[[R], object], done: Future[R]) -> None:
    if done.exception() is None:
        _start(lambda: undo(done.result()))


# --- what the objects have in common ----------------------------------------------------------


class Wrapper(Generic[S]):
    """Stands for the object `sync`, whose methods block."""

    def __init__(self, sync: S, calls: Calls) -> None:
        self.sync = sync
        self._calls = calls

    def __repr__(self) -> str:
        return f"<async {str(self.sync).removeprefix('<')}"


class ClosingWrapper(Wrapper[C]):
    """Closes itself at the end of an `async with` block, as `sync` does after `with`."""

    async def close(self) -> None:
        await close(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await close(lambda: self.sync.__exit__(kind, error, trace))


A = TypeVar("A", bound=ClosingWrapper[Any])


class Opening(Generic[A]):
    """What opens an object: await it, or enter it with `async with`."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, A]]) -> None:
        self._make = make
        self._made: A | None = None

    def __await__(self) -> Generator[Any, Any, A]:
        return self._make().__await__()

    async def __aenter__(self) -> A:
        self._made = await self._make()
        return self._made

    async def __aexit__(self, *error: Any) -> None:
        assert self._made is not None
        await self._made.__aexit__(*error)


def _making(
    method: Callable[Concatenate[S, P], R],
    wrap: Callable[[R, Calls], W],
    undo: Callable[[R], object] | None = None,
) -> Callable[Concatenate[Wrapper[S], P], Coroutine[Any, Any, W]]:
    """The method of a wrapper that awaits and wraps what a method of its object returns."""

    @functools.wraps(method)
    async def call(self: Wrapper[S], /, *args: P.args, **kwargs: P.kwargs) -> W:
        own = getattr(self.sync, method.__name__)  # it may be of a subclass
        made = await self._calls.run(lambda: own(*args, **kwargs), undo)
        return wrap(made, self._calls)

    return call


def _awaited(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[Wrapper[S], P], Coroutine[Any, Any, R]]:
    return _making(method, lambda made, calls: made)


def _opening(
    method: Callable[Concatenate[S, P], C], wrap: Callable[[C, Calls], A]
) -> Callable[Concatenate[Wrapper[S], P], Opening[A]]:
    """The method of a wrapper that opens what a method of its object opens."""
    make = _making(method, wrap, undo=lambda made: made.close())

    @functools.wraps(method)
    def call(self: Wrapper[S], /, *args: P.args, **kwargs: P.kwargs) -> Opening[A]:
        return Opening(lambda: make(self, *args, **kwargs))

    return call


# --- the objects ------------------------------------------------------------------------------


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
        if self._task is not asyncio.current_task():
            await self.join(CLOSING)

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

    offload = _awaited(blocking.Supplier.offload)
    flush = _awaited(blocking.Supplier.flush)

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

    async def publish(self, content: Any, timeout: float = PATIENCE) -> None:
        """Publish one event; where this is cancelled, it was not published. Raises as that of
        activebroker.Supplier."""
        self._turn += 1
        if self._turn % TURN == 0:
            await asyncio.sleep(0)
        await self._put(lambda: self.sync.publish(content, 0.0), timeout)

    async def publish_batch(self, rows: Any, timeout: float = PATIENCE) -> int:
        """Publish many events, all or none, and none where this is cancelled; return how many.
        Raises as that of activebroker.Supplier."""
        buffer = self.sync._buffer
        batches = await self._calls.run(lambda: buffer.batches_of(rows))
        return await self._put(lambda: buffer.put_batches(batches, 0.0), timeout)

    async def _put(self, put: Callable[[], R], timeout: float) -> R:
        while True:
            try:
                return put()
            except DeadlineExceeded:
                await self.sync._buffer.room(timeout)


class Channel(Wrapper[blocking.Channel]):
    """Suppliers put events in, consumers subscribe, filters derive new channels."""

    move = _awaited(blocking.Channel.move)
    close = _awaited(blocking.Channel.close)
    supplier = _opening(blocking.Channel.supplier, Supplier)

    derive = _making(
        blocking.Channel.derive,
        lambda made, calls: Channel(made, calls),
        undo=blocking.Channel.close,
    )

    async def modulate(self, *, timeout: float = 10.0, **values: object) -> None:
        """Set parameters of this channel's filter, as `activebroker.Channel.modulate` does."""
        await self._calls.run(lambda: self.sync.modulate(timeout=timeout, **values))

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

    channel = _making(blocking.Fabric.channel, Channel)
    status = _awaited(blocking.Fabric.status)
    split = _awaited(blocking.Fabric.split)
    balance = _opening(blocking.Fabric.balance, Balancing)

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
    def opening(*args: P.args, **kwargs: P.kwargs) -> Opening[Fabric]:
        async def opened() -> Fabric:
            calls = Calls()
            work = functools.partial(make, *args, **kwargs)
            return Fabric(await calls.run(work, undo=lambda made: made.close()), calls)

        return Opening(opened)

    return opening


def open(make: Callable[P, blocking.Fabric], *args: P.args, **kwargs: P.kwargs) -> Opening[Fabric]:
    """A fabric for asyncio of any kind: `open(activebroker.Fabric, brokers=["atlanta"])`, say, or
    `open(ray_deploy.RayFabric)`. Raises what `make` raises."""
    return _opened(make)(*args, **kwargs)


connect = _opened(blocking.connect)

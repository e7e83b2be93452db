"""What the objects of asyncio have in common: each stands for one whose methods block."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from activebroker.aio.calls import Calls, run_to_its_end
from activebroker.fabric.closing import Closing

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")
C = TypeVar("C", bound=Closing)


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
        await self._closed_by(self.sync.close)

    async def _closed_by(self, work: Callable[[], None]) -> None:
        if self.sync._closes_at_once:
            work()
        else:
            await run_to_its_end(work)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._closed_by(lambda: self.sync.__exit__(kind, error, trace))


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


def making(
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


def awaited(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[Wrapper[S], P], Coroutine[Any, Any, R]]:
    return making(method, lambda made, calls: made)


def opening(
    method: Callable[Concatenate[S, P], C], wrap: Callable[[C, Calls], A]
) -> Callable[Concatenate[Wrapper[S], P], Opening[A]]:
    """The method of a wrapper that opens what a method of its object opens."""
    make = making(method, wrap, undo=lambda made: made.close())

    @functools.wraps(method)
    def call(self: Wrapper[S], /, *args: P.args, **kwargs: P.kwargs) -> Opening[A]:
        return Opening(lambda: make(self, *args, **kwargs))

    return call

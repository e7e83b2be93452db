"""Calls that block, in threads of their own."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from activebroker.core.errors import Unreachable

CALLS = 32  # of a fabric, that wait at a time

R = TypeVar("R")


class Calls:
    """Runs what waits in threads of its own, a bounded number of them."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(CALLS)

    async def run(self, work: Callable[[], R], undo: Callable[[R], object] | None = None) -> R:
        """What `work` returns or raises. `undo` is done to what nobody takes any more."""
        await self._free.acquire()
        try:
            future = _start(work)
        except BaseException:
            self._free.release()
            raise
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: _tell(loop, self._free.release))
        try:
            return await _result(future)
        except asyncio.CancelledError:
            if undo is not None:
                future.add_done_callback(functools.partial(_undo, undo))
            raise


async def run_to_its_end(work: Callable[[], None]) -> None:
    """Run what closes something, to its end, in a thread that is always there for it."""
    await _result(_start(work))


def _start(work: Callable[[], R]) -> Future[R]:
    future: Future[R] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
            future.set_exception(error)

    try:
        threading.Thread(target=run, name="activebroker call", daemon=True).start()
    except RuntimeError as error:
        raise Unreachable(
            f"There is no thread for a call: {error}. This process may have too many for its "
            "limits."
        ) from error
    return future


async def _result(future: Future[R]) -> R:
    """As `asyncio.wrap_future`, but to cancel it leaves the future alone, and so does the end of
    the event loop."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    future.add_done_callback(lambda _: _tell(loop, done.set))
    await done.wait()
    return future.result()


def _tell(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(what)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _undo(undo: Callable[[R], object], done: Future[R]) -> None:
    if done.exception() is None:
        _start(lambda: undo(done.result()))

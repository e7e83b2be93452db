"""A condition that threads and coroutines wait for."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    Waiter = asyncio.Future[None]


class Condition:
    """Like `threading.Condition`, but faster, since each event may use it; and for coroutines, too.

    The caller holds the lock, except for `arrives`.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._threads: dict[threading.Lock, None] = {}  # each waits for a lock of its own
        self._coroutines: dict[Waiter, _Waker] = {}

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *raised: object) -> None:
        self._lock.release()

    def notify_all(self) -> None:
        threads, self._threads = self._threads, {}
        for waiter in threads:
            waiter.release()
        if self._coroutines:
            waiting, self._coroutines = self._coroutines, {}
            for future, waker in waiting.items():
                waker.wake((future,))

    def wait(self, patience: float) -> None:
        """Wait until `notify_all`, for at most `patience` seconds, which may be infinite."""
        waiter = threading.Lock()
        waiter.acquire()
        self._threads[waiter] = None
        self._lock.release()
        try:
            waiter.acquire(timeout=min(patience, threading.TIMEOUT_MAX))
        finally:
            self._lock.acquire()
            self._threads.pop(waiter, None)

    def wait_for(self, predicate: Callable[[], bool], patience: float | None) -> bool:
        """Whether the predicate has become true within `patience` seconds."""
        end = math.inf if patience is None else time.monotonic() + patience
        while not predicate():
            left = end - time.monotonic()
            if left <= 0:
                return False
            self.wait(left)
        return True

    async def arrives(self, predicate: Callable[[], bool], patience: float | None) -> bool:
        """`wait_for`, for a coroutine, which must not hold the lock. It can be cancelled at any
        moment."""
        import asyncio  # here: it costs a tenth of the time that `import activebroker` may take

        loop = asyncio.get_running_loop()
        waker = _waker(loop)
        end = None if patience is None else loop.time() + patience
        while True:
            with self:
                if predicate():
                    return True
                future = loop.create_future()
                self._coroutines[future] = waker
            try:
                if end is None:
                    await future
                else:
                    async with asyncio.timeout_at(end):
                        await future
            except BaseException as given_up:
                with self:
                    self._coroutines.pop(future, None)
                    if isinstance(given_up, TimeoutError):
                        return predicate()
                raise


class _Waker:
    """Wakes the coroutines of one event loop. It wakes the loop once for all that are due."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._due: deque[Waiter] = deque()
        self._told = False
        self.woken = 1  # coroutines that were woken together, the last time

    def wake(self, futures: Iterable[Waiter]) -> None:
        self._due.extend(futures)
        # `_run` resets the flag before it looks, so it sees all that came before.
        if not self._told and (loop := self._loop()) is not None:
            self._told = True
            try:
                loop.call_soon_threadsafe(self._run)
            except RuntimeError:  # the loop was closed, and no coroutine waits in it any more
                self._due.clear()

    def _run(self) -> None:
        self._told = False
        self.woken = 0
        while self._due:
            future = self._due.popleft()
            if not future.done():
                future.set_result(None)
                self.woken += 1


def turn(rows: int) -> int:
    """The running coroutine's share of `rows`. The coroutines of an event loop that were woken
    together may take so many before others have their turn."""
    import asyncio

    return max(1, rows // max(1, _waker(asyncio.get_running_loop()).woken))


def _waker(loop: asyncio.AbstractEventLoop) -> _Waker:
    return _wakers.get(loop) or _wakers.setdefault(loop, _Waker(loop))


_wakers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waker] = weakref.WeakKeyDictionary()

"""Threads that the filters and callbacks of a process share.

Each filter and each callback has a *strand*: its tasks run in order, one at a time. A strand stays
on its thread, so that what a filter opened there (a database connection, say) stays usable. There
are about as many threads as cores, however many strands there are. If a task runs long, the other
strands of its thread move to another thread: so a filter that is stuck holds up others for `LONG`
seconds, once.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

LONG = 0.5  # seconds that a task may take while others wait for its thread
THREADS = (os.cpu_count() or 1) + 2  # two more, since tasks may wait for something

Task = Callable[[], None]


class Strand:
    """Runs tasks in order. Get it from `Pool.strand()`; it has to be ended."""

    def __init__(self, pool: Pool, thread: _Thread) -> None:
        self._pool = pool
        self.thread = thread
        self.ending = False

    def do(self, task: Task) -> None:
        """Queue a task, which should not raise. Any thread may call this."""
        with self._pool.lock:
            self.thread.tasks.append((self, task))
            self.thread.wake.notify()

    def end(self, task: Task = lambda: None) -> None:
        """Leave the thread after all that is queued, and this last task."""
        with self._pool.lock:
            if not self.ending:
                self.ending = True
                self.thread.tasks.append((self, lambda: self._end(task)))
                self.thread.wake.notify()

    def _end(self, task: Task) -> None:
        try:
            task()
        finally:
            with self._pool.lock:
                del self.thread.strands[self]


class _Thread:
    """One thread and its strands; it ends with the last of them."""

    def __init__(self, pool: Pool) -> None:
        self.strands: dict[Strand, None] = {}
        self.tasks: deque[tuple[Strand, Task]] = deque()
        self.wake = threading.Condition(pool.lock)
        self.running: Strand | None = None
        self.since = 0.0
        self._pool = pool
        # A daemon: a filter that never returns must not keep the process alive.
        threading.Thread(target=self._loop, name="activebroker worker", daemon=True).start()

    def _loop(self) -> None:
        while (task := self._next()) is not None:
            try:
                task()
            except BaseException:  # even SystemExit: other strands count on this thread
                log.exception("a task failed that should not")
            del task  # else it would hold its filter in memory until the next task

    def _next(self) -> Task | None:
        with self._pool.lock:
            self.running = None
            while not self.tasks:
                if not self.strands and self in self._pool.threads:
                    self._pool.threads.remove(self)
                    return None
                self.wake.wait()
            self.running, task = self.tasks.popleft()
            self.since = time.monotonic()
            return task


class Pool:
    """The threads. There are at most `most` of them while no task runs long."""

    def __init__(self, most: int = THREADS) -> None:
        self._most = most
        self.forget()

    def forget(self) -> None:
        """In a forked child: forget the parent's threads, which do not exist here."""
        self.lock = threading.Lock()
        self.threads: list[_Thread] = []
        self._look_at = 0.0

    def strand(self) -> Strand:
        """Make a strand. Raises RuntimeError if there is no thread yet and the system gives
        none."""
        with self.lock:
            thread = min(self.threads, key=lambda each: len(each.strands), default=None)
            if thread is None or (thread.strands and len(self.threads) < self._most):
                thread = self._start() or thread
            if thread is None:
                raise RuntimeError("The system gives this process no thread.")
            strand = Strand(self, thread)
            thread.strands[strand] = None
            return strand

    def relieve(self) -> float | None:
        """Give another thread to the strands that wait for a task that runs long.

        A thread that queues tasks calls this before it waits. Returns the seconds after which to
        call it again, None if no task waits.
        """
        for thread in self.threads:
            if thread.tasks:
                break
        else:
            return None
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LONG / 2
            with self.lock:
                for thread in list(self.threads):
                    if thread.running is not None and now - thread.since >= LONG:
                        self._relieve(thread)
        return LONG / 2

    def _relieve(self, thread: _Thread) -> None:
        long = thread.running
        others = [each for each in thread.strands if each is not long]
        if not others or (other := self._start()) is None:
            return
        for strand in others:
            del thread.strands[strand]
            other.strands[strand] = None
            strand.thread = other
        other.tasks.extend(each for each in thread.tasks if each[0] is not long)
        thread.tasks = deque(each for each in thread.tasks if each[0] is long)
        other.wake.notify()

    def _start(self) -> _Thread | None:
        try:
            thread = _Thread(self)
        except RuntimeError as error:
            log.warning("filters and callbacks share %d threads: %s", len(self.threads), error)
            return None
        self.threads.append(thread)
        return thread


POOL = Pool()

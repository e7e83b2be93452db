"""Joins a fabric again after it was lost, and makes there again what this process had in it.

The broker may have restarted, the network may have been cut, or the machine may have slept. A node
that loses its fabric departs: it brings what its suppliers have published to the nodes that it can
still reach, and takes nothing more from them. The next node joins under the same name. Channels are
opened again, filters derived, subscriptions made; then suppliers are opened, which first wait for
the subscribers that they served before. Meanwhile publishing, iterating and all requests wait.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from activebroker.core.errors import ActiveBrokerError, DeadlineExceeded, Unreachable
from activebroker.events import TypeRegistry
from activebroker.fabric.program import Program
from activebroker.node.departing import DEPARTURE
from activebroker.node.effects import Legacy
from activebroker.runtime import Runtime, Succession

log = logging.getLogger(__name__)

BUSY = 60.0  # seconds in which all requests to a node that is gone have failed
FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0  # seconds between attempts; each is twice the one before
T = TypeVar("T")
_steady: ContextVar[object] = ContextVar("activebroker steady", default=None)


class Rejoining:
    """Gives a program a runtime, and another one when the node has departed.

    `join(succession)` starts a runtime, `use(runtime)` is called with the one to use from now on.
    """

    def __init__(
        self,
        program: Program,
        join: Callable[[Succession], Runtime],
        use: Callable[[Runtime], None],
    ) -> None:
        self._program = program
        self._join = join
        self._use = use
        self._registry = TypeRegistry()
        self._state = threading.Condition()
        self._users = 0
        self._reason = ""  # why the program is in no fabric now
        self._over: Unreachable | None = None  # why it will not be in one again
        self._left = Legacy("")  # what the nodes before have left
        self._closed = threading.Event()
        self._runtime = join(Succession(self._registry, self._left, self._departed))
        use(self._runtime)

    def steadily(self, operation: Callable[[], T], patience: float) -> T:
        """Do an operation with one runtime, and return its result; it begins anew if that runtime
        is lost meanwhile. Raises Unreachable if there is none for `patience` seconds."""
        if _steady.get() is self:
            return operation()  # a part of an operation that begins anew as a whole
        end = time.monotonic() + patience
        while True:
            with self.steady(max(0.0, end - time.monotonic())):
                try:
                    return operation()
                except Unreachable:
                    if not self._runtime.orphaned:
                        raise
            self._wait_for_departure()

    @contextmanager
    def steady(self, patience: float) -> Iterator[None]:
        """The runtime does not change within this block. Raises Unreachable if there is none for
        `patience` seconds, or if there will be none any more."""
        if _steady.get() is self:
            yield
            return
        with self._state:
            if not self._state.wait_for(lambda: not self._reason or self._over, patience):
                raise Unreachable(f"{self._reason} It was not back within {patience:.3g} s.")
            if self._over is not None:
                raise Unreachable(str(self._over))
            self._users += 1
        token = _steady.set(self)
        try:
            yield
        finally:
            _steady.reset(token)
            with self._state:
                self._users -= 1
                self._state.notify_all()

    def _wait_for_departure(self) -> None:
        """Wait for a node without fabric to depart, which takes as long as events are under way."""
        with self._state:
            self._state.wait_for(lambda: self._reason or not self._runtime.orphaned, DEPARTURE + 1)

    def close(self, patience: float) -> None:
        """Wait for at most so many seconds until the program is in the fabric; then try no more."""
        with self._state:
            self._state.wait_for(lambda: not self._reason or self._over, patience)
        self._closed.set()
        if self._reason:
            self._give_up(Unreachable(self._reason))

    def _departed(self, left: Legacy) -> None:
        with self._state:
            self._left = self._left.then(left) if self._reason else left
            if self._reason:
                return  # during an attempt, which sees it
            self._reason = left.reason.removesuffix(" Connect again.")  # it does so by itself
            self._state.notify_all()
        log.warning("%s This process joins again.", self._reason)
        threading.Thread(target=self._rejoin, name="activebroker rejoining", daemon=True).start()

    def _rejoin(self) -> None:
        with self._state:
            self._state.wait_for(lambda: not self._users, BUSY)
        wait = FIRST_WAIT
        while not self._closed.is_set():
            try:
                self._attempt()
            except (Unreachable, DeadlineExceeded) as error:
                log.info("not back in the fabric yet: %s", error)
                self._closed.wait(wait * random.uniform(0.5, 1.0))
                wait = min(2 * wait, LONGEST_WAIT)
            except ActiveBrokerError as error:
                final = Unreachable(f"This process cannot join its fabric again: {error}")
                log.error("%s", final)
                self._give_up(final)
                return
            else:
                log.warning("this process is back in its fabric")
                return

    def _attempt(self) -> None:
        runtime = self._join(Succession(self._registry, self._left, self._departed))
        try:
            self._program.lay(runtime)
            with self._state:
                if runtime.orphaned:
                    raise Unreachable(runtime.orphaned)
                self._runtime = runtime
                self._use(runtime)
                self._reason = ""
                self._state.notify_all()
        except BaseException as error:
            runtime.depart(str(error))
            raise

    def _give_up(self, error: Unreachable) -> None:
        with self._state:
            self._over = self._over or error
            self._state.notify_all()
        self._program.give_up(error)

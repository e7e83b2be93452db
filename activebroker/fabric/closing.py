"""Objects that are closed at the end of a `with` block, and how long closing may take."""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Self

from activebroker.core.errors import ActiveBrokerError

log = logging.getLogger(__name__)
CLOSING = 10.0  # seconds that closing takes at most if no consumer takes anything
_UNTIL = "_activebroker_until"  # of an error: the monotonic time by which all blocks are left
_deadline: ContextVar[float] = ContextVar("activebroker closing", default=math.inf)


def time_left(patience: float) -> float:
    """`patience`, or the time left for closing if that is less. Every wait in a `close` uses it."""
    return max(0.0, min(patience, deadline() - time.monotonic()))


def deadline() -> float:
    """The monotonic time at which closing has to be done; infinite if there is no limit."""
    return _deadline.get()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let all waits of the block end within so many seconds."""
    token = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


class Closing(ABC):
    """A context manager that closes itself.

    If an error, or Ctrl-C, ends the block, that is what the block raises. Closing still tries to
    deliver what was published, but all blocks that the error leaves share `CLOSING` seconds, and
    errors of closing are only logged.
    """

    @abstractmethod
    def close(self) -> None: ...

    @property
    def _closes_at_once(self) -> bool:
        """Whether `close` has nothing to wait for."""
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            until = time.monotonic() + CLOSING
            try:
                self.close()
            except BaseException as failure:
                failure.__dict__.setdefault(_UNTIL, until)  # for the blocks around this one
                raise
            return
        try:
            with within(_share(error)):
                self.close()
        except ActiveBrokerError as also:
            log.warning("while closing %r after %s: %s", self, type(error).__name__, also)


class Publishing(Closing):
    """Has published events that other objects take; those are closed first."""

    @abstractmethod
    def end(self) -> None:
        """Publish no more, without waiting."""


def _share(error: BaseException) -> float:
    """Half of the time left for the blocks that an error leaves: there may be more of them."""
    now = time.monotonic()
    until: float = error.__dict__.setdefault(_UNTIL, now + CLOSING)
    return max(0.0, (until - now) / 2)

"""What is closed at the end of a `with` block, and how long that may take."""

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
CLOSING = 10.0  # seconds that it takes at most, where nobody takes anything
_UNTIL = "_activebroker_until"  # of an error: the monotonic time by which all blocks are left
_deadline: ContextVar[float] = ContextVar("activebroker closing", default=math.inf)


def time_left(patience: float) -> float:
    """`patience`, or what is left for closing if that is less: for every wait in a `close`."""
    return max(0.0, min(patience, deadline() - time.monotonic()))


def deadline() -> float:
    """The monotonic time at which closing has to be done; infinite where there is none."""
    return _deadline.get()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let all waits of a block end in so many seconds."""
    token = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


class Closing(ABC):
    """A context manager that closes itself.

    Where an error, or Ctrl-C, ends the block, that is what comes out of it: closing tries to
    deliver what was published, but all blocks that the error leaves have `CLOSING` seconds in all,
    and what goes wrong with them is logged.
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
    """What it has published is taken by others, which have to be closed before it is."""

    @abstractmethod
    def end(self) -> None:
        """Publish no more, without waiting."""


def _share(error: BaseException) -> float:
    """Half of what is left for the blocks that an error leaves: there may be more of them."""
    now = time.monotonic()
    until: float = error.__dict__.setdefault(_UNTIL, now + CLOSING)
    return max(0.0, (until - now) / 2)

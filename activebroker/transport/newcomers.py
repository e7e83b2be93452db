"""Connections whose peers have not said who they are, and the room that a process has for more.

Whoever can reach a node can connect, and then say nothing. So these connections are limited, and
the oldest are cut; and some file descriptors stay free, for files and for those who are known.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice

try:
    import resource
except ImportError:  # a system without limits on files
    resource = None  # type: ignore[assignment]

MOST = 256  # newcomers at once, but no more than a quarter of all files that may be open
RESERVE = 64  # file descriptors that stay free, but no more than an eighth of all
TOO_MANY = (  # what a log says that they were
    "cut, before their peers had said who they are: there are too many, or this process has almost "
    "as many files open as it may (`ulimit -n`)."
)
OPENED = "/dev/fd"  # names of this process's open files


def most() -> int:
    """How many newcomers there may be."""
    return MOST if (limit := _limit()) is None else min(MOST, limit // 4)


def room() -> int:
    """How many more connections this process may have; negative where it has too many."""
    if (limit := _limit()) is None:
        return MOST
    try:
        opened = len(os.listdir(OPENED))  # noqa: PTH208 - faster, and this may be asked for often
    except FileNotFoundError:
        return MOST
    except OSError:
        opened = limit  # it could not even open this one
    return limit - opened - min(RESERVE, limit // 8)


def _limit() -> int | None:
    if resource is None:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if limit == resource.RLIM_INFINITY else limit


class Newcomers:
    """By file descriptor, oldest first. `cut` ends the connection of one, at once or soon; `look`
    calls `came` and `closed` for those who have, where that is not told at once."""

    def __init__(self, cut: Callable[[int], None]) -> None:
        self.look: Callable[[], object] = lambda: None
        self._cut = cut
        self._here: dict[int, None] = {}
        self._going: dict[int, None] = {}  # were cut, but are not closed yet

    def came(self, descriptor: int) -> None:
        self._here[descriptor] = None

    def may_stay(self) -> bool:
        """Whether one of those here may, if the others have to go for it."""
        known = {*self._here, *self._going}
        left = room()
        # Who has closed has made room already, and who came since then has taken none of it.
        self.look()
        return left + len(known & {*self._here, *self._going}) > 0

    def stays(self, descriptor: int) -> bool:
        """It has said who it is. Returns whether it may stay: several may have come at once."""
        if descriptor not in self._here:
            return descriptor not in self._going
        may_stay = self.may_stay()
        if descriptor not in self._here:  # it was cut meanwhile
            return False
        if may_stay:
            del self._here[descriptor]
        else:
            self._end(descriptor)
        return may_stay

    def closed(self, descriptor: int) -> None:
        self._going.pop(descriptor, None)
        self._here.pop(descriptor, None)

    def make_room(self) -> int:
        """Cut the oldest where there are too many; return how many were."""
        if not self._here:
            return 0
        too_many = max(len(self._here) - most(), -room() - len(self._going), 0)
        oldest = list(islice(self._here, too_many))
        for descriptor in oldest:
            self._end(descriptor)
        return len(oldest)

    def _end(self, descriptor: int) -> None:
        self._going[descriptor] = self._here.pop(descriptor)
        self._cut(descriptor)

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

MOST = 1000  # newcomers at once
RESERVE = 64  # file descriptors that stay free, but no more than an eighth of all
OPENED = "/dev/fd"  # names of this process's open files


def room() -> int:
    """How many more connections this process may have; negative where it has too many."""
    if resource is None:
        return MOST
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MOST
    try:
        opened = len(os.listdir(OPENED))  # noqa: PTH208 - faster, and this may be asked for often
    except FileNotFoundError:
        return MOST
    except OSError:
        return -1  # it could not even open this one
    return limit - opened - min(RESERVE, limit // 8)


class Newcomers:
    """By file descriptor, oldest first. `cut` ends the connection of one."""

    def __init__(self, cut: Callable[[int], None]) -> None:
        self._cut = cut
        self._descriptors: dict[int, None] = {}

    def __bool__(self) -> bool:
        return bool(self._descriptors)

    def __contains__(self, descriptor: int) -> bool:
        return descriptor in self._descriptors

    def came(self, descriptor: int) -> None:
        self._descriptors[descriptor] = None

    def went(self, descriptor: int) -> None:
        """It has said who it is, or is gone."""
        self._descriptors.pop(descriptor, None)

    def make_room(self) -> int:
        """Cut the oldest where there are too many; return how many were."""
        too_many = max(len(self._descriptors) - MOST, -room(), 0)
        oldest = list(islice(self._descriptors, too_many))
        for descriptor in oldest:
            self.went(descriptor)
            self._cut(descriptor)
        return len(oldest)

"""Doing with many items what may fail for one of them, so that only this one is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def piecewise(
    items: Sequence[Item],
    make: Callable[[Sequence[Item]], Made],
    fail: Callable[[Item, BaseException], None],
) -> list[Made]:
    """Make one thing of all items; where that raises, one of each half, and so on.

    `fail(item, error)` takes what cannot be made even alone. Costs nothing while all goes well.
    """
    try:
        return [make(items)]
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if not items:
            raise
        if len(items) < 2:
            for item in items:
                fail(item, error)
            return []
    half = len(items) // 2
    return [*piecewise(items[:half], make, fail), *piecewise(items[half:], make, fail)]

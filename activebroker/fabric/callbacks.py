"""Checks of callbacks: whether they can be called with an event."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from activebroker.core.errors import InvalidSubscription
from activebroker.events import Event


def check_callback(callback: Callable[[Event], object], *, awaited: bool = False) -> None:
    """Raise InvalidSubscription unless the callback can be called with an event. `awaited`: `async
    def` functions are allowed, since their result is awaited."""
    if not callable(callback):
        raise InvalidSubscription(f"a callback is called with each event; {callback!r} cannot be.")
    if is_async(callback) and not awaited:
        raise InvalidSubscription(
            f"{_name(callback)} is async, and nobody would await it here: open the fabric with "
            "activebroker.aio, or subscribe with an ordinary function."
        )
    if _any(inspect.isgeneratorfunction, callback) or _any(inspect.isasyncgenfunction, callback):
        raise InvalidSubscription(f"{_name(callback)} is a generator: a call would not run it.")
    try:
        inspect.signature(callback).bind(None)
    except ValueError:
        pass  # a builtin that does not tell
    except TypeError as misfit:
        raise InvalidSubscription(
            f"a callback is called with one argument, the event; {_name(callback)}: {misfit}."
        ) from misfit


def is_async(callback: Callable[[Event], object]) -> bool:
    """Whether the callback's result has to be awaited."""
    return _any(inspect.iscoroutinefunction, callback)


def unawaited(callback: Callable[[Event], object], result: Awaitable[object]) -> Exception:
    """The error when an ordinary function has returned an awaitable."""
    if inspect.iscoroutine(result):
        result.close()
    return InvalidSubscription(
        f"{_name(callback)} returned {result!r}, which nobody awaits: subscribe with an `async "
        "def` function, and open the fabric with activebroker.aio."
    )


def _any(test: Callable[[Any], bool], callback: Any) -> bool:
    while isinstance(callback, functools.partial):
        callback = callback.func
    return test(callback) or test(callback.__call__)


def _name(callback: object) -> str:
    return str(getattr(callback, "__qualname__", None) or repr(callback))

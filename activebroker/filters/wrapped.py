"""Pickling what the standard library's decorators make of the user's own functions.

`lru_cache`, `singledispatch` and `cached_property` return objects that hold locks, weak references
or C structures. They are made anew from the functions in them; caches begin empty. What `dataclass`
leaves in a class to say that something is missing goes by its name, since it is told by identity.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from cloudpickle import cloudpickle as internals

Reduced = tuple[Any, ...]

_Cached: type = type(functools.lru_cache(len))
# The code is one for all functions that singledispatch returns.
_DISPATCHING = functools.singledispatch(len).__code__  # type: ignore[attr-defined]


def reduce_function(function: FunctionType) -> Reduced | None:
    """How to pickle by value what singledispatch has made; None for any other function."""
    if function.__code__ is not _DISPATCHING or _has_a_name(function):
        return None
    given = dict(function.registry)  # type: ignore[attr-defined]
    return functools.singledispatch, (given.pop(object),), given, None, None, _register


def _register(dispatching: Any, given: dict[type, Callable[..., Any]]) -> None:
    for each, implementation in given.items():
        dispatching.register(each, implementation)


def _reduce_cached(cached: Any) -> Reduced | str:
    if _has_a_name(cached):
        return str(cached.__qualname__)
    parameters = cached.cache_parameters()
    made_anew = ("__wrapped__", "cache_parameters")
    state = {name: value for name, value in vars(cached).items() if name not in made_anew}
    return _cache, (cached.__wrapped__, parameters), state


def _cache(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _reduce_property(cached: functools.cached_property[Any]) -> Reduced:
    state = {name: value for name, value in vars(cached).items() if name != "lock"}
    return functools.cached_property, (cached.func,), state


REDUCERS: dict[type, Callable[[Any], Reduced | str]] = {
    _Cached: _reduce_cached,
    functools.cached_property: _reduce_property,
    type(dataclasses.MISSING): lambda _: "MISSING",
    type(dataclasses.KW_ONLY): lambda _: "KW_ONLY",
}


def _has_a_name(wrapped: Any) -> bool:
    """Whether another process finds it by module and name."""
    found = internals._lookup_module_and_qualname(wrapped)
    return found is not None and not internals._is_registered_pickle_by_value(found[0])

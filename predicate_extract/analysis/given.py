"""What is known of an instance that was given: copies of it run, which have what it has."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from types import FunctionType

from predicate_extract.algebra.constants import is_plain

_COPY_HOOKS = frozenset(
    ("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__deepcopy__", "__copy__")
)


def kept_by_copies(given: object, classes: Sequence[type]) -> Mapping[str, object]:
    """The attributes that the copies of an instance have; none where something among them may lead
    back to the instance, or a class of it is copied in its own way."""
    hooks = (name for cls in classes for name in vars(cls) if name in _COPY_HOOKS)
    kept: dict[str, object] = getattr(given, "__dict__", {})
    out_of_sight = any(_parts(value) is None for value in kept.values())
    return {} if any(hooks) or out_of_sight else kept


def is_alone(name: str, kept: Mapping[str, object]) -> bool:
    """Whether no other attribute leads to what this one holds."""
    parts = {each: _parts(value) or set() for each, value in kept.items()}
    own = parts.pop(name)
    return own.isdisjoint(itertools.chain.from_iterable(parts.values()))


def family_of_value(value: object) -> str | None:
    """The family of a value, as `Unknown` has it."""
    from predicate_extract.algebra.schema import family_of

    if isinstance(value, set | dict | list):
        return type(value).__name__
    return family_of(value) if is_plain(value) else None  # type: ignore[arg-type]


def _parts(value: object) -> set[int] | None:
    """The objects that a value is made of; None where it may hold others out of sight."""
    found: set[int] = set()
    pending = [value]
    while pending:
        each = pending.pop()
        if id(each) in found or is_plain(each) or isinstance(each, type | re.Pattern | Enum):
            continue
        match each:
            case list() | set() | tuple() | frozenset() if type(each).__module__ == "builtins":
                pending += each
            case dict() if type(each) is dict:
                pending += [*each, *each.values()]
            case FunctionType() if not each.__closure__:
                pass
            case _ if dataclasses.is_dataclass(each) and hasattr(each, "__dict__"):
                pending += vars(each).values()
            case _:
                return None
        found.add(id(each))
    return found

"""What an enum's class says of its members, without running any of its code.

Where a class brings a method of its own for an operator (an `__eq__`, a `__bool__`, …), itself or
by a mixin, nothing is known of that operator.
"""

from __future__ import annotations

import enum
from enum import Enum, EnumMeta
from functools import lru_cache

_DATA = (int, str, float)
_OWNERS = (object, Enum, enum.IntEnum, enum.StrEnum, enum.ReprEnum, enum.Flag, enum.IntFlag, *_DATA)
_EQUALITY = frozenset(("__eq__", "__ne__", "__hash__", "__getattribute__", "__getattr__"))
# What makes an object, describes it or copies it is no operator.
_OTHER = frozenset(
    {
        *("__new__", "__init__", "__init_subclass__", "__subclasshook__", "__class__", "__doc__"),
        *("__repr__", "__str__", "__format__", "__reduce__", "__reduce_ex__", "__dir__"),
        *("__getnewargs__", "__getstate__", "__sizeof__", "__setattr__", "__delattr__"),
    }
)
_OPERATORS = frozenset(
    {
        *(name for kind in (*_DATA, list, dict, set) for name in dir(kind) if name[:2] == "__"),
        *("__bool__", "__getattr__", "__matmul__", "__rmatmul__", "__complex__", "__next__"),
    }
    - _OTHER
)


@lru_cache(maxsize=1024)
def compares_plainly(cls: type[Enum]) -> bool:
    """Whether its members are equal, and hashed, as `Enum` says, or as the plain data that they
    are."""
    return type(cls) is EnumMeta and _has_no_own(cls, _EQUALITY)


@lru_cache(maxsize=1024)
def is_plain_enum(cls: type[Enum]) -> bool:
    """Whether its members do all that operators do as `Enum` says, or as the plain data that they
    are; those of an `IntFlag` are other ones for `|`, `^` and `~`."""
    flag = issubclass(cls, enum.Flag) and not issubclass(cls, enum.IntFlag)
    return compares_plainly(cls) and not flag and _has_no_own(cls, _OPERATORS)


def _has_no_own(cls: type, names: frozenset[str]) -> bool:
    for name in names:
        owner = _owner(cls, name)
        # A class of flags gets copies of its parents' methods.
        if owner is not None and not any(
            vars(owner)[name] is vars(known).get(name) for known in _OWNERS
        ):
            return False
    return True


def _owner(cls: type, name: str) -> type | None:
    return next((base for base in cls.__mro__ if name in vars(base)), None)


def payload(member: Enum) -> int | str | float | None:
    """The plain data that an enum's member is as well (`Level(2)` of an IntEnum is 2), or None."""
    if isinstance(member, int):
        return int.__int__(member)
    if isinstance(member, str):
        return str.__str__(member)
    return float.__float__(member) if isinstance(member, float) else None


def keeps(cls: type[Enum], name: str) -> bool:
    """Whether `name`, one of `name` and `value`, is `Enum`'s own property."""
    return _owner(cls, name) is Enum


def home_of(cls: type) -> str:
    """Where a class is: its module, and the classes and functions around it."""
    return f"{cls.__module__}.{cls.__qualname__}".rpartition(".")[0]

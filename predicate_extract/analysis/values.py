"""What an expression can stand for while a filter's code is followed.

A *term* of the predicate algebra is a value computed from the content; the other classes here are
what has no place in a predicate, but leads to one: the event, the filter itself, an object known by
its name, a function, a collection, or something of which only the family is known.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from types import FunctionType
from typing import Any

from predicate_extract.algebra.enums import compares_plainly, payload
from predicate_extract.algebra.predicate import Predicate
from predicate_extract.algebra.terms import Const, Field, Read, Term
from predicate_extract.analysis.code import Code


class Symbol(enum.Enum):
    """The two objects that every `enqueue` is given."""

    EVENT = "event"
    SELF = "self"


@dataclass(frozen=True, slots=True)
class Known:
    """An object that a constant name leads to: a module, a class, a function, a pattern."""

    it: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self.it is other.it

    def __hash__(self) -> int:
        return id(self.it)


ITERATOR = "iterator"
"""The kind of a display that can be used once, and is true even if it is empty."""
VIEW = "view"
"""The kind of what a dict's `keys`, `values` and `items` give."""


@dataclass(frozen=True, slots=True)
class Display:
    """A tuple, list, set or dict of values (a dict's: its keys and values in turns), or an iterator
    or view over one."""

    kind: str
    items: tuple[Value, ...]

    @property
    def keys(self) -> tuple[Value, ...]:
        """What iteration gives."""
        return self.items[::2] if self.kind == "dict" else self.items

    @property
    def hashed(self) -> bool:
        return self.kind in ("set", "dict")

    @property
    def settled(self) -> bool:
        """Whether it is known which of its keys are equal."""
        return not self.hashed or all(key_of(key) is not None for key in self.keys)

    def constants(self) -> tuple[Const, ...] | None:
        """What iteration gives, if it is all constants."""
        found = tuple(item for item in self.keys if isinstance(item, Const))
        return found if len(found) == len(self.keys) else None


def display(kind: str, items: Iterable[Value]) -> Display:
    """What a display makes; of equal keys a set or dict keeps the first, with the last value."""
    whole = Display(kind, tuple(items))
    if not whole.hashed or not whole.settled:
        return whole
    kept: dict[object, tuple[Value, ...]] = {}
    for key, *value in zip(*[iter(whole.items)] * (2 if kind == "dict" else 1), strict=True):
        known = kept.setdefault(key_of(key), (key,))
        kept[key_of(key)] = (known[0], *value)
    return Display(kind, tuple(item for entry in kept.values() for item in entry))


def key_of(value: Value) -> tuple[object] | None:
    """Something that equals another key's where Python's values do; None if that is not known."""
    match value:
        case Const(constant) if not value.is_nan:  # which is found by its identity
            return (constant,)
        case Display("tuple", items):
            inside = tuple(map(key_of, items))
            return None if None in inside else (inside,)
        case Known(type() as it) if type(it).__eq__ is object.__eq__:
            return (it,)
        case Known(FunctionType() as it):
            return (it,)
        case Known(Enum() as it) if compares_plainly(type(it)):
            plain = payload(it)
            return (it if plain is None else plain,)
    return None


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that depends on one field alone, which holds one of a few constants: what it is for
    each of these. An enum's members are such values, and what they have as `name` and `value`."""

    field: Field
    rows: tuple[tuple[Const, Value], ...]


@dataclass(frozen=True, slots=True)
class Opaque:
    """The values of a field whose column holds something that stands for them, in a way that is not
    known: nothing is to be said of them but whether they are None."""

    field: Field
    what: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function with source, its first arguments perhaps bound, and the names around it."""

    code: Code
    bound: tuple[Value, ...] = ()
    names: tuple[tuple[str, Value], ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a value, before it is called."""

    of: Value
    name: str


@dataclass(frozen=True, slots=True)
class Forward:
    """The base class's `enqueue` of this filter, which forwards."""


@dataclass(frozen=True, slots=True)
class Super:
    """`super()` in a method of the class `owner`."""

    owner: type


UNHEEDED = "unheeded"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that is free to read but not known: state that changes, the event's header,
    what a pattern finds that is not searched for here.

    `family` is that of `schema.family`, or `set`, `dict`, `list`; None if not even that is known:
    then a comparison may raise, or do anything; UNHEEDED where that is not to count.
    `what` it is, in words: "self.last, which changes"; `kind` is that of the reason to give.
    """

    family: str | None
    what: str
    kind: str = "state"


Value = (
    Term
    | Symbol
    | Known
    | Display
    | Function
    | Method
    | Forward
    | Super
    | Unknown
    | Choice
    | Opaque
)


@dataclass(frozen=True, slots=True)
class Maybe(Predicate):
    """A condition that is true or false, nobody knows which. Each evaluation is one of its own.

    It never leaves the analysis: see `tree.settle`.
    """

    key: int

    def holds(self, read: Read) -> bool:
        raise NotImplementedError

    def operands(self) -> tuple[Term, ...]:
        return ()

    def written(self) -> tuple[str, int]:
        raise NotImplementedError


def mentions_maybe(term: Term) -> bool:
    """Whether a term depends on something unknown."""
    return isinstance(term, Maybe) or any(map(mentions_maybe, term.operands()))


Resolve = Callable[[str], Value]

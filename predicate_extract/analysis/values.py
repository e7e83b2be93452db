"""What an expression can stand for while a filter's code is followed.

A *term* of the predicate algebra is a value computed from the content; the other classes here are
what has no place in a predicate, but leads to one: the event, the filter itself, an object known by
its name, a function, a collection, or something of which only the family is known.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from predicate_extract.algebra.predicate import Predicate
from predicate_extract.algebra.terms import Const, Read, Term

if TYPE_CHECKING:
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

    def constants(self) -> tuple[Const, ...] | None:
        """What iteration gives, if it is all constants."""
        found = tuple(item for item in self.keys if isinstance(item, Const))
        return found if len(found) == len(self.keys) else None


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


Value = Term | Symbol | Known | Display | Function | Method | Forward | Super | Unknown


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


def mentions_maybe(term: Term) -> bool:
    """Whether a term depends on something unknown."""
    return isinstance(term, Maybe) or any(map(mentions_maybe, term.operands()))


Resolve = Callable[[str], Value]

"""The terms of a predicate: fields of the content, constants, and functions of these."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TypeVar

from predicate_extract.algebra.constants import Plain
from predicate_extract.algebra.functions import FUNCTIONS
from predicate_extract.algebra.syntax import (
    ATOM,
    BINDING,
    NEGATED,
    OR,
    written_constant,
    written_name,
)

Key = str | int

MAX_LEAVES = 16
"""A term has no more fields and constants: it stays cheap, and a product of them within a float."""


class Term:
    """Something that has a value for every content, or raises."""

    __slots__ = ("_hash",)  # no field: copies do not have it, which may be in another process
    _hash: int

    @abstractmethod
    def compute(self, read: Read) -> object:
        """The value, with `read` as the way to a field's; raises what Python would raise."""

    @abstractmethod
    def operands(self) -> Iterable[Term]:
        """What this node is made of, in the order of evaluation."""

    def fields(self) -> tuple[Field, ...]:
        """The fields it may read, each once, in order of evaluation."""
        found: dict[Field, None] = {}
        pending = [self]
        while pending:
            term = pending.pop()
            if isinstance(term, Field):
                found[term] = None
            pending.extend(reversed(tuple(term.operands())))
        return tuple(found)

    @abstractmethod
    def written(self) -> tuple[str, int]:
        """The text, and how tightly it holds together: see `syntax`."""

    def within(self, rank: int) -> str:
        """The text, in brackets if it does not hold together that tightly."""
        text, own = self.written()
        return f"({text})" if own < rank else text

    def as_condition(self, rank: int) -> str:
        """The text where a condition is expected: there a term is its truth."""
        return self.within(rank)

    def __str__(self) -> str:
        return self.as_condition(OR)


T = TypeVar("T", bound=Term)


def hashed_once(cls: type[T]) -> type[T]:
    """Let terms of a class remember their hash: simplifying looks them up all the time, and they
    may be large."""
    work_out: Callable[[T], int] = cls.__hash__

    def __hash__(self: T) -> int:
        try:
            return self._hash
        except AttributeError:
            worked_out = work_out(self)
            object.__setattr__(self, "_hash", worked_out)
            return worked_out

    cls.__hash__ = __hash__  # type: ignore[method-assign, assignment]
    return cls


@hashed_once
@dataclass(frozen=True, slots=True)
class Field(Term):
    """A value read off the content: `Field(("route", "origin"))` is `content.route.origin`.

    `keyed` says for each step whether it reads an item (`content["route"]`) instead of an
    attribute; it is empty when none does. The empty path is the content itself.
    """

    path: tuple[Key, ...]
    keyed: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if self.keyed and not any(self.keyed):
            object.__setattr__(self, "keyed", ())

    def step(self, name: Key, keyed: bool = False) -> Field:
        """The field one step further."""
        flags = self.keyed or (False,) * len(self.path)
        return Field((*self.path, name), (*flags, keyed))

    def read(self, content: object) -> object:
        """The value, read as the filter reads it.

        Raises: whatever the reading raises.
        """
        if not self.keyed:
            for name in self.path:
                content = getattr(content, name)  # type: ignore[arg-type]
            return content
        for name, keyed in zip(self.path, self.keyed, strict=True):
            content = content[name] if keyed else getattr(content, name)  # type: ignore
        return content

    def read_row(self, content: object) -> object:
        """Like `read`, where a mapping stands for an object with these fields."""
        for name, keyed in zip(self.path, self.keyed or (False,) * len(self.path), strict=True):
            if keyed or isinstance(content, Mapping):
                content = content[name]  # type: ignore[index]
            else:
                content = getattr(content, name)  # type: ignore[arg-type]
        return content

    def compute(self, read: Read) -> object:
        return read(self)

    def operands(self) -> Iterable[Term]:
        return ()

    def written(self) -> tuple[str, int]:
        text = ""
        for key, keyed in zip(self.path, self.keyed or (False,) * len(self.path), strict=True):
            if keyed:
                text = f"{text or 'content'}[{written_constant(key)}]"
            else:
                text += f".{written_name(str(key), later=True)}" if text else written_name(str(key))
        return text or "content", ATOM


Read = Callable[[Field], object]


@hashed_once
@dataclass(frozen=True, slots=True, eq=False)
class Const(Term):
    """A constant operand.

    Two are equal only when they are of one type and print alike: `1`, `1.0` and `True` are three
    constants, and NaN equals itself. (How *values* compare is Python's business, at evaluation.)
    """

    value: Plain

    def _key(self) -> tuple[type, object]:
        value = self.value
        if isinstance(value, datetime):
            return datetime, (value.isoformat(), getattr(value.tzinfo, "key", None), value.fold)
        return type(value), repr(value) if isinstance(value, (float, Decimal)) else value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self._key() == other._key()

    def __hash__(self) -> int:
        value = self.value
        return hash(repr(value) if isinstance(value, (float, Decimal)) else value)

    @property
    def is_nan(self) -> bool:
        return (isinstance(self.value, float) and math.isnan(self.value)) or (
            isinstance(self.value, Decimal) and self.value.is_nan()
        )

    def compute(self, read: Read) -> object:
        return self.value

    def operands(self) -> Iterable[Term]:
        return ()

    def written(self) -> tuple[str, int]:
        text = written_constant(self.value)
        return text, NEGATED if text.startswith("-") else ATOM


@hashed_once
@dataclass(frozen=True, slots=True)
class Call(Term):
    """A function of the table `FUNCTIONS`, applied: `Call("len", (Field(("name",)),))`."""

    function: str
    args: tuple[Term, ...]

    def compute(self, read: Read) -> object:
        return FUNCTIONS[self.function].run(*[term.compute(read) for term in self.args])

    def operands(self) -> Iterable[Term]:
        return self.args

    def written(self) -> tuple[str, int]:
        match self.function, self.args:
            case "neg", (Const() as part,):  # `-1` is a constant itself
                return f"-({part.within(OR)})", NEGATED
            case "neg", (part,):
                return f"-{part.within(ATOM)}", NEGATED
            case function, (left, right) if function in BINDING:
                rank = BINDING[function]
                return f"{left.within(rank)} {function} {right.within(rank + 1)}", rank
        return f"{self.function}({', '.join(arg.within(OR) for arg in self.args)})", ATOM


def leaves(term: Term) -> int:
    """The number of fields and constants in a term."""
    parts = tuple(term.operands())
    return sum(map(leaves, parts)) if parts else 1

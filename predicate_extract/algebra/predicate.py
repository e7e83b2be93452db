"""The predicate: one small immutable tree, and its meaning.

Evaluation follows Python and gives one of three results: True, False, or *raised*. `price > 100`
with a price of None raises, as it does in the filter. `AND` and `OR` go from left to right and stop
early; what a part raises is the result of the whole, and `NOT` of it too. An event for which the
predicate raises is a match: it has to reach the filter, so that its error is seen there.

Field values are taken to be plain data: reading and comparing them has no effects.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from predicate_extract.algebra.constants import Member
from predicate_extract.algebra.cost import check_size
from predicate_extract.algebra.syntax import AND, ATOM, COMPARE, NOT, OR, written_constant
from predicate_extract.algebra.terms import Const, Read, Term, hashed_once

if TYPE_CHECKING:
    import pyarrow as pa

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Predicate(Term):
    """A condition over an event's content.

    `str()` reads like SQL, and `Predicate.parse` reads it back.
    """

    __slots__ = ()

    @abstractmethod
    def holds(self, read: Read) -> bool:
        """Evaluate with `read` as the way to a field's value; raises what Python would raise."""

    def compute(self, read: Read) -> object:
        return self.holds(read)

    def evaluate(self, content: object) -> bool | None:
        """True, False, or None for *raised*; reads `content` exactly as the filter would."""
        try:
            return self.holds(lambda field: field.read(content))
        except Exception:  # noqa: BLE001 - whatever the filter would raise here is this result
            return None

    def matches(self, content: object) -> bool:
        """Whether the event must reach the filter: the predicate is true, or raises.

        `content` is an object, or a mapping in its place (a row): there, an attribute is a key. For
        contents that *are* mappings use `evaluate(content) is not False`.
        """
        try:
            return self.holds(lambda field: field.read_row(content))
        except Exception:  # noqa: BLE001 - an event that raises has to arrive
            return True

    def covers(self, other: Predicate, schema: pa.Schema | None = None) -> bool:
        """Whether every content that `other` matches surely matches here too.

        With a `schema`, conditions that cannot raise on it are known not to.
        """
        from predicate_extract.algebra.cover import covers

        return covers(self, other, schema)

    def to_json(self) -> str:
        """The wire form: JSON with a version, data only."""
        from predicate_extract.algebra.wire import to_json

        return to_json(self)

    @staticmethod
    def from_json(text: str | bytes) -> Predicate:
        """Read `to_json`'s form back.

        Raises: PredicateFormatError for anything else.
        """
        from predicate_extract.algebra.wire import from_json

        return from_json(text)

    @staticmethod
    def parse(text: str) -> Predicate:
        """Read the text form, `str(predicate)`, back.

        Raises: PredicateFormatError, with the place, for anything else.
        """
        from predicate_extract.algebra.text import parse

        return parse(text)

    def __and__(self, other: Predicate) -> Predicate:
        from predicate_extract.algebra.simplify import conjunction

        return conjunction(self, other)

    def __or__(self, other: Predicate) -> Predicate:
        from predicate_extract.algebra.simplify import disjunction

        return disjunction(self, other)

    def __invert__(self) -> Predicate:
        from predicate_extract.algebra.simplify import negation

        return negation(self)


@hashed_once
@dataclass(frozen=True, slots=True)
class Always(Predicate):
    """`TRUE` or `FALSE`."""

    value: bool

    def holds(self, read: Read) -> bool:
        return self.value

    def operands(self) -> Iterable[Term]:
        return ()

    def written(self) -> tuple[str, int]:
        return str(self.value).upper(), ATOM


TRUE = Always(True)
FALSE = Always(False)


@hashed_once
@dataclass(frozen=True, slots=True)
class Compare(Predicate):
    """`left op right`, with `op` one of Python's six comparison operators."""

    op: str
    left: Term
    right: Term

    def holds(self, read: Read) -> bool:
        left, right = self.left.compute(read), self.right.compute(read)
        if type(right) is Member:  # which is not for the value's class to compare with
            left, right = right, left
        if Decimal in (type(left), type(right)):
            check_size(left)  # a Decimal compares with an int in the square of its digits
            check_size(right)
        return bool(COMPARISONS[self.op](left, right))

    def operands(self) -> Iterable[Term]:
        return self.left, self.right

    def written(self) -> tuple[str, int]:
        sign = "=" if self.op == "==" else self.op
        left, right = (side.within(COMPARE + 1) for side in (self.left, self.right))
        return f"{left} {sign} {right}", COMPARE


@hashed_once
@dataclass(frozen=True, slots=True)
class In(Predicate):
    """Membership in constants; in a set (`hashed`) an unhashable value raises."""

    item: Term
    values: tuple[Const, ...]
    hashed: bool = False

    def holds(self, read: Read) -> bool:
        item = self.item.compute(read)
        if type(item) is int:
            check_size(item)  # one of the values may be a Decimal
        if self.hashed:
            hash(item)
        return any(item is const.value or const.value == item for const in self.values)

    def operands(self) -> Iterable[Term]:
        return (self.item,)

    def written(self) -> tuple[str, int]:
        return self.written_with("IN"), COMPARE

    def written_with(self, word: str) -> str:
        """The text; `NOT IN` is one word, too."""
        values = ", ".join(written_constant(const.value) for const in self.values)
        brackets = f"{{{values}}}" if self.hashed else f"({values})"
        return f"{self.item.within(COMPARE + 1)} {word} {brackets}"


@hashed_once
@dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """`term is None`."""

    of: Term

    def holds(self, read: Read) -> bool:
        return self.of.compute(read) is None

    def operands(self) -> Iterable[Term]:
        return (self.of,)

    def written(self) -> tuple[str, int]:
        return f"{self.of.within(COMPARE + 1)} IS NULL", COMPARE


@hashed_once
@dataclass(frozen=True, slots=True)
class Truthy(Predicate):
    """`bool(term)`: how a function that answers yes or no becomes a condition, among others."""

    of: Term

    def holds(self, read: Read) -> bool:
        return bool(self.of.compute(read))

    def operands(self) -> Iterable[Term]:
        return (self.of,)

    def written(self) -> tuple[str, int]:
        return f"TRUTH({self.of.within(OR)})", ATOM

    def as_condition(self, rank: int) -> str:
        return self.of.within(rank)


@hashed_once
@dataclass(frozen=True, slots=True)
class Defined(Predicate):
    """True when a term can be computed, or a condition evaluated; else it raises."""

    of: Term

    def holds(self, read: Read) -> bool:
        self.of.compute(read)
        return True

    def operands(self) -> Iterable[Term]:
        return (self.of,)

    def written(self) -> tuple[str, int]:
        return f"DEFINED({self.of.within(OR)})", ATOM


@hashed_once
@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """The opposite of a condition that has no opposite of its own (`NOT price > 100`: NaN)."""

    part: Predicate

    def holds(self, read: Read) -> bool:
        return not self.part.holds(read)

    def operands(self) -> Iterable[Term]:
        return (self.part,)

    def written(self) -> tuple[str, int]:
        match self.part:
            case IsNull(of):
                return f"{of.within(COMPARE + 1)} IS NOT NULL", COMPARE
            case In() as part:
                return part.written_with("NOT IN"), COMPARE
        return f"NOT {self.part.as_condition(NOT)}", NOT


@hashed_once
@dataclass(frozen=True, slots=True)
class And(Predicate):
    """All of two or more, from left to right, up to the first false one."""

    parts: tuple[Predicate, ...]

    def holds(self, read: Read) -> bool:
        return all(part.holds(read) for part in self.parts)

    def operands(self) -> Iterable[Term]:
        return self.parts

    def written(self) -> tuple[str, int]:
        return " AND ".join(part.as_condition(AND + 1) for part in self.parts), AND


@hashed_once
@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """One of two or more, from left to right, up to the first true one."""

    parts: tuple[Predicate, ...]

    def holds(self, read: Read) -> bool:
        return any(part.holds(read) for part in self.parts)

    def operands(self) -> Iterable[Term]:
        return self.parts

    def written(self) -> tuple[str, int]:
        return " OR ".join(part.as_condition(OR + 1) for part in self.parts), OR

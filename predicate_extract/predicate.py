"""The predicate: one small immutable tree, its meaning, and how it reads.

Evaluation follows Python and gives one of three results: True, False, or *raised*. `price > 100`
with a price of None raises, as it does in the filter. `AND` and `OR` go from left to right and stop
early; what a part raises is the result of the whole, and `NOT` of it too. An event for which the
predicate raises is a match: it has to reach the filter, so that its error is seen there.

Field values are taken to be plain data: reading and comparing them has no effects.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from predicate_extract.constants import Const

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

_OR, _AND, _NOT, _ATOM = range(4)


@dataclass(frozen=True, slots=True)
class Field:
    """A value read off the content: `Field(("route", "origin"))` is `content.route.origin`.

    `keyed` says for each step whether it reads an item (`content["route"]`) instead of an
    attribute; it is empty when none does. The empty path is the content itself.
    """

    path: tuple[str, ...]
    keyed: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if self.keyed and not any(self.keyed):
            object.__setattr__(self, "keyed", ())

    def step(self, name: str, keyed: bool = False) -> Field:
        """The field one step further."""
        flags = self.keyed or (False,) * len(self.path)
        return Field((*self.path, name), (*flags, keyed))

    def read(self, content: object) -> object:
        """The value, read as the filter reads it.

        Raises: whatever the reading raises.
        """
        if not self.keyed:
            for name in self.path:
                content = getattr(content, name)
            return content
        for name, keyed in zip(self.path, self.keyed, strict=True):
            content = content[name] if keyed else getattr(content, name)  # type: ignore[index]
        return content

    def read_row(self, content: object) -> object:
        """Like `read`, where a mapping stands for an object with these fields."""
        for name, keyed in zip(self.path, self.keyed or (False,) * len(self.path), strict=True):
            if keyed or isinstance(content, Mapping):
                content = content[name]  # type: ignore[index]
            else:
                content = getattr(content, name)
        return content

    def __str__(self) -> str:
        return ".".join(n if n.isidentifier() else f'"{n}"' for n in self.path) or "content"


Operand = Field | Const
Read = Callable[[Field], object]


class Predicate(ABC):
    """A condition over an event's content.

    `str()` reads like SQL. Existence tests of fields that the text names anyway are left out of it.
    """

    __slots__ = ()
    _rank: ClassVar[int] = _ATOM

    @abstractmethod
    def holds(self, read: Read) -> bool:
        """Evaluate with `read` as the way to a field's value; raises what Python would raise."""

    @abstractmethod
    def operands(self) -> Iterable[Operand | Predicate]:
        """What this node is made of, in the order of evaluation."""

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
        from predicate_extract.cover import covers

        return covers(self, other, schema)

    def fields(self) -> tuple[Field, ...]:
        """The fields it may read, each once, in order of evaluation."""
        found: dict[Field, None] = {}
        for part in self.operands():
            if isinstance(part, Field):
                found[part] = None
            elif isinstance(part, Predicate):
                found.update(dict.fromkeys(part.fields()))
        return tuple(found)

    def to_json(self) -> str:
        """The wire form: JSON with a version, data only."""
        from predicate_extract.wire import to_json

        return to_json(self)

    @staticmethod
    def from_json(text: str | bytes) -> Predicate:
        """Read `to_json`'s form back.

        Raises: PredicateFormatError for anything else.
        """
        from predicate_extract.wire import from_json

        return from_json(text)

    def __and__(self, other: Predicate) -> Predicate:
        from predicate_extract.algebra import conjunction

        return conjunction(self, other)

    def __or__(self, other: Predicate) -> Predicate:
        from predicate_extract.algebra import disjunction

        return disjunction(self, other)

    def __invert__(self) -> Predicate:
        from predicate_extract.algebra import negation

        return negation(self)


@dataclass(frozen=True, slots=True)
class Always(Predicate):
    """`TRUE` or `FALSE`."""

    value: bool

    def holds(self, read: Read) -> bool:
        return self.value

    def operands(self) -> Iterable[Operand | Predicate]:
        return ()

    def __str__(self) -> str:
        return "TRUE" if self.value else "FALSE"


TRUE = Always(True)
FALSE = Always(False)


@dataclass(frozen=True, slots=True)
class Compare(Predicate):
    """`left op right`, with `op` one of Python's six comparison operators."""

    op: str
    left: Operand
    right: Operand

    def holds(self, read: Read) -> bool:
        left = read(self.left) if isinstance(self.left, Field) else self.left.value
        right = read(self.right) if isinstance(self.right, Field) else self.right.value
        return bool(COMPARISONS[self.op](left, right))

    def operands(self) -> Iterable[Operand | Predicate]:
        return self.left, self.right

    def __str__(self) -> str:
        return f"{self.left} {'=' if self.op == '==' else self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class In(Predicate):
    """Membership in constants; in a set (`hashed`) an unhashable value raises."""

    item: Field
    values: tuple[Const, ...]
    hashed: bool = False

    def holds(self, read: Read) -> bool:
        item = read(self.item)
        if self.hashed:
            hash(item)
        return any(item is const.value or item == const.value for const in self.values)

    def operands(self) -> Iterable[Operand | Predicate]:
        return (self.item,)

    def __str__(self) -> str:
        return f"{self.item} IN ({', '.join(map(str, self.values))})"


@dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """`field is None`."""

    field: Field

    def holds(self, read: Read) -> bool:
        return read(self.field) is None

    def operands(self) -> Iterable[Operand | Predicate]:
        return (self.field,)

    def __str__(self) -> str:
        return f"{self.field} IS NULL"


@dataclass(frozen=True, slots=True)
class Truthy(Predicate):
    """`bool(field)`."""

    field: Field

    def holds(self, read: Read) -> bool:
        return bool(read(self.field))

    def operands(self) -> Iterable[Operand | Predicate]:
        return (self.field,)

    def __str__(self) -> str:
        return str(self.field)


@dataclass(frozen=True, slots=True)
class Defined(Predicate):
    """True when a field can be read, or a condition evaluated; else it raises."""

    of: Field | Predicate

    def holds(self, read: Read) -> bool:
        if isinstance(self.of, Field):
            read(self.of)
        else:
            self.of.holds(read)
        return True

    def operands(self) -> Iterable[Operand | Predicate]:
        return (self.of,)

    def __str__(self) -> str:
        return f"DEFINED({self.of})"


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """The opposite of a condition that has no opposite of its own (`NOT price > 100`: NaN)."""

    part: Predicate
    _rank: ClassVar[int] = _NOT

    def holds(self, read: Read) -> bool:
        return not self.part.holds(read)

    def operands(self) -> Iterable[Operand | Predicate]:
        return (self.part,)

    def __str__(self) -> str:
        if isinstance(self.part, IsNull):
            return f"{self.part.field} IS NOT NULL"
        if isinstance(self.part, In):
            return str(self.part).replace(" IN (", " NOT IN (", 1)
        return f"NOT {_within(self.part, _NOT)}"


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """All of two or more, from left to right, up to the first false one."""

    parts: tuple[Predicate, ...]
    _rank: ClassVar[int] = _AND

    def holds(self, read: Read) -> bool:
        return all(part.holds(read) for part in self.parts)

    def operands(self) -> Iterable[Operand | Predicate]:
        return self.parts

    def __str__(self) -> str:
        telling = [p for p in self.parts if not isinstance(p, Defined)]
        named = {field for part in telling for field in part.fields()}
        shown = [p for p in self.parts if p in telling or not set(p.fields()) <= named]
        if len(shown) == 1:
            return str(shown[0])
        return " AND ".join(_within(part, _AND) for part in shown)


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """One of two or more, from left to right, up to the first true one."""

    parts: tuple[Predicate, ...]
    _rank: ClassVar[int] = _OR

    def holds(self, read: Read) -> bool:
        return any(part.holds(read) for part in self.parts)

    def operands(self) -> Iterable[Operand | Predicate]:
        return self.parts

    def __str__(self) -> str:
        return " OR ".join(_within(part, _OR) for part in self.parts)


def _within(part: Predicate, rank: int) -> str:
    return f"({part})" if part._rank < rank else str(part)

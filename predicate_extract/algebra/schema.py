"""What an Arrow schema says about a field: its type, and whether reading or comparing it can raise.

A field whose metadata names a kind of its own (an enum kept as its name, an array), and a list that
holds such values, is not what the column's type suggests: it has no family, and counts as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa

from predicate_extract.algebra.constants import Member, Plain
from predicate_extract.algebra.functions import FUNCTIONS, MATCHING, compiles
from predicate_extract.algebra.predicate import Always, Compare, In, Predicate, Truthy
from predicate_extract.algebra.terms import Call, Const, Field, Key, Term

_KIND = b"activebroker.kind"
_NAME = b"activebroker.name"


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a field lives: its Arrow type; can its value, or an object on the way, be null?

    `plain`: its values are what the column holds, or the objects of a struct. `member_of` names the
    enum whose members a column of names stands for.
    """

    type: pa.DataType
    nullable: bool
    reachable: bool
    member_of: str | None = None
    plain: bool = True

    @property
    def family(self) -> str | None:
        if self.member_of is not None:
            return "member"
        return family(self.type) if self.plain else None


def find(schema: pa.Schema, field: Field) -> Slot | None:
    """The slot of a field that is a plain column, or a struct's child; else None."""
    if not field.path or field.keyed:
        return None
    first, *deeper = field.path
    column, reachable = child(schema, first), True
    for name in deeper:
        if column is None or not pa.types.is_struct(column.type):
            return None
        reachable = reachable and not column.nullable
        column = child(column.type, name)
    if column is None:
        return None
    return Slot(column.type, column.nullable, reachable, enum_of(column), is_plain_column(column))


COLUMN_BITS = 64  # of a column's integers, and of what counts or hashes
FLOAT_BITS = 1000  # whose integers all have a float; and a text, of which Python limits the digits


def child(level: pa.Schema | pa.StructType, name: Key) -> pa.Field | None:
    """The one column called `name` of a schema or struct type."""
    places = level.get_all_field_indices(name) if isinstance(name, str) else []
    return level.field(places[0]) if len(places) == 1 else None


def is_plain_column(column: pa.Field) -> bool:
    """Whether a column's values are themselves what an event holds, and not what stands for it."""
    if (column.metadata or {}).get(_KIND, b"plain") not in (b"plain", b"struct"):
        return False
    return not hasattr(column.type, "value_field") or is_plain_column(column.type.value_field)


def enum_of(column: pa.Field) -> str | None:
    """The name of the enum whose members' names the column holds."""
    metadata = column.metadata or {}
    if metadata.get(_KIND) != b"enum" or _NAME not in metadata:
        return None
    return str(metadata[_NAME].decode())


def family(type: pa.DataType) -> str | None:
    """The family of Python values that a column of this type holds; None if not a simple one."""
    types = pa.types
    if types.is_dictionary(type):
        return family(type.value_type)
    if types.is_boolean(type) or types.is_integer(type):
        return "integer"
    if types.is_floating(type):
        return "float"
    if types.is_string(type) or types.is_large_string(type):
        return "str"
    if types.is_binary(type) or types.is_large_binary(type):
        return "bytes"
    if types.is_date32(type):
        return "date"
    if types.is_decimal128(type):
        return "decimal"
    if types.is_timestamp(type) and type.unit == "us":
        return "naive" if type.tz is None else "aware"
    return None


def family_of(value: Plain) -> str | None:
    """The family of a constant; None for None."""
    if isinstance(value, datetime):
        return "naive" if value.utcoffset() is None else "aware"
    named: dict[type, str] = {
        timedelta: "delta",
        time: "time",
        Member: "member",
        bool: "integer",
        int: "integer",
        float: "float",
        str: "str",
        bytes: "bytes",
        date: "date",
        Decimal: "decimal",
    }
    return named.get(type(value))


def family_of_term(term: Term, schema: pa.Schema) -> str | None:
    """The family of a term's values if it surely never raises and is never null; else None."""
    family = _family_of_term(term, schema)
    return None if family == "integer" and _bits(term) > FLOAT_BITS else family


def _family_of_term(term: Term, schema: pa.Schema) -> str | None:
    match term:
        case Const(value):
            return family_of(value)
        case Field():
            slot = find(schema, term)
            return slot.family if slot and slot.reachable and not slot.nullable else None
        case Call("/" | "//" | "%", (part, Const(int() | float() as value))) if value != 0:
            kinds = {family_of_term(part, schema), family_of_term(term.args[1], schema)}
            if not kinds <= {"integer", "float"}:
                return None
            return "float" if term.function == "/" or "float" in kinds else "integer"
        case Call(function, args):
            families = tuple(family_of_term(arg, schema) for arg in args)
            return FUNCTIONS[function].safe.get(families)  # type: ignore[arg-type]
        case Predicate():
            return None if can_raise(term, schema) else "integer"
    return None


def _bits(term: Term) -> int:
    """How many bits an integer term may have at the most; of another term, those of a column."""
    match term:
        case Const(int() as value):
            return value.bit_length()
        case Call("*", args):
            return sum(map(_bits, args))
        case Call(_, args):  # no other function makes an integer that is much longer
            return 1 + max([COLUMN_BITS, *map(_bits, args)])
    return COLUMN_BITS


def can_raise(term: Term, schema: pa.Schema) -> bool:
    """Whether some content of this schema makes a term or predicate raise; True when in doubt."""
    match term:
        case Always() | Const():
            return False
        case Field():
            slot = find(schema, term)
            return slot is None or not slot.reachable
        case Call(function, (text, Const(str() as pattern), *flags)) if function in MATCHING:
            known = flags == [] and compiles(pattern, 0, function)
            return not known or family_of_term(text, schema) != "str"
        case Call():
            return family_of_term(term, schema) is None
        case Truthy(Call(function) as match) if function in MATCHING:
            return can_raise(match, schema)
        case Compare(op, left, right):
            return _comparison_can_raise(op, left, right, schema)
        case In(item) | Truthy(item):
            # Lists and structs are left out: they are not hashable, or have a truth of their own.
            if isinstance(item, Field):
                slot = find(schema, item)
                return slot is None or not slot.reachable or slot.family is None
            return family_of_term(item, schema) is None
        case _:
            return any(can_raise(part, schema) for part in term.operands())


def _comparison_can_raise(op: str, left: Term, right: Term, schema: pa.Schema) -> bool:
    if op in ("==", "!="):
        return any(_unlike_plain(side, schema) for side in (left, right))
    one, two = (family_of_term(side, schema) for side in (left, right))
    if one is None or two is None:
        return True
    if "decimal" in (one, two):
        # Ordering a Decimal and a NaN raises.
        known_nan = any(isinstance(side, Const) and side.is_nan for side in (left, right))
        return known_nan or not {one, two} <= {"decimal", "integer"}
    numbers = ("integer", "float")
    unordered = one == "member"
    return unordered or not (one == two or (one in numbers and two in numbers))


def _unlike_plain(side: Term, schema: pa.Schema) -> bool:
    """Whether computing one side may raise, or gives something that may not know `==`."""
    if isinstance(side, Field):
        slot = find(schema, side)
        return slot is None or not slot.reachable or slot.family is None
    return can_raise(side, schema)

"""What an Arrow schema says about a field: its type, and whether reading or comparing it can raise.

Fields whose metadata names a kind other than `plain` (an enum kept as its name, an array) are not
what the column's type suggests, and count as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

from predicate_extract.constants import Const, Plain
from predicate_extract.predicate import (
    Always,
    Compare,
    Defined,
    Field,
    In,
    IsNull,
    Predicate,
    Truthy,
)

_KIND = b"activebroker.kind"


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a field lives: its Arrow type; can its value, or an object on the way, be null?"""

    type: pa.DataType
    nullable: bool
    reachable: bool


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
    return None if column is None else Slot(column.type, column.nullable, reachable)


def child(level: pa.Schema | pa.StructType, name: str) -> pa.Field | None:
    """The one plain field called `name` of a schema or struct type."""
    places = level.get_all_field_indices(name)
    if len(places) != 1:
        return None
    column = level.field(places[0])
    plain = (column.metadata or {}).get(_KIND, b"plain") == b"plain"
    return column if plain else None


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
    named = {
        bool: "integer",
        int: "integer",
        float: "float",
        str: "str",
        bytes: "bytes",
        date: "date",
        Decimal: "decimal",
    }
    return named.get(type(value))


def can_raise(predicate: Predicate, schema: pa.Schema) -> bool:
    """Whether some content of this schema makes the predicate raise; True when in doubt."""
    match predicate:
        case Always():
            return False
        case Compare(op, left, right):
            return _comparison_can_raise(op, left, right, schema)
        case IsNull(field) | Defined(Field() as field):
            return not _readable(schema, field)
        case In(item) | Truthy(item):
            slot = find(schema, item)
            return slot is None or not slot.reachable or family(slot.type) is None
        case _:
            parts = [part for part in predicate.operands() if isinstance(part, Predicate)]
            return any(can_raise(part, schema) for part in parts)


def _readable(schema: pa.Schema, field: Field) -> bool:
    slot = find(schema, field)
    return slot is not None and slot.reachable


def _comparison_can_raise(
    op: str, left: Field | Const, right: Field | Const, schema: pa.Schema
) -> bool:
    families = []
    for operand in (left, right):
        if isinstance(operand, Const):
            families.append(family_of(operand.value))
            continue
        slot = find(schema, operand)
        if slot is None or not slot.reachable or family(slot.type) is None:
            return True
        families.append(None if slot.nullable else family(slot.type))
    if op in ("==", "!="):
        return False
    one, two = families
    if one is None or two is None:
        return True
    numbers = ("integer", "float")
    if "decimal" in (one, two):
        # Ordering a Decimal and a NaN raises.
        known_nan = any(isinstance(side, Const) and side.is_nan for side in (left, right))
        return known_nan or not {one, two} <= {"decimal", "integer"}
    return not (one == two or (one in numbers and two in numbers))

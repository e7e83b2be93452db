"""Event types from Arrow schemas, for who has tables and no class."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa

from activebroker.core.errors import EventTypeError, ProtocolError
from activebroker.events.columns.generic import make_class
from activebroker.events.types import ANY, EventType


def type_of(given: Any) -> EventType:
    """The event type that a dataclass, a `pyarrow.Schema` or `object` stands for.

    Raises EventTypeError.
    """
    if given is object:
        return ANY
    return type_of_schema(given) if isinstance(given, pa.Schema) else EventType.of(given)


@lru_cache(maxsize=256)
def type_of_schema(schema: pa.Schema) -> EventType:
    """An event type `Row` with a field for each column: ints have 64 bits and so have floats, and a
    column that may be null may be None. Processes with equal schemas have equal types.

    Raises EventTypeError for columns that no field can be.
    """
    try:
        return EventType.of(make_class("Row", [_declared(field) for field in schema]))
    except (ProtocolError, TypeError) as error:
        raise EventTypeError(
            f"The columns cannot be the fields of an event: {error}. Rename or drop such columns, "
            "or declare a dataclass."
        ) from error


def _declared(field: pa.Field) -> pa.Field:
    """The field as an event type has it: with Python's one kind of int, of float, and of text."""
    arrow, metadata, types = field.type, None, pa.types
    if types.is_dictionary(arrow) or types.is_run_end_encoded(arrow):
        return _declared(field.with_type(arrow.value_type))
    if types.is_integer(arrow):
        arrow = pa.int64()
    elif types.is_floating(arrow):
        arrow = pa.float64()
    elif types.is_large_string(arrow) or types.is_string_view(arrow):
        arrow = pa.string()
    elif _is_bytes(arrow):
        arrow = pa.binary()
    elif types.is_timestamp(arrow):
        arrow = pa.timestamp("us", arrow.tz)
    elif types.is_date(arrow):
        arrow = pa.date32()
    elif types.is_decimal(arrow) and arrow.precision <= 38:
        arrow = pa.decimal128(arrow.precision, arrow.scale)
    elif _is_list(arrow):
        arrow = pa.list_(_declared(arrow.value_field.with_name("item")))
    elif types.is_struct(arrow):
        arrow = pa.struct([_declared(child) for child in arrow])
        metadata = {"activebroker.kind": "struct", "activebroker.name": field.name}
    return pa.field(field.name, arrow, field.nullable, metadata)


def _is_bytes(arrow: pa.DataType) -> bool:
    types = pa.types
    sized = types.is_large_binary(arrow) or types.is_fixed_size_binary(arrow)
    return bool((sized and not types.is_decimal(arrow)) or types.is_binary_view(arrow))


def _is_list(arrow: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(arrow)
        or types.is_large_list(arrow)
        or types.is_fixed_size_list(arrow)
        or types.is_list_view(arrow)
        or types.is_large_list_view(arrow)
    )

"""The columns of a DataFrame as the fields of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from activebroker.core.errors import EventRefused, EventTypeError, suggestion
from activebroker.events import EventType, from_table, type_of
from activebroker.events.columns.records import Record
from predicate_extract.algebra.schema import family

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


_CONVERTED = {b"activebroker.kind": b"converted"}  # no plain column: its conditions are Python's


@dataclass(frozen=True, slots=True)
class Frame:
    """Those columns of a DataFrame that can be fields, and why the others cannot."""

    schema: pa.Schema
    others: dict[str, str]

    @classmethod
    def of(cls, df: DataFrame) -> Frame:
        """The columns of `df`."""
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructField, StructType

        bearers = Counter(field.name.lower() for field in df.schema)
        fields: list[pa.Field] = []
        others: dict[str, str] = {}
        for field in df.schema:
            if bearers[field.name.lower()] > 1:
                others[field.name] = "several columns have this name"
                continue
            if (type := plain(field.dataType)) is None:
                others[field.name] = f"its type is {field.dataType.simpleString()}"
                continue
            alone = StructType([StructField(field.name, type, field.nullable)])
            arrow = to_arrow_schema(alone, timezone="UTC")
            try:
                type_of(arrow)
            except EventTypeError as error:
                others[field.name] = str(error).removesuffix(".")
            else:
                fields += arrow
        return cls(pa.schema(fields), others)

    def event_type(self, given: type | None) -> EventType:
        """The event type of a dataclass, or of all columns that can be fields.

        Raises: EventRefused, if the dataclass has a field without a column of its type;
        EventTypeError, if no column can be a field.
        """
        if not self.schema:
            raise EventTypeError(f"No column of the DataFrame can be a field.{self.refused()}")
        if given is None:
            return type_of(self.schema)
        type_ = type_of(given)
        for name in type_.schema.names:
            if name in self.others:
                raise EventRefused(
                    f"The column {name!r}, which {type_.name} needs, cannot be a field: "
                    f"{self.others[name]}."
                )
            if name not in self.schema.names:
                raise EventRefused(
                    f"The DataFrame has no column {name!r}, which {type_.name} needs."
                    + suggestion(name, self.schema.names)
                )
        columns = pa.schema([self.schema.field(name) for name in type_.schema.names])
        from_table(type_, columns.empty_table(), "DataFrame", "", 0, 0)
        return type_

    def meant(self, type: EventType) -> pa.Schema:
        """All columns, with the meaning that the event type gives to those that are its fields."""
        declared = {field.name: field for field in type.schema}
        return pa.schema(
            [
                _meant(declared[field.name], field) if field.name in declared else field
                for field in self.schema
            ]
            + [pa.field(name, pa.null()) for name in self.others]
        )

    def refused(self) -> str:
        """What to add to an error about a field that is not there."""
        if not self.others:
            return ""
        told = "; ".join(f"{name!r}: {why}" for name, why in self.others.items())
        return f" Some columns cannot be fields: {told}."


def required(type: EventType, schema: pa.Schema) -> list[str]:
    """The fields that may not be null, though their columns may."""
    return [f.name for f in type.schema if not f.nullable and schema.field(f.name).nullable]


def may_misfit(declared: pa.DataType, actual: pa.DataType) -> bool:
    """Whether something inside a value may be null that must not."""
    if not pa.types.is_struct(declared):
        return False
    pairs = [(field, actual.field(field.name)) for field in declared]
    return any(
        (given.nullable and not wanted.nullable) or may_misfit(wanted.type, given.type)
        for wanted, given in pairs
    )


def expected(type: EventType, name: str) -> str:
    """What an error says that a field must be."""
    assert isinstance(type.codec, Record)
    return type.codec.fields[name].expected


def column(name: str) -> Column:
    """A column by its name, whatever that is."""
    from pyspark.sql import functions

    return functions.col(f"`{name.replace('`', '``')}`")


def contents(df: DataFrame, names: Iterable[str]) -> list[Column]:
    """Columns as Python gets them: without collations, which Arrow lacks."""
    types = {field.name: field.dataType for field in df.schema}
    found = []
    for name in names:
        type = plain(types[name])
        found.append(column(name) if type == types[name] else column(name).cast(type).alias(name))
    return found


def plain(type: DataType) -> DataType | None:
    """A type without collations; None if no field of an event can be of it."""
    from pyspark.sql import types as t

    match type:
        case t.StringType() | t.CharType() | t.VarcharType():
            return t.StringType()
        case t.ArrayType():
            inner = plain(type.elementType)
            return None if inner is None else t.ArrayType(inner, type.containsNull)
        case t.StructType():
            fields = [(field, plain(field.dataType)) for field in type]
            if any(inner is None for _, inner in fields):
                return None
            return t.StructType([t.StructField(f.name, inner, f.nullable) for f, inner in fields])
        case t.NumericType() | t.BooleanType() | t.BinaryType() | t.DateType():
            return type
        case t.TimestampType() | t.TimestampNTZType():
            return type
    return None


def _meant(declared: pa.Field, actual: pa.Field) -> pa.Field:
    arrow, metadata = actual.type, declared.metadata
    if pa.types.is_struct(declared.type):
        arrow = pa.struct([_meant(field, arrow.field(field.name)) for field in declared.type])
    elif pa.types.is_timestamp(declared.type):
        arrow = declared.type  # a moment is read in its zone
    elif _kind(declared.type) != _kind(arrow):
        metadata = _CONVERTED  # Python gets other values than the column holds
    return pa.field(declared.name, arrow, actual.nullable, metadata)


def _kind(type: pa.DataType) -> object:
    return pa.types.is_boolean(type), family(type)

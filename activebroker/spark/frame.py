"""The columns of a DataFrame as the fields of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from activebroker.core.errors import EventRefused, EventTypeError, suggestion
from activebroker.events import EventType, from_table, type_of
from activebroker.events.columns.records import Record
from activebroker.spark.columns import readable
from predicate_extract.algebra.schema import family

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


Path = tuple[str, ...]
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


def required(type: EventType, schema: pa.Schema) -> list[Path]:
    """The fields, also of objects in fields, that may not be null though their columns may."""
    return [path for field in type.schema for path in _required(field, schema.field(field.name))]


def _required(declared: pa.Field, actual: pa.Field, above: Path = ()) -> Iterator[Path]:
    path = (*above, declared.name)
    if actual.nullable and not declared.nullable:
        yield path
    if pa.types.is_struct(declared.type):
        for field in declared.type:
            yield from _required(field, actual.type.field(field.name), path)


def is_missing(path: Path) -> Column:
    """Whether a field is null in an object that is there."""
    found, missing = column(path[0]), column(path[0]).isNull()
    for name in path[1:]:
        there, found = found.isNotNull(), found.getField(name)
        missing = there & found.isNull()
    return missing


def missing_in(rows: pa.RecordBatch, path: Path) -> npt.NDArray[np.bool_]:
    """The same of rows in Python."""
    found = rows.column(path[0])
    there: Any = True
    for name in path[1:]:
        there, found = pc.is_valid(found), pc.struct_field(found, name)
    missing: npt.NDArray[np.bool_] = found.is_null().to_numpy(zero_copy_only=False)
    return missing if there is True else missing & there.to_numpy(zero_copy_only=False)


def refusal(type: EventType, path: Path) -> str:
    """What an error says of a field that is null and must not be."""
    assert isinstance(type.codec, Record)
    wanted = type.codec.fields[path[0]].expected if len(path) == 1 else "a value"
    return f"field {'.'.join(path)!r}: expected {wanted}, got null"


def column(name: str) -> Column:
    """A column by its name, whatever that is."""
    from pyspark.sql import functions

    return functions.col(f"`{name.replace('`', '``')}`")


def named(stream: Column | None) -> Column:
    """The column before those of the contents: what tells streams apart."""
    from pyspark.sql import functions as f

    return (f.lit(None).cast("string") if stream is None else stream).alias("$supplier")


def forwarded(df: DataFrame, names: Iterable[str], output: type | None) -> StructType:
    """The rows of what a filter forwards: those of its output, or the fields of the events."""
    from pyspark.sql.pandas.types import from_arrow_schema

    if output is None:
        return df.select(*contents(df, names)).schema
    fields = [each.with_type(readable(each.type)) for each in EventType.of(output).schema]
    return from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=True)


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

"""The Python objects that a column's values are, as an event's content would hold them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from predicate_extract.algebra.constants import Member
from predicate_extract.algebra.schema import child, enum_of, family, is_plain_column
from predicate_extract.algebra.terms import Field
from predicate_extract.backends.truth import Unfaithful

Bools = npt.NDArray[np.bool_]

UNREACHABLE = object()
"""Stands for a value of an object that is not there: reading it raises."""


@dataclass(frozen=True, slots=True)
class Column:
    """The column of a field. `reached`: the rows where the objects on the way to it are there
    (None: all); `member_of`: the enum whose members its names stand for; `plain`: its values are
    what the field holds."""

    array: Any
    reached: Bools | None
    member_of: str | None
    plain: bool

    @property
    def family(self) -> str | None:
        """The family of its values; None if it has none, or they are not what the field holds."""
        if self.member_of is not None:
            return "member"
        return family(self.array.type) if self.plain else None


def column_of(batch: pa.RecordBatch, field: Field) -> Column:
    """The column that holds a field.

    Raises: Unfaithful, if none does.
    """
    if not field.path or field.keyed:
        raise Unfaithful
    level, reached = batch, None
    array: Any = None
    description: pa.Field | None = None
    for depth, name in enumerate(field.path):
        description = child(level.schema if depth == 0 else level.type, name)
        if description is None:
            raise Unfaithful
        array = level.column(name) if depth == 0 else level.field(name)
        if depth + 1 < len(field.path):
            if not pa.types.is_struct(array.type):
                raise Unfaithful
            reached = meet(reached, valid_rows(array))
            level = array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    assert description is not None, "the path is not empty"
    return Column(array, reached, enum_of(description), is_plain_column(description))


def meet(one: Bools | None, two: Bools | None) -> Bools | None:
    """The rows of both; None stands for all."""
    if one is None or two is None:
        return one if two is None else two
    return one & two


def valid_rows(array: Any) -> Bools | None:
    """The rows that are not null; None for all."""
    if not array.null_count:
        return None
    first, skipped = divmod(array.offset, 8)
    # A third of the time that `is_valid` and `to_numpy` take.
    packed = np.frombuffer(array.buffers()[0], np.uint8, offset=first)
    bits = np.unpackbits(packed, count=skipped + len(array), bitorder="little")
    return bits[skipped:].view(np.bool_)


def distinct(column: Column) -> tuple[list[object], npt.NDArray[np.int64]]:
    """The distinct values of a column, and the place of each row's among them.

    Raises: Unfaithful, if a row's object cannot be told from the column.
    """
    if column.reached is not None or column.family is None:
        values = objects(column)
        return values, np.arange(len(values))
    coded = column.array.dictionary_encode()
    values = _objects(coded.dictionary, column.member_of)
    codes = coded.indices
    if codes.null_count:
        codes = codes.fill_null(len(values))
        values = [*values, None]
    return values, codes.to_numpy(zero_copy_only=False)


def objects(column: Column) -> list[object]:
    """The object of every row.

    Raises: Unfaithful.
    """
    if not column.plain and column.member_of is None:
        raise Unfaithful
    values = _objects(column.array, column.member_of)
    if column.reached is None:
        return values
    return [
        value if reached else UNREACHABLE
        for value, reached in zip(values, column.reached, strict=True)
    ]


def _objects(array: Any, member_of: str | None) -> list[Any]:
    type = array.type
    if member_of is not None:
        return [None if name is None else Member(member_of, name) for name in array.to_pylist()]
    if pa.types.is_timestamp(type) and type.unit == "us" and type.tz is not None:
        zone = UTC if type.tz == "UTC" else ZoneInfo(type.tz)
        moments = array.cast(pa.timestamp("us")).to_pylist()
        utc = [None if m is None else m.replace(tzinfo=UTC) for m in moments]
        return [None if m is None else m.astimezone(zone) for m in utc]
    listed = pa.types.is_list(type) and family(type.value_type) not in (None, "aware")
    if family(type) is None and not listed and not pa.types.is_null(type):
        raise Unfaithful
    values: list[Any] = array.to_pylist()
    return values

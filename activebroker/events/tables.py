"""Publishing many events at once: Arrow tables, pandas data frames, and lists of objects."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

from activebroker.events.batch import Batch
from activebroker.events.building import encode, with_header
from activebroker.events.kinds import Kind, Misfit
from activebroker.events.records import Record
from activebroker.events.types import EventType, refusal


def from_table(
    type: EventType, rows: Any, channel: str, supplier: str, first_seq: int, time: int
) -> Batch:
    """Make a batch of `rows`, numbered from `first_seq`, all with one `time` (ns).

    `rows` is a `pyarrow.RecordBatch` or `Table`, a `pandas.DataFrame` (its index is ignored; NaN
    is null in a field that may be None), another table that exports an Arrow stream, or a list of
    objects or mappings. Columns may come in any order and are cast where no value changes. Raises
    `EventRefused` naming channel, row, field, what was expected and what was given.
    """
    try:
        if isinstance(rows, list | tuple):
            return _from_objects(type, list(rows), supplier, first_seq, time)
        if not isinstance(type.codec, Record):
            raise Misfit.of("a list, since an untyped channel has no columns", rows)
        columns, count = _columns(type.codec, rows)
        arrays = type.codec.conform(columns)
        return with_header(type, arrays, count, supplier, first_seq, time)
    except Misfit as misfit:
        raise refusal(channel, misfit) from None


def _from_objects(
    type: EventType, rows: list[Any], supplier: str, first_seq: int, time: int
) -> Batch:
    contents: list[Any] = []
    concrete = type
    for row, content in enumerate(rows):
        try:
            contents.append(type.accept(content))
            own = type.concrete(contents[-1])
            if row and own != concrete:
                raise Misfit(
                    f"{concrete.name} as in the rows before",
                    own.name,
                    "publish objects of different classes one by one",
                )
            concrete = own
        except Misfit as misfit:
            misfit.row = row
            raise
    return encode(concrete, contents, supplier, first_seq, time)


def _columns(record: Record, rows: Any) -> tuple[dict[str, pa.Array], int]:
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(rows, pandas.DataFrame):
        names = [str(name) for name in rows.columns]
        series = [rows.iloc[:, i] for i in range(len(names))]
        arrays = [_from_pandas(record, n, s) for n, s in zip(names, series, strict=True)]
    else:
        if not isinstance(rows, pa.RecordBatch | pa.Table):
            if not hasattr(rows, "__arrow_c_stream__"):
                raise Misfit.of("an Arrow table, a data frame or a list of objects", rows)
            rows = pa.table(rows)
        names = rows.schema.names
        arrays = [_contiguous(column) for column in rows.columns]
    for name in names:
        if names.count(name) > 1:
            raise Misfit("one column of this name", "several", path=f".{name}")
    return dict(zip(names, arrays, strict=True)), len(rows)


def _from_pandas(record: Record, name: str, series: Any) -> pa.Array:
    kind = record.fields.get(name)
    if kind is None:
        return pa.nulls(len(series))  # refused for its name, whatever it holds
    if series.dtype == object:
        return _from_objects_column(kind, name, series)
    try:
        return _contiguous(pa.array(series, from_pandas=kind.nullable))
    except pa.ArrowException:
        raise Misfit(kind.expected, f"a column of {series.dtype}", path=f".{name}") from None


def _from_objects_column(kind: Kind, name: str, series: Any) -> pa.Array:
    """Check Python objects one by one, as in `publish`."""
    values = series.tolist()
    if kind.nullable:
        missing = series.isna().tolist()
        values = [None if na else value for value, na in zip(values, missing, strict=True)]
    for row, value in enumerate(values):
        try:
            values[row] = kind.fit(value)
        except Misfit as misfit:
            misfit.row = row
            raise misfit.under(f".{name}") from None
    return kind.encode(values)


def _contiguous(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

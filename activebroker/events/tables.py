"""Publishing many events at once: Arrow tables, pandas data frames, and lists of objects."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from activebroker.events.batch import Batch
from activebroker.events.building import encode, with_header
from activebroker.events.columns.kinds import Kind, Misfit, unpacked
from activebroker.events.columns.piecewise import piecewise
from activebroker.events.columns.records import Record
from activebroker.events.types import EventType, refusal


def from_table(
    type: EventType, rows: Any, channel: str, supplier: str, first_seq: int, time: int
) -> list[Batch]:
    """Make batches of `rows`, numbered from `first_seq`, all with one `time` (ns).

    `rows` is a `pyarrow.RecordBatch` or `Table`, a `pandas.DataFrame` (its index is ignored; NaN
    is null in a field that may be None), another table that exports an Arrow stream, or a list of
    objects or mappings. Columns may come in any order and are cast where no value changes. It is
    one batch, unless the rows are too large for that. Raises `EventRefused` naming channel, row,
    field, what was expected and what was given.
    """
    try:
        if isinstance(rows, list | tuple):
            return _from_objects(type, list(rows), supplier, first_seq, time)
        record = type.codec
        if not isinstance(record, Record):
            raise Misfit.of("a list, since an untyped channel has no columns", rows)
        table = _table(record, rows)

        def conform(part: Sequence[int]) -> Batch:
            some = table if len(part) == len(table) else table.slice(part[0], len(part))
            columns = dict(zip(some.schema.names, map(_contiguous, some.columns), strict=True))
            seq = first_seq + (part[0] if part else 0)
            return with_header(type, record.conform(columns), len(part), supplier, seq, time)

        return piecewise(range(len(table)), conform, _refuse)
    except Misfit as misfit:
        raise refusal(channel, misfit) from None


def _refuse(row: int, error: BaseException) -> None:
    """The first row that does not go into a batch even alone."""
    if not isinstance(error, Misfit):
        raise Misfit("what a batch can hold", "a row", str(error), row=row) from error
    if error.row is not None:
        error.row = row
    raise error


def _from_objects(
    type: EventType, rows: list[Any], supplier: str, first_seq: int, time: int
) -> list[Batch]:
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

    def store(part: Sequence[int]) -> Batch:
        some = contents[part[0] : part[-1] + 1] if part else []
        return encode(concrete, some, supplier, first_seq + (part[0] if part else 0), time)

    return piecewise(range(len(contents)), store, _refuse)


def _table(record: Record, rows: Any) -> pa.RecordBatch | pa.Table:
    """The rows in columns that have names of their own."""
    pandas = sys.modules.get("pandas")
    is_frame = pandas is not None and isinstance(rows, pandas.DataFrame)
    if not is_frame and not isinstance(rows, pa.RecordBatch | pa.Table):
        if not hasattr(rows, "__arrow_c_stream__"):
            raise Misfit.of("an Arrow table, a data frame or a list of objects", rows)
        rows = pa.table(rows)
    names = [str(name) for name in rows.columns] if is_frame else rows.schema.names
    for name in names:
        if names.count(name) > 1:
            raise Misfit("one column of this name", "several", path=f".{name}")
    if is_frame:
        series = [rows.iloc[:, i] for i in range(len(names))]
        arrays = [_from_pandas(record, n, s) for n, s in zip(names, series, strict=True)]
        return pa.table(arrays, names=names)
    return rows


def _from_pandas(record: Record, name: str, series: Any) -> pa.Array:
    kind = record.fields.get(name)
    if kind is None:
        return pa.nulls(len(series))  # refused for its name, whatever it holds
    if series.dtype == object:
        return _from_objects_column(kind, name, series)
    try:
        return pa.array(series, from_pandas=kind.nullable)
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
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    # Arrow joins what is packed for some types only.
    chunks = [unpacked(chunk) for chunk in column.chunks]
    return pa.chunked_array(chunks, None if chunks else column.type).combine_chunks()

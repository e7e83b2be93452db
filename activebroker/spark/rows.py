"""A micro-batch as one table for Spark: the rows of several batches under common columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from activebroker.events import ANY, Batch, EventType
from activebroker.spark.columns import carried, reshape

ROW = "$row"  # the row's number in the micro-batch, from which order and batch are found again
TASK = "$task"  # which of the job's tasks must have the row, where that matters

_HEADER = [pa.field(name, pa.int64(), nullable=False) for name in (ROW, "$seq", "$time")]
_TASK = pa.field(TASK, pa.int32(), nullable=False)


class Layout:
    """Where the fields of some event types are in one table.

    The fields of the input type keep their names, so that its predicate finds them. What its
    subtypes add comes after them, and is null in the rows of others.
    """

    def __init__(self, input: EventType, types: Sequence[EventType]) -> None:
        self.types = types
        common = [] if input is ANY else input.schema.names
        columns = [*_HEADER, _TASK, *(_carried(input.schema.field(name)) for name in common)]
        self._places: list[list[int]] = []
        for index, type in enumerate(types):
            places = []
            for field in type.schema:
                if field.name in common:
                    places.append(len(_HEADER) + 1 + common.index(field.name))
                else:
                    places.append(len(columns))
                    own = _carried(field).with_name(f"{index}:{field.name}")
                    columns.append(own.with_nullable(True))
            self._places.append(places)
        self.schema = pa.schema(columns)

    @property
    def has_twins(self) -> bool:
        """Whether two names differ in case only, which Spark by default does not see."""
        return len({name.lower() for name in self.schema.names}) < len(self.schema.names)

    def table(self, batches: Iterable[tuple[int, int, Batch]]) -> pa.Table:
        """Put batches, each with the index of its type and its task, into one table."""
        parts, first = [], 0
        for index, task, batch in batches:
            rows = batch.num_rows
            places = dict(zip(self._places[index], batch.columns.columns[2:], strict=True))
            header = [
                pa.array(np.arange(first, first + rows)),
                *batch.columns.columns[:2],
                pa.array(np.full(rows, task, np.int32)),
            ]
            fields = enumerate(list(self.schema)[len(header) :], len(header))
            content = [
                reshape(places[i], field.type) if i in places else pa.nulls(rows, field.type)
                for i, field in fields
            ]
            parts.append(pa.RecordBatch.from_arrays([*header, *content], schema=self.schema))
            first += rows
        return pa.Table.from_batches(parts, self.schema)

    def split(
        self, table: pa.Table, starts: npt.NDArray[np.int64], indices: Sequence[int]
    ) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """Undo `table` for the rows that are left, in any order.

        `starts` are the batches' first rows and `indices` those of their types. Gives for each
        batch its number, its first row that is left, and its columns.
        """
        rows = table.column(ROW).to_numpy()
        if (np.diff(rows) < 0).any():
            order = np.argsort(rows)
            rows, table = rows[order], table.take(pa.array(order))
        numbers = np.searchsorted(starts, rows, "right") - 1
        bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(rows)]
        for start, stop in pairwise(bounds):
            if start == stop:
                continue
            number = int(numbers[start])
            part = table.slice(start, stop - start).combine_chunks()
            yield number, int(rows[start]), self._restore(indices[number], part)

    def _restore(self, index: int, part: pa.Table) -> pa.RecordBatch:
        type = self.types[index]
        arrays = [
            reshape(_only_chunk(part, place), field.type)
            for place, field in zip([1, 2, *self._places[index]], type.batch_schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=type.batch_schema)


def _carried(field: pa.Field) -> pa.Field:
    return field.with_type(carried(field.type)).remove_metadata()


def _only_chunk(table: pa.Table, place: int) -> pa.Array:
    column = table.column(place)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

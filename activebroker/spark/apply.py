"""Filters for Spark's own DataFrames."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from activebroker.core.errors import (
    EventRefused,
    FilterStopped,
    suggestion,
)
from activebroker.events import EventType, from_table, type_of
from activebroker.filters import (
    Envelope,
    FilterRunner,
    FilterSpec,
    RunResult,
    analyse,
    pack,
    unpack,
)
from activebroker.spark.columns import readable, reshape
from predicate_extract import Extraction
from predicate_extract.backends.spark import to_column

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import Column, DataFrame

log = logging.getLogger(__name__)

_KEY = b"apply"  # whoever can run this function can run code on the executors anyway
_SUPPLIER = "$supplier"


def apply(
    df: DataFrame,
    filter: object,
    *,
    event_type: type | None = None,
    supplier: str | None = None,
    order_by: str | Sequence[str] = (),
    on_error: Literal["raise", "skip"] = "raise",
    lost: Accumulator[int] | None = None,
) -> DataFrame:
    """Run a filter over a DataFrame: its rows are the events' contents.

    `filter` is what `derive` accepts. `event_type` is the contents' dataclass, whose fields are
    columns of `df`; without one, a class is made of all its columns. The result has the columns of
    what the filter forwards.

    The filter's predicate becomes a condition of Spark's own. Where it is exact, nothing runs in
    Python. Elsewhere every partition is a stream of its own, with its own instance of the filter.
    For a filter that remembers events, say what its streams are: `supplier` is the column that
    tells them apart, `order_by` the columns by which each is sorted. Without `supplier`, ordered
    rows are one stream.

    A row on which the filter raises fails the job, with the traceback; with `on_error="skip"` it is
    dropped, logged as a warning, and counted in `lost`.

    Raises EventTypeError, EventRefused, UnknownField or InvalidFilter at once, where columns, event
    type and filter do not fit together.
    """
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    order = [order_by] if isinstance(order_by, str) else list(order_by)
    spec = FilterSpec.of(filter)
    schema = to_arrow_schema(df.schema, timezone="UTC")
    type = type_of(schema if event_type is None else event_type)
    _check_columns(type, schema)
    names = type.schema.names
    type = spec.input_type(type)
    extraction = analyse(spec, type)
    envelope = pack(spec, type, extraction, key=_KEY)

    column, exact = _condition(extraction, type, schema)
    if column is not None:
        df = df.filter(column)
    if exact and envelope.exact:
        return df.select(names)

    if order or supplier:
        apart = None if supplier is None or spec.cls.shared else functions.col(supplier)
        df = df.coalesce(1) if apart is None else df.repartition(apart)
        df = df.sortWithinPartitions(*([] if apart is None else [apart]), *order)
    elif extraction.stateful:
        log.warning(
            "filter %s may remember events, and each partition is a stream of its own here; "
            "give apply order_by= (and supplier=) to say what the streams are",
            spec.name,
        )
    source = functions.lit("") if supplier is None else functions.col(supplier)
    df = df.select(source.cast("string").alias(_SUPPLIER), *names)

    if spec.output is None:
        result = df.drop(_SUPPLIER).schema
    else:
        output = [f.with_type(readable(f.type)) for f in EventType.of(spec.output).schema]
        result = from_arrow_schema(pa.schema(output), prefer_timestamp_ntz=True)
    partition = _Partition(
        envelope,
        to_arrow_schema(result, timezone="UTC"),
        skip=on_error == "skip",
        lost=lost,
    )
    return df.mapInArrow(partition.run, result)


@dataclass(frozen=True, slots=True)
class _Partition:
    """The Python part, as it travels to the executors."""

    envelope: Envelope
    result: pa.Schema
    skip: bool
    lost: Any

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        envelope = self.envelope
        payload = unpack(envelope, _KEY)
        runner = FilterRunner(
            payload,
            channel="DataFrame",
            name=envelope.name,
            shared=envelope.shared,
            stop_on_error=False,
        )
        supplier, seq = "", 0
        for batch in batches:
            for own, part in _by_supplier(batch):
                if own != supplier:
                    if not envelope.shared:
                        yield from self._emit(runner.run([supplier]))
                    supplier, seq = own, 0
                events = from_table(payload.input, part, "DataFrame", own, seq, 0)
                seq += part.num_rows
                yield from self._emit(runner.run(events))
        yield from self._emit(runner.end_all())

    def _emit(self, result: RunResult) -> Iterator[pa.RecordBatch]:
        if result.failures:
            first = result.failures[0]
            whose = repr(first.supplier) if first.supplier else "its partition"
            text = f"event {first.seq} of {whose}:\n{first.traceback}"
            if not self.skip:
                raise FilterStopped(
                    f"Filter {first.filter} raised on {text}\nTo drop such events instead, "
                    "give apply on_error='skip'."
                )
            count = len(result.failures)
            log.warning("filter %s lost %d events, the first being %s", first.filter, count, text)
            if self.lost is not None:
                self.lost.add(count)
        for batch in result.batches:
            arrays = [
                reshape(batch.columns.column(field.name), field.type) for field in self.result
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.result)


def _by_supplier(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The runs of rows of one supplier, without the supplier's column."""
    if not batch.num_rows:
        return
    names = batch.column(0).fill_null("").dictionary_encode()
    codes = names.indices.to_numpy()
    bounds = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), batch.num_rows]
    content = batch.remove_column(0)
    for start, stop in pairwise(bounds):
        yield names.dictionary[int(codes[start])].as_py(), content.slice(start, stop - start)


def _check_columns(type: EventType, schema: pa.Schema) -> None:
    """Refuse, before any job runs, columns that are not there or of another type."""
    for name in type.schema.names:
        if name not in schema.names:
            raise EventRefused(
                f"The DataFrame has no column {name!r}, which {type.name} needs."
                + suggestion(name, schema.names)
            )
    columns = pa.schema([schema.field(name) for name in type.schema.names])
    from_table(type, columns.empty_table(), "DataFrame", "", 0, 0)


def _condition(
    extraction: Extraction, type: EventType, schema: pa.Schema
) -> tuple[Column | None, bool]:
    """The predicate as a Column, and whether it keeps no row that the predicate does not."""
    from pyspark.sql import functions

    given = pa.schema([_given(field, schema.field(field.name)) for field in type.schema])
    column, exact = to_column(extraction.predicate, given, functions)
    return column, exact


def _given(declared: pa.Field, actual: pa.Field) -> pa.Field:
    """A DataFrame's field, with the meaning that the event type gives it."""
    arrow = actual.type
    if pa.types.is_struct(declared.type):
        arrow = pa.struct([_given(field, arrow.field(field.name)) for field in declared.type])
    return pa.field(declared.name, arrow, actual.nullable, declared.metadata)

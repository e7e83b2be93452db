"""Filters for Spark's own DataFrames."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from activebroker.core.errors import InvalidFilter, UnknownField
from activebroker.events import EventType
from activebroker.filters import (
    Envelope,
    FIFOFilter,
    FilterSpec,
    KeyedFilter,
    analyse,
    pack,
)
from activebroker.spark.executors import check
from activebroker.spark.frame import (
    Frame,
    Path,
    column,
    contents,
    forwarded,
    is_missing,
    named,
    plain,
    refusal,
    required,
)
from activebroker.spark.keyed import apply_keyed
from activebroker.spark.runner import has_hooks
from activebroker.spark.session import require_extra
from activebroker.spark.streams import KEY, SKIP, Task
from activebroker.spark.words import Words
from predicate_extract import Extraction, Predicate

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import Column, DataFrame

    from predicate_extract.backends.sql import Where

log = logging.getLogger(__name__)


def apply(
    df: DataFrame,
    filter: object,
    *,
    event_type: type | None = None,
    supplier: str | Column | None = None,
    order_by: str | Column | Sequence[str | Column] = (),
    on_error: Literal["raise", "skip"] = "raise",
    lost: Accumulator[int] | None = None,
) -> DataFrame:
    """Run a filter over a DataFrame: its rows are the events' contents.

    `filter` is what `derive` accepts. `event_type` is the contents' dataclass, whose fields are
    columns of `df`; without one, a class is made of all columns that can be fields.

    The filter's predicate becomes a condition of Spark's own. Where it is exact, nothing runs in
    Python. A filter that forwards events as they are gets the fields that it reads, and all columns
    of `df` are kept, whatever their types. The rows of any other have the columns of what it
    forwards: those of its `output`, or the fields of the events.

    Every partition is a stream of its own, with its own instance of the filter. For a filter that
    remembers events, say what its streams are: `supplier` is the column whose text tells them
    apart (null is a stream too), `order_by` the columns by which each is sorted. Without
    `supplier`, ordered rows are one stream.

    A row on which the filter raises fails the job; so does a null in a field that the filter reads
    and that may not be null. With `on_error="skip"` such rows are dropped, logged as a warning, and
    counted in `lost`.

    Raises EventTypeError, EventRefused, UnknownField or InvalidFilter at once, where columns, event
    type and filter do not fit together; MissingExtra without the extra. On a cluster, the first
    call for which Python has to run asks the executors, and raises SparkUnavailable if filters
    cannot run there.
    """
    if on_error not in ("raise", "skip"):
        raise InvalidFilter(f'on_error: expected "raise" or "skip", got {on_error!r}.')
    require_extra()
    from pyspark.sql import functions

    several = isinstance(order_by, Sequence) and not isinstance(order_by, str)
    order = list(order_by) if several else [order_by]
    spec = FilterSpec.of(filter)
    frame = Frame.of(df)
    type = spec.input_type(frame.event_type(event_type))
    try:
        extraction = analyse(spec, type)
    except UnknownField as error:
        raise UnknownField(f"{error}{frame.refused()}") from None
    envelope = pack(spec, type, extraction, key=KEY)
    keeps_state = extraction.stateful or spec.cls.shared or has_hooks(spec.cls)
    if df.isStreaming and not issubclass(spec.cls, KeyedFilter):
        _check_streaming(spec.name, keeps_state, bool(order) or supplier is not None)

    schema = frame.meant(type)
    where = _where(extraction.predicate, schema)
    nulls = required(type, schema)
    deciding = {str(field.path[0]) for field in extraction.predicate.fields() if field.path}
    at_risk = where.raised or any(path[0] in deciding for path in nulls)
    told = on_error == "raise" and (extraction.raises or not where.raised)
    native = envelope.exact and where.exact and (told or not at_risk)
    every = tuple(type.schema.names)
    names = every if envelope.reads is None else envelope.reads or every[:1]
    nulls = [path for path in nulls if path[0] in (deciding if native else names)]
    if where.keep is not None:
        # A null that must not be is no reason to keep the row from whoever refuses it.
        df = df.filter(reduce(or_, map(is_missing, nulls), functions.expr(where.keep)))
    if native:
        return _raising(df, spec, envelope, extraction, where, type, nulls)

    check(df.sparkSession)
    stream = None if supplier is None else _texts(df, supplier)
    task = Task(envelope, names, tuple(nulls), skip=on_error == "skip", lost=lost)
    if issubclass(spec.cls, KeyedFilter):
        return apply_keyed(df, task, spec, type, stream, order)
    if order or stream is not None:
        df = _in_order(df, None if spec.cls.shared else stream, order)
    elif keeps_state:
        log.warning(
            "filter %s may remember events, and each partition is a stream of its own here; "
            "give apply order_by= (and supplier=) to say what the streams are",
            spec.name,
        )
    if extraction.as_it_is and spec.output is None:
        return _masked(df, task, stream, keeps_state)
    return _mapped(df, task, stream, spec)


def _check_streaming(name: str, keeps_state: bool, ordered: bool) -> None:
    if keeps_state:
        raise InvalidFilter(
            f"Filter {name} may remember events, and a streaming DataFrame gives it a new instance "
            "for each micro-batch. If its state is by key, make it an activebroker.KeyedFilter, "
            "whose state goes on. Else run it on a channel (derive), or in foreachBatch."
        )
    if ordered:
        raise InvalidFilter(
            "A streaming DataFrame has no streams in order: leave out supplier and order_by."
        )


def _where(predicate: Predicate, schema: pa.Schema) -> Where:
    """The predicate as conditions of Spark's."""
    from predicate_extract.backends.sql import where

    return where(predicate, schema, "spark")


def _raising(
    df: DataFrame,
    spec: FilterSpec,
    envelope: Envelope,
    extraction: Extraction,
    where: Where,
    type: EventType,
    nulls: Iterable[Path],
) -> DataFrame:
    """The rows, of which those that the filter would raise on fail the job."""
    from pyspark.sql import functions as f

    def fails(where: Column, *text: Column) -> Column:
        return f.when(where, f.raise_error(f.concat(*text, f.lit(f". {SKIP}")))).otherwise(True)

    for path in nulls:
        df = df.filter(fails(is_missing(path), f.lit(refusal(type, path))))
    if where.raised is not None:
        fields = dict.fromkeys(str(field.path[0]) for field in extraction.predicate.fields())
        row = f.to_json(f.struct(*map(column, fields)), {"ignoreNullFields": "false"})
        said = f.lit("")
        if spec.cls.on_start is FIFOFilter.on_start:  # which may open what only a task should
            said = Words.of(envelope, type, extraction.predicate).column()
        code = f'File "{extraction.filename}", line {extraction.first_line}'
        text = (f.lit(f"Filter {extraction.name} raises"), said, f.lit(" on the row "), row)
        df = df.filter(fails(f.expr(where.raised), *text, f.lit(f", {code}")))
    return df


def _texts(df: DataFrame, supplier: str | Column) -> Column:
    """What tells the streams apart: texts, compared as Python does."""
    from pyspark.sql.types import AtomicType, BinaryType

    given = column(supplier) if isinstance(supplier, str) else supplier
    (field,) = df.select(given).schema
    if not isinstance(field.dataType, AtomicType) or isinstance(field.dataType, BinaryType):
        raise InvalidFilter(
            f"supplier: expected a column of texts, numbers or times, got {field.name!r} of type "
            f"{field.dataType.simpleString()}. Cast it to a string."
        )
    return given.cast("string")


def _in_order(df: DataFrame, stream: Column | None, order: list[str | Column]) -> DataFrame:
    """Each stream in one partition, in order; all rows in one if there is one stream."""
    if stream is None:
        return df.coalesce(1).sortWithinPartitions(*order) if order else df.coalesce(1)
    return df.repartition(stream).sortWithinPartitions(stream, *order)


def _masked(df: DataFrame, task: Task, stream: Column | None, keeps_state: bool) -> DataFrame:
    """The rows that the filter forwards."""
    from pyspark.sql import functions as f

    if plain(df.schema) != df.schema:
        # Past a Python function that reads them whole, Spark 4.3 takes no columns with a collation:
        # a condition that is always true, which Spark does not know, makes rows of them.
        df = df.filter(f.monotonically_increasing_id() >= 0)
    mask = f.arrow_udf(task.mask, "boolean")
    if keeps_state:  # else Spark could change the order of rows below it, and which rows it gets
        mask = mask.asNondeterministic()
    return df.filter(mask(named(stream), *contents(df, task.names)))


def _mapped(df: DataFrame, task: Task, stream: Column | None, spec: FilterSpec) -> DataFrame:
    """What the filter forwards."""
    from pyspark.sql.pandas.types import to_arrow_schema

    result = forwarded(df, task.names, spec.output)
    run = partial(task.forwarded, result=to_arrow_schema(result, timezone="UTC"))
    return df.select(named(stream), *contents(df, task.names)).mapInArrow(run, result)

"""A keyed filter over a DataFrame, or in a streaming query: a key's rows are in one task, in order.

What becomes of a key depends on its own rows, in order, and on the clock of its stream at each of
them. So each row is given the newest time of its stream so far, in a column, and then the keys are
divided among tasks, in which their streams go on side by side.

In a batch that column is a window of Spark's. In a streaming query it is made in two steps. First
the rows of whole streams come to one task, which sorts them and gives each the newest time in this
micro-batch. Then they go to one of `BUCKETS` groups, by the key. A group's state is what a broker
has in a checkpoint; in it are the newest times from earlier micro-batches. In each micro-batch all
groups are told the newest times of all streams, so that timers run in groups without rows, too.

Between the steps rows travel as Arrow tables in columns of bytes: what holds a state in Spark has
pandas' types, in which a null and a NaN are one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from activebroker.core.errors import InvalidFilter
from activebroker.events import EventType
from activebroker.filters import FilterSpec, KeyedFilter, key_fields
from activebroker.spark.frame import column, contents, forwarded, is_missing, named
from activebroker.spark.keyed_streams import (
    BUCKET,
    BUCKETS,
    LAST,
    NEWEST,
    ORDER,
    SEQ,
    SUPPLIER,
    KeyedTask,
)
from activebroker.spark.streams import Task

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

PART = "$part"


def apply_keyed(
    df: DataFrame,
    task: Task,
    spec: FilterSpec,
    type: EventType,
    stream: Column | None,
    order: list[Any],
) -> DataFrame:
    """What a keyed filter forwards of the rows of a DataFrame, which may be a streaming one."""
    from pyspark.sql.pandas.types import to_arrow_schema

    cls = spec.cls
    assert issubclass(cls, KeyedFilter)
    time = cls.time if cls.moves_clock() else None
    if cls.moves_clock() and time is None:
        raise InvalidFilter(
            f"Filter {spec.name} goes by the time of publication, which the rows of a DataFrame do "
            f'not have. Name a column that has their time: class OnRows({spec.name}): time = "at".'
        )
    if not order and time is not None:
        order = [time]
    if not order:
        log.warning(
            "filter %s gets the rows of a key in no certain order; give apply order_by=", spec.name
        )
    result = forwarded(df, task.names, spec.output)
    arrow = to_arrow_schema(result, timezone="UTC")
    keyed = KeyedTask(task, time, bool(order) and not df.isStreaming, arrow)
    streams = [] if cls.shared or stream is None else [stream]
    sorting = [column(each) if isinstance(each, str) else each for each in order]
    rows = _Rows(df, keyed, type, named(stream), streams, sorting, _dividing(df, key_fields(cls)))
    return _in_query(rows, result) if df.isStreaming else _in_batch(rows, result)


@dataclass(frozen=True)
class _Rows:
    """The rows of a DataFrame: what `supplier` they are of, which `streams` they make (none: one),
    how these are sorted, and by which columns of the key they may be divided among tasks."""

    df: DataFrame
    keyed: KeyedTask
    type: EventType
    supplier: Column
    streams: list[Column]
    sorting: list[Column]
    dividing: list[Column]


def _dividing(df: DataFrame, fields: tuple[str, ...] | None) -> list[Column]:
    """The columns of the key whose values have the same hash in Spark if they are equal in Python:
    floats do not. It is right to divide by some of the key only, or by nothing."""
    from pyspark.sql import types as t

    types = {field.name: field.dataType for field in df.schema}
    return [
        column(name)
        for name in fields or ()
        if not isinstance(types[name], t.FloatType | t.DoubleType)
    ]


def _in_batch(rows: _Rows, result: StructType) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    whole = Window.partitionBy(*rows.streams)
    head = [rows.supplier]
    if rows.sorting:
        head.append((f.row_number().over(whole.orderBy(*rows.sorting)) - 1).cast("long").alias(SEQ))
    if rows.keyed.time is not None:
        until = whole.orderBy(*rows.sorting)
        until = until.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        head.append(f.max(_times(rows)).over(until).alias(NEWEST))
        head.append(f.max(_times(rows)).over(whole).alias(LAST))
    parts = [each.alias(f"{PART}{i}") for i, each in enumerate(rows.dividing)]
    df = rows.df.select(*head, *parts, *contents(rows.df, rows.keyed.task.names))
    streams = [column(SUPPLIER)] if rows.streams else []
    by = [*streams, *(column(f"{PART}{i}") for i in range(len(parts)))]
    df = df.repartition(*by) if by else df.coalesce(1)
    inside = [*streams, *([column(SEQ)] if rows.sorting else [])]
    if inside:
        df = df.sortWithinPartitions(*inside)
    df = df.drop(*(f"{PART}{i}" for i in range(len(parts))))
    return df.mapInArrow(rows.keyed.whole, result)


def _times(rows: _Rows) -> Column:
    """The times that move the clock on: of rows that can be events, and no NaN."""
    from pyspark.sql import functions as f

    assert rows.keyed.time is not None
    time = column(rows.keyed.time)
    bad = [time.isNull(), *map(is_missing, rows.keyed.task.required)]
    if pa.types.is_floating(rows.type.schema.field(rows.keyed.time).type):
        bad.append(f.isnan(time))
    return f.when(~reduce(or_, bad), time)


def _in_query(rows: _Rows, result: StructType) -> DataFrame:
    from pyspark.sql import functions as f

    keyed = rows.keyed
    by = [*rows.streams, *rows.dividing]
    bucket = f.pmod(f.hash(*by), f.lit(BUCKETS)) if by else f.lit(0)
    order = [each.alias(f"{ORDER}{i}") for i, each in enumerate(rows.sorting)]
    df = rows.df
    if rows.sorting:
        df = df.repartition(*rows.streams) if rows.streams else df.repartition(1)
    fields = contents(df, keyed.task.names)
    df = df.select(rows.supplier, bucket.cast("int").alias(BUCKET), *order, *fields)

    def step(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        return keyed.step(frames, state)

    packed = df.mapInArrow(keyed.packed, f"`{BUCKET}` int, rows binary, newest binary")
    made = packed.groupBy(column(BUCKET)).applyInPandasWithState(
        step, "rows binary", "state binary", "append", "NoTimeout"
    )
    return made.mapInArrow(keyed.unpacked, result)

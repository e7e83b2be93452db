"""Filters as functions of SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from activebroker.core.errors import InvalidFilter
from activebroker.events import EventType
from activebroker.filters import FilterSpec, analyse, pack
from activebroker.spark.executors import check
from activebroker.spark.gateway import find
from activebroker.spark.session import require_extra
from activebroker.spark.streams import KEY, Task, alone

if TYPE_CHECKING:
    from pyspark.sql.udf import UserDefinedFunction


def udf(
    filter: object, event_type: type, *, on_error: Literal["raise", "skip"] = "raise"
) -> UserDefinedFunction:
    """A filter as a function that tells for each row whether the filter forwards it.

    Its arguments are the fields of `event_type` that the filter reads, in their order there; all
    of them, if its code does not show which. `spark.udf.register("late", udf(Late, Flight))` makes
    it a function of SQL: `SELECT * FROM flights WHERE late(dep_delay, origin)`. Where the predicate
    should reach the source of the rows, use `apply`.

    Raises InvalidFilter for a filter that remembers events, or forwards others than it is given:
    SQL evaluates a condition on rows in any order. Raises EventTypeError and UnknownField;
    SparkUnavailable, if the session that there is has executors on which filters cannot run.
    """
    require_extra()
    from pyspark.sql import functions as f

    spec = FilterSpec.of(filter)
    type = spec.input_type(EventType.of(event_type))
    extraction = analyse(spec, type)
    envelope = pack(spec, type, extraction, key=KEY)
    if extraction.stateful or spec.cls.shared or spec.output is not None or not extraction.as_it_is:
        raise InvalidFilter(
            f"Filter {spec.name} may remember events, or forward others than it is given: it is no "
            "condition on single rows. Use apply, with order_by= and supplier=."
        )
    if (active := find()) is not None:
        check(active)
    every = tuple(type.schema.names)
    names = every if envelope.reads is None else envelope.reads or every[:1]
    required = tuple(
        (each.name,) for each in type.schema if each.name in names and not each.nullable
    )
    task = Task(envelope, names, required, skip=on_error == "skip", lost=None)

    name = spec.name  # spec itself must not travel: it is of modules that executors lack

    def columns(batches: Iterator[Any]) -> Iterator[tuple[pa.Array, ...]]:
        for batch in batches:
            given = batch if isinstance(batch, tuple) else (batch,)
            if len(given) != len(names):
                wanted = f"{name}({', '.join(names)})"
                raise alone(InvalidFilter(f"{wanted} was called with {len(given)} arguments."))
            yield (pa.nulls(len(given[0]), pa.string()), *given)

    def mask(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return task.mask(columns(batches))

    mask.__name__ = name
    return f.arrow_udf(mask, "boolean")

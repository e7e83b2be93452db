"""Two other extractors, asked about functions of columns: Spark's and Polars'.

Both make an expression over columns from the code of a function, Spark from its source (a Python
UDF becomes a Column, if `transpilePyUDFs` is set), Polars from its bytecode (the expression that it
suggests in place of `map_elements`). What they give is run on the rows, and judged by what the
filter did with them: null counts as not forwarded. What raises is wrong, since no row is here on
which the filter does.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import polars as pl
import pyarrow as pa
from column_forms import Form
from corpus_runs import milliseconds
from polars._utils.udfs import BytecodeParser
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType
from pyspark.sql.udf import UserDefinedFunction

from activebroker.spark import session, stop

SETTINGS = {
    "spark.sql.experimental.optimizer.transpilePyUDFs": "true",
    "spark.sql.ansi.enabled": "true",
}


@dataclass(frozen=True)
class Answer:
    """`verdict` is right, wrong or none; `only_nan`: wrong only in rows that have a NaN;
    `milliseconds`: what asking takes; `expression`: what it said, or why nothing."""

    verdict: str
    milliseconds: float
    expression: str
    only_nan: bool = False


class Peer(Protocol):
    """Says what it makes of a form."""

    def __call__(self, form: Form) -> Answer: ...


def judged(
    form: Form, expression: str, ms: float, evaluate: Callable[[], Sequence[object]]
) -> Answer:
    """Compare what an expression gives with what the filter did."""
    try:
        found = [bool(value) for value in evaluate()]
    except Exception as error:  # noqa: BLE001 - whatever the engine raises
        return Answer("wrong", ms, f"{expression}: {type(error).__name__}")
    rows = zip(*form.columns.values(), strict=True)
    wrong = [
        row for row, one, other in zip(rows, found, form.forwarded, strict=True) if one is not other
    ]
    if not wrong:
        return Answer("right", ms, expression)
    return Answer("wrong", ms, expression, all(map(_has_nan, wrong)))


def _has_nan(row: Sequence[object]) -> bool:
    return any(value != value for value in row)


# -- Polars ----------------------------------------------------------------------------------------


def ask_polars(form: Form) -> Answer:
    """What Polars suggests in place of `map_elements`, of one column or of a struct of several."""
    frame = pl.DataFrame(form.columns, strict=False)
    if len(form.columns) > 1:
        frame = frame.select(pl.struct(pl.all()).alias("row"))
    (column,) = frame.columns

    def ask() -> str | None:
        parser = BytecodeParser(form.condition, "expr")
        if not parser.can_attempt_rewrite():
            return None
        return parser.to_expression(column, frame.schema[column])

    expression = ask()
    ms = milliseconds(ask)
    if expression is None:
        return Answer("none", ms, "")
    scope = {**form.condition.__globals__, "pl": pl}

    def evaluate() -> list[object]:
        answer = frame.select(pl.all(), eval(expression, scope).alias("answer of the rewrite"))
        return answer["answer of the rewrite"].to_list()

    return judged(form, expression, ms, evaluate)


# -- Spark -----------------------------------------------------------------------------------------


@contextmanager
def spark() -> Iterator[Peer]:
    """Spark's transpiler, in a session of its own."""
    # It logs what the garbage collector does, which would count as what a filter does.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    running = session()
    for name, value in SETTINGS.items():
        running.conf.set(name, value)
    try:
        yield lambda form: _ask_spark(running, form)
    finally:
        stop()


def _ask_spark(running: SparkSession, form: Form) -> Answer:
    def ask() -> tuple[UserDefinedFunction, str]:
        with warnings.catch_warnings(record=True) as reasons:
            warnings.simplefilter("always")  # it warns where it cannot
            function = UserDefinedFunction(form.rule, BooleanType())
        return function, "; ".join(str(reason.message) for reason in reasons)

    function, reason = ask()
    ms = milliseconds(ask, clock=perf_counter)  # much of it happens in the process of Java
    if not function.transpiled:
        return Answer("none", ms, reason)
    try:
        frame = running.createDataFrame(pa.table(form.columns))
    except pa.ArrowInvalid as error:
        return Answer("none", ms, f"no table: {error}")
    answer = frame.select(function(*frame.columns).alias("answer"))
    try:
        if _runs_python(answer):
            return Answer("none", ms, "the types do not fit")
    except Exception as error:  # noqa: BLE001 - the query that it made fails
        return Answer("wrong", ms, f"{function.transpiled[0]}: {type(error).__name__}")
    return judged(
        form, str(function.transpiled[0]), ms, lambda: [row[0] for row in answer.collect()]
    )


def _runs_python(answer: DataFrame) -> bool:
    plan: str = answer._jdf.queryExecution().executedPlan().toString()
    return "EvalPython" in plan or "PythonUDF" in plan

"""Spark keeps every row that Python says must be kept; exactly those, where it claims so."""

from __future__ import annotations

from datetime import date
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from strategies_for_tests import NUMBERS, OPS, OTHERS
from test_column_masks import COLUMNS, INNER, rows_of

from predicate_extract import TRUE, And, Compare, Const, Defined, Field, In, IsNull, Not, Or, Truthy
from predicate_extract.backends.spark import to_column

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]  # the first starts Spark

NAMES = ("i", "k", "f", "b", "s", "d")
FIELDS = (
    *(Field((name,)) for name in NAMES),
    Field(("r", "x")),
    Field(("r", "y")),
    Field(("nope",)),
)


def table() -> pa.Table:
    random = Random(7)
    columns: dict[str, Any] = {"row": pa.array(range(60))}
    for name in NAMES:
        type, values = COLUMNS[name]
        if name == "d":
            values = [date(2020, 1, 1), date(1969, 12, 31), date(2021, 5, 5)]
        columns[name] = pa.array([random.choice([*values, None]) for _ in range(60)], type)
    choices = [{"x": 1, "y": "a"}, {"x": None, "y": "b"}, {"x": 3, "y": ""}, None]
    columns["r"] = pa.array([random.choice(choices) for _ in range(60)], INNER)
    return pa.table(columns)


def predicates():
    random = Random(5)
    for field in FIELDS:
        for value in (*NUMBERS, *OTHERS):
            for op in random.sample(OPS, 2):
                yield Compare(op, field, Const(value))
        yield from (IsNull(field), Truthy(field), Defined(field))
    single = [
        Compare(op, f, Const(v)) for f in FIELDS for v in (0, 1, 2.5, "a", None) for op in OPS
    ]
    single += [In(field, (Const(1), Const("a"), Const(None))) for field in FIELDS]
    single += [part(field) for field in FIELDS for part in (IsNull, Truthy, Defined)]
    for _ in range(60):
        one, two, three = random.choices(single, k=3)
        yield random.choice((And, Or))((Not(one), random.choice((And, Or))((two, Not(three)))))
        yield Not(And((one, Or((two, three)))))


def test_spark_keeps_what_python_keeps(spark):
    from pyspark.sql import functions as f

    rows = table()
    frame = spark.createDataFrame(rows).cache()
    contents = rows_of(rows.combine_chunks().to_batches()[0])
    every = list(predicates())
    exact_ones = 0
    for start in range(0, len(every), 150):
        some = every[start : start + 150]
        answers = [to_column(predicate, rows.schema, f) for predicate in some]
        shown = [
            (f.lit(True) if column is None else column).alias(f"c{n}")
            for n, (column, _) in enumerate(answers)
        ]
        got = frame.select("row", *shown).collect()
        for n, (predicate, (_, exact)) in enumerate(zip(some, answers, strict=True)):
            exact_ones += exact
            for row in got:
                expected = predicate.evaluate(contents[row["row"]])
                kept = row[f"c{n}"]
                assert kept is not None
                assert kept or expected is False, f"{predicate} loses {contents[row['row']]}"
                if exact:
                    assert kept == (expected is True), f"{predicate} on {contents[row['row']]}"
    assert exact_ones > 100


def test_a_predicate_that_keeps_everything_needs_no_column():
    assert to_column(TRUE, pa.schema([]), None) == (None, True)

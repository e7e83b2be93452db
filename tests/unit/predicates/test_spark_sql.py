"""Conditions for Spark keep what Python keeps, as in `test_sql.py`, in its own columns too."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from databases_for_tests import Spark
from hypothesis import given, settings
from strategies_for_tests import trees
from test_column_masks import COLUMNS, FIELDS
from test_sql import columns, on_terms, searches

from predicate_extract import Compare, Const, Field, In, Predicate

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]  # the first starts Spark

PREDICATES = 200


@pytest.fixture
def engine(spark: Any) -> Spark:
    return Spark(spark)


class Stored(Spark):
    """A DataFrame that is there already, with the numbers of its rows."""

    def __init__(self, session: Any, frame: Any) -> None:
        super().__init__(session)
        self._frame = frame

    def frame(self, batch: pa.RecordBatch) -> Any:
        return self._frame


def rows(nullable: bool) -> pa.RecordBatch:
    """All values of each column, beside each other in many ways."""
    arrays, fields = [], []
    for step, (name, (type, values)) in enumerate(COLUMNS.items(), 1):
        if type in Spark.lacks:
            continue
        every = [*values, None] if nullable else values
        arrays.append(pa.array([every[row * step % len(every)] for row in range(40)], type))
        fields.append(pa.field(name, type, nullable))
    inner = [{"x": 1, "y": "a"}, {"x": None, "y": "b"}, {"x": 3, "y": ""}, None]
    type = pa.struct([pa.field("x", pa.int64()), pa.field("y", pa.string(), nullable=False)])
    arrays.append(pa.array([inner[row % 4] for row in range(40)], type))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*fields, pa.field("r", type)]))


@pytest.mark.parametrize("nullable", [False, True])
def test_conditions_keep_what_python_keeps(engine, nullable, request):
    found: dict[Predicate, None] = {}

    @settings(max_examples=PREDICATES * max(1, request.config.getoption("rounds")), database=None)
    @given(on_terms | trees(FIELDS))
    def draw(predicate):
        found[predicate] = None

    draw()
    exact = engine.check_all(list(found), rows(nullable))
    assert sum(exact) > len(exact) / 10


def test_patterns_match_as_in_python(engine):
    every, batch = searches()
    assert any(engine.check_all(every[::5], batch))


@pytest.mark.parametrize(
    "pattern", ["(?:[ab])*", "[ab]*", "a*b", "(?:ab){0,9}", "(?:ab)*", "(?:a|b)+"]
)
def test_a_long_text_overflows_no_stack(engine, pattern):
    batch = columns(p=(pa.string(), ["ab" * 200_000, "a" * 200_000 + "b"]))
    engine.check_all([Predicate.parse(f"fullmatch(p, '{pattern}')")], batch)


# Not a Literal of Spark: variables in braces, quotes, what is not printed; and large sets.
WORDS = (
    "${x}",
    "$",
    "a'b",
    'a"b',
    "a`b",
    "a\\b",
    "\\",
    "a\nb",
    "\t",
    "\x7f",
    "\u2028",
    "é",
    "\U0001f600",
    "--",
    "/*",
)


def test_any_text_is_a_constant(engine):
    batch = columns(p=(pa.string(), [*WORDS, ""]))
    every = [Compare(op, Field(("p",)), Const(word)) for word in WORDS for op in ("==", "<")]
    every += [In(Field(("p",)), tuple(map(Const, WORDS)))]
    assert all(engine.check_all(every, batch))


def test_large_sets_of_numbers(engine):
    batch = columns(p=(pa.float64(), [0.0, -0.0, 1.0, 0.5, math.nan]), q=(pa.int32(), [0, 1, -1]))
    numbers = tuple(map(Const, (0.0, *range(2, 40))))
    assert all(engine.check_all([In(Field((name,)), numbers) for name in "pq"], batch))


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_moments_are_read_in_utc_whatever_the_session_says(engine, spark, zone):
    times = [
        datetime(1969, 12, 31, 23, 59, 59, 5),
        datetime(2020, 3, 8, 2, 30),
        datetime(2020, 11, 1, 5),
    ]
    moments = [time.replace(tzinfo=UTC) for time in times]
    batch = columns(p=(pa.timestamp("us"), times), q=(pa.timestamp("us", "UTC"), moments))
    texts = [
        "hour(p) = 2",
        "hour(q) = 23 AND year(q) = 1969",
        "minute(q) = 30",
        "date(q) = DATE '2020-11-01'",
    ]
    texts += [
        f"{side} {op} TIMESTAMP '2020-03-08 02:30:00{of}'"
        for side, of in (("p", ""), ("q", "+00:00"))
        for op in ("<", "=")
    ]
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        assert all(engine.check_all(list(map(Predicate.parse, texts)), batch))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_texts_are_compared_without_collation_and_padding(engine, spark):
    spark.sql("DROP TABLE IF EXISTS odd")
    spark.sql(
        """CREATE TABLE odd (
            `row number` INT, name STRING COLLATE UTF8_LCASE,
            trimmed STRING COLLATE UTF8_BINARY_RTRIM, code CHAR(4),
            tags ARRAY<STRING COLLATE UTF8_LCASE>, r STRUCT<x: STRING COLLATE UNICODE_CI>
        ) USING parquet"""
    )
    try:
        spark.sql("""INSERT INTO odd VALUES
            (0, 'A', 'a ', 'a', array('A'), struct('A')),
            (1, 'a', 'a', 'ab', array('a', null), struct('a')),
            (2, 'B', ' a', 'b', array(), struct('b')),
            (3, NULL, NULL, NULL, NULL, NULL)""")
        frame = spark.table("odd").orderBy("row number")
        table = frame.toArrow()
        batch = table.combine_chunks().to_batches()[0]
        texts = []
        for name in ("name", "trimmed", "code", "r.x"):
            for value in ("a", "A", "a   ", "b"):
                texts += [f"{name} {op} '{value}'" for op in ("=", "!=", "<", ">=")]
                texts += [f"{name} IN ('{value}', 'q')", f"startswith({name}, '{value}')"]
        texts += ["contains(tags, 'a')", "contains(tags, 'A')"]
        predicates = list(map(Predicate.parse, texts))
        kept = Stored(spark, frame).check_all(predicates, batch)
        assert sum(kept) > 30
    finally:
        spark.sql("DROP TABLE odd")

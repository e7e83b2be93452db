"""`apply`: a filter over a DataFrame gives what it gives over the same rows in plain Python.

Without postponed annotations: the classes travel to processes that lack this module, where names in
annotations could not be looked up.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pytest

from activebroker.core.errors import EventRefused, InvalidFilter, UnknownField
from activebroker.events import Event, Shape
from activebroker.filters import FIFOFilter
from activebroker.spark import apply, udf

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),  # the first one starts Spark, slow on a busy machine
    # pyspark warns of every newer major version of pandas; nothing here uses pandas.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


class Subscription(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        s = event.content
        if s.name == "IBM" or s.price > 100:
            super().enqueue(event)


class Even(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if event.content.number % 2 == 0:
            super().enqueue(event)


class Rising(FIFOFilter):
    """Forwards what is dearer than all before."""

    def __init__(self) -> None:
        self.highest = float("-inf")

    def enqueue(self, event: Event) -> None:
        if event.content.price is not None and event.content.price > self.highest:
            self.highest = event.content.price
            super().enqueue(event)


class RisingOfAll(Rising):
    shared = True


@dataclass(frozen=True)
class Tick:
    number: int
    name: str
    price: float | None


@dataclass(frozen=True)
class Total:
    name: str
    count: int
    half: Annotated[np.ndarray, Shape(2, dtype="float32")]


class Count(FIFOFilter):
    output = Total

    def on_start(self) -> None:
        self.count = 0

    def enqueue(self, event: Event) -> None:
        self.count += 1
        self.last = event

    def on_end(self) -> None:
        half = np.full(2, self.count / 2, "float32")
        super().enqueue(self.last.replace(Total(self.last.content.name, self.count, half)))


class Inverse(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if 1 / event.content.number > 0:
            super().enqueue(event)


class Opaque(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if (int(f"{event.content.number}") and True) or 1 / event.content.number:
            super().enqueue(event)


TICKS = [
    {"number": number, "name": name, "price": price}
    for number, (name, price) in enumerate(
        [("IBM", 1.0), ("SUN", 200.0), ("SUN", 50.0), ("IBM", None), ("IBM", 120.0), ("SUN", 210.0)]
    )
]


@pytest.fixture
def ticks(spark: Any) -> Any:
    types = pa.schema(
        [("number", pa.int32()), pa.field("name", pa.string(), False), ("price", pa.float32())]
    )
    return spark.createDataFrame(pa.Table.from_pylist(TICKS, types))


def numbers(df: Any) -> list[int]:
    found: list[int] = df.toArrow().column("number").to_pylist()
    return found


def test_an_exact_predicate_needs_no_python(ticks: Any) -> None:
    found = apply(ticks, lambda tick: tick.name == "IBM")
    assert numbers(found) == [0, 3, 4]
    assert "MapInArrow" not in found._jdf.queryExecution().toString()


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (Subscription, [0, 1, 3, 4, 5]),
        (Even, [0, 2, 4]),
        (Even(), [0, 2, 4]),
        (lambda tick: tick.price is None or tick.price in (1, 50), [0, 2, 3]),
    ],
)
@pytest.mark.parametrize("event_type", [None, Tick])
def test_rows_keep_their_columns(
    ticks: Any, filter: object, expected: list[int], event_type: type | None
) -> None:
    found = apply(ticks, filter, event_type=event_type)
    assert numbers(found) == expected
    assert [(field.name, field.dataType) for field in found.schema] == [
        (field.name, field.dataType) for field in ticks.schema
    ]


def test_streams_in_order(ticks: Any) -> None:
    assert numbers(apply(ticks, Rising, order_by="number")) == [0, 1, 5]
    by_name = apply(ticks, Rising, supplier="name", order_by=["number"])
    assert sorted(numbers(by_name)) == [0, 1, 4, 5]
    together = apply(ticks, RisingOfAll, supplier="name", order_by="number")
    assert numbers(together) == [0, 1, 5]


def test_an_output_type_and_the_end_of_streams(ticks: Any) -> None:
    found = apply(ticks, Count, supplier="name", order_by="number").toArrow()
    rows = sorted(found.to_pylist(), key=lambda row: str(row["name"]))
    assert rows == [
        {"name": "IBM", "count": 3, "half": [1.5, 1.5]},
        {"name": "SUN", "count": 3, "half": [1.5, 1.5]},
    ]


def test_a_filter_that_remembers_should_know_its_streams(
    ticks: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        apply(ticks, Rising)
    assert "order_by=" in caplog.text


def test_an_error_fails_the_job_or_is_counted(spark: Any, ticks: Any) -> None:
    from pyspark.errors import PythonException, SparkRuntimeException

    with pytest.raises(
        SparkRuntimeException,
        match=r'Filter Inverse raises ZeroDivisionError: division by zero on the row {"number":0',
    ):
        apply(ticks, Inverse).toArrow()
    with pytest.raises(PythonException, match=r"Filter Opaque raised[^§]*ZeroDivisionError"):
        apply(ticks, Opaque).toArrow()
    lost = spark.sparkContext.accumulator(0)
    assert numbers(apply(ticks, Inverse, on_error="skip", lost=lost)) == [1, 2, 3, 4, 5]
    assert lost.value == 1


def test_nested_columns_and_moments(spark: Any) -> None:
    rows = [
        {"number": n, "at": datetime(2024, 3, 31, 2, n), "where": {"x": n / 2, "tags": ["a"] * n}}
        for n in range(5)
    ]
    df = spark.createDataFrame(pa.Table.from_pylist(rows))
    found = apply(df, lambda row: len(row.where.tags) > 1 and row.at.minute < 4)
    assert numbers(found) == [2, 3]
    assert found.schema == df.schema


def test_a_column_of_arrays(spark: Any) -> None:
    @dataclass(frozen=True)
    class Reading:
        number: int
        signal: Annotated[np.ndarray, Shape(100)]

    rows = [{"number": n, "signal": [float(n)] * 100} for n in range(4)]
    df = spark.createDataFrame(pa.Table.from_pylist(rows))
    found = apply(df, lambda reading: reading.signal.mean() > 1, event_type=Reading)
    assert found.toArrow().to_pylist() == rows[2:]


@dataclass(frozen=True)
class Trade:
    number: int
    nmae: str


@dataclass(frozen=True)
class Texts:
    number: str


@pytest.mark.parametrize(
    ("error", "match", "action"),
    [
        (EventRefused, "Did you mean 'name'", lambda df: apply(df, Even, event_type=Trade)),
        (EventRefused, "number.*str.*int32", lambda df: apply(df, Even, event_type=Texts)),
        (UnknownField, "Did you mean 'price'", lambda df: apply(df, lambda tick: tick.pricey > 1)),
        (InvalidFilter, "got 42", lambda df: apply(df, 42)),
    ],
)
def test_misfits_are_refused_at_once(
    ticks: Any, error: type[Exception], match: str, action: Callable[[Any], object]
) -> None:
    with pytest.raises(error, match=match):
        action(ticks)


def _renamed(df: Any) -> Any:
    return df.withColumnRenamed("price", "the price")


def test_a_missing_value_is_refused(spark: Any) -> None:
    from pyspark.errors import SparkRuntimeException

    df = spark.createDataFrame(
        pa.table({"number": [1, None], "name": ["a", "b"], "price": [1.0, 2.0]})
    )
    with pytest.raises(SparkRuntimeException, match="field 'number': expected int, got null"):
        apply(df, Even, event_type=Tick).toArrow()


@pytest.mark.parametrize(
    ("filter", "arguments", "expected"),
    [
        (Subscription, "name, price", [0, 1, 3, 4, 5]),
        (Even, "number", [0, 2, 4]),
        (lambda tick: [tick][0].name == "SUN", "number, name, price", [1, 2, 5]),
    ],
)
def test_a_function_of_sql(
    spark: Any, ticks: Any, filter: object, arguments: str, expected: list[int]
) -> None:
    spark.udf.register("wanted", udf(filter, Tick, on_error="skip"))
    ticks.createOrReplaceTempView("ticks")
    found = spark.sql(f"SELECT number FROM ticks WHERE wanted({arguments}) AND number < 99")
    assert numbers(found) == expected
    named = udf(filter, Tick, on_error="skip")
    assert numbers(ticks.filter(named(*arguments.split(", ")))) == expected


@pytest.mark.parametrize("filter", [Rising, RisingOfAll, Count])
def test_what_is_no_condition_on_single_rows(filter: type) -> None:
    with pytest.raises(InvalidFilter, match=r"no condition on single rows. Use apply"):
        udf(filter, Tick)

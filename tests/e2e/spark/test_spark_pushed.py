"""A filter's predicate becomes conditions that Spark pushes into the source, and no Python."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from activebroker.spark import apply

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]  # the first one starts Spark

DAY = date(2013, 5, 1)
NOON = datetime(2013, 5, 1, 12)


@pytest.fixture(scope="module")
def flights(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("flights") / "flights.parquet"
    table = pa.table(
        {
            "year": pa.array([2013, 2014, None], pa.int32()),
            "day": pa.array([DAY, None, DAY]),
            "origin": ["JFK", None, "EWR"],
            "delay": pa.array([61.0, None, 1.0], pa.float64()),
            "small": pa.array([1.5, None, 2.5], pa.float32()),
            "at": pa.array([NOON, None, NOON], pa.timestamp("us")),
            "seen": pa.array([NOON, None, NOON], pa.timestamp("us", "UTC")),
            "fare": pa.array([Decimal("9.50"), None, Decimal("1.00")], pa.decimal128(10, 2)),
            "route": pa.array([{"dest": "LAX"}, None, {"dest": None}]),
            "open": [True, False, None],
            "gate": pa.array([1, 2, None], pa.int64()),
        }
    )
    pq.write_table(table, path)
    return spark.read.parquet(str(path))


PUSHED = [
    (lambda f: f.origin == "JFK", "EqualTo(origin,JFK)"),
    (lambda f: f.year == 2013, "EqualTo(year,2013)"),
    (lambda f: f.year >= 2013, "Or(GreaterThanOrEqual(year,2013),IsNull(year))"),
    (lambda f: f.year is not None and f.year >= 2013, "GreaterThanOrEqual(year,2013)"),
    (lambda f: f.year is not None and f.year > 2012.5, "GreaterThan(year,2012)"),
    (
        lambda f: f.delay is not None and f.delay > 60 and f.origin == "JFK",
        "GreaterThan(delay,60.0)",
    ),
    (lambda f: f.delay is not None and f.delay <= 60.5, "LessThanOrEqual(delay,60.5)"),
    (lambda f: f.small is not None and f.small < 2, "LessThan(small,2.0)"),
    (lambda f: f.gate in (1, 5, 9), "In(gate, [1,5,9])"),
    (lambda f: f.origin in ("JFK", "LGA"), "In(origin, [JFK,LGA])"),
    (lambda f: f.origin != "JFK", "Not(EqualTo(origin,JFK))"),
    (lambda f: f.origin is not None and f.origin.startswith("J"), "StringStartsWith(origin,J)"),
    (lambda f: f.origin is not None and "F" in f.origin, "StringContains(origin,F)"),
    (lambda f: f.origin is not None and f.origin.endswith("K"), "StringEndsWith(origin,K)"),
    (lambda f: f.origin is None, "IsNull(origin)"),
    (lambda f: f.day == date(2013, 5, 1), "EqualTo(day,2013-05-01)"),
    (lambda f: f.day is not None and f.day > date(2013, 4, 1), "GreaterThan(day,2013-04-01)"),
    (
        lambda f: f.at is not None and f.at >= datetime(2013, 5, 1),
        "GreaterThanOrEqual(at,2013-05-01T00:00)",
    ),
    (
        lambda f: f.seen is not None and f.seen < datetime(2014, 1, 1, tzinfo=UTC),
        "LessThan(seen,2014-01-01 00:00:00.0)",
    ),
    (lambda f: f.fare is not None and f.fare > 5, "GreaterThan(fare,5.00)"),
    (lambda f: f.fare == Decimal("9.5"), "EqualTo(fare,9.50)"),
    (lambda f: f.route is not None and f.route.dest == "LAX", "EqualTo(route.dest,LAX)"),
    (lambda f: f.open, "EqualTo(open,true)"),
    (lambda f: f.year == 2013 or f.origin == "EWR", "Or(EqualTo(year,2013),EqualTo(origin,EWR))"),
    (lambda f: f.gate != 1, "Not(EqualTo(gate,1))"),
]


@pytest.mark.parametrize(("filter", "pushed"), PUSHED, ids=[each for _, each in PUSHED])
def test_the_source_gets_the_condition(flights: Any, filter: object, pushed: str) -> None:
    plan = apply(flights, filter)._jdf.queryExecution().executedPlan().toString()
    assert "Python" not in plan and "MapInArrow" not in plan
    (found,) = re.findall(r"PushedFilters: \[(.*?)\], ReadSchema", plan)
    assert pushed in found


# Not pushed, and yet without Python.
NATIVE = [
    lambda f: f.origin is not None and len(f.origin) == 3,
    lambda f: f.year is not None and f.year % 4 == 0,
    lambda f: f.delay is not None and f.delay * 2 + 1 > 100,
    lambda f: f.year is not None and f.gate is not None and f.year > f.gate,
    lambda f: f.day is not None and f.day.month == 5 and f.day.weekday() < 5,
    lambda f: f.at is not None and f.at.hour == 12,
    lambda f: f.origin is not None and f.origin.strip() == "JFK",
    lambda f: f.origin is not None and f.origin + "!" == "JFK!",
    lambda f: f.gate is not None and abs(f.gate - 5) <= 3,
    lambda f: f.gate is not None and max(f.gate, 7) == 7,
    lambda f: f.year is not None and f.year // 7 == 8,
    lambda f: f.gate is not None and str(f.gate) == "12",
    lambda f: f.delay != f.delay,
    lambda f: f.origin is not None and f.origin > "E",
]


@pytest.mark.parametrize("filter", NATIVE)
def test_nothing_runs_in_python(flights: Any, filter: Any) -> None:
    found = apply(flights, filter)
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "Python" not in plan and "MapInArrow" not in plan

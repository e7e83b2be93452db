"""Plain Python UDFs that Spark runs without Python give what they give in Python."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from activebroker.spark import transpile_udfs

pytest.importorskip("pyspark.sql.transpile", reason="PySpark 4.3 is the first with it")
cloudpickle = pytest.importorskip("pyspark.cloudpickle")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),  # the first one starts Spark
    pytest.mark.filterwarnings(
        "ignore:Unable to transpile UDF", "ignore:Cannot infer the eval type"
    ),
]

ROWS = pa.table(
    {
        "s": ["JFK", "jfk", "", "\u017f", None, "J", "LGA"],
        "x": [1.0, math.nan, None, math.inf, -0.0, 60.5, 2.0**53],
        "i": pa.array([1, 2**53 + 1, None, 0, -7, 60, 61], pa.int64()),
        "b": [True, None, False, True, False, True, None],
    }
)
LIMIT = 3


def equal(s: Any) -> bool:
    return s == "JFK"


def late(x: Any, s: Any) -> bool:
    return x is not None and x > 60 and s != "JFK"


def not_above(x: Any) -> bool:
    return x is None or not x > 1


def unequal(x: Any) -> bool:
    return x != 60


def among(x: Any) -> bool:
    if x in (0, 1, 60.5):
        return True
    return x is None


def named(s: Any, b: bool) -> bool:
    return s is not None and (s.startswith("J") or s.isupper() or b is True)


def lowered(s: str) -> bool:
    return s is not None and s.lower() in ("jfk", "s")


def chosen(s: str, x: float) -> bool:
    return x is not None if s == "J" else x is None


TRANSPILED = [
    (equal, "s"),
    (late, "x, s"),
    (late, "i, s"),
    (not_above, "x"),
    (not_above, "i"),
    (unequal, "x"),
    (unequal, "i"),
    (among, "x"),
    (among, "i"),
    (named, "s, b"),
    (lowered, "s"),
    (chosen, "s, x"),
]


def without_end(x: Any) -> Any:
    if x == 1:
        return True


def a_number(x: Any) -> Any:
    return x is not None and x


def reads_a_global(x: Any) -> bool:
    return x is not None and x > LIMIT


def odd(x: Any) -> bool:
    return x is not None and x % 2 == 1


def far(x: Any) -> bool:
    return x == 2**53 + 1


@pytest.fixture
def frame(spark: Any) -> Iterator[Any]:
    names = [
        f"spark.sql.experimental.optimizer.{name}" for name in ("pyTranspilers", "transpilePyUDFs")
    ]
    before = {name: spark.conf.get(name) for name in names}
    transpile_udfs(spark)
    here = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(here)  # executors lack it
    yield spark.createDataFrame(ROWS)
    cloudpickle.unregister_pickle_by_value(here)
    for name, value in before.items():
        spark.conf.set(name, value)


def run(frame: Any, function: Callable[..., Any], arguments: str) -> tuple[list[Any], bool]:
    """What it gives, and whether Python has run."""
    from pyspark.sql.functions import udf

    asked = udf(function, "boolean", useArrow=False)  # Spark asks for no others
    found = frame.select(asked(*arguments.split(", ")).alias("found"))
    plan = found._jdf.queryExecution().executedPlan().toString()
    return [row.found for row in found.collect()], "Python" in plan


def in_python(function: Callable[..., Any], arguments: str) -> list[Any]:
    rows = zip(*(ROWS.column(name).to_pylist() for name in arguments.split(", ")), strict=True)
    return [function(*row) for row in rows]


@pytest.mark.parametrize(("function", "arguments"), TRANSPILED)
def test_a_udf_runs_without_python(
    frame: Any, function: Callable[..., Any], arguments: str
) -> None:
    assert run(frame, function, arguments) == (in_python(function, arguments), False)


@pytest.mark.parametrize("function", [without_end, a_number, reads_a_global, odd, far])
def test_what_may_differ_is_left_to_python(frame: Any, function: Callable[..., Any]) -> None:
    found, ran = run(frame, function, "i")
    assert ran
    expected = [each if each in (True, False) else None for each in in_python(function, "i")]
    if function is not a_number:  # of other values, a UDF makes what it likes
        assert found == expected


def test_a_row_that_raises_fails(frame: Any) -> None:
    from pyspark.errors import SparkRuntimeException

    def above(x: float) -> bool:
        return x > 1

    with pytest.raises(SparkRuntimeException, match="above raises"):
        run(frame, above, "x")

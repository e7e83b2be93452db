"""Tricky filters over a Parquet file, by Spark and in plain Python; most run no Python in Spark.

A third of them, or with `--rounds 1` all.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow.parquet as pq
import pytest
from tricky_filters_for_tests import IN_PYTHON, TRICKY, Tricky, contents, forwarded, rows

from activebroker.events import type_of
from activebroker.filters import FilterSpec, analyse
from activebroker.spark import apply

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]  # the first one starts Spark

ROWS = rows(150)
CONTENTS = contents(ROWS)
AT_ONCE = 42


@dataclass(frozen=True)
class Expected:
    """What plain Python does: the numbers, and the field k, of what it forwards; the rows on which
    it raises, and what."""

    forwarded: list[tuple[int, int | None]]
    raised: dict[int, Exception]

    @classmethod
    def of(cls, each: Tricky) -> Expected:
        filter = each.filter() if isinstance(each.filter, type) else copy.copy(each.filter)
        found, raised = [], {}
        for content in map(copy.copy, CONTENTS):
            try:
                found += [(one.number, one.k) for one in forwarded(filter, content)]
            except Exception as error:  # noqa: BLE001 - whatever the filter raises
                raised[content.number] = error
        return cls(sorted(found, key=str), raised)


@dataclass(frozen=True)
class Case:
    """A filter, what Python does, and what Spark will do with the rows on which Python does not
    raise."""

    tricky: Tricky
    expected: Expected
    frame: Any
    plan: str

    @classmethod
    def of(cls, each: Tricky, df: Any) -> Case:
        expected = Expected.of(each)
        keeps_state = isinstance(each.filter, type)
        frame = apply(
            without(df, expected.raised), each.filter, order_by="number" if keeps_state else ()
        )
        return cls(each, expected, frame, plan(frame))

    @property
    def runs_python(self) -> bool:
        return "Python" in self.plan or "MapInArrow" in self.plan


def plan(frame: Any) -> str:
    return frame._jdf.queryExecution().executedPlan().toString()  # type: ignore[no-any-return]


def without(df: Any, numbers: Collection[int]) -> Any:
    return df.filter(~df.number.isin([*numbers])) if numbers else df


@pytest.fixture(scope="module")
def parquet(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(ROWS, path)
    return spark.read.parquet(str(path))


@pytest.fixture(scope="module")
def cases(parquet: Any, request: pytest.FixtureRequest) -> list[Case]:
    step = 1 if request.config.getoption("rounds") else 3
    return [Case.of(each, parquet) for each in TRICKY[::step]]


def test_spark_forwards_what_python_forwards(cases: list[Case]) -> None:
    from pyspark.sql.functions import lit

    for first in range(0, len(cases), AT_ONCE):
        some = cases[first : first + AT_ONCE]
        frames = [
            each.frame.select(lit(n).alias("n"), "number", "k") for n, each in enumerate(some)
        ]
        found: list[list[Any]] = [[] for _ in some]
        for n, number, k in reduce(lambda one, two: one.union(two), frames).collect():
            found[n].append((number, k))
        for each, of_it in zip(some, found, strict=True):
            assert sorted(of_it, key=str) == each.expected.forwarded, each.tricky.name


def test_nine_of_ten_exact_ones_run_no_python(cases: list[Case]) -> None:
    assert len(cases) >= 80
    exact = [
        each
        for each in cases
        if analyse(FilterSpec.of(each.tricky.filter), type_of(ROWS.schema)).exact
    ]
    in_python = {each.tricky.name for each in exact if each.runs_python}
    assert in_python == IN_PYTHON.keys() & {each.tricky.name for each in cases}
    assert len(exact) >= 0.9 * len(cases)
    assert len(in_python) <= 0.1 * len(exact)


def test_comparisons_reach_the_parquet_file(cases: list[Case]) -> None:
    named = [each for each in cases if each.tricky.pushed]
    assert len(named) >= 10
    for each in named:
        (found,) = re.findall(r"PushedFilters: \[(.*?)\], ReadSchema", each.plan)
        assert each.tricky.pushed in found, each.tricky.name


def test_a_row_on_which_python_raises_fails_the_job_with_its_words(
    cases: list[Case], parquet: Any
) -> None:
    """Of each error, in the words of each type, one."""
    from pyspark.errors import PythonException, SparkRuntimeException

    told: dict[str, tuple[Case, int]] = {}
    for each in cases:
        for number, error in each.expected.raised.items():
            name = type(error).__name__
            text = name if isinstance(error, KeyError) else f"{name}: {error}"
            told.setdefault(text, (each, number))
    assert len(told) > 5
    for words, (each, number) in told.items():
        frame = apply(parquet.filter(parquet.number == number), each.tricky.filter)
        with pytest.raises((SparkRuntimeException, PythonException)) as raised:
            frame.collect()
        assert words in str(raised.value), each.tricky.name
        assert each.runs_python or 'on the row {"' in str(raised.value)

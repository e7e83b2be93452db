"""The benchmarks of predicates: what they compare, and how they count it."""

from __future__ import annotations

import pytest
from predicates import SCHEMA, SHAPES

extraction = pytest.importorskip(
    "extraction", reason="needs polars and pyspark", exc_type=ImportError
)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_wide_predicate_covers_the_narrow_one_and_not_the_other_way_round(shape, size):
    wide, narrow = (SHAPES[shape](size, one) for one in (False, True))
    assert wide.covers(narrow, SCHEMA)
    assert not narrow.covers(wide, SCHEMA)


def judged(name, predicate="a > 1", exact=True, wrong=False, answers=None):
    form = "def rule(a): …" if answers else "keeps state"
    return extraction.Judged(name, ("len",), predicate, exact, wrong, 1.0, form, answers or {})


def answer(verdict, only_nan=False):
    return extraction.Answer(verdict, 1.0, "", only_nan)


def test_nothing_wrong_counts_as_found():
    found = [
        judged("a", answers={"Spark": answer("right"), "Polars": answer("none")}),
        judged("b", answers={"Spark": answer("wrong", only_nan=True), "Polars": answer("wrong")}),
        judged("c", exact=False),
        judged("d", predicate="TRUE", exact=False),
        judged("e", wrong=True),
    ]
    rows = extraction.by_construct(found).rows
    columns = ("cases", "found", "exact", "wrong", "no form")
    assert extraction.COLUMNS[:5] == columns
    assert rows[-1] == ("all", "5", "3", "2", "1", "3", "1", "1", "0", "0", "1", "1")
    assert rows[-2] == ("those with a form", "2", "2", "2", "0", "0", *rows[-1][6:])
    assert rows[0][1:] == rows[-1][1:]
    assert extraction.only_nan(found, "Spark") == 1
    assert extraction.without_form(found).rows == [("keeps state", "3")]

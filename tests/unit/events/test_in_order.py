"""Batches with some rows of a stream each, put together again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from activebroker.events import ANY, Batch, dump, encode, in_order, load


def numbered(first: int, count: int) -> Batch:
    batch = encode(ANY, list(range(first, first + count)), "S", first, 0)
    return load(ANY, "S", dump(batch))


@given(st.integers(1, 40), st.lists(st.sets(st.integers(0, 39)), max_size=6))
def test_each_row_comes_once_and_in_order(count: int, parts: list[set[int]]) -> None:
    whole = numbered(100, count)
    batches = [
        whole.filter(whole.seqs - 100 == row) for part in parts for row in part if row < count
    ]
    chosen = sorted({row for part in parts for row in part if row < count})
    joined = in_order(batches)
    assert [n for each in joined for n in each.contents()] == [100 + row for row in chosen]
    assert [n for each in joined for n in each.seqs] == [100 + row for row in chosen]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=6))
def test_batches_that_overlap_are_cut_no_more_than_they_have_to_be(
    spans: list[tuple[int, int]],
) -> None:
    joined = in_order([numbered(first, count) for first, count in spans])
    assert sum(map(len, joined)) == len(
        {n for first, count in spans for n in range(first, first + count)}
    )
    assert len(joined) <= 2 * len(spans)


def test_none_of_none() -> None:
    assert in_order([]) == []

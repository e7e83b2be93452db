"""A few events as lists are the batch that Arrow would hold, and what comes in is checked."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from activebroker.core.errors import ProtocolError
from activebroker.events import Batch, EventType, build_batch, dump, encode, load
from activebroker.events.small_batch import FEW, SmallBatch

INTS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"))


@dataclass(frozen=True)
class Mixed:
    number: int
    ratio: float
    name: str
    good: bool
    raw: bytes
    perhaps: int | None
    note: str | None
    blob: bytes | None


@dataclass(frozen=True)
class Listed:
    values: list[int]


MIXED = EventType.of(Mixed)
CONTENTS = st.builds(
    Mixed,
    number=INTS,
    ratio=st.floats(allow_nan=False),
    name=TEXTS,
    good=st.booleans(),
    raw=st.binary(),
    perhaps=st.none() | INTS,
    note=st.none() | TEXTS,
    blob=st.none() | st.binary(),
)


@given(st.lists(CONTENTS, max_size=FEW - 1), st.integers(0, 2**40), INTS)
def test_it_is_the_batch_that_arrow_would_hold(contents, first_seq, time):
    few = encode(MIXED, contents, "S", first_seq, [time] * len(contents))
    assert isinstance(few, SmallBatch)
    arrow = Batch("S", MIXED, few.columns)
    few.columns.validate(full=True)
    for copy in (few, load(MIXED, "S", dump(few)), load(MIXED, "S", dump(arrow))):
        assert copy.contents() == contents
        assert copy.events() == arrow.events()
        assert copy.columns == arrow.columns
        assert (len(copy), copy.num_rows) == (len(arrow), arrow.num_rows)
        assert copy.nbytes == arrow.nbytes
        np.testing.assert_array_equal(copy.seqs, arrow.seqs)
        np.testing.assert_array_equal(copy.times, arrow.times)


def test_nan_stays_nan():
    few = encode(MIXED, [Mixed(1, float("nan"), "", True, b"", None, None, None)], "S", 0, 0)
    (content,) = load(MIXED, "S", dump(few)).contents()
    assert np.isnan(content.ratio)


def test_events_that_a_filter_forwards_keep_their_header():
    contents = [Mixed(n, 0.5, "a", False, b"b", None, "c", None) for n in range(10)]
    events = encode(MIXED, contents, "S", 3, 4).events()[::3]
    forwarded = build_batch(MIXED, events)
    assert isinstance(forwarded, SmallBatch)
    assert forwarded.events() == events


def test_many_events_and_other_kinds_are_arrow():
    content = Mixed(1, 0.5, "", True, b"", None, None, None)
    assert not isinstance(encode(MIXED, [content] * FEW, "S", 0, 0), SmallBatch)
    assert not isinstance(encode(EventType.of(Listed), [Listed([1])], "S", 0, 0), SmallBatch)


@dataclass(frozen=True)
class Pair:
    number: int
    name: str


@pytest.mark.parametrize(
    "lists",
    [
        [[0], [0], [1]],
        [[0], [0], [1], ["a"], ["b"]],
        [[0], [0], [1], [2]],
        [[0], [0], [1], [None]],
        [[0], [0], [1, 2], ["a"]],
        [[0], [0], [2**63], ["a"]],
        [[2**63], [0], [1], ["a"]],
        [[0], [0], [True], ["a"]],
        "abcd",
    ],
)
def test_what_does_not_fit_the_type_is_refused(lists):
    with pytest.raises(ProtocolError, match="Pair"):
        load(EventType.of(Pair), "S", [msgspec.msgpack.encode(lists)])


def test_lists_are_refused_where_the_type_has_no_such_form():
    with pytest.raises(ProtocolError, match="Listed"):
        load(EventType.of(Listed), "S", [msgspec.msgpack.encode([[0], [0]])])

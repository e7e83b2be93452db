"""Whatever passes `check` comes back equal from its columns, whatever the class looks like."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Optional

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activebroker.core.errors import ProtocolError
from activebroker.events import (
    Batch,
    Event,
    EventType,
    Precision,
    Shape,
    Zone,
    build_batch,
    concat,
    dump,
    encode,
    load,
)
from activebroker.events.small_batch import FEW


class Status(Enum):
    OK = "ok"
    LATE = ("late", 1)


@dataclass(frozen=True)
class Inner:
    a: int
    b: str | None


INNER = st.builds(Inner, st.integers(-9, 9), st.none() | st.text(max_size=3))
INT64 = st.integers(-(2**63), 2**63 - 1)
MONEY = st.decimals(
    allow_nan=False, allow_infinity=False, places=2, min_value=-9999, max_value=9999
)
INSIDE = {"min_value": datetime(1, 1, 3), "max_value": datetime(9999, 12, 29)}
KINDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int": (int, INT64),
    "float": (float, st.floats(allow_nan=False)),
    "str": (str, st.text(st.characters(codec="utf-8"))),
    "bool": (bool, st.booleans()),
    "bytes": (bytes, st.binary()),
    "datetime": (datetime, st.datetimes()),
    "utc": (Annotated[datetime, Zone("UTC")], st.datetimes(timezones=st.just(UTC))),
    "zone": (
        Annotated[datetime, Zone("America/New_York")],
        st.datetimes(**INSIDE, timezones=st.timezones() | st.just(UTC)),
    ),
    "date": (date, st.dates()),
    "decimal": (Decimal, MONEY),
    "precision": (Annotated[Decimal, Precision(6, 2)], MONEY),
    "enum": (Status, st.sampled_from(Status)),
    "list": (list[int], st.lists(INT64, max_size=4)),
    "lists": (list[list[str]], st.lists(st.lists(st.text(max_size=2), max_size=2), max_size=3)),
    "dataclass": (Inner, INNER),
    "dataclasses": (list[Inner | None], st.lists(st.none() | INNER, max_size=3)),
}


def instant(value):
    """Aware moments are compared by instant: two zones may disagree about the wall clock."""
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optional", [False, True])
@settings(max_examples=40)
@given(data=st.data())
def test_round_trip_of_each_kind(kind, optional, data):
    annotation, values = KINDS[kind]
    if optional:
        annotation, values = Optional[annotation], st.none() | values  # noqa: UP045
    cls = dataclasses.make_dataclass("One", [("value", annotation)], frozen=True)
    given_values = data.draw(st.lists(values, max_size=6)) * data.draw(st.sampled_from([1, FEW]))
    type = EventType.of(cls)
    contents = [type.check(cls(value), "test") for value in given_values]
    batch = encode(type, contents, "S", 5, 7)
    batch.columns.validate(full=True)
    for copy in (batch, load(type, "S", dump(batch))):
        back = [content.value for content in copy.contents()]
        assert list(map(instant, back)) == list(map(instant, given_values))
        assert [value.__class__ for value in back] == [v.__class__ for v in given_values]
        assert copy.nbytes == batch.nbytes
    start = data.draw(st.integers(0, len(contents)))
    part, rest = batch.slice(start, 2), batch.slice(start, 99)
    assert list(map(instant, (c.value for c in part.contents()))) == list(
        map(instant, given_values[start : start + 2])
    )
    assert batch.slice(0, start).nbytes + rest.nbytes == batch.nbytes
    assert load(type, "S", dump(rest)).nbytes == rest.nbytes


def test_nan_and_infinity_are_values():
    @dataclass
    class Number:
        x: float | None

    batch = encode(
        EventType.of(Number), [Number(math.nan), Number(math.inf), Number(None)], "S", 0, 0
    )
    nan, infinity, none = (n.x for n in batch.contents())
    assert math.isnan(nan) and infinity == math.inf and none is None


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int8", "uint64", "bool"])
def test_arrays(dtype):
    @dataclass
    class Wave:
        samples: Annotated[np.ndarray, Shape(2, 3, dtype=dtype)]
        maybe: Annotated[np.ndarray, Shape(4, dtype=dtype)] | None = None

    Wave.__annotations__["samples"] = Annotated[np.ndarray, Shape(2, 3, dtype=dtype)]
    Wave.__annotations__["maybe"] = Optional[Annotated[np.ndarray, Shape(4, dtype=dtype)]]  # noqa: UP045
    type = EventType.of(Wave)
    waves = [
        Wave(np.arange(6).reshape(2, 3).astype(dtype)),
        Wave(np.ones((3, 2), dtype).T, np.arange(4).astype(dtype)),
        Wave(np.zeros((2, 3), dtype)),
    ]
    batch = encode(type, [type.check(wave, "waves") for wave in waves], "S", 0, 0)
    for rows in (batch.contents(), load(type, "S", dump(batch.slice(1, 2))).contents()):
        for back, wave in zip(reversed(rows), reversed(waves), strict=False):
            np.testing.assert_array_equal(back.samples, wave.samples)
            assert back.samples.dtype == dtype
            assert not back.samples.flags.writeable
            assert (back.maybe is None) == (wave.maybe is None)
    np.testing.assert_array_equal(batch.contents()[1].maybe, waves[1].maybe)


def test_arrays_are_views_of_the_batch():
    @dataclass
    class Track:
        xs: Annotated[np.ndarray, Shape(100)]

    batch = encode(EventType.of(Track), [Track(np.arange(100.0))] * 3, "S", 0, 0)
    data = batch.columns.column(2).values.to_numpy()
    assert all(np.shares_memory(track.xs, data) for track in batch.contents())


def _classes():
    @dataclass
    class Plain:
        a: int
        b: str = "x"

    @dataclass(frozen=True)
    class Frozen:
        a: int
        b: str = "x"

    @dataclass(slots=True)
    class Slots:
        a: int
        b: str = "x"

    @dataclass(frozen=True, slots=True)
    class FrozenSlots:
        a: int
        b: str = "x"

    @dataclass(kw_only=True)
    class Keywords:
        a: int
        b: str = "x"

    @dataclass
    class NoInit:
        a: int
        b: str = field(init=False, default="y")

    @dataclass(init=False)
    class OwnInit:
        a: int
        b: str

        def __init__(self, a):
            self.a, self.b = a, "own"

    class Undecorated(Plain):
        def __init__(self, a):
            super().__init__(a, "sub")

    return [Plain, Frozen, Slots, FrozenSlots, Keywords, NoInit, OwnInit, Undecorated]


@pytest.mark.parametrize("cls", _classes(), ids=lambda cls: cls.__name__)
def test_every_form_of_dataclass(cls):
    type = EventType.of(cls)
    contents = [type.check(cls(a=i), "test") for i in range(3)]
    back = encode(type, contents, "S", 0, 0).contents()
    assert back == contents
    assert all(content.__class__ is cls for content in back)


def test_post_init_runs_but_never_changes_the_fields_twice():
    @dataclass(frozen=True)
    class Doubled:
        a: int
        b: int = field(init=False)

        def __post_init__(self):
            object.__setattr__(self, "a", self.a * 2)
            object.__setattr__(self, "b", self.a + 1)
            object.__setattr__(self, "cached", "beside the fields")

    content = Doubled(2)
    (back,) = encode(EventType.of(Doubled), [content], "S", 0, 0).contents()
    assert back == content
    assert back.cached == "beside the fields"


def test_a_dataclass_without_fields():
    @dataclass
    class Tick:
        pass

    @dataclass
    class Wrapped:
        tick: Tick

    assert encode(EventType.of(Tick), [Tick(), Tick()], "S", 0, 0).contents() == [Tick()] * 2
    wrapped = [Wrapped(Tick())]
    Wrapped.__annotations__["tick"] = Tick
    assert encode(EventType.of(Wrapped), wrapped, "S", 0, 0).contents() == wrapped


INNERS = EventType.of(Inner)


def batch_of(*numbers: int, supplier: str = "S", first_seq: int = 0) -> Batch:
    return encode(INNERS, [Inner(n, str(n)) for n in numbers], supplier, first_seq, 50)


def test_events_carry_the_header():
    batch = encode(INNERS, [Inner(1, None), Inner(2, "b")], "JFK", 7, [100, 200])
    assert batch.events() == [
        Event(Inner(1, None), "Inner", "JFK", 7, 100),
        Event(Inner(2, "b"), "Inner", "JFK", 8, 200),
    ]
    assert batch.seqs.tolist() == [7, 8]
    assert batch.times.tolist() == [100, 200]
    assert len(batch) == batch.num_rows == 2


def test_filter_and_slice():
    batch = batch_of(1, 2, 3, 4)
    assert [c.a for c in batch.filter(np.array([True, False, True, False])).contents()] == [1, 3]
    assert batch.filter(np.ones(4, bool)) is batch
    assert batch.filter(np.zeros(4, bool)).events() == []
    assert batch.slice(1, 2).seqs.tolist() == [1, 2]


def test_build_batch_keeps_headers():
    events = batch_of(1, 2, 3, first_seq=10).events()
    kept = build_batch(INNERS, [events[0], events[2].replace(Inner(9, None))])
    assert kept.seqs.tolist() == [10, 12]
    assert [event.content.a for event in kept.events()] == [1, 9]
    with pytest.raises(ProtocolError, match="one supplier"):
        build_batch(INNERS, [*events, *batch_of(1, supplier="T").events()])
    with pytest.raises(ProtocolError, match="one supplier"):
        build_batch(INNERS, [])


def test_concat():
    first, second = batch_of(1, 2), batch_of(3, first_seq=2)
    assert concat([first]) is first
    assert concat([first, second]).events() == first.events() + second.events()
    with pytest.raises(ProtocolError, match="differ"):
        concat([first, batch_of(1, supplier="T")])


def test_optional_dataclasses_share_a_column_with_none():
    @dataclass
    class Holder:
        inner: Inner | None

    contents = [Holder(None), Holder(Inner(1, None)), Holder(None), Holder(Inner(2, "x"))]
    batch = encode(EventType.of(Holder), contents, "S", 0, 0)
    assert batch.contents() == contents
    assert batch.filter(np.array([True, True, False, False])).contents() == contents[:2]
    only_none = encode(EventType.of(Holder), contents[:1], "S", 0, 0)
    assert load(only_none.type, "S", dump(only_none)).contents() == contents[:1]


def test_moments_at_the_ends_of_the_calendar():
    @dataclass
    class Moment:
        at: Annotated[datetime, Zone("UTC")]

    contents = [Moment(datetime.min.replace(tzinfo=UTC)), Moment(datetime.max.replace(tzinfo=UTC))]
    type = EventType.of(Moment)
    assert [type.check(c, "moments") for c in contents] == contents
    assert encode(type, contents, "S", 0, 0).contents() == contents
    assert contents[1].at - contents[0].at > timedelta(days=3_652_058)

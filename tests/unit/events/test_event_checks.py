"""What `check` refuses, and with which words; what it converts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated

import numpy as np
import pandas as pd
import pytest

from activebroker.core.errors import EventRefused, EventTypeError
from activebroker.events import ANY, EventType, Precision, Shape, Zone


class Status(Enum):
    OK = 0
    LATE = 1


class Level(IntEnum):
    HIGH = 3


@dataclass(frozen=True)
class Leg:
    city: str
    miles: float


@dataclass(frozen=True)
class Trip:
    n: int = 1
    f: float = 1.5
    s: str = "x"
    b: bool = True
    raw: bytes = b"r"
    at: datetime = datetime(2024, 5, 1)
    utc: Annotated[datetime, Zone("UTC")] = datetime(2024, 5, 1, tzinfo=UTC)
    day: date = date(2024, 5, 1)
    fare: Annotated[Decimal, Precision(6, 2)] = Decimal("12.50")
    status: Status = Status.OK
    maybe: int | None = None
    tags: list[str] = field(default_factory=list)
    leg: Leg = Leg("Paris", 10.0)
    legs: list[Leg] = field(default_factory=list)
    track: Annotated[np.ndarray, Shape(2, 2)] = field(default_factory=lambda: np.zeros((2, 2)))


TRIP = EventType.of(Trip)

REFUSED = [
    ("n", "1", "expected int, got str '1'"),
    ("n", None, "expected int, got None"),
    ("n", True, "expected int, got bool True"),
    ("n", 1.0, "expected int, got float 1.0"),
    ("n", 2**63, "does not fit into 64 bits"),
    ("n", np.uint64(2**63), "expected int, got uint64"),
    ("f", "1", "expected float, got str '1'"),
    ("f", True, "expected float, got bool True"),
    ("f", 2**53 + 1, "no float has exactly this value"),
    ("f", Decimal("1.5"), "expected float, got Decimal"),
    ("s", 1, "expected str, got int 1"),
    ("s", b"x", "expected str, got bytes b'x'"),
    ("s", "\ud800", "lone surrogate"),
    ("b", 1, "expected bool, got int 1"),
    ("raw", "r", "expected bytes, got str 'r'"),
    ("at", date(2024, 5, 1), "expected datetime, got date"),
    ("at", datetime(2024, 5, 1, tzinfo=UTC), "it has a time zone"),
    ("at", np.datetime64("NaT", "us"), "expected datetime, got datetime64"),
    ("at", np.datetime64("2024-05-01T00:00:00.000000001"), "microseconds cannot hold it"),
    ("at", pd.Timestamp("2024-05-01T00:00:00.000000001"), "microseconds cannot hold it"),
    ("at", pd.NaT, "expected datetime, got NaTType NaT"),
    ("utc", datetime(2024, 5, 1), "expected datetime[UTC], got datetime"),
    ("utc", datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), "outside the calendar"),
    ("day", datetime(2024, 5, 1), "expected date, got datetime"),
    ("fare", 12.5, "expected Decimal[6,2], got float 12.5"),
    ("fare", Decimal("12.505"), "it has more digits"),
    ("fare", Decimal("12345"), "it has more digits"),
    ("fare", Decimal("NaN"), "not a finite number"),
    ("status", "OK", "expected Status<OK,LATE>, got str 'OK'"),
    ("status", Level.HIGH, "expected Status<OK,LATE>, got Level"),
    ("maybe", "x", "expected int | None, got str 'x'"),
    ("tags", "abc", "expected list[str], got str 'abc'"),
    ("leg", "Paris", "expected Leg, got str 'Paris'"),
    ("leg", None, "expected Leg, got None"),
    ("track", [[1.0, 2.0], [3.0, 4.0]], "expected ndarray float64[2, 2], got list"),
    ("track", np.zeros(4), "got ndarray float64[4]"),
    ("track", np.zeros((2, 2), "float32"), "got ndarray float32[2, 2]"),
]


@pytest.mark.parametrize(("name", "value", "text"), REFUSED)
def test_a_refusal_names_channel_field_expected_and_got(name, value, text):
    with pytest.raises(EventRefused) as caught:
        TRIP.check(Trip(**{name: value}), "trips")
    message = str(caught.value)
    assert message.startswith(f"channel 'trips', field '{name}': expected ")
    assert ", got " in message
    assert text in message


PATHS = [
    (Trip(leg=Leg("Rome", "far")), "field 'leg.miles': expected float, got str 'far'"),
    (Trip(tags=["a", 2]), "field 'tags[1]': expected str, got int 2"),
    (Trip(legs=[Leg("a", 1.0), Leg(None, 2.0)]), "field 'legs[1].city': expected str, got None"),
    ({"leg": {"city": "a"}}, "field 'leg.miles': expected float, got nothing"),
    ({"legs": [{"city": "a", "mile": 1.0}]}, "field 'legs[0].mile': expected a field of Leg"),
]


@pytest.mark.parametrize(("content", "text"), PATHS)
def test_nested_values_are_named_by_their_path(content, text):
    with pytest.raises(EventRefused) as caught:
        TRIP.check(content, "trips")
    assert text in str(caught.value)


CONVERTED = [
    ("n", np.int32(5), 5),
    ("n", Level.HIGH, 3),
    ("f", 3, 3.0),
    ("f", np.float32(0.5), 0.5),
    ("f", np.float64(0.5), 0.5),
    ("f", np.int64(2), 2.0),
    ("s", np.str_("y"), "y"),
    ("b", np.bool_(False), False),
    ("raw", bytearray(b"q"), b"q"),
    ("raw", memoryview(b"q"), b"q"),
    ("at", np.datetime64("2024-05-02T01:02:03"), datetime(2024, 5, 2, 1, 2, 3)),
    ("at", pd.Timestamp("2024-05-02T01:02:03"), datetime(2024, 5, 2, 1, 2, 3)),
    ("day", np.datetime64("2024-05-02"), date(2024, 5, 2)),
    ("fare", 7, Decimal(7)),
    ("fare", Decimal("7.5000"), Decimal("7.5")),
    ("maybe", np.int8(4), 4),
    ("tags", ("a", "b"), ["a", "b"]),
    ("tags", np.array(["a", "b"]), ["a", "b"]),
    ("leg", {"city": "Bonn", "miles": 3}, Leg("Bonn", 3.0)),
    ("legs", [{"city": "Bonn", "miles": 3}], [Leg("Bonn", 3.0)]),
]


@pytest.mark.parametrize(("name", "given", "stored"), CONVERTED)
def test_exact_conversions_are_made(name, given, stored):
    checked = TRIP.check(Trip(**{name: given}), "trips")
    value = getattr(checked, name)
    assert value == stored
    assert type(value) is type(stored)
    assert checked.s == ("y" if name == "s" else "x")


def test_what_fits_is_returned_as_it_is():
    trip = Trip(tags=["é"], legs=[Leg("a", 1.0)], maybe=2)
    assert TRIP.check(trip, "trips") is trip


def test_the_wrong_class_is_refused():
    with pytest.raises(EventRefused, match=r"channel 'trips': expected Trip, got int 3"):
        TRIP.check(3, "trips")
    with pytest.raises(EventRefused, match=r"expected Trip, got Leg Leg\("):
        TRIP.check(Leg("a", 1.0), "trips")


def test_a_dataclass_that_is_no_event_type_is_refused_like_any_other_object():
    @dataclass
    class Odd:
        z: complex

    with pytest.raises(EventRefused, match="expected Trip, got Odd"):
        TRIP.check(Odd(1j), "trips")


def test_a_missing_attribute_is_named():
    leg = object.__new__(Leg)
    object.__setattr__(leg, "city", "a")
    with pytest.raises(EventRefused, match="field 'miles': expected float, got nothing"):
        EventType.of(Leg).check(leg, "legs")


def test_subclasses_keep_their_own_type():
    @dataclass(frozen=True)
    class SeaLeg(Leg):
        ship: str = ""

    leg = EventType.of(Leg)
    ship = SeaLeg("Oslo", 9.0, "Fram")
    assert leg.check(ship, "legs") is ship
    assert leg.concrete(ship) is EventType.of(SeaLeg)
    assert leg.concrete(Leg("a", 1.0)) is leg
    assert leg.check(SeaLeg("Oslo", 9, "Fram"), "legs") == ship
    with pytest.raises(EventRefused, match="field 'ship': expected str, got int 1"):
        leg.check(SeaLeg("Oslo", 9.0, 1), "legs")
    with pytest.raises(EventRefused, match="field 'leg': expected Leg, got SeaLeg"):
        TRIP.check(Trip(leg=ship), "trips")


def test_a_subclass_that_is_no_event_type_says_why():
    @dataclass(frozen=True)
    class OddLeg(Leg):
        z: complex = 1j

    with pytest.raises(EventTypeError, match=r"OddLeg\.z"):
        EventType.of(Leg).check(OddLeg("a", 1.0), "legs")


def test_another_process_copy_of_a_class_is_accepted():
    copy = dataclass(frozen=True)(
        type("Leg", (), {"__annotations__": {"city": str, "miles": float}})
    )
    checked = TRIP.check(Trip(leg=copy("Rome", 2.0)), "trips")
    assert checked.leg == Leg("Rome", 2.0)
    assert EventType.of(Leg).check(copy("Rome", 2.0), "legs") == copy("Rome", 2.0)


def test_mappings_are_built():
    leg = EventType.of(Leg)
    assert leg.check({"city": "Rome", "miles": 2}, "legs") == Leg("Rome", 2.0)
    assert TRIP.check({"n": 4}, "trips").n == 4
    with pytest.raises(EventRefused, match="field 'miles': expected float, got nothing"):
        leg.check({"city": "Rome"}, "legs")
    with pytest.raises(EventRefused, match=r"field 'citty': .* Did you mean 'city'\?"):
        leg.check({"citty": "Rome", "miles": 2.0}, "legs")


def test_untyped_channels_take_what_can_be_pickled():
    for content in (1, "x", None, {"a": [1, 2]}, np.arange(3), Leg("a", 1.0)):
        assert ANY.check(content, "misc") is content
    assert ANY.concrete(Leg("a", 1.0)) is ANY
    with pytest.raises(EventRefused) as caught:
        ANY.check({"f": lambda: 1}, "misc")
    assert str(caught.value).startswith("channel 'misc': expected an object that can be pickled")
    assert "lambda" in str(caught.value)

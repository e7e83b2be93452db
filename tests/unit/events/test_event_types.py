"""From dataclasses to event types: schemas, parents, and what is no event type."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import InitVar, dataclass, field, make_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, Flag
from typing import Annotated, Any, ClassVar, Optional

import numpy as np
import pyarrow as pa
import pytest

from activebroker.core.errors import EventTypeError
from activebroker.events import ANY, EventType, Precision, Shape, Zone


class Status(Enum):
    OK = 0
    LATE = 1
    DELAYED = 1  # noqa: PIE796 - an alias


@dataclass(frozen=True)
class Place:
    city: str
    gate: int | None


@dataclass(frozen=True)
class Flight:
    kind: ClassVar[str] = "flight"
    number: int
    delay: float | None
    carrier: str
    cancelled: bool
    raw: bytes
    scheduled: datetime
    departed: Annotated[datetime, Zone("UTC")]
    day: date
    fare: Decimal
    tax: Annotated[Decimal, Precision(10, 2)] | None
    status: Status
    stops: list[str | None]
    origin: Place
    target: Optional[Place]  # noqa: UP045 - both spellings work
    track: Annotated[np.ndarray, Shape(3, 2, dtype="float32")]


@dataclass(frozen=True)
class CargoFlight(Flight):
    tons: float = 0.0


def test_schema():
    place = pa.struct([pa.field("city", pa.string(), False), pa.field("gate", pa.int64())])
    track = pa.list_(pa.field("item", pa.float32(), False), 6)
    assert EventType.of(Flight).schema == pa.schema(
        [
            pa.field("number", pa.int64(), False),
            pa.field("delay", pa.float64(), True),
            pa.field("carrier", pa.string(), False),
            pa.field("cancelled", pa.bool_(), False),
            pa.field("raw", pa.binary(), False),
            pa.field("scheduled", pa.timestamp("us"), False),
            pa.field("departed", pa.timestamp("us", "UTC"), False),
            pa.field("day", pa.date32(), False),
            pa.field("fare", pa.decimal128(38, 18), False),
            pa.field("tax", pa.decimal128(10, 2), True),
            pa.field("status", pa.string(), False),
            pa.field("stops", pa.list_(pa.string()), False),
            pa.field("origin", place, False),
            pa.field("target", place, True),
            pa.field("track", track, False),
        ]
    )


def test_enum_and_array_are_marked_in_the_schema():
    schema = EventType.of(Flight).schema
    assert schema.field("status").metadata[b"activebroker.kind"] == b"enum"
    assert schema.field("status").metadata[b"activebroker.members"] == b'["OK", "LATE"]'
    assert schema.field("track").metadata[b"activebroker.shape"] == b"[3, 2]"


def test_header_columns_come_first():
    assert EventType.of(Place).batch_schema.names == ["$seq", "$time", "city", "gate"]


def test_one_event_type_a_class():
    assert EventType.of(Flight) is EventType.of(Flight)
    assert EventType.of(Flight).name == "Flight"
    assert pickle.loads(pickle.dumps(EventType.of(Flight))) is EventType.of(Flight)
    assert copy.copy(ANY) is ANY


def test_parents():
    flight, cargo = EventType.of(Flight), EventType.of(CargoFlight)
    assert cargo.parent is flight
    assert flight.parent is None
    assert cargo.is_a(flight) and cargo.is_a(cargo) and cargo.is_a(ANY)
    assert not flight.is_a(cargo) and not ANY.is_a(flight)


def test_bases_without_fields_are_no_parents():
    @dataclass
    class Base:
        pass

    class Mixin:
        pass

    @dataclass
    class Tick(Base, Mixin):
        n: int

    assert EventType.of(Tick).parent is None


def test_types_are_equal_when_name_fields_and_parents_are():
    def make(name, annotation, bases=()):
        return EventType.of(dataclasses.make_dataclass(name, [("n", annotation)], bases=bases))

    assert make("A", int) == make("A", int)
    assert len({make("A", int), make("A", int)}) == 1
    assert make("A", int) != make("B", int)
    assert make("A", int) != make("A", Optional[int])  # noqa: UP045
    base = dataclasses.make_dataclass("Base", [("n", int)])
    assert make("A", int) != make("A", int, bases=(base,))
    assert make("A", int, bases=(base,)).is_a(EventType.of(base))


def test_a_class_local_to_a_function():
    @dataclass
    class Local:
        n: int
        place: Place

    assert EventType.of(Local).schema.names == ["n", "place"]


def test_marks_reach_through_optional():
    @dataclass
    class Visit:
        at: Annotated[datetime | None, Zone("Europe/Berlin")]

    assert EventType.of(Visit).schema.field("at") == pa.field(
        "at", pa.timestamp("us", "Europe/Berlin")
    )


class Colours(Flag):
    RED = 1


UNSUPPORTED = [
    (dict[str, int], "dict[str, int]"),
    (list, "list"),
    (tuple[int, int], "tuple[int, int]"),
    (int | str, "int | str"),
    (int | str | None, "int | str | None"),
    (Any, "Any"),
    (np.ndarray, "needs its shape"),
    (complex, "complex"),
    (Colours, "Colours"),
    (Annotated[int, Zone("UTC")], "Zone(name='UTC') does not apply"),
    (list[dict[str, int]], "list[dict[str, int]]"),
]


@pytest.mark.parametrize(("annotation", "named"), UNSUPPORTED, ids=[n for _, n in UNSUPPORTED])
def test_an_unsupported_annotation_is_named(annotation, named):
    cls = dataclasses.make_dataclass("Strange", [("fine", int), ("odd", annotation)])
    with pytest.raises(EventTypeError) as caught:
        EventType.of(cls)
    assert "Strange.odd" in str(caught.value)
    assert named in str(caught.value)
    assert "Supported: int, float" in str(caught.value)


@dataclass
class Node:
    children: list[Node]


def test_a_class_cannot_contain_itself():
    with pytest.raises(EventTypeError, match=r"Node\.children.*cannot contain itself"):
        EventType.of(Node)


def test_names_that_cannot_be_resolved():
    @dataclass
    class Dangling:
        n: Missing  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(EventTypeError, match=r"Dangling.*'Missing' is not defined"):
        EventType.of(Dangling)


def test_init_only_variables_are_refused():
    @dataclass
    class Seeded:
        n: int
        seed: InitVar[int]

        def __post_init__(self, seed):
            self.n += seed

    with pytest.raises(EventTypeError, match=r"Seeded\.seed.*InitVar"):
        EventType.of(Seeded)


def test_what_is_no_dataclass():
    with pytest.raises(EventTypeError, match="not a dataclass"):
        EventType.of(int)


def test_a_subtype_may_not_change_an_inherited_field():
    @dataclass
    class Parent:
        n: int | None
        m: int = 0

    @dataclass
    class Narrower(Parent):
        n: int

    @dataclass
    class Other(Parent):
        n: str

    @dataclass
    class Wider(Parent):
        m: int | None = field(default=None)

    assert EventType.of(Narrower).is_a(EventType.of(Parent))
    with pytest.raises(EventTypeError, match=r"Other\.n.*int \| None, not str"):
        EventType.of(Other)
    with pytest.raises(EventTypeError, match=r"Wider\.m.*int, not int \| None"):
        EventType.of(Wider)


SAME_NAMES = Enum("Status", {"NEW": 1, "OLD": 2}), Enum("Status", {"NEW": 1, "OLD": 2})


@pytest.mark.parametrize(
    ("inherited", "own"),
    [
        (SAME_NAMES[0], str),  # all of these are columns of text
        (SAME_NAMES[0], Status),
        SAME_NAMES,
        (list[SAME_NAMES[0]], list[SAME_NAMES[1]]),
        (SAME_NAMES[0] | None, SAME_NAMES[1]),
        (
            make_dataclass("Inner", [("status", SAME_NAMES[0])]),
            make_dataclass("Inner", [("status", SAME_NAMES[1])]),
        ),
    ],
    ids=str,
)
def test_a_subtype_may_not_have_a_field_of_another_class_in_the_same_column(inherited, own):
    parent = make_dataclass("Parent", [("x", inherited)])
    child = make_dataclass("Child", [("x", own)], bases=(parent,))
    with pytest.raises(EventTypeError, match=r"Child\.x: a subtype must keep its parent's fields"):
        EventType.of(child)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Zone("Mars/Olympus"),
        lambda: Precision(39, 0),
        lambda: Precision(3, 4),
        lambda: Shape(),
        lambda: Shape(0),
        lambda: Shape(2, dtype="complex64"),
        lambda: Shape(2, dtype="object"),
        lambda: Shape(2, dtype="nonsense"),
    ],
)
def test_wrong_marks_are_refused_where_they_are_written(make):
    with pytest.raises(EventTypeError):
        make()

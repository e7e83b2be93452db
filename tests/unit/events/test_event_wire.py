"""Types and batches in another process, with and without the classes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from activebroker.core.errors import ProtocolError
from activebroker.events import (
    ANY,
    EventType,
    Precision,
    Shape,
    TypeDescription,
    TypeRegistry,
    Zone,
    describe,
    dump,
    encode,
    load,
)


class Status(Enum):
    OK = 0
    LATE = 1


@dataclass
class Place:
    city: str
    gate: int | None


@dataclass
class Flight:
    number: int
    delay: float | None
    target: Place
    via: list[Place]
    status: Status
    at: Annotated[datetime, Zone("Europe/Berlin")]
    day: date
    fare: Annotated[Decimal, Precision(10, 2)]
    track: Annotated[np.ndarray, Shape(2, 2, dtype="float32")]
    flags: Annotated[np.ndarray, Shape(3, dtype="bool")] | None


@dataclass
class CargoFlight(Flight):
    tons: float

    def heavy(self) -> bool:
        return self.tons > 10


FLIGHT, CARGO = EventType.of(Flight), EventType.of(CargoFlight)
CONTENT = CargoFlight(
    number=1,
    delay=None,
    target=Place("Rome", 4),
    via=[Place("Oslo", None)],
    status=Status.LATE,
    at=datetime(2024, 5, 1, tzinfo=UTC),
    day=date(2024, 5, 1),
    fare=Decimal("12.50"),
    track=np.arange(4, dtype="float32").reshape(2, 2),
    flags=np.array([True, False, True]),
    tons=12.0,
)


def sent(description: TypeDescription) -> TypeDescription:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(description), type=TypeDescription)


def test_description_survives_encoding():
    description = sent(describe(CARGO))
    assert description == describe(CARGO)
    assert description.parent == describe(FLIGHT)
    assert description.name == "CargoFlight"
    assert description.fingerprint == CARGO.fingerprint


def test_a_registered_class_is_found():
    registry = TypeRegistry()
    registry.register(CARGO)
    assert registry.resolve(sent(describe(CARGO))) is CARGO
    assert registry.get(FLIGHT.fingerprint) is FLIGHT
    assert registry.get("unknown") is None
    assert registry.resolve(sent(describe(ANY))) is ANY


def test_without_the_class_events_decode_to_generic_objects():
    registry = TypeRegistry()
    generic = registry.resolve(sent(describe(CARGO)))
    assert generic.generic
    assert generic == CARGO and generic.is_a(FLIGHT)
    assert generic.schema.equals(CARGO.schema, check_metadata=True)
    assert registry.resolve(describe(CARGO)) is generic

    batch = load(generic, "S", dump(encode(CARGO, [CONTENT], "S", 0, 0)))
    (content,) = batch.contents()
    assert content.number == 1 and content.delay is None and content.tons == 12.0
    assert content.target.city == "Rome" and content.via[0].gate is None
    assert content.status.name == "LATE"
    assert content.at == CONTENT.at and content.day == CONTENT.day and content.fare == CONTENT.fare
    np.testing.assert_array_equal(content.track, CONTENT.track)
    np.testing.assert_array_equal(content.flags, CONTENT.flags)
    with pytest.raises(dataclasses.FrozenInstanceError):
        content.number = 2


def test_generic_objects_can_be_published_again():
    generic = TypeRegistry().resolve(describe(CARGO))
    (content,) = load(generic, "S", dump(encode(CARGO, [CONTENT], "S", 0, 0))).contents()
    changed = dataclasses.replace(content, number=7)
    for type in (generic, FLIGHT):
        checked = type.check(changed, "flights")
        batch = encode(type.concrete(checked), [checked], "S", 0, 0)
        assert batch.type.is_a(FLIGHT)
        assert load(CARGO, "S", dump(batch)).contents()[0].number == 7


def test_a_generic_class_inherits_from_a_known_parent():
    registry = TypeRegistry()
    registry.register(FLIGHT)
    generic = registry.resolve(describe(CARGO))
    assert generic.generic and generic.parent is FLIGHT
    assert issubclass(generic.cls, Flight)
    (content,) = load(generic, "S", dump(encode(CARGO, [CONTENT], "S", 0, 0))).contents()
    assert isinstance(content, Flight) and content.status is Status.LATE


def test_a_real_class_takes_the_place_of_a_generic_one_and_keeps_it():
    registry = TypeRegistry()
    registry.resolve(describe(CARGO))
    registry.register(CARGO)
    assert registry.resolve(describe(CARGO)) is CARGO
    assert registry.resolve(describe(FLIGHT)) is FLIGHT
    registry.register(TypeRegistry().resolve(describe(CARGO)))
    assert registry.get(CARGO.fingerprint) is CARGO


def test_several_bases():
    @dataclass
    class A:
        a: int

    @dataclass
    class B:
        b: int

    @dataclass
    class C(A, B):
        c: int

    type = EventType.of(C)
    assert type.schema.names == ["b", "a", "c"] and type.parent is EventType.of(A)
    generic = TypeRegistry().resolve(describe(type))
    assert generic == type and generic.is_a(EventType.of(A))
    (content,) = load(generic, "S", dump(encode(type, [C(1, 2, 3)], "S", 0, 0))).contents()
    assert (content.a, content.b, content.c) == (2, 1, 3)


def changed(**changes) -> TypeDescription:
    return msgspec.structs.replace(describe(EventType.of(Place)), **changes)


def schema(*fields: pa.Field) -> bytes:
    return pa.schema(fields).serialize().to_pybytes()


@pytest.mark.parametrize(
    "description",
    [
        changed(fingerprint="0" * 64),
        changed(fingerprint="x", schema=b"nonsense"),
        changed(fingerprint="x", schema=b""),
        changed(fingerprint="x", name="not a name"),
        changed(fingerprint="x", name="class"),
        changed(fingerprint="x", schema=schema(pa.field("x); import os #", pa.int64(), False))),
        changed(fingerprint="x", schema=schema(pa.field("__class__", pa.int64(), False))),
        changed(
            fingerprint="x", schema=schema(pa.field("x", pa.int64()), pa.field("x", pa.int64()))
        ),
        changed(fingerprint="x", schema=schema(pa.field("x", pa.int8(), False))),
        changed(fingerprint="x", schema=schema(pa.field("x", pa.timestamp("us", "Mars/X"), False))),
        changed(
            fingerprint="x",
            schema=schema(pa.field("x", pa.string(), metadata={"activebroker.kind": "enum"})),
        ),
        changed(
            fingerprint="x",
            schema=schema(
                pa.field(
                    "x",
                    pa.string(),
                    metadata={
                        "activebroker.kind": "enum",
                        "activebroker.name": "E",
                        "activebroker.members": '["mro", "__init__"]',
                    },
                )
            ),
        ),
        changed(
            fingerprint="x",
            schema=schema(
                pa.field(
                    "x",
                    pa.int64(),
                    metadata={"activebroker.kind": "array", "activebroker.shape": "[2]"},
                )
            ),
        ),
    ],
)
def test_a_wrong_description_is_refused(description):
    with pytest.raises(ProtocolError, match=r"description of event type|described event type"):
        TypeRegistry().resolve(description)


def test_what_a_process_knows_of_others_types_is_bounded(monkeypatch):
    monkeypatch.setattr("activebroker.events.wire.MOST_TYPES", 4)
    registry = TypeRegistry()
    registry.resolve(describe(CARGO))
    registry.resolve(describe(EventType.of(Place)))
    registry.resolve(describe(CARGO))
    with pytest.raises(ProtocolError, match=r"'Status' is one too many"):
        registry.resolve(changed(name="Status", fingerprint="x"))
    with pytest.raises(ProtocolError, match=r"too large"):
        TypeRegistry().resolve(changed(fingerprint="x", schema=bytes(2 << 20)))
    description = changed(fingerprint="0")
    for i in range(3000):
        description = changed(fingerprint=str(i), parent=description)
    with pytest.raises(ProtocolError):
        TypeRegistry().resolve(description)


def test_a_wrong_batch_is_refused():
    place = EventType.of(Place)
    (good,) = dump(encode(place, [Place("a", 1)] * 100, "S", 0, 0))
    for bad in ([], [good, good], [b"nonsense"], [b""], [bytes(good)[:-200]], ["text"]):
        with pytest.raises(ProtocolError, match="Place"):
            load(place, "S", bad)
    with pytest.raises(ProtocolError, match="malformed"):
        load(ANY, "S", [good])


def test_load_makes_views():
    (buffer,) = dump(encode(EventType.of(Place), [Place("a", 1)] * 100, "S", 0, 0))
    received = bytes(buffer)
    seqs = load(EventType.of(Place), "S", [received]).seqs
    assert np.shares_memory(seqs, np.frombuffer(received, np.uint8))


def test_fingerprints_stay_the_same_from_version_to_version():
    # Processes with different versions of Python and Arrow must agree on them.
    assert EventType.of(Place).fingerprint == (
        "8e6dd282695014a7bb361e0e1d220d613605dcbcd27cf6ff5fe3fc4a22c30f2a"
    )

"""The envelope: what can be shipped, and what is refused before anything is unpickled."""

from __future__ import annotations

import builtins
import gc
import hashlib
import hmac
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from activebroker.core.errors import FilterNotPicklable, InvalidFilter, PayloadRefused
from activebroker.events import ANY, Event, EventType, TypeRegistry, describe, encode
from activebroker.filters import (
    PYTHON_VERSION,
    Envelope,
    FIFOFilter,
    FilterRunner,
    FilterSpec,
    Payload,
    analyse,
    load,
    pack,
    unpack,
    verify,
)
from predicate_extract import Predicate

KEY = b"k" * 32


@dataclass(frozen=True)
class Trade:
    name: str
    price: float


@dataclass(frozen=True)
class Name:
    name: str


class AtLeast(FIFOFilter):
    def __init__(self, limit: float, seen: list[str] | None = None) -> None:
        self.limit = limit
        self.seen = seen if seen is not None else []

    def enqueue(self, event: Event) -> None:
        self.seen.append(event.content.name)
        if event.content.price >= self.limit:
            super().enqueue(event)


class Names(FIFOFilter):
    output = Name

    def enqueue(self, event: Event) -> None:
        super().enqueue(event.replace(Name(event.content.name)))


class Trap:
    """Leaves a mark by being unpickled."""

    def __reduce__(self) -> Any:
        return exec, ("import builtins; builtins.trap_sprung = True",)


@pytest.fixture(autouse=True)
def no_trap_sprung() -> Iterator[None]:
    yield
    vars(builtins).pop("trap_sprung", None)


def sprung() -> bool:
    return hasattr(builtins, "trap_sprung")


def packed(given: object, key: bytes = KEY, input_type: EventType | None = None) -> Envelope:
    spec, type_ = FilterSpec.of(given), input_type or EventType.of(Trade)
    return pack(spec, type_, analyse(spec, type_), key=key)


def signed(envelope: Envelope, key: bytes = KEY) -> Envelope:
    """Sign an envelope again, as someone with the key and another release would."""
    unsigned = msgspec.structs.replace(envelope, signature=b"")
    signature = hmac.digest(key, msgspec.msgpack.encode(unsigned), "sha256")
    return msgspec.structs.replace(unsigned, signature=signature)


def forwarded(payload: Payload, *contents: object) -> list[object]:
    filter = payload.make()
    for seq, content in enumerate(contents):
        filter.enqueue(Event(content, "Trade", "NYSE", seq, 0))
    return [event.content for event in filter._take()]


# --- there and back ---------------------------------------------------------------------------


def test_an_envelope_tells_what_it_holds() -> None:
    envelope = packed((AtLeast, 100.0))
    assert envelope.name == "AtLeast"
    assert envelope.python == PYTHON_VERSION
    assert envelope.code_hash == hashlib.sha256(envelope.body).hexdigest()
    assert (envelope.exact, envelope.stateful) == (False, True)
    assert (envelope.shared, envelope.on_error, envelope.idle_after) == (False, "skip", None)
    assert envelope.source is not None
    assert "def enqueue(self, event: Event)" in envelope.source
    assert envelope.output == describe(EventType.of(Trade))


def test_an_envelope_bears_the_predicate() -> None:
    envelope = packed(lambda trade: trade.price > 100)
    assert str(Predicate.from_json(envelope.predicate)) == "price > 100"
    assert (envelope.exact, envelope.stateful) == (True, False)
    # Without a type, an object's own methods decide what the comparison means.
    assert not packed(lambda trade: trade.price > 100, input_type=ANY).exact


def test_an_envelope_bears_the_class_s_policies_and_output() -> None:
    class Watchful(Names):
        shared = True
        on_error = "stop"
        idle_after = 2.5

    envelope = packed(Watchful)
    assert (envelope.shared, envelope.on_error, envelope.idle_after) == (True, "stop", 2.5)
    assert envelope.output == describe(EventType.of(Name))


def test_an_envelope_survives_the_wire() -> None:
    envelope = packed((AtLeast, 100.0))
    data = msgspec.msgpack.encode(envelope)
    again = msgspec.msgpack.decode(data, type=Envelope)
    assert again == envelope
    verify(again, KEY)


def test_a_payload_makes_instances_and_knows_both_types() -> None:
    payload = unpack(packed((AtLeast, 100.0)), KEY)
    assert payload.input == payload.output == EventType.of(Trade)
    dear, cheap = Trade("IBM", 120.0), Trade("AMD", 9.0)
    assert forwarded(payload, dear, cheap) == [dear]
    payload = unpack(packed(Names), KEY)
    assert (payload.input, payload.output) == (EventType.of(Trade), EventType.of(Name))
    assert forwarded(payload, dear) == [Name("IBM")]


def test_on_an_untyped_channel_both_types_are_any() -> None:
    payload = unpack(packed((AtLeast, 1.0), input_type=ANY), KEY)
    assert payload.input is ANY
    assert payload.output is ANY


def test_a_function_travels_with_what_it_closes_over() -> None:
    limit = 100.0
    payload = unpack(packed(lambda trade: trade.price > limit), KEY)
    assert forwarded(payload, Trade("IBM", 120.0), Trade("IBM", 90.0)) == [Trade("IBM", 120.0)]


def test_instances_share_neither_arguments_nor_state() -> None:
    ways: list[object] = [(AtLeast, 100.0, []), AtLeast(100.0, [])]
    for given in ways:
        payload = unpack(packed(given), KEY)
        first, second = payload.make(), payload.make()
        assert isinstance(first, AtLeast)
        assert isinstance(second, AtLeast)
        first.enqueue(Event(Trade("IBM", 1.0), "Trade", "NYSE", 0, 0))
        assert (first.seen, second.seen) == (["IBM"], [])


def test_an_instance_travels_with_its_state() -> None:
    instance = AtLeast(100.0)
    instance.limit = 5.0
    payload = unpack(packed(instance), KEY)
    instance.limit = 1000.0  # too late
    assert forwarded(payload, Trade("AMD", 9.0)) == [Trade("AMD", 9.0)]


# --- what cannot be shipped -------------------------------------------------------------------


def test_a_lock_in_a_closure_is_named() -> None:
    lock = threading.Lock()

    def guarded(trade: Trade) -> bool:
        with lock:
            return trade.price > 1

    with pytest.raises(
        FilterNotPicklable, match=r"Filter guarded cannot be shipped: .*lock.* on_start"
    ):
        packed(guarded)


def test_a_lock_in_an_attribute_is_named() -> None:
    instance = AtLeast(1.0)
    instance.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(
        FilterNotPicklable, match=r"Filter AtLeast cannot be shipped: .*lock.* on_start"
    ):
        packed(instance)


def test_an_argument_that_cannot_be_pickled_is_named() -> None:
    with pytest.raises(FilterNotPicklable, match=r"cannot be shipped: .*generator"):
        packed((AtLeast, (number for number in range(3))))


def test_what_cannot_be_shipped_is_an_invalid_filter() -> None:
    assert issubclass(FilterNotPicklable, InvalidFilter)


# --- what is refused before it is unpickled ---------------------------------------------------


def trapped(**changes: Any) -> Envelope:
    envelope = packed((AtLeast, Trap()))
    return msgspec.structs.replace(envelope, **changes)


def test_the_trap_works() -> None:
    unpack(trapped(), KEY)
    assert sprung()


@pytest.mark.parametrize(
    ("envelope", "says"),
    [
        (packed((AtLeast, Trap()), key=b"other"), "the signature is not of this fabric's key"),
        (trapped(signature=b""), "Connect with the fabric's key and derive again"),
        (trapped(body=b"cos\nsystem\n"), "the signature is not of this fabric's key"),
        (trapped(predicate="false"), "the signature is not of this fabric's key"),
        (trapped(exact=True), "the signature is not of this fabric's key"),
        (
            signed(trapped(version=99)),
            "has payload version 99; this process reads 3. Use the same activebroker release",
        ),
        (signed(trapped(code_hash="0" * 64)), "the code hash does not fit the code"),
    ],
    ids=["key", "unsigned", "body", "predicate", "exact", "version", "hash"],
)
def test_it_is_refused_and_nothing_of_it_runs(envelope: Envelope, says: str) -> None:
    for refuse in (verify, unpack):
        with pytest.raises(PayloadRefused, match=f"Filter AtLeast.*{says}"):
            refuse(envelope, KEY)
    assert not sprung()


def test_code_of_another_python_version_is_not_unpickled() -> None:
    with pytest.raises(
        PayloadRefused,
        match=r"was packed by Python 3\.1; this process runs 3\.\d+\. Use the same minor version",
    ):
        unpack(signed(trapped(python=(3, 1))), KEY)
    assert not sprung()


def test_a_python_version_that_came_over_the_wire_as_a_list_is_understood() -> None:
    unpack(signed(msgspec.structs.replace(packed((AtLeast, 3)), python=[*PYTHON_VERSION])), KEY)


class _Missing:
    def __reduce__(self) -> Any:
        return __import__, ("a_package_that_no_broker_has",)


def test_what_the_broker_lacks_is_named() -> None:
    envelope = packed((AtLeast, _Missing()))
    with pytest.raises(
        PayloadRefused,
        match=r"AtLeast cannot be loaded here: ModuleNotFoundError: .*a_package_that_no_broker_has"
        r".*Install what it imports there",
    ):
        unpack(envelope, KEY)


def test_a_body_that_is_no_payload_is_refused() -> None:
    body = b"not a pickle"
    envelope = packed((AtLeast, 3))
    envelope = msgspec.structs.replace(
        envelope, body=body, code_hash=hashlib.sha256(body).hexdigest()
    )
    with pytest.raises(PayloadRefused, match="cannot be loaded here"):
        unpack(signed(envelope), KEY)


def _shipped() -> Envelope:
    """A filter with types of its own, as from a process that is not there any more."""

    @dataclass(frozen=True)
    class Reading:
        value: int

    @dataclass(frozen=True)
    class Doubled:
        twice: int

    class Double(FIFOFilter):
        output = Doubled

        def enqueue(self, event: Event) -> None:
            super().enqueue(event.replace(Doubled(2 * event.content.value)))

    spec, type_ = FilterSpec.of(Double), EventType.of(Reading)
    return pack(spec, type_, analyse(spec, type_), key=KEY)


@pytest.fixture
def few_objects() -> Iterator[None]:
    """The collector looks only at what the test makes: there are a million objects by then."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("few_objects")
def test_nothing_is_kept_of_the_code_of_filters_that_have_ended() -> None:
    """But for one class of each event type, which the process knows for good."""
    registry, classes = TypeRegistry(), []
    for _ in range(4):
        envelope = _shipped()
        gc.collect()
        payload = load(envelope, KEY, registry)
        runner = FilterRunner(
            payload, channel="derived", name="Double", shared=False, stop_on_error=False
        )
        batch = encode(payload.input, [payload.input.cls(4)], "NYSE", 0, [0])
        assert [each.contents()[0].twice for each in runner.run([batch]).batches] == [8]
        runner.close()
        used = type(payload.make()), payload.input.cls, payload.output.cls
        classes.append([weakref.ref(each) for each in used])
        del payload, runner, batch, used
        gc.collect()  # the types, ...
        gc.collect()  # ... and then their classes
    alive = [[each() is not None for each in refs] for refs in classes]
    assert alive[1:] == [[False] * 3] * 3

"""An exact filter needs no code of its own: its predicate stands in where that cannot run."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec
import pytest

from activebroker.core.errors import PayloadRefused
from activebroker.events import Event, EventType, TypeRegistry, describe, dump, encode
from activebroker.events import load as load_batch
from activebroker.filters import (
    Envelope,
    FIFOFilter,
    FilterRunner,
    FilterSpec,
    Payload,
    analyse,
    load,
    pack,
)

KEY = b"k" * 32


class Side(Enum):
    BUY = 1
    SELL = 2


@dataclass(frozen=True)
class Order:
    price: float | None
    side: Side = Side.BUY
    note: str | None = None


class Missing:
    def __reduce__(self) -> Any:
        return __import__, ("a_package_that_is_not_here",)


class Bought(FIFOFilter):
    """Its predicate is exact, and raises where there is no price."""

    parameters = ("limit",)

    def __init__(self, unused: object = None) -> None:
        self.limit = 100.0

    def enqueue(self, event: Event) -> None:
        if event.content.price > self.limit and event.content.side == Side.BUY:
            super().enqueue(event)


class Counting(Bought):
    def enqueue(self, event: Event) -> None:
        self.seen = getattr(self, "seen", 0) + 1
        super().enqueue(event)


def packed(given: object, **changes: Any) -> Envelope:
    spec = given if isinstance(given, FilterSpec) else FilterSpec.of(given)
    type_ = EventType.of(Order)
    envelope = pack(spec, type_, analyse(spec, type_), key=KEY)
    unsigned = msgspec.structs.replace(envelope, signature=b"", **changes)
    signature = hmac.digest(KEY, msgspec.msgpack.encode(unsigned), "sha256")
    return msgspec.structs.replace(unsigned, signature=signature)


CANNOT_RUN = [packed(Bought, python=(3, 1)), packed((Bought, Missing()))]
ORDERS = [
    Order(200.0),
    Order(None, note="raises"),
    Order(200.0, Side.SELL),
    Order(50.0),
    Order(101.0, note="last"),
]


def running(payload: Payload) -> FilterRunner:
    return FilterRunner(payload, channel="x", name="F", shared=False, stop_on_error=False)


@pytest.mark.parametrize("known", [True, False], ids=["class-known", "class-unknown"])
@pytest.mark.parametrize("envelope", CANNOT_RUN, ids=["python", "import"])
def test_the_predicate_does_what_the_filter_would(envelope: Envelope, known: bool) -> None:
    assert envelope.exact
    registry, order = TypeRegistry(), EventType.of(Order)
    if known:
        registry.register(order)
    runner = running(load(envelope, KEY, registry))
    whole = encode(order, ORDERS, "A", 0, 0)
    batch = load_batch(registry.resolve(describe(order)), "A", dump(whole))
    result = runner.run([batch, "A"])
    assert [seq for each in result.batches for seq in each.seqs.tolist()] == [0, 4]
    (failure,) = result.failures
    assert failure.seq == 1 and failure.error.startswith("TypeError: '>' not supported")
    expected = running(load(packed(Bought), KEY, TypeRegistry())).run([whole])
    assert [each.seq for each in expected.failures] == [1]
    assert expected.failures[0].error == failure.error


def test_it_has_no_state_and_takes_other_parameters() -> None:
    registry = TypeRegistry()
    runner = running(load(packed(Bought, python=(3, 1)), KEY, registry))
    batch = encode(EventType.of(Order), ORDERS, "A", 0, 0)
    runner.run([batch])
    assert runner.snapshot() == {}
    runner.restore({"A": b"not for it"})
    changed = packed(FilterSpec.of(Bought).reconfigured({"limit": 150.0}), python=(3, 1))
    runner.reconfigure(load(changed, KEY, registry), changed)
    (forwarded,) = runner.run([batch]).batches
    assert forwarded.seqs.tolist() == [0]


@pytest.mark.parametrize(
    ("envelope", "says"),
    [
        (packed(Counting, python=(3, 1)), r"packed by Python 3\.1"),
        (packed((Counting, Missing())), "a_package_that_is_not_here"),
        (packed(Bought, python=(3, 1), version=99), "payload version 99"),
        (packed(Bought, python=(3, 1), code_hash="0" * 64), "code hash"),
        (packed(Bought, python=(3, 1), predicate='{"version":99}'), "version 99"),
        (msgspec.structs.replace(packed(Bought, python=(3, 1)), signature=b""), "signature"),
    ],
    ids=["python", "import", "version", "hash", "predicate", "signature"],
)
def test_what_needs_its_code_or_is_not_whole_is_refused(envelope: Envelope, says: str) -> None:
    with pytest.raises(PayloadRefused, match=says):
        load(envelope, KEY, TypeRegistry())

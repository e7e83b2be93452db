"""A filter whose reads are known gets one event, with the fields of one row after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activebroker.events import Event, EventType, encode
from activebroker.filters import (
    Envelope,
    FIFOFilter,
    FilterRunner,
    FilterSpec,
    RunResult,
    analyse,
    pack,
    unpack,
)

KEY = b"key"


class Side(Enum):
    BUY = 1
    SELL = 2


@dataclass(frozen=True)
class Order:
    number: int
    name: str | None
    side: Side
    tags: list[str]


class Counting(FIFOFilter):
    """Every third of a name, and not the header's odd ones."""

    def __init__(self) -> None:
        self.seen: dict[str | None, int] = {}

    def enqueue(self, event: Event) -> None:
        name = event.content.name
        self.seen[name] = self.seen.get(name, 0) + 1
        if self.seen[name] % 3 == 1 and event.seq % 2 == 0 and event.time > 0:
            super().enqueue(event)


class Raising(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if event.content.number % 2:
            super().enqueue(event)
        if 10 // (event.content.number - 3) > len(event.content.tags):
            return


class Stopping(Raising):
    on_error = "stop"


class Buying(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if event.content.side is Side.BUY and len(event.content.tags) == 1:
            super().enqueue(event)


class Sneaky(FIFOFilter):
    """Forwards another event than its code shows."""

    def enqueue(self, event: Event) -> None:
        if event.content.number == 2:
            self._forwarded.append(Event(1, "Order", "s", 0, 0))
        super().enqueue(event)


class Deferring(FIFOFilter):
    """Asks for what it saw of an event when the next one has come."""

    def __init__(self) -> None:
        self.ask: Callable[[], int] | None = None

    def enqueue(self, event: Event) -> None:
        content = event.content
        if self.ask is None or self.ask() < content.number:
            super().enqueue(event)
        self.ask = lambda: content.number


def looks(order: Any) -> object:
    return order.name in ("a", None) and [each for each in order.tags if each]


def half(order: Any) -> bool:
    return 1 / order.number > 0


def packed(filter: object) -> Envelope:
    spec, type = FilterSpec.of(filter), EventType.of(Order)
    envelope = pack(spec, type, analyse(spec, type), key=KEY)
    assert envelope.reads
    return envelope


def runner(envelope: Envelope, reads: tuple[str, ...] | None) -> FilterRunner:
    return FilterRunner(
        unpack(envelope, KEY),
        channel="c",
        name=envelope.name,
        shared=False,
        stop_on_error=envelope.on_error == "stop",
        reads=reads,
    )


def told(result: RunResult) -> tuple[Any, ...]:
    events = [repr(event) for batch in result.batches for event in batch.events()]
    failures = [(f.supplier, f.seq, f.error, f.content) for f in result.failures]
    return events, failures, result.stopped


orders = st.lists(
    st.builds(
        Order,
        number=st.integers(0, 6),
        name=st.none() | st.sampled_from("ab"),
        side=st.sampled_from(Side),
        tags=st.lists(st.sampled_from(("", "x")), max_size=2),
    ),
    min_size=40,
    max_size=90,
)


@pytest.mark.parametrize("filter", [Counting, Raising, Stopping, Buying, looks, half])
def test_the_same_as_with_whole_events(filter: object) -> None:
    envelope = packed(filter)

    @settings(max_examples=30, database=None)
    @given(orders, orders)
    def check(one: list[Order], two: list[Order]) -> None:
        quick, plain = runner(envelope, envelope.reads), runner(envelope, None)
        type = EventType.of(Order)
        items = [encode(type, one, "s", 0, 5), encode(type, two, "t", 3, 5), "s"]
        items += [encode(type, two, "s", len(one), 5)]
        assert told(quick.run(items)) == told(plain.run(items))
        assert quick.snapshot().keys() == plain.snapshot().keys()

    check()


def test_what_a_filter_asks_later_is_of_the_event_that_it_saw() -> None:
    spec, type = FilterSpec.of(Deferring), EventType.of(Order)
    envelope = pack(spec, type, analyse(spec, type), key=KEY)
    some = [Order(n % 3, "a", Side.BUY, []) for n in range(40)]
    batch = encode(type, some, "s", 0, 1)
    assert told(runner(envelope, envelope.reads).run([batch])) == told(
        runner(envelope, None).run([batch])
    )


def test_what_the_code_does_not_show_is_told() -> None:
    envelope = packed(Sneaky)
    quick = runner(envelope, envelope.reads)
    some = [Order(n, "a", Side.BUY, []) for n in range(40)]
    result = quick.run([encode(EventType.of(Order), some, "s", 0, 1)])
    assert [failure.seq for failure in result.failures] == [2]
    assert "another one than it is given" in result.failures[0].error
    assert [event.content.number for event in result.batches[0].events()] == [0, 1, *range(3, 40)]

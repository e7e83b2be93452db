"""Derived channels: every form of filter at every place, chains, hooks, and what stays as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from trading_for_tests import (
    PATIENCE,
    Count,
    Counted,
    Dear,
    Trade,
    by_supplier,
    prices,
    trades,
)

import activebroker as ab
from activebroker import Event, FIFOFilter

PLACES = ["supplier", "consumer", "atlanta"]


@dataclass(frozen=True)
class Total:
    total: float


class Sum(FIFOFilter):
    """Forwards nothing but the sum, at the end of each stream."""

    output = Total

    def __init__(self) -> None:
        self.total = 0.0
        self.last: Event | None = None

    def enqueue(self, event: Event) -> None:
        self.total += event.content.price
        self.last = event

    def on_end(self) -> None:
        if self.last is not None:
            super().enqueue(self.last.replace(Total(self.total)))


class Quiet(FIFOFilter):
    """Holds everything back until nothing came for a while."""

    idle_after = 0.02

    def __init__(self) -> None:
        self.held: list[Event] = []

    def enqueue(self, event: Event) -> None:
        self.held.append(event)

    def on_idle(self) -> None:
        for event in self.held:
            super().enqueue(event)
        self.held.clear()


@pytest.fixture
def channel(fabric: ab.Fabric) -> ab.Channel:
    return fabric.channel("trades", Trade)


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize(
    "given",
    [Dear, (Dear, 100), Dear(100), lambda trade: trade.price > 100],
    ids=["class", "arguments", "instance", "function"],
)
def test_every_form_of_filter_runs_at_every_place(
    channel: ab.Channel, given: object, at: str
) -> None:
    derived = channel.derive(given, at=at)
    assert derived.extraction is not None
    assert derived.extraction.exact
    assert str(derived.extraction.predicate) == "price > 100"
    with derived.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish_batch(trades(90, 120, 100, 101))
        channel.close()
        assert [(event.seq, event.content.price) for event in events] == [(1, 120), (3, 101)]


@pytest.mark.parametrize("at", PLACES)
def test_a_stateful_filter_has_an_instance_for_each_supplier_everywhere(
    channel: ab.Channel, at: str
) -> None:
    counted = channel.derive(Count, at=at)
    with counted.subscribe(timeout=PATIENCE) as events:
        nyse, lse = channel.supplier("NYSE"), channel.supplier("LSE")
        for trade in trades(1, 2, 3):
            nyse.publish(trade)
            lse.publish(trade)
        channel.close()
        expected = [Counted(1, 1), Counted(2, 2), Counted(3, 3)]
        assert by_supplier(events) == {"NYSE": expected, "LSE": expected}


@pytest.mark.parametrize("at", PLACES)
def test_held_back_events_come_at_the_end_of_a_stream(channel: ab.Channel, at: str) -> None:
    total = channel.derive(Sum, at=at)
    with total.subscribe(timeout=PATIENCE) as events, channel.supplier("LSE") as lse:
        lse.publish_batch(trades(5, 6))
        with channel.supplier("NYSE") as nyse:
            nyse.publish_batch(trades(1, 2, 3))
        assert next(iter(events)).content == Total(6.0)  # though the channel goes on
        channel.close()
        assert [event.content for event in events] == [Total(11.0)]


@pytest.mark.parametrize("at", PLACES)
def test_on_idle_runs_when_nothing_comes(channel: ab.Channel, at: str) -> None:
    quiet = channel.derive(Quiet, at=at)
    with quiet.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        for price in (1.0, 2.0):
            nyse.publish(Trade("IBM", price))
            assert next(iter(events)).content.price == price


@pytest.mark.parametrize(
    "places",
    [
        ("supplier", "supplier", "supplier"),
        ("atlanta", "supplier", "dallas"),
        ("consumer", "atlanta", "supplier"),
        ("dallas", "dallas", "consumer"),
    ],
)
def test_derived_channels_derive_again(channel: ab.Channel, places: tuple[str, str, str]) -> None:
    first, second, third = places
    dear = channel.derive(Dear, at=first)
    counted = dear.derive(Count, at=second)
    odd = counted.derive(lambda counted: counted.count == 1 or counted.count == 3, at=third)
    assert (dear.parent, counted.parent, odd.parent) == ("trades", dear.name, counted.name)
    with odd.subscribe(timeout=PATIENCE) as events, counted.subscribe(timeout=PATIENCE) as all_:
        nyse, lse = channel.supplier("NYSE"), channel.supplier("LSE")
        for price in (101, 1, 102, 2, 103, 3, 104):
            nyse.publish(Trade("IBM", price))
            lse.publish(Trade("IBM", price))
        channel.close()
        expected = [Counted(101, 1), Counted(103, 3)]
        assert by_supplier(events) == {"NYSE": expected, "LSE": expected}
        assert len(list(all_)) == 8


def test_the_old_channel_s_consumers_notice_nothing(channel: ab.Channel) -> None:
    with channel.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish_batch(trades(1, 2))
        derived = [channel.derive(Dear, at=at) for at in PLACES]
        nyse.publish_batch(trades(101, 102))
        for each in derived:
            each.close()
        nyse.publish_batch(trades(3))
        channel.close()
        assert prices(events) == [1, 2, 101, 102, 3]


def test_closing_a_derived_channel_delivers_what_was_published_before(
    channel: ab.Channel,
) -> None:
    for at in PLACES:
        derived = channel.derive(Dear, at=at)
        again = derived.derive(Count)
        with again.subscribe(timeout=PATIENCE) as events, channel.supplier(f"at {at}") as supplier:
            supplier.publish_batch(trades(101, 1, 102))
            derived.close()
            supplier.publish(Trade("IBM", 103.0))
            assert [event.content for event in events] == [Counted(101, 1), Counted(102, 2)]


def test_suppliers_and_consumers_may_come_in_any_order(channel: ab.Channel) -> None:
    nyse = channel.supplier("NYSE")
    nyse.publish(Trade("IBM", 100.5))
    dear = channel.derive(Dear)
    nyse.publish(Trade("IBM", 101.0))
    with dear.subscribe(timeout=PATIENCE) as events:
        nyse.publish(Trade("IBM", 102.0))
        lse = channel.supplier("LSE")
        lse.publish(Trade("IBM", 103.0))
        channel.close()
        streams = by_supplier(events)
    # The first was published before there was a filter, the second before a consumer: it may come.
    assert streams["NYSE"][-1:] == trades(102)
    assert streams["LSE"] == trades(103)


def test_names_are_given_or_made_from_parent_and_filter(
    fabric: ab.Fabric, channel: ab.Channel
) -> None:
    assert channel.derive(Dear, name="dear").name == "dear"
    assert channel.derive(Dear).name == "trades.Dear"
    assert channel.derive(Dear).name == "trades.Dear-2"
    again = fabric.channel("dear")
    assert (again.parent, again.type.name) == ("trades", "Trade")
    assert repr(again) == "<channel 'dear' of Trade derived from 'trades'>"


def test_the_type_of_a_derived_channel_is_the_filter_s_output(channel: ab.Channel) -> None:
    counted = channel.derive(Count)
    assert (counted.type.name, counted.type.cls) == ("Counted", Counted)
    # and what derives from it is checked against that type
    with pytest.raises(ab.errors.UnknownField, match="'volume'"):
        counted.derive(lambda counted: counted.volume > 1)


@pytest.mark.parametrize("at", PLACES)
def test_a_filter_may_forward_anything(channel: ab.Channel, at: str) -> None:
    class Loosened(FIFOFilter):
        output = object

        def enqueue(self, event: Event) -> None:
            super().enqueue(event.replace([event.content.name, event.content.price]))

    loosened = channel.derive(Loosened, at=at)
    with loosened.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish(Trade("IBM", 1.0))
        channel.close()
        assert [event.content for event in events] == [["IBM", 1.0]]


@pytest.mark.parametrize("at", PLACES)
def test_untyped_channels_derive_too(fabric: ab.Fabric, at: str) -> None:
    anything = fabric.channel("anything", object)
    words = anything.derive(lambda content: isinstance(content, str), at=at)
    with words.subscribe(timeout=PATIENCE) as events, anything.supplier("source") as source:
        contents: list[Any] = ["a", 1, {"b": 2}, "c"]
        source.publish_batch(contents)
        anything.close()
        assert [event.content for event in events] == ["a", "c"]


def test_a_shared_filter_sees_all_suppliers(channel: ab.Channel) -> None:
    class Together(Count):
        shared = True

    with pytest.raises(ab.errors.InvalidFilter, match="choose 'consumer', 'spark' or a broker"):
        channel.derive(Together, at="supplier")
    counted = channel.derive(Together, at="atlanta")
    with counted.subscribe(timeout=PATIENCE) as events:
        nyse, lse = channel.supplier("NYSE"), channel.supplier("LSE")
        nyse.publish_batch(trades(1, 2))
        lse.publish_batch(trades(3))
        channel.close()
        assert sorted(event.content.count for event in events) == [1, 2, 3]


def test_only_what_the_predicate_wants_leaves_the_supplier(
    fabric: ab.Fabric, channel: ab.Channel
) -> None:
    dear = channel.derive(Dear, at="atlanta")
    with dear.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish_batch(trades(*range(200)))
        taken = iter(events)
        assert len([next(taken) for _ in range(99)]) == 99
        status = fabric.status()
    (flow,) = [flow for flow in status["nodes"]["local"]["flows"] if flow["target"] == "atlanta"]
    assert (flow["offered_events"], flow["sent_events"]) == (200, 99)
    (stage,) = status["nodes"]["atlanta"]["stages"]
    assert (stage["taken_events"], stage["python_events"]) == (99, 0)  # the predicate is exact

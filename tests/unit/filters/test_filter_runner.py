"""A filter over batches: what it forwards and what it loses."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest
from running_for_tests import (
    KEY,
    Dear,
    Name,
    Pairs,
    Trade,
    batch,
    contents,
    lost,
    runner,
    seqs,
    trades,
)

from activebroker.events import Batch, Event, EventType
from activebroker.filters import (
    Envelope,
    FIFOFilter,
    FilterSpec,
    Payload,
    analyse,
    pack,
    unpack,
)


@dataclass(frozen=True)
class BigTrade(Trade):
    volume: int


@dataclass
class Reading:
    """Not frozen: a filter can change it in place."""

    value: int


# --- forwarding -------------------------------------------------------------------------------


class Twice(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        super().enqueue(event)
        super().enqueue(event)


def test_what_is_forwarded_keeps_its_header() -> None:
    result = runner(Dear).run([trades(90, 120, 110, 80, first=7)])
    (forwarded,) = result.batches
    assert [(e.seq, e.time, e.supplier, e.type) for e in forwarded.events()] == [
        (8, 1008, "NYSE", "Trade"),
        (9, 1009, "NYSE", "Trade"),
    ]
    assert (result.failures, result.stopped) == ([], False)


def test_a_batch_that_is_forwarded_whole_is_the_same_batch() -> None:
    whole = trades(110, 120)
    assert runner(Dear).run([whole]).batches[0] is whole


def test_nothing_forwarded_makes_no_batch() -> None:
    assert runner(Dear).run([trades(1, 2)]).batches == []


def test_an_event_may_be_forwarded_more_than_once() -> None:
    assert seqs(runner(Twice).run([trades(1, 2)])) == [0, 0, 1, 1]


def test_an_event_may_be_forwarded_later() -> None:
    run = runner(Pairs)
    assert seqs(run.run([trades(1, 2, 3)])) == [0, 1]
    assert seqs(run.run([trades(4, first=3)])) == [2, 3]


def test_batches_come_out_in_the_order_in_which_they_went_in() -> None:
    items = [trades(101, supplier="NYSE"), trades(102, supplier="LSE"), trades(103, first=1)]
    result = runner(Dear).run(items)
    assert [(each.supplier, each.seqs.tolist()) for each in result.batches] == [
        ("NYSE", [0]),
        ("LSE", [0]),
        ("NYSE", [1]),
    ]


def test_a_transformed_event_has_the_type_that_the_class_declares() -> None:
    class Names(FIFOFilter):
        output = Name

        def enqueue(self, event: Event) -> None:
            super().enqueue(event.replace(Name(event.content.name)))

    (made,) = runner(Names).run([trades(1, 2, first=5)]).batches
    assert made.type == EventType.of(Name)
    assert made.contents() == [Name("IBM"), Name("IBM")]
    assert [(event.seq, event.time) for event in made.events()] == [(5, 1005), (6, 1006)]


def test_a_transformed_event_may_keep_its_type_or_be_of_a_subclass() -> None:
    class Round(FIFOFilter):
        def enqueue(self, event: Event) -> None:
            trade = event.content
            dear = trade.price > 100
            super().enqueue(
                event.replace(
                    BigTrade(trade.name, trade.price, 7) if dear else Trade(trade.name, 0.0)
                )
            )

    result = runner(Round).run([trades(90, 120, 130, 80)])
    assert [each.type.name for each in result.batches] == ["Trade", "BigTrade", "Trade"]
    assert contents(result) == [
        Trade("IBM", 0.0),
        BigTrade("IBM", 120.0, 7),
        BigTrade("IBM", 130.0, 7),
        Trade("IBM", 0.0),
    ]


def test_events_of_a_subclass_stay_what_they_are() -> None:
    big = batch(BigTrade("IBM", 120.0, 5), BigTrade("IBM", 1.0, 6))
    (kept,) = runner(Dear).run([big]).batches
    assert kept.type == EventType.of(BigTrade)
    assert kept.contents() == [BigTrade("IBM", 120.0, 5)]


def test_on_an_untyped_channel_anything_is_forwarded() -> None:
    result = runner(lambda content: content != "b", cls=object).run(
        [batch("a", "b", {"c": 3}, cls=object)]
    )
    assert contents(result) == ["a", {"c": 3}]


def test_what_a_filter_changes_in_place_is_seen_downstream() -> None:
    class Doubled(FIFOFilter):
        def enqueue(self, event: Event) -> None:
            event.content.value *= 2
            super().enqueue(event)

    given = batch(Reading(1), Reading(2))
    assert contents(runner(Doubled, Reading).run([given])) == [Reading(2), Reading(4)]
    assert given.contents() == [Reading(1), Reading(2)]  # the batch is others' too


# --- failures ---------------------------------------------------------------------------------


class Fragile(FIFOFilter):
    """Forwards, then raises on a negative price; so half of its work is done by then."""

    error: type[BaseException] = ValueError

    def enqueue(self, event: Event) -> None:
        super().enqueue(event)
        if event.content.price < 0:
            raise self.error(f"price {event.content.price:g}")


def test_an_event_on_which_the_filter_raises_is_lost_with_what_it_forwarded() -> None:
    result = runner(Fragile).run([trades(1, -2, 3, first=10)])
    assert seqs(result) == [10, 12]
    (failure,) = result.failures
    assert (failure.channel, failure.filter) == ("derived", "F")
    assert (failure.supplier, failure.seq) == ("NYSE", 11)
    assert failure.error == "ValueError: price -2"
    assert "raise self.error" in failure.traceback
    assert not result.stopped


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_even_an_exit_costs_one_event_and_no_more(error: type[BaseException]) -> None:
    class Exits(Fragile):
        pass

    Exits.error = error
    result = runner(Exits).run([trades(1, -2, 3)])
    assert seqs(result) == [0, 2]
    assert result.failures[0].error == f"{error.__name__}: price -2"


def test_sys_exit_in_a_filter_is_survived() -> None:
    def leave(trade: Trade) -> bool:
        return trade.price > 1 or sys.exit("enough")

    result = runner(leave).run([trades(1, 2)])
    assert (seqs(result), lost(result)) == ([1], [("NYSE", 0)])


def fragile(trade: Trade) -> bool:
    if trade.price < 0:
        raise ValueError(trade.price)
    return True


@pytest.mark.parametrize("given", [Fragile, fragile])
@pytest.mark.parametrize("cls", [Trade, object])
def test_the_policy_stop_ends_at_the_event_and_delivers_what_came_before(
    given: object, cls: type
) -> None:
    def trades(*prices: float, first: int = 0) -> Batch:
        return batch(*(Trade("IBM", price) for price in prices), first=first, cls=cls)

    result = runner(given, cls, stop=True).run([trades(1, 2, -3, 4), trades(5, first=4)])
    assert result.stopped
    assert (seqs(result), lost(result)) == ([0, 1], [("NYSE", 2)])


def test_content_of_another_type_is_a_failure_of_that_event_alone() -> None:
    class Wrong(FIFOFilter):
        def enqueue(self, event: Event) -> None:
            wrong = event.replace(Name("IBM"))
            super().enqueue(wrong if event.content.price < 0 else event)

    result = runner(Wrong).run([trades(1, -2, 3)])
    assert (seqs(result), lost(result)) == ([0, 2], [("NYSE", 1)])
    assert result.failures[0].error.startswith("EventRefused: channel 'derived'")


def test_a_content_forwarded_without_its_event_is_a_failure_that_says_what_to_do() -> None:
    class Bare(FIFOFilter):
        def enqueue(self, event: Event) -> None:
            super().enqueue(event.content)

    result = runner(Bare).run([trades(1)])
    assert result.batches == []
    assert "got Trade. Use super().enqueue(event.replace(content))" in result.failures[0].error


def test_a_constructor_that_raises_loses_the_batch_visibly_and_is_tried_again() -> None:
    class Broken(FIFOFilter):
        def __init__(self, limit: int) -> None:
            self.limit = 1 // limit

        def enqueue(self, event: Event) -> None:
            super().enqueue(event)

    run = runner((Broken, 0))
    for first in (0, 2):
        result = run.run([trades(1, 2, first=first)])
        assert result.batches == []
        assert lost(result) == [("NYSE", first), ("NYSE", first + 1)]
        assert result.failures[0].error.startswith("ZeroDivisionError")


# --- other parameters -------------------------------------------------------------------------


class Bounded(FIFOFilter):
    """Its parameter has a setter, which refuses some values."""

    parameters = ("limit", "note")

    def __init__(self) -> None:
        self._limit = 100.0

    @property
    def limit(self) -> float:
        return self._limit

    @limit.setter
    def limit(self, limit: float) -> None:
        if limit < 0:
            raise ValueError("negative")
        self._limit = limit

    def enqueue(self, event: Event) -> None:
        if event.content.price > self.limit:
            super().enqueue(event)


def reconfigured(values: dict[str, object]) -> tuple[Payload, Envelope]:
    spec, type_ = FilterSpec.of(Bounded).reconfigured(values), EventType.of(Trade)
    envelope = pack(spec, type_, analyse(spec, type_), key=KEY)
    return unpack(envelope, KEY), envelope


def test_parameters_are_set_in_all_instances_and_in_those_to_come() -> None:
    bounded = runner(Bounded)
    bounded.run([trades(150)])
    bounded.reconfigure(*reconfigured({"limit": 50.0}))
    result = bounded.run([trades(60, first=1), trades(70, 40, supplier="LSE")])
    assert [trade.price for trade in contents(result)] == [60, 70]


def test_a_setter_that_raises_leaves_all_instances_as_they_were() -> None:
    bounded = runner(Bounded)
    bounded.run([trades(150), trades(150, supplier="LSE")])
    with pytest.raises(ValueError, match="negative"):
        bounded.reconfigure(*reconfigured({"note": "new", "limit": -1.0}))
    result = bounded.run([trades(90, 110, first=1), trades(90, 110, supplier="TSE")])
    assert [trade.price for trade in contents(result)] == [110, 110]

"""Filters that raise: `channel.errors`, the policy to stop, and what others notice of it."""

from __future__ import annotations

import pytest
from trading_for_tests import PATIENCE, Count, Counted, Dear, Trade, prices, trades

import activebroker as ab
from activebroker import Event, FIFOFilter
from activebroker.core.errors import FilterStopped
from activebroker.fabric.failures import KEPT, FailureLog
from activebroker.filters import Failure

PLACES = ["supplier", "consumer", "atlanta"]


class Fragile(FIFOFilter):
    """Cannot stand a price of 13."""

    def enqueue(self, event: Event) -> None:
        super().enqueue(event)
        if event.content.price == 13:
            raise ValueError("unlucky")


class Stops(Fragile):
    on_error = "stop"


@pytest.fixture
def channel(fabric: ab.Fabric) -> ab.Channel:
    return fabric.channel("trades", Trade)


@pytest.mark.parametrize("at", PLACES)
def test_an_event_on_which_a_filter_raises_is_reported_and_the_stream_goes_on(
    channel: ab.Channel, at: str
) -> None:
    derived = channel.derive(Fragile, at=at)
    assert not derived.errors
    assert len(derived.errors) == 0
    with derived.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish_batch(trades(1, 13, 2, 13))
        channel.close()
        assert prices(events) == [1, 2]
    assert derived.errors.wait(2)
    assert len(derived.errors) == 2
    first, second = derived.errors
    assert (first.channel, first.filter) == (derived.name, "Fragile")
    assert (first.supplier, first.seq, second.seq) == ("NYSE", 1, 3)
    assert first.error == "ValueError: unlucky"
    assert 'raise ValueError("unlucky")' in first.traceback
    assert repr(derived.errors) == "<2 events lost, last: ValueError: unlucky>"


@pytest.mark.parametrize("at", PLACES)
def test_a_predicate_that_raises_lets_the_filter_raise(channel: ab.Channel, at: str) -> None:
    """What the predicate cannot compare is not dropped in silence."""
    derived = channel.derive(lambda trade: trade.name > 7, at=at)
    with derived.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish_batch(trades(1, 2))
        channel.close()
        assert list(events) == []
    assert derived.errors.wait(2)
    assert {failure.error.partition(":")[0] for failure in derived.errors} == {"TypeError"}


def test_other_consumers_and_filters_notice_nothing(channel: ab.Channel) -> None:
    fragile = channel.derive(Fragile, at="atlanta")
    counted = channel.derive(Count, at="atlanta")
    with (
        channel.subscribe(timeout=PATIENCE) as all_,
        counted.subscribe(timeout=PATIENCE) as counts,
        fragile.subscribe(timeout=PATIENCE) as rest,
        channel.supplier("NYSE") as nyse,
    ):
        nyse.publish_batch(trades(1, 13, 2))
        channel.close()
        assert prices(all_) == [1, 13, 2]
        assert [event.content for event in counts] == [
            Counted(1, 1),
            Counted(13, 2),
            Counted(2, 3),
        ]
        assert prices(rest) == [1, 2]
    assert not counted.errors
    assert not channel.errors


def test_sys_exit_in_a_filter_ends_nothing(channel: ab.Channel) -> None:
    class Leaves(FIFOFilter):
        def enqueue(self, event: Event) -> None:
            if event.content.price == 13:
                raise SystemExit(1)
            super().enqueue(event)

    derived = channel.derive(Leaves, at="atlanta")
    with derived.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish_batch(trades(1, 13, 2))
        channel.close()
        assert prices(events) == [1, 2]
    assert derived.errors.wait(1)


def test_many_failures_are_all_counted(fabric: ab.Fabric, channel: ab.Channel) -> None:
    def never(trade: Trade) -> bool:
        return bool([][int(trade.price)])

    derived = channel.derive(never, at="atlanta")
    with derived.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish_batch(trades(*range(3000)))
        channel.close()
        assert list(events) == []
    assert derived.errors.wait(3000)
    assert len(derived.errors) == 3000
    assert 0 < len(list(derived.errors)) <= KEPT


def test_a_filter_that_cannot_be_made_where_it_runs_loses_events_visibly(
    channel: ab.Channel,
) -> None:
    class Picky(Dear):
        def __init__(self, limit: float) -> None:
            super().__init__(1 / limit)

    derived = channel.derive((Picky, 0), at="atlanta")
    with derived.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish_batch(trades(1, 2))
        channel.close()
        assert list(events) == []
    assert derived.errors.wait(2)
    assert [failure.error for failure in derived.errors] == [
        "ZeroDivisionError: division by zero"
    ] * 2


# --- the policy to stop -----------------------------------------------------------------------


@pytest.mark.parametrize("at", PLACES)
def test_a_filter_may_stop_its_channel(channel: ab.Channel, at: str) -> None:
    derived = channel.derive(Stops, at=at)
    with derived.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish_batch(trades(1, 2, 13, 3))
        taken: list[float] = []
        with pytest.raises(FilterStopped, match="ValueError: unlucky"):
            taken.extend(event.content.price for event in events)
        with pytest.raises(FilterStopped):
            next(events.batches())
    assert derived.errors.wait(1)
    (failure,) = derived.errors
    assert (failure.supplier, failure.seq) == ("NYSE", 2)


@pytest.mark.parametrize("at", PLACES)
def test_what_came_before_the_stop_is_delivered(channel: ab.Channel, at: str) -> None:
    derived = channel.derive(Stops, at=at)
    taken: list[float] = []
    events = derived.subscribe(lambda event: taken.append(event.content.price))
    channel.supplier("NYSE").publish_batch(trades(1, 2, 13, 3))
    with pytest.raises(FilterStopped, match="ValueError: unlucky"):
        events.join(PATIENCE)
    assert taken == [1, 2]
    events.close()


def test_a_stop_ends_what_is_derived_and_nothing_else(channel: ab.Channel) -> None:
    stops = channel.derive(Stops, at="atlanta")
    below = stops.derive(Count, at="dallas")
    with (
        channel.subscribe(timeout=PATIENCE) as all_,
        below.subscribe(timeout=PATIENCE) as counts,
        channel.supplier("NYSE") as nyse,
    ):
        nyse.publish_batch(trades(1, 13))
        seen: list[Counted] = []
        with pytest.raises(FilterStopped, match="unlucky"):
            for event in counts:
                seen.append(event.content)
        assert seen == [Counted(1, 1)]
        nyse.publish_batch(trades(2))
        channel.close()
        assert prices(all_) == [1, 13, 2]


def test_who_subscribes_after_a_stop_is_told(channel: ab.Channel) -> None:
    stops = channel.derive(Stops, at="atlanta")
    with stops.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish(Trade("IBM", 13.0))
        with pytest.raises(FilterStopped):
            next(iter(events))
        with (
            stops.subscribe(timeout=PATIENCE) as late,
            pytest.raises(FilterStopped, match="unlucky"),
        ):
            next(iter(late))


# --- the log ----------------------------------------------------------------------------------


def test_the_log_counts_all_and_keeps_the_last() -> None:
    log = FailureLog()
    assert repr(log) == "<0 events lost>"
    for seq in range(KEPT + 10):
        log.add(2, (Failure("derived", "F", "NYSE", seq, f"ValueError: {seq}", ""),))
    assert len(log) == 2 * KEPT + 20
    assert [failure.seq for failure in log] == list(range(10, KEPT + 10))
    assert repr(log) == "<2020 events lost, last: ValueError: 1009>"
    assert log.wait(2020, patience=0.0)
    assert not log.wait(2021, patience=0.01)

"""Third-party derivation while events flow: every event once, in order, and the state with it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from trading_for_tests import (
    PATIENCE,
    Count,
    Counted,
    Dear,
    Publishing,
    Trade,
    by_supplier,
    prices,
    trades,
)

import activebroker as ab
from activebroker import Event, FIFOFilter
from activebroker.core.errors import InvalidFilter, MoveFailed, UnknownPlace

TOUR = ["atlanta", "consumer", "supplier", "dallas", "supplier", "atlanta", "dallas", "consumer"]


@pytest.fixture
def channel(fabric: ab.Fabric) -> ab.Channel:
    return fabric.channel("trades", Trade)


def counted(count: int) -> list[Counted]:
    """What `Count` makes of the first `count` prices when it is one filter all along."""
    return [Counted(float(price), price + 1) for price in range(count)]


def place_of(fabric: ab.Fabric, channel: ab.Channel) -> tuple[str, list[str]]:
    (found,) = [each for each in fabric.status()["channels"] if each["name"] == channel.name]
    return found["at"], [stage["node"] for stage in found["stages"]]


@pytest.mark.parametrize("start", ["supplier", "consumer", "atlanta"])
def test_a_filter_tours_all_places(fabric: ab.Fabric, channel: ab.Channel, start: str) -> None:
    derived = channel.derive(Count, at=start)
    with derived.subscribe(timeout=PATIENCE) as events, channel.subscribe(timeout=PATIENCE) as all_:
        nyse, lse = channel.supplier("NYSE"), channel.supplier("LSE")
        with Publishing(nyse, lse) as publishing:
            for place in TOUR:
                publishing.go_on()
                derived.move(place)
                at, (node,) = place_of(fabric, derived)
                assert at == place
                assert node == ("local" if place in ("consumer", "supplier") else place)
            publishing.go_on()
        channel.close()
        expected = counted(publishing.count)
        assert by_supplier(events) == {"NYSE": expected, "LSE": expected}
        assert {len(contents) for contents in by_supplier(all_).values()} == {publishing.count}
    assert not derived.errors


def test_the_middle_of_a_chain_moves(channel: ab.Channel) -> None:
    dear = channel.derive((Dear, -1), at="atlanta")
    middle = dear.derive(Count, at="consumer")
    last = middle.derive(lambda content: content.count > 0, at="dallas")
    with last.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        with Publishing(nyse) as publishing:
            for place in ("dallas", "atlanta", "consumer"):
                publishing.go_on()
                middle.move(place)
                publishing.go_on()
                dear.move("dallas" if place == "atlanta" else "consumer")
        channel.close()
        assert [event.content for event in events] == counted(publishing.count)


def test_consumers_may_come_and_go_around_a_move(channel: ab.Channel) -> None:
    derived = channel.derive(Count, at="consumer")
    with derived.subscribe(timeout=PATIENCE) as first, channel.supplier("NYSE") as nyse:
        with Publishing(nyse) as publishing:
            publishing.go_on()
            going = derived.subscribe()
            derived.move("atlanta")
            going.close()
            late = derived.subscribe(timeout=PATIENCE)
            publishing.go_on()
            derived.move("dallas")
            publishing.go_on()
        channel.close()
        expected = counted(publishing.count)
        assert [event.content for event in first] == expected
        seen = [event.content for event in late]
        assert seen
        assert seen == expected[-len(seen) :]


def test_a_supplier_may_come_and_go_around_a_move(channel: ab.Channel) -> None:
    derived = channel.derive(Count, at="consumer")
    with derived.subscribe(timeout=PATIENCE) as events:
        with channel.supplier("early") as early:
            early.publish_batch(trades(0, 1, 2))
        nyse = channel.supplier("NYSE")
        with Publishing(nyse) as publishing:
            derived.move("atlanta")
            with channel.supplier("late") as late:
                late.publish_batch(trades(0, 1, 2, 3))
            derived.move("dallas")
        channel.close()
        assert by_supplier(events) == {
            "early": counted(3),
            "NYSE": counted(publishing.count),
            "late": counted(4),
        }


def test_a_move_without_any_event_or_supplier(channel: ab.Channel) -> None:
    derived = channel.derive(Count, at="consumer")
    derived.move("atlanta")
    with derived.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        derived.move("dallas")
        nyse.publish_batch(trades(0, 1))
        channel.close()
        assert [event.content for event in events] == counted(2)


def test_a_move_to_where_it_is_changes_nothing(fabric: ab.Fabric, channel: ab.Channel) -> None:
    derived = channel.derive(Count, at="atlanta")
    with derived.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish_batch(trades(0, 1))
        derived.move("atlanta")
        nyse.publish_batch(trades(2))
        channel.close()
        assert [event.content for event in events] == counted(3)


def test_what_is_held_back_moves_along(channel: ab.Channel) -> None:
    class Pairs(FIFOFilter):
        def __init__(self) -> None:
            self.first: Event | None = None

        def enqueue(self, event: Event) -> None:
            if self.first is None:
                self.first = event
            else:
                super().enqueue(self.first)
                super().enqueue(event)
                self.first = None

    pairs = channel.derive(Pairs, at="consumer")
    with pairs.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish(Trade("IBM", 1.0))
        pairs.move("atlanta")
        nyse.publish(Trade("IBM", 2.0))
        channel.close()
        assert prices(events) == [1, 2]


def test_a_state_that_cannot_move_is_reported_and_the_filter_starts_afresh(
    channel: ab.Channel,
) -> None:
    class Clinging(Count):
        def snapshot(self) -> bytes:
            raise RuntimeError("no copy of me")

    derived = channel.derive(Clinging, at="consumer")
    with derived.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish_batch(trades(0, 1))
        taken = iter(events)
        assert [next(taken).content.count for _ in range(2)] == [1, 2]
        derived.move("atlanta")
        assert derived.errors.wait(1)
        (failure,) = derived.errors
        assert (failure.filter, failure.error) == (
            "test_a_state_that_cannot_move_is_reported_and_the_filter_starts_afresh"
            ".<locals>.Clinging",
            "RuntimeError: no copy of me",
        )
        nyse.publish_batch(trades(2))
        channel.close()
        assert [event.content for event in taken] == [Counted(2.0, 1)]


# --- offload ----------------------------------------------------------------------------------


def test_a_supplier_hands_its_fan_out_over_while_it_publishes(
    fabric: ab.Fabric, channel: ab.Channel
) -> None:
    kinds: list[tuple[Any, str]] = [(Dear, "atlanta"), (Count, "dallas"), (Count, "supplier")]
    derived = [channel.derive(given, at=at) for given, at in kinds]
    with channel.supplier("NYSE") as nyse, channel.supplier("LSE") as lse:
        consumers = [each.subscribe(timeout=PATIENCE) for each in (channel, *derived)]
        with Publishing(nyse, lse) as publishing:
            publishing.go_on()
            nyse.offload(to="atlanta")
            publishing.go_on()
            derived[1].move("atlanta")
            consumers.append(derived[1].subscribe(timeout=PATIENCE))
            publishing.go_on()
        channel.close()
        count = publishing.count
        plain, dear, *counts = (by_supplier(each) for each in consumers)
    every = trades(*range(count))
    assert plain == {"NYSE": every, "LSE": every}
    assert dear == {"NYSE": every[101:], "LSE": every[101:]}
    expected = counted(count)
    assert counts[:2] == [{"NYSE": expected, "LSE": expected}] * 2
    for supplier in ("NYSE", "LSE"):
        late = counts[2][supplier]
        assert late == expected[-len(late) :]


def test_after_an_offload_remote_consumers_are_served_by_the_relay(
    fabric: ab.Fabric, channel: ab.Channel
) -> None:
    derived = [channel.derive((Dear, limit), at="dallas") for limit in (10, 20)]
    with channel.supplier("NYSE") as nyse:
        consumers = [each.subscribe(timeout=PATIENCE) for each in derived]
        nyse.offload(to="atlanta")
        nyse.publish_batch(trades(*range(30)))
        for each, expected in zip(consumers, (range(11, 30), range(21, 30)), strict=True):
            assert prices(itertools.islice(each, len(expected))) == list(expected)
        flows = fabric.status()["nodes"]["local"]["flows"]
    (feed,) = [flow for flow in flows if flow["channel"] == "trades"]
    # What both want together crosses once.
    assert (feed["target"], feed["sent_events"]) == ("atlanta", 19)


def test_offloading_twice_or_nobody_is_refused(channel: ab.Channel) -> None:
    nyse = channel.supplier("NYSE")
    dear = channel.derive(Dear, at="dallas")
    with dear.subscribe():
        nyse.offload(to="atlanta")
        with pytest.raises(MoveFailed, match="has handed its fan-out to 'atlanta' already"):
            nyse.offload(to="dallas")
    nyse.close()
    with pytest.raises(UnknownPlace, match="has no supplier 'NYSE'"):
        nyse.offload(to="dallas")


def test_a_supplier_hands_some_of_its_consumers_over(
    fabric: ab.Fabric, channel: ab.Channel
) -> None:
    derived = [channel.derive((Dear, limit), at="dallas") for limit in (10, 20)]
    with channel.supplier("NYSE") as nyse:
        consumers = [each.subscribe(timeout=PATIENCE) for each in (*derived, channel)]
        with pytest.raises(UnknownPlace, match=r"'atlanta' is none of them\. It serves: 'dallas'"):
            nyse.offload(to="atlanta", consumers=["atlanta"])
        with pytest.raises(UnknownPlace, match="none was named"):
            nyse.offload(to="atlanta", consumers=[])
        nyse.offload(to="atlanta", consumers="dallas")
        late = channel.derive((Dear, 5), at="dallas")
        consumers.append(late.subscribe(timeout=PATIENCE))
        nyse.publish_batch(trades(*range(30)))
        expected = (range(11, 30), range(21, 30), range(30), range(6, 30))
        for each, those in zip(consumers, expected, strict=True):
            assert prices(itertools.islice(each, len(those))) == list(those)
        (relay,) = fabric.status()["channels"][0]["relays"]
    assert (relay["node"], relay["newcomers"]) == ("atlanta", False)
    assert relay["subscribers"] == [each.name for each in derived]


# --- what cannot move -------------------------------------------------------------------------


def test_what_is_not_derived_has_no_filter_to_move(channel: ab.Channel) -> None:
    with pytest.raises(InvalidFilter, match=r"'trades' is not derived.*use supplier\.offload"):
        channel.move("atlanta")


def test_an_unknown_place_is_answered_with_a_suggestion(channel: ab.Channel) -> None:
    derived = channel.derive(Count, at="consumer")
    nyse = channel.supplier("NYSE")
    for move in (derived.move, nyse.offload):
        with pytest.raises(UnknownPlace, match=r"no broker 'atlenta'.*Did you mean 'atlanta'\?"):
            move(to="atlenta")


def test_without_suppliers_there_is_no_place_of_theirs(channel: ab.Channel) -> None:
    derived = channel.derive(Count, at="consumer")
    with pytest.raises(UnknownPlace, match="'trades' has no supplier now"):
        derived.move("supplier")


def test_a_shared_filter_does_not_move_to_the_suppliers(channel: ab.Channel) -> None:
    class Together(Count):
        shared = True

    derived = channel.derive(Together, at="atlanta")
    channel.supplier("NYSE")
    with pytest.raises(InvalidFilter, match="is shared and cannot run at 'supplier'"):
        derived.move("supplier")


def test_what_runs_beside_it_has_to_move_first(channel: ab.Channel) -> None:
    derived = channel.derive(Count, at="atlanta")
    beside = derived.derive(lambda content: content.count > 1, at="supplier", name="beside")
    with pytest.raises(MoveFailed, match="move 'beside' first"):
        derived.move("dallas")
    with beside.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        beside.move("consumer")
        derived.move("dallas")
        nyse.publish_batch(trades(0, 1, 2))
        channel.close()
        assert [event.content for event in events] == counted(3)[1:]


def test_a_closed_channel_does_not_move(channel: ab.Channel) -> None:
    derived = channel.derive(Count, at="consumer")
    derived.close()
    with pytest.raises(ab.errors.Closed, match="was closed"):
        derived.move("atlanta")

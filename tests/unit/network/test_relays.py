"""A supplier with relays: they outlive their brokers, and each serves those it was given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scene_for_tests import COUNTED, FOUND_LOST, Scene, Sink, Source

from activebroker.core.errors import MoveFailed, UnknownPlace
from activebroker.directory.parts import Relay
from activebroker.directory.recoveries import LONGEST_WAIT
from activebroker.directory.recovery import Recovery
from activebroker.simulation.reference import Count, Few, HoldBack


@pytest.fixture
def scene() -> Scene:
    return Scene()


def relays(scene: Scene) -> list[Relay]:
    return list(scene.directory.graph.relays.values())


def served_by(scene: Scene) -> list[tuple[str, list[str]]]:
    """The places of the relays, each with its subscribers."""
    return [(relay.at, list(relay.subscribers)) for relay in relays(scene)]


def numbers(upto: int) -> list[str]:
    return [str(number) for number in range(upto)]


def traces(source: Source, *sinks: Sink) -> Iterator[list[str]]:
    return (sink.of(source.name) for sink in sinks)


# --- a relay is lost ----------------------------------------------------------------------------


@pytest.mark.parametrize("milliseconds", [0, 10, 40, 100, 400, 4000])
def test_what_a_relay_passes_on_goes_on(milliseconds: int) -> None:
    """Before its death, when nobody knows of it, and after it; behind it is a filter."""
    scene = Scene(milliseconds)
    source, other = scene.supplier("east", "A"), scene.supplier("hub", "B")
    derived = scene.derive(Count, "dallas")
    plain = [scene.subscribe(host, "x") for host in ("west", "hub", "east")]
    counted = scene.subscribe("west", derived)
    scene.offload(source, "atlanta")
    source.publish(0, 1)
    scene.net.run_for(milliseconds / 1000)
    source.publish(2)
    scene.net.kill("atlanta")
    other.publish(0)
    source.publish(3)
    scene.net.run_for(FOUND_LOST)
    (relay,) = relays(scene)
    assert relay.at not in ("atlanta", "east")
    source.publish(0, 1)
    other.publish(1)
    scene.finish(*plain, counted)
    assert list(traces(source, *plain)) == [numbers(6)] * 3
    assert list(traces(other, *plain)) == [numbers(2)] * 3
    assert (counted.of("A"), counted.of("B")) == (COUNTED, COUNTED[:2])


def test_a_relay_goes_on_as_often_as_its_place_is_lost(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    sink, derived = scene.subscribe("west", "x"), scene.derive(Count, "hub")
    counted = scene.subscribe("west", derived)
    scene.offload(source, "atlanta")
    for place in ("atlanta", "dallas"):
        source.publish(0, 1)
        scene.net.kill(place)
        source.publish(2)
        scene.net.run_for(FOUND_LOST)
    assert [each.at for each in relays(scene)] == ["hub"]
    scene.finish(sink, counted)
    assert sink.traces == numbers(6) and counted.traces == COUNTED


def test_with_a_slow_consumer_what_waits_is_kept(scene: Scene) -> None:
    """More than one flow may carry: some of it is at the relay, some at the supplier."""
    source = scene.supplier("east", "A")
    slow, fast = scene.subscribe("west", "x", pace=1.0), scene.subscribe("hub", "x")
    counted = scene.subscribe("hub", scene.derive(Count, "dallas"))
    scene.offload(source, "atlanta")
    for _ in range(24):
        source.publish(0, blob=1 << 20)
    scene.net.run_for(2.5)
    assert source.supply.waiting, "the supplier is not held up"
    scene.net.kill("atlanta")
    scene.settle()
    assert slow.traces == fast.traces == numbers(24)
    scene.finish(slow, fast, counted)
    assert counted.traces == [f"{number}/{number + 1}" for number in range(24)]


def test_what_went_to_the_supplier_s_consumers_before_comes_first(scene: Scene) -> None:
    """The relay is lost while its supplier still has for a consumer what was before the offload."""
    source = scene.supplier("east", "A")
    sink = scene.subscribe("west", "x", pace=1.0)
    for _ in range(12):
        source.publish(0, blob=1 << 20)
    scene.offload(source, "atlanta")
    source.publish(0)
    scene.net.kill("atlanta")
    scene.net.run_for(2.0)
    source.publish(0)
    scene.settle()
    assert sink.traces == numbers(14)
    scene.finish(sink)


@pytest.mark.parametrize("milliseconds", [0, 30, 150, 3000])
def test_a_relay_and_the_filters_behind_it_are_lost_at_once(milliseconds: int) -> None:
    scene = Scene(milliseconds)
    source = scene.supplier("east", "A")
    beside, apart = scene.derive(Count, "atlanta"), scene.derive(HoldBack, "dallas")
    sinks = [scene.subscribe("west", channel) for channel in (beside, apart, "x")]
    source.publish(0)
    scene.offload(source, "atlanta")
    source.publish(1)
    scene.net.run_for(milliseconds / 1000)
    source.publish(2)
    for broker in ("atlanta", "dallas"):
        scene.net.kill(broker)
    source.publish(3)
    scene.net.run_for(FOUND_LOST)
    source.publish(0, 1)
    scene.finish(*sinks)
    assert [sink.traces for sink in sinks] == [COUNTED, numbers(6), numbers(6)]


@pytest.mark.parametrize("milliseconds", range(0, 240, 8))
def test_a_relay_is_lost_amid_its_offload(milliseconds: int) -> None:
    scene = Scene(milliseconds)
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "dallas")
    sinks = [scene.subscribe("west", channel) for channel in (derived, "x")]
    source.publish(0, 1)
    answer = scene.begin_offload(source, "atlanta")
    scene.net.run_for(milliseconds / 1000)
    source.publish(2)
    scene.net.kill("atlanta")
    source.publish(3)
    scene.net.run_until(lambda: answer.done)
    scene.net.run_for(FOUND_LOST)
    source.publish(0, 1)
    scene.finish(*sinks)
    assert [sink.traces for sink in sinks] == [COUNTED, numbers(6)]


def test_who_offloads_is_told_where_the_relay_goes_on() -> None:
    scene = Scene()
    source = scene.supplier("east", "A")
    scene.subscribe("west", "x")
    answer = scene.begin_offload(source, "atlanta")
    outlet = scene.host("east").node.plane.outlets[source.outlet]
    scene.net.run_until(lambda: any(name.startswith("relay") for name in outlet.subscribers))
    scene.net.kill("atlanta")
    scene.net.run_until(lambda: answer.done)
    (relay,) = relays(scene)
    assert str(answer.error) == (
        "Channel 'x' could not complete the switch-over: 'atlanta' was lost; the relay goes on at "
        f"{relay.at!r}."
    )


# --- its supplier has left ----------------------------------------------------------------------


@pytest.mark.parametrize("milliseconds", [0, 10, 40, 150, 1000, 5000])
def test_what_a_supplier_that_has_left_gave_its_relay_is_not_lost(milliseconds: int) -> None:
    scene = Scene(milliseconds)
    source = scene.supplier("east", "A")
    derived = scene.derive(HoldBack, "dallas")
    sinks = [scene.subscribe("west", channel) for channel in (derived, "x")]
    scene.offload(source, "atlanta")
    source.publish(0, 1, 2)
    scene.close_supplier(source)
    scene.net.run_for(milliseconds / 1000)
    scene.net.kill("atlanta")
    scene.net.run_for(FOUND_LOST)
    again = scene.supplier("west", "A")
    assert relays(scene) == []
    again.publish(0)
    scene.finish(*sinks)
    assert [sink.traces for sink in sinks] == [["0", "1", "2", "0"]] * 2


def test_a_relay_goes_when_it_has_passed_on_all_of_a_supplier_that_left(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    sink = scene.subscribe("west", scene.derive(Count, "dallas"))
    scene.offload(source, "atlanta")
    source.publish(0, 1)
    scene.close_supplier(source)
    scene.settle()
    assert relays(scene) == []
    for host in ("east", "atlanta"):
        assert not scene.host(host).node.plane.outlets
    scene.finish(sink)
    assert sink.traces == COUNTED[:2]


@pytest.mark.parametrize("dead", [("east",), ("east", "atlanta"), ("atlanta", "east")])
def test_a_dead_supplier_s_events_end_with_what_came_through(
    scene: Scene, dead: tuple[str, ...]
) -> None:
    source, other = scene.supplier("east", "A"), scene.supplier("hub", "B")
    derived = scene.derive(Count, "dallas")
    sinks = [scene.subscribe("west", channel) for channel in (derived, "x")]
    scene.offload(source, "atlanta")
    source.publish(0, 1)
    scene.settle()
    source.publish(2)
    for host in dead:
        scene.net.kill(host)
    scene.net.run_for(FOUND_LOST)
    assert relays(scene) == []
    other.publish(0)
    scene.finish(*sinks)
    assert sinks[0].of("A") in (COUNTED[:2], COUNTED[:3])
    assert sinks[1].of("A") in (numbers(2), numbers(3))
    assert (sinks[0].of("B"), sinks[1].of("B")) == (["0/1"], ["0"])


def test_without_a_broker_a_relay_goes_on_beside_a_consumer(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    sink = scene.subscribe("west", "x")
    scene.offload(source, "atlanta")
    source.publish(0)
    scene.settle()
    scene.net.kill("dallas")
    scene.net.run_for(FOUND_LOST)
    scene.hub_takes_no_filters()
    scene.net.kill("atlanta")
    source.publish(0)
    scene.net.run_for(FOUND_LOST)
    assert [each.at for each in relays(scene)] == ["west"]
    source.publish(0)
    scene.finish(sink)
    assert sink.traces == numbers(3)


# --- some consumers -----------------------------------------------------------------------------


def test_some_go_to_one_broker_and_others_to_another(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "hub")
    sinks = [scene.subscribe("west", "x"), scene.subscribe("hub", "x")]
    counted = scene.subscribe("west", derived)
    source.publish(0)
    scene.offload(source, "atlanta", "west")
    source.publish(1)
    scene.offload(source, "dallas", "hub")
    source.publish(2)
    west, hub = (f"inlet {sink.inlet}" for sink in sinks)
    assert served_by(scene) == [("atlanta", [west]), ("dallas", [derived, hub])]
    late = scene.subscribe("west", "x")
    source.publish(3)
    scene.settle()
    flows = scene.host("east").node.plane.outlets[source.outlet].flows.values()
    assert sorted(flow.spec.target for flow in flows) == ["atlanta", "dallas", "west"]
    for place in ("atlanta", "dallas"):
        scene.net.kill(place)
    source.publish(0)
    scene.net.run_for(FOUND_LOST)
    source.publish(1)
    scene.finish(*sinks, counted, late)
    assert [sink.traces for sink in sinks] == [numbers(6)] * 2
    assert counted.traces == COUNTED and late.traces == ["3", "4", "5"]


def test_newcomers_come_to_the_relay_that_took_all(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    first = scene.subscribe("west", "x")
    scene.offload(source, "atlanta", "west")
    scene.offload(source, "dallas")
    second = scene.subscribe("hub", "x")
    assert served_by(scene) == [
        ("atlanta", [f"inlet {first.inlet}"]),
        ("dallas", [f"inlet {second.inlet}"]),
    ]
    source.publish(0)
    scene.finish(first, second)
    assert first.traces == second.traces == ["0"]


@pytest.mark.parametrize("milliseconds", [0, 20, 60, 2000])
@pytest.mark.parametrize("filter_dies", [False, True])
def test_who_comes_later_sees_none_of_what_had_holes_for_it(
    milliseconds: int, filter_dies: bool
) -> None:
    """The relay is fed what a narrow filter wants, then all. It is lost, and fed again from before
    that."""
    scene = Scene(milliseconds)
    source = scene.supplier("east", "A")
    few = scene.subscribe("west", scene.derive(Few, "hub"))
    scene.offload(source, "atlanta")
    source.publish(0, 1, 2, 3)
    counted = scene.subscribe("west", scene.derive(Count, "dallas"))
    late = scene.subscribe("west", "x")
    scene.net.run_for(milliseconds / 1000)
    source.publish(1)
    for broker in ("atlanta", "dallas") if filter_dies else ("atlanta",):
        scene.net.kill(broker)
    source.publish(2)
    scene.net.run_for(FOUND_LOST)
    source.publish(3)
    scene.finish(few, counted, late)
    assert few.traces == ["0", "2", "3", "5", "6"]
    assert late.traces == ["4", "5", "6"]
    assert counted.traces == ["4/1", "5/2", "6/3"]


def test_a_filter_keeps_its_relay_where_it_moves(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "hub")
    sink = scene.subscribe("west", derived)
    scene.offload(source, "atlanta")
    source.publish(0, 1)
    scene.move(derived, "consumer")
    source.publish(2)
    scene.net.kill("atlanta")
    source.publish(3)
    scene.net.run_for(FOUND_LOST)
    source.publish(0, 1)
    scene.finish(sink)
    assert sink.traces == COUNTED


def test_what_was_published_before_a_filter_is_closed_comes_by_way_of_a_relay(
    scene: Scene,
) -> None:
    source = scene.supplier("east", "A")
    scene.offload(source, "atlanta")
    derived = scene.derive(Count, "dallas")
    sink, looks_on = scene.subscribe("west", derived), scene.subscribe("west", "x")
    scene.settle()
    source.publish(0, 1, 2)
    scene.close(derived)
    source.publish(3)
    scene.finish(sink, looks_on)
    assert sink.traces[:3] == COUNTED[:3]
    assert looks_on.traces == ["0", "1", "2", "3"]


# --- refusals -----------------------------------------------------------------------------------


def test_an_offload_names_those_that_the_supplier_serves(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    scene.subscribe("west", "x")
    scene.derive(Count, "dallas")
    scene.subscribe("east", "x")
    with pytest.raises(UnknownPlace, match=r"'east' is none of them\. It serves: 'west', 'dallas'"):
        scene.offload(source, "atlanta", "east")
    scene.offload(source, "atlanta", "west")
    with pytest.raises(UnknownPlace, match=r"'west' is none of them\. It serves: 'dallas'\."):
        scene.offload(source, "atlanta", "dallas", "west")
    with pytest.raises(UnknownPlace, match="none was named"):
        scene.ask("east", scene.offloading(source, "atlanta", ()))
    with pytest.raises(UnknownPlace, match="no broker 'atlantis'"):
        scene.offload(source, "atlantis", "dallas")
    scene.offload(source, "atlanta")
    with pytest.raises(MoveFailed, match="has handed its fan-out to 'atlanta' already"):
        scene.offload(source, "dallas", "west")


def test_what_a_relay_feeds_does_not_move_to_the_supplier(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "dallas")
    scene.offload(source, "atlanta")
    with pytest.raises(MoveFailed, match="'A' has handed it over to 'atlanta'"):
        scene.move(derived, "supplier")


def test_a_supplier_ends_when_its_relay_has_no_place(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = scene.supplier("east", "A")
    sink = scene.subscribe("west", "x")
    scene.offload(source, "atlanta")
    source.publish(0)
    scene.settle()
    monkeypatch.setattr(Recovery, "candidates", lambda recovery, *args: [])
    scene.net.kill("atlanta")
    source.publish(0)
    scene.net.run_for(FOUND_LOST + LONGEST_WAIT)
    assert source.supply.closed is False and relays(scene) == []
    scene.finish(sink)
    assert sink.traces == ["0"]

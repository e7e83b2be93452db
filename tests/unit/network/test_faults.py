"""What goes wrong, one thing at a time: each ends, and the survivors' contract is kept."""

from __future__ import annotations

import pytest
from scene_for_tests import Scene

import activebroker as ab
from activebroker.core.errors import (
    FilterStopped,
    MoveFailed,
    PayloadRefused,
    UnknownPlace,
    Unreachable,
)
from activebroker.events import Event
from activebroker.node.dataplane.outlet import WINDOW
from activebroker.protocol.requests import Join
from activebroker.simulation.reference import Count, Faulty, Few


class StopOnThree(ab.FIFOFilter):
    """Stateful; the end of its channel is an event of group 3."""

    on_error = "stop"

    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event: Event) -> None:
        if event.content.group == 3:
            raise ValueError("planted")
        self.seen += 1
        super().enqueue(event.replace(event.content.marked(self.seen)))


class Unmovable(Count):
    """Its state cannot leave its process."""

    def snapshot(self) -> bytes:
        raise TypeError("cannot pickle a lock")


class Homesick(Count):
    """Its state cannot be taken over."""

    def restore(self, state: bytes) -> None:
        raise ValueError("planted, in restore")


@pytest.fixture
def scene() -> Scene:
    return Scene()


# --- a filter that stops ------------------------------------------------------------------------


def test_a_stopped_filter_ends_its_channel_and_those_below_but_no_other(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    stopped = scene.derive(StopOnThree, "atlanta")
    below = scene.derive(Count, "dallas", stopped)
    sinks = [scene.subscribe("west", channel) for channel in (stopped, below)]
    other = scene.subscribe("west", "x")
    source.publish(0, 1)
    source.publish(3, 2)
    source.publish(1)
    scene.settle()
    assert [sink.traces for sink in sinks] == [["0/1", "1/2"], ["0/1/1", "1/2/2"]]
    for sink in sinks:
        assert isinstance(sink.intake.error, FilterStopped)
        assert "planted" in str(sink.intake.error)
    assert len(other.traces) == 5 and not other.intake.ended
    scene.finish()


def test_who_subscribes_after_the_stop_is_told(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    stopped = scene.derive(StopOnThree, "supplier")
    source.publish(3)
    scene.settle()
    late = scene.subscribe("west", stopped)
    scene.settle()
    assert isinstance(late.intake.error, FilterStopped)
    with pytest.raises(MoveFailed, match="its filter has ended"):
        scene.move(stopped, "atlanta")
    scene.finish()


@pytest.mark.parametrize("milliseconds", range(0, 200, 8))
def test_a_filter_that_stops_while_it_moves(milliseconds: int) -> None:
    scene = Scene(milliseconds)
    source = scene.supplier("east", "A")
    stopped = scene.derive(StopOnThree, "atlanta")
    sink = scene.subscribe("west", stopped)
    source.publish(0, 1)
    answer = scene.begin_move(stopped, "dallas")
    scene.net.run_for(milliseconds / 1000)
    source.publish(2, 3, 1)
    source.publish(0)
    scene.settle()
    assert answer.done
    assert sink.traces == ["0/1", "1/2", "2/3"]
    assert isinstance(sink.intake.error, FilterStopped)
    scene.finish()


# --- filters that cannot be loaded, or moved ----------------------------------------------------


def test_a_filter_that_cannot_be_loaded_leaves_no_trace(scene: Scene) -> None:
    scene.supplier("east", "A")
    scene.net.unloadable.add("x.Count")
    for place in ("supplier", "atlanta", "consumer"):
        with pytest.raises(PayloadRefused, match="planted"):
            scene.derive(Count, place)
    scene.net.unloadable.clear()
    scene.derive(Count, "atlanta")
    scene.finish()


def test_a_move_to_where_the_filter_cannot_be_loaded_is_rolled_back(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "atlanta")
    sink = scene.subscribe("west", derived)
    source.publish(0)
    scene.net.unloadable.add(derived)
    with pytest.raises(MoveFailed, match="stays where it was: 'dallas' refused"):
        scene.move(derived, "dallas")
    source.publish(1)
    scene.net.unloadable.clear()
    scene.move(derived, "dallas")
    source.publish(2)
    scene.settle()
    assert sink.traces == ["0/1", "1/2", "2/3"]
    scene.finish()


@pytest.mark.parametrize(("filter", "failures"), [(Unmovable, 2), (Homesick, 1)])
def test_state_that_cannot_move_is_reported_and_the_stream_goes_on(
    scene: Scene, filter: type[Count], failures: int
) -> None:
    """By each place once: also the new one cannot snapshot it."""
    source = scene.supplier("east", "A")
    derived = scene.derive(filter, "atlanta")
    sink = scene.subscribe("west", derived)
    source.publish(0, 1)
    scene.move(derived, "dallas")
    source.publish(2, 3)
    scene.settle()
    assert sink.traces == ["0/1", "1/2", "2/1", "3/2"]
    reported = [(each.filter, each.seq) for each in scene.host("west").failures]
    assert reported == [(filter.__name__, -1)] * failures
    scene.finish()


# --- places -------------------------------------------------------------------------------------


def test_without_suppliers_there_is_no_place_supplier(scene: Scene) -> None:
    derived = scene.derive(Count, "atlanta")
    with pytest.raises(UnknownPlace, match="no supplier"):
        scene.move(derived, "supplier")
    scene.move(derived, "dallas")
    source = scene.supplier("east", "A")
    sink = scene.subscribe("west", derived)
    source.publish(0)
    scene.settle()
    assert sink.traces == ["0/1"]
    scene.finish()


def test_a_filter_at_the_supplier_of_one_that_has_offloaded_moves_without_loss(
    scene: Scene,
) -> None:
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "supplier")
    sink = scene.subscribe("west", derived)
    source.publish(0)
    scene.offload(source, "atlanta")
    answer = scene.begin_move(derived, "dallas")
    for _ in range(9):
        source.publish(0)
        scene.net.run_for(0.02)
    scene.settle()
    assert answer.done and answer.error is None
    scene.move(derived, "supplier")
    scene.supplier("west", "B").publish(0)
    source.publish(0)
    scene.settle()
    assert sink.traces == [*(f"{n}/{n + 1}" for n in range(10)), "0/1", "10/11"] or (
        sink.traces == [*(f"{n}/{n + 1}" for n in range(10)), "10/11", "0/1"]
    )
    scene.finish()


# --- slow and dead ------------------------------------------------------------------------------


def test_who_does_not_consume_holds_the_supplier_and_no_more_than_a_window(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    scene.derive(Count, "atlanta")
    sink = scene.subscribe("west", "x.Count", pace=1e6)
    for _ in range(60):
        source.publish(0, blob=1 << 20)
    scene.net.run_for(5.0)
    # The window and one more on each of the two flows, and what the filter works on.
    assert 60 - len(source.supply.waiting) <= 2 * (WINDOW >> 20) + 4
    scene.unsubscribe(sink)
    scene.net.run_for(5.0)
    assert not source.supply.waiting
    scene.close()
    scene.net.run_for(5.0)
    scene.check_nothing_left()


def test_a_move_that_a_slow_consumer_holds_up_is_overdue_and_still_ends(scene: Scene) -> None:
    scene.patience = 1.0
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "atlanta")
    sink = scene.subscribe("west", derived, pace=4.0)
    for _ in range(3):
        for _ in range(4):
            source.publish(0, blob=1 << 20)
        scene.net.run_for(0.5)
    with pytest.raises(MoveFailed, match=r"still moving.* waits for 'hub', held up by 'west'"):
        scene.move(derived, "hub")
    scene.settle()
    assert sink.traces == [f"{n}/{n + 1}" for n in range(12)]
    source.publish(0)
    scene.settle()
    assert sink.traces[-1] == "12/13"
    scene.finish()


@pytest.mark.parametrize("dead", ["east", "atlanta", "dallas", "west"])
@pytest.mark.parametrize("milliseconds", [0, 5, 15, 30, 60, 90, 120, 200])
def test_whoever_dies_amid_a_move_the_others_go_on(dead: str, milliseconds: int) -> None:
    """east supplies, the filter moves from atlanta to dallas, west consumes; hub looks on."""
    scene = Scene(milliseconds)
    source, stays = scene.supplier("east", "A"), scene.supplier("hub", "B")
    derived = scene.derive(Count, "atlanta", host="hub")
    sinks = {name: scene.subscribe(name, derived) for name in ("west", "hub")}
    looks_on = scene.subscribe("hub", "x")
    answer = scene.begin_move(derived, "dallas", host="hub")
    scene.net.run_for(milliseconds / 1000)
    scene.net.kill(dead)
    for _ in range(20):
        for each in (source, stays):
            each.publish(0, 1, blob=600_000)
        scene.net.run_for(1.5)
    scene.net.run_until(lambda: answer.done)
    scene.settle()
    assert not stays.supply.waiting, "a supplier waits for the dead"
    assert [trace for trace in looks_on.traces if trace.startswith("39")]
    for name, sink in sinks.items():
        if name == dead or sink.intake.error is not None:
            continue
        counts = [int(trace.split("/")[1]) for trace in sink.traces]
        firsts = [int(trace.split("/")[0]) for trace in sink.traces]
        assert counts == [n + 1 for n in firsts], "the state did not go along"
        assert firsts.count(39) == (1 if dead == "east" else 2)
    for sink in sinks.values():
        assert sink.intake.error is None or dead in ("atlanta", "dallas")
    scene.finish()


def test_a_channel_whose_broker_is_gone_goes_on_elsewhere_with_all_below_it(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "atlanta")
    below = scene.derive(Few, "dallas", derived)
    sinks = [scene.subscribe("west", channel) for channel in (derived, below)]
    other = scene.subscribe("west", "x")
    source.publish(0, 1)
    scene.net.kill("atlanta")
    source.publish(2)
    scene.net.run_for(15.0)
    late = scene.subscribe("west", below)
    with pytest.raises(UnknownPlace, match="no broker 'atlanta'"):
        scene.derive(Count, "atlanta")
    source.publish(3, 0)
    scene.settle()
    assert sinks[0].traces == ["0/1", "1/2", "2/3", "3/4", "4/5"]
    assert sinks[1].traces == ["0/1", "2/3", "3/4", "4/5"]
    assert late.traces == ["3/4", "4/5"]
    assert other.traces == ["0", "1", "2", "3", "4"]
    for sink in (*sinks, late, other):
        assert not sink.intake.ended
    scene.finish()
    for sink in (*sinks, late, other):
        assert sink.intake.ended and sink.intake.error is None


def test_without_the_directory_everything_ends(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    sink = scene.subscribe("west", scene.derive(Count, "atlanta"))
    scene.net.kill("hub")
    scene.net.run_for(15.0)
    assert isinstance(sink.intake.error, Unreachable)
    assert "Connect again" in str(sink.intake.error)
    assert source.supply.closed is False
    scene.check_nothing_left()


def test_a_process_that_comes_back_under_its_name_starts_anew(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    scene.subscribe("west", "x")
    scene.net.kill("west")
    again = scene.net.restart("west")
    scene.ask("west", Join(again.member))
    sink = scene.subscribe("west", "x")
    source.publish(0, 1)
    scene.settle()
    assert sink.traces == ["0", "1"]
    scene.finish()


def test_failures_reach_who_derived(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    scene.derive(Faulty, "atlanta", host="dallas")
    source.publish(0, 3, 0, 3)
    scene.settle()
    assert [(each.supplier, each.seq) for each in scene.host("dallas").failures] == [
        ("A", 1),
        ("A", 3),
    ]
    scene.finish()

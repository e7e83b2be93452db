"""A broker dies, and its filters go on elsewhere: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import itertools

import pytest
from scene_for_tests import COUNTED, FOUND_LOST, Scene, Source

import activebroker as ab
from activebroker.core.errors import Unreachable, flatten
from activebroker.node.dataplane.inlet import LOST
from activebroker.node.links.peers import LOST_AFTER
from activebroker.protocol.requests import CloseChannel, Leave, Move, ReportStatus
from activebroker.protocol.specs import UNPLACED
from activebroker.simulation.reference import Count, CountAll, Faulty, Few, HoldBack, Twice

# What each makes of six events of the groups 0 to 3, 0, 1 of a supplier, and of its end.
MADE = {
    Few: ["0", "2", "3", "4"],
    Count: COUNTED,
    CountAll: COUNTED,
    Twice: ["0", "0/again", "1", "1/again", "2", "3", "3/again", "4", "4/again", "5", "5/again"],
    HoldBack: ["0", "1", "2", "3", "4", "5"],
    Faulty: ["0/1", "1/2", "2/3", "4/5", "5/6"],
}


class Unmovable(Count):
    """Its state cannot leave its process."""

    def snapshot(self) -> bytes:
        raise TypeError("cannot pickle a lock")


@pytest.fixture
def scene() -> Scene:
    return Scene()


def no_brokers(scene: Scene) -> None:
    """The hub keeps the directory and takes no filters; the others die."""
    scene.hub_takes_no_filters()
    for broker in ("atlanta", "dallas"):
        scene.net.kill(broker)


def test_the_status_tells_why_a_filter_is_elsewhere(scene: Scene) -> None:
    def told() -> tuple[str, str, str]:
        row = scene.ask("hub", ReportStatus()).channels[-1]
        return row.asked, row.at, row.instead

    scene.supplier("east", "A")
    derived = scene.derive(Count, "atlanta")
    scene.subscribe("west", derived)
    assert told() == ("atlanta", "atlanta", "")
    scene.net.kill("atlanta")
    scene.net.run_for(FOUND_LOST)
    assert told() == ("atlanta", "dallas", "The process at 'atlanta', where it ran, is gone.")
    scene.ask("hub", Move(derived, "hub", "west", 30.0))
    assert told() == ("hub", "hub", "")
    scene.ask("hub", Move(derived, "supplier", "west", 30.0))
    assert told() == ("supplier", "supplier", "")


# --- one broker, one filter ---------------------------------------------------------------------


@pytest.mark.parametrize("filter", MADE)
@pytest.mark.parametrize("milliseconds", [0, 10, 40, 100, 400, 4000])
def test_what_a_filter_makes_goes_on(filter: type[ab.FIFOFilter], milliseconds: int) -> None:
    """Two suppliers publish before the death, when nobody knows of it, and after it."""
    scene = Scene(milliseconds)
    sources = [scene.supplier("east", "A"), scene.supplier("hub", "B")]
    derived = scene.derive(filter, "atlanta")
    sinks = [scene.subscribe(host, derived) for host in ("west", "hub")]
    for source in sources:
        source.publish(0, 1)
    scene.net.run_for(milliseconds / 1000)
    sources[0].publish(2)
    scene.net.kill("atlanta")
    sources[1].publish(2)
    scene.net.run_for(1.0)
    for source in sources:
        source.publish(3)
    scene.net.run_for(FOUND_LOST)
    assert scene.places(derived) == ["dallas"]
    for source in sources:
        source.publish(0, 1)
    scene.finish(*sinks)
    for sink, source in itertools.product(sinks, sources):
        assert sink.of(source.name) == MADE[filter]


def test_a_filter_goes_on_as_often_as_its_place_is_lost(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "atlanta", host="hub")
    scene.net.refusing.add("hub")
    sinks = [scene.subscribe(host, derived) for host in ("west", "hub")]
    for place, next_place in (("atlanta", "dallas"), ("dallas", "west")):
        source.publish(0, 1)
        scene.net.kill(place)
        source.publish(2)
        scene.net.run_for(FOUND_LOST)
        assert scene.places(derived) == [next_place]
    source.publish(0)
    scene.finish(*sinks)
    for sink in sinks:
        assert sink.traces == [f"{n}/{n + 1}" for n in range(7)]


def test_with_a_slow_consumer_what_waits_is_kept(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "atlanta")
    sink = scene.subscribe("west", derived, pace=1.0)
    for _ in range(20):
        source.publish(0, blob=1 << 20)
    scene.net.run_for(2.5)
    assert source.supply.waiting, "the supplier is not held up"
    scene.net.kill("atlanta")
    scene.settle()
    assert sink.traces == [f"{n}/{n + 1}" for n in range(20)]
    scene.finish(sink)


def test_who_subscribes_after_it_went_on_gets_what_comes_then(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "atlanta")
    sink = scene.subscribe("west", derived)
    source.publish(0, 1)
    scene.net.kill("atlanta")
    scene.net.run_for(FOUND_LOST)
    late, other = scene.subscribe("hub", derived), scene.supplier("hub", "B")
    source.publish(2)
    other.publish(0)
    scene.finish(sink, late)
    assert (sink.of("A"), sink.of("B")) == (["0/1", "1/2", "2/3"], ["0/1"])
    assert (late.of("A"), late.of("B")) == (["2/3"], ["0/1"])


def test_where_nobody_takes_the_events_the_state_goes_on(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "atlanta")
    source.publish(0, 1, 2)
    scene.settle()
    scene.net.kill("atlanta")
    scene.net.run_for(FOUND_LOST)
    sink = scene.subscribe("west", derived)
    source.publish(0)
    scene.finish(sink)
    assert sink.traces == ["3/4"]


# --- chains -------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [("atlanta", "atlanta"), ("atlanta", "dallas")])
@pytest.mark.parametrize(
    "dead", [("atlanta",), ("dallas",), ("atlanta", "dallas")], ids=lambda names: "+".join(names)
)
@pytest.mark.parametrize("milliseconds", [0, 30, 150, 3000])
def test_a_chain_goes_on(places: tuple[str, str], dead: tuple[str, ...], milliseconds: int) -> None:
    scene = Scene(milliseconds)
    source = scene.supplier("east", "A")
    above = scene.derive(Count, places[0])
    below = scene.derive(HoldBack, places[1], above)
    sinks = [scene.subscribe("west", channel) for channel in (above, below)]
    source.publish(0, 1)
    scene.net.run_for(milliseconds / 1000)
    source.publish(2)
    for broker in dead:
        scene.net.kill(broker)
    source.publish(3)
    scene.net.run_for(FOUND_LOST)
    for channel in (above, below):
        assert not set(scene.places(channel)) & set(dead)
    source.publish(0, 1)
    scene.finish(*sinks)
    for sink in sinks:
        assert sink.traces == MADE[Count]


@pytest.mark.parametrize("place", ["atlanta", "supplier"])
def test_who_came_late_gets_nothing_from_before(scene: Scene, place: str) -> None:
    """The filter above makes once more what it had made before others took it."""
    source = scene.supplier("east", "A")
    above = scene.derive(Count, "atlanta")
    first = scene.subscribe("hub", above)
    source.publish(0, 1)
    scene.net.run_until(lambda: len(first.traces) == 2)
    below, late = scene.derive(Count, place, above), scene.subscribe("west", above)
    sink = scene.subscribe("west", below)
    source.publish(2)
    scene.net.run_until(lambda: bool(sink.traces))
    scene.net.kill("atlanta")
    source.publish(3)
    scene.net.run_for(FOUND_LOST)
    source.publish(0, 1)
    scene.finish(first, late, sink)
    assert first.traces == MADE[Count]
    assert late.traces == MADE[Count][2:]
    assert sink.traces == ["2/3/1", "3/4/2", "4/5/3", "5/6/4"]


@pytest.mark.parametrize("place", ["dallas", "atlanta", "both"])
def test_what_is_not_for_who_came_late_is_not_kept_for_it(scene: Scene, place: str) -> None:
    """Else it would be for ever, where nothing more comes of that supplier, and hold others up.

    Also where who came late is lost with the place that makes the events, and both come back.
    """
    early, late = scene.supplier("east", "A"), scene.supplier("east", "B")
    above = scene.derive(Count, "atlanta")
    first = scene.subscribe("hub", above)
    early.publish(0, 1)
    scene.net.run_until(lambda: len(first.traces) == 2)
    below = scene.derive(Count, "dallas" if place == "both" else place, above)
    sink = scene.subscribe("west", below)
    late.publish(0)
    scene.net.run_until(lambda: bool(sink.traces))
    for host in {"dallas", "atlanta"} if place == "both" else {"atlanta"}:
        scene.net.kill(host)
    scene.net.run_for(FOUND_LOST)
    for _ in range(20):
        late.publish(0, blob=1 << 20)
        scene.settle()
    assert not late.supply.waiting
    scene.finish(first, sink)
    assert first.of("A") == ["0/1", "1/2"] and not sink.of("A")
    assert len(first.of("B")) == len(sink.of("B")) == 21


def test_a_filter_at_the_supplier_of_a_derived_channel_goes_with_it(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    above = scene.derive(Few, "atlanta")
    below = scene.derive(Count, "supplier", above)
    sinks = [scene.subscribe("west", channel) for channel in (above, below)]
    source.publish(0, 1)
    scene.settle()
    source.publish(2)
    scene.net.kill("atlanta")
    source.publish(3)
    scene.net.run_for(FOUND_LOST)
    assert scene.places(above) == scene.places(below) != ["atlanta"]
    source.publish(0, 1)
    scene.finish(*sinks)
    assert sinks[0].traces == ["0", "2", "3", "4"]
    assert sinks[1].traces == ["0/1", "2/2", "3/3", "4/4"]


def test_what_is_derived_beside_a_filter_that_waits_for_a_place_begins_with_it(
    scene: Scene,
) -> None:
    scene.hub_takes_no_filters()
    source, channel = scene.supplier("east", "s1"), scene.derive(Count, "atlanta")
    scene.net.kill("atlanta")
    scene.net.run_for(FOUND_LOST)
    scene.net.kill("dallas")  # the second one within a minute: it does not go on at once
    scene.net.run_until(lambda: scene.places(channel) == [UNPLACED])
    beside = scene.derive(Few, "supplier", channel)
    sink = scene.subscribe("west", beside)
    source.publish(0, 1, 2)
    scene.settle()
    assert sink.traces == ["0/1", "2/3"]
    scene.finish(sink)


# --- suppliers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("milliseconds", [0, 10, 40, 150, 1000, 5000])
def test_what_a_supplier_that_has_left_published_is_not_lost(milliseconds: int) -> None:
    scene = Scene(milliseconds)
    source, stays = scene.supplier("east", "A"), scene.supplier("hub", "B")
    derived = scene.derive(HoldBack, "atlanta")
    sink = scene.subscribe("west", derived)
    source.publish(0, 1, 2)
    stays.publish(0)
    scene.close_supplier(source)
    scene.net.run_for(milliseconds / 1000)
    scene.net.kill("atlanta")
    scene.net.run_for(FOUND_LOST)
    again = scene.supplier("west", "A")
    again.publish(0)
    stays.publish(0)
    scene.finish(sink)
    assert sink.of("A") == ["0", "1", "2", "0"]
    assert sink.of("B") == ["0", "1"]


def test_behind_an_offload_a_filter_goes_on(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    scene.offload(source, "dallas")
    derived = scene.derive(Count, "atlanta")
    sink = scene.subscribe("west", derived)
    source.publish(0, 1)
    scene.settle()
    source.publish(2)
    scene.net.kill("atlanta")
    source.publish(3)
    scene.net.run_for(FOUND_LOST)
    source.publish(0, 1)
    scene.finish(sink)
    assert sink.traces == MADE[Count]


def test_a_filter_goes_on_without_the_supplier_that_died_with_it(scene: Scene) -> None:
    source, stays = scene.supplier("east", "A"), scene.supplier("hub", "B")
    derived = scene.derive(Count, "atlanta")
    sink = scene.subscribe("west", derived)
    for each in (source, stays):
        each.publish(0, 1)
    scene.settle()
    for host in ("atlanta", "east"):
        scene.net.kill(host)
    scene.net.run_for(FOUND_LOST)
    stays.publish(2)
    scene.finish(sink)
    assert sink.of("A") == ["0/1", "1/2"]
    assert sink.of("B") == ["0/1", "1/2", "2/3"]


# --- other places -------------------------------------------------------------------------------


def publish_three_times(scene: Scene, source: Source) -> None:
    """Before the death of all brokers, when nobody knows of it, and after it."""
    source.publish(0, 1)
    scene.settle()
    source.publish(2)
    no_brokers(scene)
    source.publish(3)
    scene.net.run_for(FOUND_LOST)
    source.publish(0, 1)


def test_without_a_broker_a_filter_goes_on_beside_its_consumer(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "atlanta", host="hub")
    sink = scene.subscribe("west", derived)
    publish_three_times(scene, source)
    assert scene.places(derived) == ["west"]
    scene.finish(sink)
    assert sink.traces == MADE[Count]


def test_a_filter_that_can_be_loaded_nowhere_ends_its_channel(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "atlanta")
    below = scene.derive(Few, "dallas", derived)
    sinks = [scene.subscribe("west", channel) for channel in (derived, below)]
    looks_on = scene.subscribe("west", "x")
    source.publish(0, 2)
    scene.settle()
    scene.net.unloadable.add(derived)
    scene.net.kill("atlanta")
    scene.net.run_for(FOUND_LOST)
    source.publish(0)
    scene.settle()
    for sink in sinks:
        assert sink.traces == ["0/1", "1/2"]
        assert isinstance(sink.intake.error, Unreachable)
        assert "'atlanta', which ran the filter of channel 'x.Count', is gone" in str(
            sink.intake.error
        )
        assert "could not go on elsewhere" in str(sink.intake.error)
    assert not source.supply.waiting, "the supplier waits for who does not come back"
    scene.finish(looks_on)
    assert looks_on.traces == ["0", "1", "2"]


def test_a_channel_that_is_closed_before_the_death_is_known_does_not_go_on(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "atlanta")
    sink, looks_on = scene.subscribe("west", derived), scene.subscribe("west", "x")
    source.publish(0, 1)
    scene.settle()
    scene.net.kill("atlanta")
    source.publish(2)
    scene.finish(looks_on)
    assert sink.traces == ["0/1", "1/2"]
    assert sink.intake.error is not None and flatten(sink.intake.error) == LOST
    assert looks_on.traces == ["0", "1", "2"]


def test_the_directory_s_own_process_leaves_at_once(scene: Scene) -> None:
    """It finds no other place for its filter, for all have lost it: and they tell it so."""
    scene.derive(Count, "consumer", host="hub")
    began = scene.net.env.now
    scene.ask("hub", Leave("hub"))
    assert scene.net.env.now < began + LOST_AFTER


# --- state --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("one_way", [True, False])
def test_a_broker_that_alone_has_lost_a_supplier_does_not_speak_for_it(
    seed: int, one_way: bool
) -> None:
    """It is the broker that has to go, whoever hears of that first: what it did not get is no
    end of the channel, and its consumer is told so."""
    scene = Scene(seed)
    source = scene.supplier("east", "A")
    derived = scene.derive(Few, "atlanta")
    sink = scene.subscribe("west", derived)
    source.publish(0)
    scene.settle()
    scene.net.network.cut("east", "atlanta", 30.0)
    if not one_way:
        scene.net.network.cut("atlanta", "east", 30.0)
    source.publish(0)
    scene.ask("west", CloseChannel(derived))
    scene.net.run_for(FOUND_LOST)
    assert scene.directory.members.keys() == {"hub", "east", "west", "dallas"}
    assert sink.traces == ["0"]
    assert sink.intake.error is not None and flatten(sink.intake.error) == LOST
    scene.finish()


def test_state_that_cannot_be_snapshotted_starts_afresh(scene: Scene) -> None:
    """No event is lost for that; who derived it is told."""
    source = scene.supplier("east", "A")
    derived = scene.derive(Unmovable, "atlanta")
    sink = scene.subscribe("west", derived)
    source.publish(0, 1)
    scene.net.run_for(5.0)
    scene.net.kill("atlanta")
    source.publish(2, 3)
    scene.net.run_for(FOUND_LOST)
    source.publish(0)
    scene.finish(sink)
    assert sink.traces == ["0/1", "1/2", "2/1", "3/2", "4/3"]
    assert [(each.filter, each.seq) for each in scene.host("west").failures] == [
        ("Unmovable", -1),
        ("Unmovable", -1),
    ]


# --- at the supplier ----------------------------------------------------------------------------


def test_a_filter_that_died_with_its_supplier_is_no_gap() -> None:
    scene = Scene()
    dying, living = scene.supplier("east", "A"), scene.supplier("hub", "B")
    sink = scene.subscribe("west", scene.derive(Count, "supplier"))
    for source in (dying, living):
        source.publish(0, 1)
    scene.settle()
    scene.net.kill("east")
    scene.net.run_for(FOUND_LOST)
    living.publish(2)
    scene.finish(sink)
    assert sorted(sink.traces) == ["0/1", "0/1", "1/2", "1/2", "2/3"]

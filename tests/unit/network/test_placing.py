"""A process that cannot run a filter is a supplier all the same: the filter runs elsewhere."""

from __future__ import annotations

import hmac
import itertools

import pytest
from msgspec import msgpack, structs
from scene_for_tests import COUNTED, FOUND_LOST, Scene, Sink

from activebroker.core.errors import MoveFailed, PayloadRefused, Unreachable
from activebroker.filters import FIFOFilter
from activebroker.protocol.requests import Derive, OpenSupplier, ReportStatus
from activebroker.simulation.reference import KEY, Count, Few, HoldBack, Some, envelope_of

DERIVED = "x.Count"


@pytest.fixture
def scene() -> Scene:
    return Scene()


def at(scene: Scene, channel: str) -> tuple[str, str]:
    """Where a filter is, by the status, and why not where it was asked to be."""
    (row,) = (each for each in scene.ask("hub", ReportStatus()).channels if each.name == channel)
    assert row.asked == ("supplier" if row.instead else row.at)
    return row.at, row.instead


ORDERS = list(itertools.permutations(["able", "unable", "derive", "publish"]))


@pytest.mark.parametrize("steps", ORDERS, ids="-".join)
def test_every_order_of_joining_and_deriving_works(steps: tuple[str, ...], scene: Scene) -> None:
    scene.net.refusing.add("dallas")
    sources = {}
    sink: Sink | None = None
    expected: dict[str, list[str]] = {}
    for step in steps:
        match step:
            case "able":
                sources["A"] = scene.supplier("east", "A")
            case "unable":
                sources["B"] = scene.supplier("dallas", "B")
            case "derive":
                scene.derive(Count, "supplier")
                sink = scene.subscribe("west", DERIVED)
            case "publish":  # what the filter has seen before it has to move
                for source in sources.values():
                    source.publish(0)
                if sink is not None:
                    expected = {name: [f"{0}/{1}"] for name in sources}
    assert sink is not None
    for name, source in sources.items():
        first = source.published
        source.publish(0, 1)
        seen = len(expected.get(name, []))
        expected.setdefault(name, []).extend(f"{first + i}/{seen + i + 1}" for i in range(2))
    scene.settle()
    assert {name: sink.of(name) for name in sources} == expected
    assert scene.places(DERIVED) == ["west"]
    place, instead = at(scene, DERIVED)
    assert place == "consumer" and "'dallas' cannot run it" in instead and "planted" in instead
    scene.finish(sink)


@pytest.mark.parametrize("filter", [Few, Some, Count, HoldBack])
def test_only_its_predicate_goes_to_who_cannot_run_it(
    filter: type[FIFOFilter], scene: Scene
) -> None:
    scene.net.refusing.add("dallas")
    source = scene.supplier("dallas", "B")
    derived = scene.derive(filter, "supplier")
    sink = scene.subscribe("west", derived)
    source.publish(*range(4), *range(4))
    scene.settle()
    flows = scene.ask("hub", ReportStatus()).nodes["dallas"].flows
    (flow,) = (each for each in flows if each.supplier == "B")
    assert flow.target == "west" and flow.offered_events == 8
    assert flow.sent_events == {Few: 6, Some: 6, Count: 8, HoldBack: 8}[filter]
    scene.finish(sink)
    reference = Scene()
    again = reference.supplier("east", "B")
    expected = reference.subscribe("west", reference.derive(filter, "supplier"))
    again.publish(*range(4), *range(4))
    reference.finish(expected)
    assert sink.traces == expected.traces


@pytest.mark.parametrize(
    ("refusing", "place"),
    [
        ([], "atlanta"),
        (["atlanta"], "hub"),
        (["hub", "atlanta"], "west"),
        (["hub", "atlanta", "west"], "east"),
    ],
)
def test_without_its_owner_a_filter_goes_to_the_next_place_that_can_run_it(
    refusing: list[str], place: str, scene: Scene
) -> None:
    """Brokers, the directory's last, then its consumers, then those of its suppliers that run it
    already."""
    scene.net.refusing |= {"dallas", *refusing}
    sources = [scene.supplier("east", "A")]
    scene.net.refusing.discard("west")
    scene.derive(Count, "supplier", host="atlanta")
    scene.net.refusing |= set(refusing)
    sink = scene.subscribe("west", DERIVED)
    sources[0].publish(0)
    scene.settle()
    scene.derived(DERIVED).owner = "gone"
    sources.append(scene.supplier("dallas", "B"))
    for source in sources:
        source.publish(0, 1)
    scene.settle()
    assert scene.places(DERIVED) == [place]
    assert sink.of("A") == COUNTED[:3] and sink.of("B") == COUNTED[:2]
    scene.finish(sink)


def test_a_filter_that_can_run_nowhere_ends_its_channel_and_no_other(scene: Scene) -> None:
    sources = [scene.supplier("east", "A")]
    scene.derive(Count, "supplier")
    scene.derive(Few, "supplier")
    ended, goes_on = scene.subscribe("west", DERIVED), scene.subscribe("hub", "x.Few")
    sources[0].publish(0)
    scene.settle()
    scene.net.unloadable.add(DERIVED)
    sources.append(scene.supplier("dallas", "B"))
    for source in sources:
        source.publish(0)
    scene.settle()
    assert ended.traces == ["0/1"]
    assert isinstance(ended.intake.error, Unreachable)
    assert "Its filter can run nowhere" in str(ended.intake.error)
    assert "'dallas' cannot run it" in str(ended.intake.error)
    assert goes_on.of("A") == ["0", "1"] and goes_on.of("B") == ["0"]
    scene.finish(goes_on)


@pytest.mark.parametrize("dead", ["dallas", "atlanta", "east"])
def test_who_dies_while_a_filter_moves_from_its_suppliers_keeps_it_from_no_place(
    dead: str, scene: Scene
) -> None:
    sources = [scene.supplier("east", "A"), scene.supplier("atlanta", "B")]
    scene.derive(Count, "supplier")
    sink = scene.subscribe("hub", DERIVED)
    for source in sources:
        source.publish(0, 1)
    scene.settle()
    scene.net.refusing.add("dallas")
    opened = scene.begin("dallas", OpenSupplier("x", "C", "dallas"))
    scene.net.run_until(lambda: bool(scene.directory.planned))
    scene.net.kill(dead)
    scene.directory._context.outside.expel(dead)
    scene.net.run_for(FOUND_LOST)
    assert opened.done or dead == "dallas"
    for source in sources:
        if source.host.alive:
            source.publish(2)
    scene.settle()
    assert scene.places(DERIVED) == ["west"]
    scene.finish(sink)
    for source in sources:
        assert sink.of(source.name) == COUNTED[: source.published]


def test_a_derivation_that_can_run_nowhere_is_refused(scene: Scene) -> None:
    scene.supplier("east", "A")
    scene.net.unloadable.add(DERIVED)
    with pytest.raises(PayloadRefused, match=r"'east' cannot run it: .*planted"):
        scene.derive(Count, "supplier")
    scene.net.unloadable.clear()
    scene.derive(Count, "supplier")
    scene.finish()


def test_a_derivation_is_refused_when_what_it_is_derived_from_ends_meanwhile(scene: Scene) -> None:
    scene.supplier("east", "A")
    scene.derive(Count, "atlanta")
    below = f"{DERIVED}.HoldBack"
    scene.net.unloadable |= {DERIVED, below}
    envelope = envelope_of(HoldBack)
    answer = scene.begin("west", Derive(DERIVED, below, envelope, "supplier", "west"))
    channels = scene.directory.graph.channels
    scene.net.run_until(lambda: below in channels)
    scene.net.run_until(lambda: scene.places(below) == ["west"])  # where it may go instead
    scene.net.kill("atlanta")
    scene.directory._context.outside.expel("atlanta")
    scene.net.run_until(lambda: answer.done)
    assert isinstance(answer.error, Unreachable)
    assert str(answer.error).startswith(f"'atlanta', which ran the filter of channel {DERIVED!r}")
    scene.finish()


def test_what_runs_beside_a_filter_leaves_with_it(scene: Scene) -> None:
    sources = [scene.supplier("east", "A")]
    scene.derive(Count, "supplier")
    below = scene.derive(HoldBack, "supplier", DERIVED, host="hub")
    sink = scene.subscribe("west", below)
    sources[0].publish(0, 1)
    scene.settle()
    scene.net.refusing.add("dallas")
    sources.append(scene.supplier("dallas", "B"))
    for source in sources:
        source.publish(0, 1)
    scene.settle()
    assert scene.places(DERIVED) == ["west"] and scene.places(below) == ["hub"]
    scene.close()
    scene.settle()
    assert sink.of("A") == COUNTED[:4] and sink.of("B") == COUNTED[:2]
    scene.check_nothing_left()


def test_what_was_derived_beside_stays_beside(scene: Scene) -> None:
    """Where none runs yet, the whole chain begins at the place that can run it."""
    scene.derive(Count, "supplier")
    below = scene.derive(HoldBack, "supplier", DERIVED, host="hub")
    sink = scene.subscribe("hub", below)
    scene.net.refusing.add("dallas")
    source = scene.supplier("dallas", "B")
    source.publish(0, 1, 2)
    scene.settle()
    assert scene.places(DERIVED) == scene.places(below) == ["west"]
    scene.finish(sink)
    assert sink.traces == COUNTED[:3]


def test_it_goes_on_elsewhere_when_its_place_dies(scene: Scene) -> None:
    scene.net.refusing.add("dallas")
    source = scene.supplier("dallas", "B")
    scene.derive(Count, "supplier")
    sink = scene.subscribe("hub", DERIVED)
    source.publish(0, 1)
    scene.settle()
    scene.net.kill("west")
    source.publish(0)
    scene.net.run_for(FOUND_LOST)
    source.publish(0, 1)
    scene.settle()
    assert sink.traces == COUNTED[:5]
    scene.finish(sink)


def test_what_ran_beside_a_filter_goes_on_alone_where_that_cannot_follow(scene: Scene) -> None:
    source = scene.supplier("east", "A")
    scene.derive(Count, "atlanta")
    below = scene.derive(HoldBack, "supplier", DERIVED)
    sink = scene.subscribe("west", below)
    source.publish(0, 1)
    scene.settle()
    scene.net.unloadable.add((DERIVED, "dallas"))
    scene.net.kill("atlanta")
    source.publish(0)
    scene.net.run_for(FOUND_LOST)
    assert (scene.places(below), scene.places(DERIVED)) == (["dallas"], ["west"])
    place, instead = at(scene, below)
    assert place == "dallas" and instead.endswith("was beside it, goes on at 'west'.")
    source.publish(0)
    scene.supplier("west", "B").publish(0)  # which asks for what is missing
    scene.finish(sink)
    assert sink.of("A") == COUNTED[:4] and sink.of("B") == COUNTED[:1]


@pytest.mark.parametrize("place", ["supplier", "atlanta", "consumer"])
@pytest.mark.parametrize("filter", [Few, Count])
def test_a_predicate_of_another_release_sends_everything_to_the_filter(
    filter: type[FIFOFilter], place: str, scene: Scene
) -> None:
    unsigned = structs.replace(
        envelope_of(filter), predicate='{"version":99,"predicate":[]}', signature=b""
    )
    signature = hmac.digest(KEY, msgpack.encode(unsigned), "sha256")
    envelope = structs.replace(unsigned, signature=signature)
    first = scene.supplier("east", "A")
    scene.ask("west", Derive("x", "derived", envelope, place, "west"))
    sink = scene.subscribe("hub", "derived")
    first.publish(0, 1, 2)
    scene.offload(first, "dallas")
    second = scene.supplier("dallas", "B")
    for source in (first, second):
        source.publish(1, 0)
    scene.finish(sink)
    expected = {Few: ["0", "2", "4"], Count: COUNTED[:5]}
    assert sink.of("A") == expected[filter]
    assert sink.of("B") == {Few: ["1"], Count: COUNTED[:2]}[filter]


def test_it_can_move_on_but_not_to_its_suppliers(scene: Scene) -> None:
    scene.net.refusing.add("dallas")
    source = scene.supplier("dallas", "B")
    scene.derive(Count, "supplier")
    sink = scene.subscribe("hub", DERIVED)
    source.publish(0)
    with pytest.raises(MoveFailed, match=r"stays where it was: 'dallas' refused: .*planted"):
        scene.move(DERIVED, "supplier")
    source.publish(0)
    scene.move(DERIVED, "atlanta")
    source.publish(0)
    scene.settle()
    assert at(scene, DERIVED) == ("atlanta", "")
    scene.net.refusing.clear()
    scene.move(DERIVED, "supplier")
    source.publish(0)
    scene.settle()
    assert sink.traces == COUNTED[:4]
    scene.finish(sink)


def test_a_closed_channel_does_not_bind_what_it_was_derived_from(scene: Scene) -> None:
    scene.supplier("east", "A")
    few = scene.derive(Few, "supplier")
    beside = scene.derive(Count, "supplier", few)
    with pytest.raises(MoveFailed, match=f"move '{beside}' first"):
        scene.move(few, "atlanta")
    scene.close(beside)
    scene.move(few, "atlanta")
    assert scene.places(few) == ["atlanta"]
    scene.finish()

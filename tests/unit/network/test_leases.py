"""A derived channel lives as long as its owner, or whoever takes it, and a lease more."""

from __future__ import annotations

import pytest
from scene_for_tests import FOUND_LOST, Scene

from activebroker.core.errors import Closed, NameTaken
from activebroker.protocol.requests import ClaimName, Leave, OpenChannel, ReportStatus
from activebroker.simulation.reference import Count, Few, Some

LEASE = 30.0  # seconds
NAME = "x.Count"


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.supplier("east", "JFK")
    return made


def go(scene: Scene, host: str, how: str) -> None:
    """A process ends; the directory knows it."""
    if how == "leaves":
        scene.ask(host, Leave(host))
    else:
        scene.net.kill(host)
        scene.ask("hub", ClaimName(host))


def is_open(scene: Scene, name: str = NAME) -> bool:
    return not scene.directory.graph.channels[name].closed


@pytest.mark.parametrize("how", ["leaves", "dies"])
@pytest.mark.parametrize("at", ["supplier", "consumer", "atlanta"])
def test_what_nobody_holds_ends_when_its_lease_has_run_out(scene: Scene, at: str, how: str) -> None:
    scene.derive(Count, at, lease=LEASE)
    scene.net.run_for(2 * LEASE)
    assert is_open(scene), "its owner is there"
    go(scene, "west", how)
    scene.settle()
    (shown,) = (each for each in scene.ask("hub", ReportStatus()).channels if each.parent)
    assert shown.owner == "" and 0 < shown.runs_out_in < LEASE + 0.1
    scene.net.run_for(LEASE - 2)
    assert is_open(scene)
    scene.net.run_for(4)
    assert not is_open(scene)
    with pytest.raises(Closed, match="'west', which derived it, is gone, and nobody has taken it"):
        scene.ask("east", OpenChannel(NAME, None))
    scene.finish()


def test_what_is_to_be_kept_stays(scene: Scene) -> None:
    scene.derive(Count, "atlanta", lease=None)
    go(scene, "west", "dies")
    scene.net.run_for(10 * LEASE)
    assert is_open(scene)


def test_who_takes_it_holds_it_and_then_the_lease_begins(scene: Scene) -> None:
    scene.derive(Count, "atlanta", lease=LEASE)
    go(scene, "west", "dies")
    scene.net.run_for(LEASE / 2)
    sink = scene.subscribe("east", NAME)
    scene.net.run_for(2 * LEASE)
    assert is_open(scene)
    scene.unsubscribe(sink)
    scene.net.run_for(LEASE - 2)
    assert is_open(scene)
    scene.net.run_for(4)
    assert not is_open(scene)
    scene.finish()


def test_a_consumer_that_dies_holds_nothing(scene: Scene) -> None:
    scene.derive(Count, "atlanta", lease=LEASE)
    scene.subscribe("west", NAME)
    scene.net.kill("west")
    scene.net.run_for(LEASE + FOUND_LOST)
    assert not is_open(scene)
    scene.finish()


def test_what_is_derived_from_it_holds_it(scene: Scene) -> None:
    scene.derive(Count, "atlanta", lease=LEASE)
    below = scene.derive(Few, "dallas", parent=NAME, lease=LEASE)
    go(scene, "west", "dies")
    scene.net.run_for(LEASE + 2)
    assert not is_open(scene, below) and is_open(scene)
    scene.net.run_for(LEASE + 2)
    assert not is_open(scene)
    scene.finish()


def test_it_ends_also_where_its_filter_was_recovered(scene: Scene) -> None:
    scene.derive(Count, "consumer", lease=LEASE)
    go(scene, "west", "dies")
    scene.settle()
    assert scene.places(NAME) != ["west"]
    scene.net.run_for(LEASE + 2)
    assert not is_open(scene)
    scene.finish()


def test_it_ends_after_a_move_that_is_under_way(scene: Scene) -> None:
    scene.derive(Count, "atlanta", lease=LEASE)
    go(scene, "west", "dies")
    scene.net.run_for(LEASE - 3)
    scene.host("dallas").pause()
    moved = scene.begin_move(NAME, "dallas", "east")
    scene.net.run_for(5)
    assert is_open(scene)
    scene.host("dallas").resume()
    scene.settle()
    assert moved.done and not is_open(scene)
    scene.finish()


# --- names of channels ----------------------------------------------------------------------------


def test_an_orphan_s_name_is_free_for_another_filter(scene: Scene) -> None:
    scene.derive(Count, "atlanta", name="mine", lease=LEASE)
    with pytest.raises(NameTaken):
        scene.derive(Some, "atlanta", name="mine", host="dallas")
    scene.net.kill("west")  # not found lost yet: it has to prove that it lives
    scene.derive(Some, "atlanta", name="mine", host="dallas", lease=LEASE)
    scene.net.run_for(2 * LEASE)
    channel = scene.derived("mine")
    assert (channel.owner, channel.envelope.name) == ("dallas", "Some")
    assert is_open(scene, "mine"), "the lease of the old one ends nothing"


def test_a_process_that_came_back_goes_on_with_what_others_take(scene: Scene) -> None:
    scene.derive(Count, "atlanta", name="mine", lease=LEASE)
    sink = scene.subscribe("east", "mine")
    go(scene, "west", "dies")
    scene.net.join(scene.net.restart("west"))
    scene.settle()
    with pytest.raises(NameTaken, match="still taken"):
        scene.derive(Some, "atlanta", name="mine")
    with pytest.raises(NameTaken, match="still taken"):
        scene.derive(Count, "atlanta", name="mine", host="dallas")
    scene.derive(Count, "atlanta", name="mine", lease=LEASE)
    scene.unsubscribe(sink)
    scene.net.run_for(2 * LEASE)
    assert is_open(scene, "mine"), "it has an owner again"

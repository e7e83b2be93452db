"""Whose a name is: one that answers keeps it; else a new process has it at once, as all it was."""

from __future__ import annotations

import pytest
from scene_for_tests import COUNTED, Scene

from activebroker.core.errors import NameTaken, Unreachable
from activebroker.node.effects import Knock, PeerAbsent, PeerEnded, PeerHungUp, TimerFired, Transmit
from activebroker.node.links.peers import QUIET_AFTER
from activebroker.protocol.requests import ClaimName, Join, OpenSupplier, Subscribe
from activebroker.simulation.reference import Count

SOON = 2.0  # seconds; a death is found by silence after ten


@pytest.fixture
def scene() -> Scene:
    return Scene()


def gone(scene: Scene, name: str, how: str) -> None:
    if how == "killed":
        scene.net.kill(name)
    elif how == "frozen":
        scene.host(name).pause()
    else:  # cut off
        for one, other in (("hub", name), (name, "hub")):
            scene.net.network.cut(one, other, 60.0)


def claim(scene: Scene, name: str, replace: bool = False) -> None:
    """As a process does that is about to join; by way of any broker."""
    scene.ask("dallas", ClaimName(name, replace))


@pytest.mark.parametrize("name", ["east", "atlanta", "hub", "nobody"])
@pytest.mark.parametrize("replace", [False, True])
def test_who_answers_keeps_its_name_unless_it_is_replaced(
    scene: Scene, name: str, replace: bool
) -> None:
    if name == "hub" or (name != "nobody" and not replace):
        with pytest.raises(NameTaken, match=f"'{name}' is in the fabric already, and answers"):
            claim(scene, name, replace)
        assert name in scene.directory.members
    else:
        claim(scene, name, replace)
        assert name not in scene.directory.members


@pytest.mark.parametrize("name", ["east", "atlanta"])
@pytest.mark.parametrize("how", ["killed", "frozen", "cut off"])
def test_who_does_not_answer_loses_its_name_at_once(scene: Scene, how: str, name: str) -> None:
    gone(scene, name, how)
    began = scene.net.env.now
    claim(scene, name)
    assert name not in scene.directory.members
    assert scene.net.env.now - began < SOON


def test_who_was_only_frozen_is_told_when_it_goes_on(scene: Scene) -> None:
    east = scene.host("east")
    sink = scene.subscribe("east", "x")
    east.pause()
    claim(scene, "east")
    east.resume()
    scene.net.run_for(SOON)
    assert east.expelled and "another process has taken its name" in east.node.orphaned
    assert isinstance(sink.intake.error, Unreachable)
    assert east.node.peers.links == {}, "it leaves the name's connections to its successor"


@pytest.mark.parametrize("how", ["killed", "frozen", "cut off"])
def test_a_supplier_s_name_is_had_at_once_by_whatever_process(scene: Scene, how: str) -> None:
    sink = scene.subscribe("hub", "x")
    scene.supplier("east", "JFK")
    gone(scene, "east", how)
    began = scene.net.env.now
    scene.supplier("west", "JFK").publish(0, 1)
    scene.net.run_for(SOON)
    assert sink.of("JFK") == ["0", "1"]
    assert scene.net.env.now - began < 2 * SOON and "east" not in scene.directory.members


def test_a_supplier_s_name_stays_with_one_that_answers(scene: Scene) -> None:
    scene.supplier("east", "JFK")
    for host in ("west", "east"):
        with pytest.raises(NameTaken, match="'JFK' already, in the living process 'east'"):
            scene.ask(host, OpenSupplier("x", "JFK", host))
    assert "east" in scene.directory.members


def test_what_a_broker_ran_goes_on_as_soon_as_it_comes_back(scene: Scene) -> None:
    east = scene.supplier("east", "JFK")
    scene.derive(Count, "atlanta")
    sink = scene.subscribe("west", "x.Count")
    east.publish(0, 0, 0)
    scene.net.run_for(SOON)
    scene.net.kill("atlanta")
    east.publish(0, 0, 0)
    claim(scene, "atlanta")
    scene.net.run_for(SOON)
    assert sink.traces == COUNTED


@pytest.mark.parametrize("answers", [True, False])
def test_who_waits_for_its_turn_to_join_bears_its_name_already(scene: Scene, answers: bool) -> None:
    """The one before it, which it has replaced, does not get it back meanwhile."""
    scene.supplier("east", "JFK")
    gone(scene, "east", "frozen")
    busy = scene.begin("hub", Subscribe("x", "hub", 77))  # which is told to a frozen process
    gone(scene, "west", "killed")
    claim(scene, "west", replace=True)
    west = scene.net.restart("west")
    joined = scene.begin("west", Join(west.member))
    scene.net.run_for(SOON)
    assert not busy.done and not joined.done
    if answers:
        with pytest.raises(NameTaken, match="'west' is in the fabric already, and answers"):
            claim(scene, "west")
        scene.net.run_until(lambda: joined.done)
        assert joined.error is None
        assert scene.directory.members["west"] == west.member
    else:
        gone(scene, "west", "killed")
        claim(scene, "west")
        scene.net.run_for(15.0)
        assert "west" not in scene.directory.members
    assert scene.directory._membership._joining == {}


def test_whose_process_has_ended_is_lost_at_once_and_what_waits_for_it_goes_on(
    scene: Scene,
) -> None:
    """The directory alone decides who is."""
    scene.supplier("east", "JFK")
    gone(scene, "east", "killed")
    scene.host("west").give(PeerEnded("east"))
    began = scene.net.env.now
    scene.host("west").open_inlet(99, None)
    asked = scene.begin("west", Subscribe("x", "west", 99))  # which asks the supplier as well
    scene.net.run_for(0.2)
    assert "east" in scene.directory.members and not asked.done
    for each in ("east", "nobody"):
        scene.host("hub").give(PeerEnded(each))
    scene.net.run_for(0.2)
    assert "east" not in scene.directory.members and asked.done
    assert scene.net.env.now - began < SOON


def test_a_broker_that_is_silent_and_not_there_is_lost_long_before_its_silence_tells(
    scene: Scene,
) -> None:
    """Only by the directory, and only while it is silent: it may have been slow to answer."""
    hub = scene.host("hub")
    scene.net.run_for(1.0)
    gone(scene, "atlanta", "killed")
    gone(scene, "east", "killed")
    hub.give(PeerAbsent("atlanta"))
    assert "atlanta" in scene.directory.members, "it was heard a moment ago"
    scene.net.run_for(QUIET_AFTER + 0.2)
    knocks = hub.node.handle(TimerFired("tick"), scene.net.env.now)
    asked = {each.peer for each in knocks if isinstance(each, Knock)}
    assert asked == {"atlanta"}, "a program may not be where it can be dialled from here"
    scene.host("west").give(PeerAbsent("atlanta"))
    assert "atlanta" in scene.directory.members
    hub.give(PeerAbsent("atlanta"))
    assert "atlanta" not in scene.directory.members


def test_the_only_broker_beside_the_directory_has_time_to_come_back(scene: Scene) -> None:
    """What it had does not go to programs before; else it goes on at another broker at once."""
    for name in ("atlanta", "dallas"):
        gone(scene, name, "killed")
    scene.host("hub").give(PeerEnded("atlanta"))
    assert "atlanta" not in scene.directory.members
    scene.host("hub").give(PeerEnded("dallas"))
    scene.net.run_for(SOON)
    assert "dallas" in scene.directory.members
    scene.ask("west", ClaimName("dallas"))
    assert "dallas" not in scene.directory.members


def test_who_has_hung_up_is_greeted_soon_so_that_it_shows_whether_it_lives(scene: Scene) -> None:
    """However often it hangs up: at the node's next look at its links."""
    scene.net.run_for(1.0)
    node, now = scene.host("hub").node, scene.net.env.now
    node.handle(TimerFired("tick"), now)
    for peer in ("atlanta", "nobody", "atlanta"):
        assert node.handle(PeerHungUp(peer), now) == []
    effects = node.handle(TimerFired("tick"), now)
    assert [each.peer for each in effects if isinstance(each, Transmit)] == ["atlanta"]
    effects = node.handle(TimerFired("tick"), now)
    assert not any(isinstance(each, Transmit) for each in effects)

"""A filter that kills its host is found out, and does not take the fabric with it."""

from __future__ import annotations

from typing import Any

import pytest
from scene_for_tests import COUNTED, FOUND_LOST, Scene, Source

from activebroker.core.errors import Closed, Unreachable
from activebroker.directory.deaths import MINUTE, Record
from activebroker.directory.recoveries import LONGEST_WAIT, TRIAL
from activebroker.directory.recovery import Recovery
from activebroker.node.dataplane.outlet import WINDOW
from activebroker.protocol.requests import ClaimName, CloseChannel, OpenChannel
from activebroker.protocol.specs import NOWHERE, UNPLACED
from activebroker.simulation.reference import Count, Deadly

BROKERS = ("atlanta", "dallas")
LONG = 120.0  # seconds in which all is settled


@pytest.fixture
def scene() -> Scene:
    return Scene()


def restart_brokers(scene: Scene, after: float = 1.0) -> None:
    """As a supervisor does, whenever one has died."""

    def look(_: Any) -> None:
        for name in BROKERS:
            if not scene.host(name).alive:
                scene.net.join(scene.net.restart(name))
        scene.net.later(after, look)

    scene.net.later(after, look)


def kill(scene: Scene, name: str) -> None:
    """An operator kills a broker and starts it again."""
    scene.net.kill(name)
    scene.ask("hub", ClaimName(name))
    scene.net.join(scene.net.restart(name))
    scene.net.run_for(5)


def test_without_other_brokers_the_directory_s_is_spared(scene: Scene) -> None:
    source = scene.supplier("east", "JFK")
    deadly = scene.derive(Deadly, "atlanta")
    sink, plain = scene.subscribe("west", deadly), scene.subscribe("west", "x")
    source.publish(0, 1)
    scene.net.run_for(3)
    source.publish(3, 0)
    scene.net.run_for(LONG)
    assert list(scene.net.deaths) == ["atlanta", "dallas"]
    assert sink.traces == ["0/1", "1/2"] and plain.traces == ["0", "1", "2", "3"]
    assert isinstance(sink.intake.error, Unreachable)
    told = str(sink.intake.error)
    for part in (repr(deadly), "'atlanta', 'dallas'", "at event 2 of supplier 'JFK'", "Repair"):
        assert part in told
    with pytest.raises(Closed, match="in quarantine"):
        scene.ask("east", OpenChannel(deadly, None))
    scene.finish(plain)


def test_three_deaths_by_one_event_are_enough(scene: Scene) -> None:
    restart_brokers(scene)
    source = scene.supplier("east", "JFK")
    sink = scene.subscribe("west", scene.derive(Deadly, "atlanta"))
    source.publish(0, 3)
    scene.net.run_for(LONG)
    assert scene.net.counts["hosts killed by filters"] == 3
    assert "3 processes died with it" in str(sink.intake.error)
    assert scene.host("hub").alive


@pytest.mark.parametrize("others", [1, 4])
@pytest.mark.parametrize("last", [False, True])
def test_those_beside_it_go_on(scene: Scene, others: int, last: bool) -> None:
    restart_brokers(scene)
    source = scene.supplier("east", "JFK")
    names = [f"good {number}" for number in range(others)]
    good = [scene.subscribe("west", scene.derive(Count, "atlanta", name=n)) for n in names]
    bad = scene.subscribe("west", scene.derive(Deadly, "atlanta"))
    if last:  # they have something to do whenever it kills
        good += [scene.subscribe("west", scene.derive(Count, "atlanta", name="late"))]
    scene.net.run_for(3)
    source.publish(0, 3, 0, 0, 0, 0)
    scene.net.run_for(LONG)
    assert "in quarantine" in str(bad.intake.error)
    assert scene.host("hub").alive
    source.publish(0)
    scene.settle()
    for sink in good:
        assert sink.traces == [f"{n}/{n + 1}" for n in range(7)], scene.directory.graph.channels
    scene.finish(*good)


def test_what_feeds_it_goes_on(scene: Scene) -> None:
    restart_brokers(scene)
    source = scene.supplier("east", "JFK")
    counts = scene.derive(Count, "atlanta")
    good = scene.subscribe("west", counts)
    bad = scene.subscribe("west", scene.derive(Deadly, "atlanta", parent=counts))
    source.publish(0, 3, 0)
    scene.net.run_for(LONG)
    assert "in quarantine" in str(bad.intake.error)
    source.publish(0)
    scene.settle()
    assert good.traces == ["0/1", "1/2", "2/3", "3/4"]
    scene.finish(good)


def test_an_idle_filter_is_not_to_blame(scene: Scene) -> None:
    source = scene.supplier("east", "JFK")
    sink = scene.subscribe("west", scene.derive(Count, "atlanta"))
    source.publish(0)
    for _ in range(6):
        scene.net.run_for(MINUTE / 2)
        kill(scene, scene.places("x.Count")[0] if scene.places("x.Count") != ["hub"] else "dallas")
    source.publish(0)
    scene.settle()
    assert sink.traces == ["0/1", "1/2"]
    scene.finish(sink)


def test_five_deaths_in_a_minute_are_enough(scene: Scene) -> None:
    scene.supplier("east", "JFK")
    sink = scene.subscribe("west", scene.derive(Count, "atlanta"))
    scene.hub_takes_no_filters()
    for _ in range(5):
        assert sink.intake.error is None
        scene.net.run_until(lambda: scene.places("x.Count")[0] in BROKERS and _placed(scene))
        kill(scene, scene.places("x.Count")[0])
    scene.net.run_for(FOUND_LOST)
    assert "5 processes died with it" in str(sink.intake.error)
    assert "within 60 s" in str(sink.intake.error)


def _placed(scene: Scene) -> bool:
    return not scene.directory._recoveries.waits("x.Count")


def test_who_comes_further_is_not_to_blame(scene: Scene) -> None:
    source = scene.supplier("east", "JFK")
    sink = scene.subscribe("west", scene.derive(Count, "atlanta"))
    for number in range(6):
        source.publish(0)
        kill(scene, scene.places("x.Count")[0])
        scene.net.run_for(MINUTE / 2)
        assert len(sink.traces) == number + 1
    scene.finish(sink)


def stand_still(scene: Scene, *names: str, seconds: float) -> None:
    hosts = [scene.host(name) for name in names]
    for host in hosts:
        host.pause()
        scene.net.later(seconds, lambda _, host=host: host.resume())


def die_with_work(scene: Scene, source: Source) -> None:
    """The host of a filter dies amid its first event; it is not known yet."""
    source.publish(0)
    scene.net.kill("atlanta")
    scene.net.run_for(8)


def test_who_is_silent_for_a_moment_is_asked_again(scene: Scene) -> None:
    source = scene.supplier("east", "JFK")
    sink = scene.subscribe("hub", scene.derive(Count, "atlanta"))
    die_with_work(scene, source)
    stand_still(scene, "dallas", "west", seconds=9.0)
    scene.net.run_until(lambda: scene.places("x.Count") == ["dallas"])
    source.publish(0)
    scene.settle()
    assert sink.traces == ["0/1", "1/2"]
    scene.finish(sink)


def test_places_that_are_lost_as_well_are_told(scene: Scene) -> None:
    source = scene.supplier("east", "JFK")
    sink = scene.subscribe("hub", scene.derive(Count, "atlanta"))
    die_with_work(scene, source)
    scene.net.kill("dallas")
    scene.net.kill("west")
    scene.net.run_for(LONG)
    told = str(sink.intake.error)
    assert "no place for it but the directory's ('dallas' did not answer; 'west' did" in told


def test_who_cannot_run_it_is_not_asked_again(scene: Scene) -> None:
    """Though others are, that do not answer now."""
    source = scene.supplier("east", "JFK")
    sink = scene.subscribe("hub", scene.derive(Count, "atlanta"))
    scene.net.unloadable.add("x.Count")
    die_with_work(scene, source)
    stand_still(scene, "dallas", seconds=9.0)
    scene.net.run_for(LONG)
    refused = [f"'{place}' cannot run it: ModuleNotFoundError" for place in ("dallas", "west")]
    told = str(sink.intake.error)
    assert "could not go on elsewhere" in told
    assert [told.count(each) for each in refused] == [1, 1]


def test_a_place_is_looked_for_a_while_and_no_longer(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*args: Any) -> Any:
        yield []

    sink = scene.subscribe("west", scene.derive(Count, "atlanta"))
    monkeypatch.setattr(Recovery, "_start", silent)
    scene.net.kill("atlanta")
    scene.net.run_for(FOUND_LOST)
    assert sink.intake.error is None
    scene.net.run_for(LONGEST_WAIT)
    assert "could not go on elsewhere" in str(sink.intake.error)


def test_the_directory_s_broker_is_the_last(scene: Scene) -> None:
    """However much the others have to do: with it the fabric would end."""
    for number in range(3):
        scene.derive(Count, "dallas", name=f"there before {number}")
    idle = scene.derive(Count, "atlanta")
    kill(scene, "atlanta")
    assert scene.places(idle)[0] in BROKERS


@pytest.mark.parametrize("busy", [False, True])
def test_where_a_suspect_is_tried_nothing_else_goes_on(scene: Scene, busy: bool) -> None:
    """It would be blamed for what that does; and whoever was busy may do it."""
    source = scene.supplier("east", "JFK")
    suspect, other = (scene.derive(Count, at, name=at) for at in ("dallas", "atlanta"))
    sink = scene.subscribe("west", other)
    if busy:
        source.publish(0)
    died = scene.net.env.now
    scene.directory._recoveries._records[suspect] = Record(
        {"another supplier": NOWHERE}, 2, ["denver"] * 2, [died, died], placed=died
    )
    scene.net.kill("atlanta")
    scene.ask("hub", ClaimName("atlanta"))
    scene.net.run_for(TRIAL - 2.0)
    assert scene.directory._recoveries.waits(other)
    scene.net.run_for(3.0)
    assert scene.places(other) == ["dallas"]
    source.publish(0)
    scene.settle()
    assert sink.traces == COUNTED[: 1 + busy]
    scene.finish(sink)


def test_nothing_is_sent_to_a_filter_that_waits(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place has no name: that would be silent, and be taken for a host that dies with it."""
    derived = scene.derive(Count, "atlanta")
    monkeypatch.setattr(Recovery, "candidates", lambda recovery, *args: [])
    kill(scene, "atlanta")
    assert scene.directory._recoveries.waits(derived)
    source = scene.supplier("east", "JFK")
    source.publish(0)
    scene.net.run_for(1.0)
    assert all(UNPLACED not in host.node.peers.links for host in scene.net.alive())
    (outlet,) = scene.net.hosts["east"].node.plane.outlets.values()
    assert not outlet.flows and outlet.subscribers[derived].retained


def test_a_filter_that_waits_holds_nobody_up(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gives back the credit of what is sent to no place."""
    derived = scene.derive(Count, "atlanta")
    sink, plain = scene.subscribe("west", derived), scene.subscribe("west", "x")
    with monkeypatch.context() as nowhere:
        nowhere.setattr(Recovery, "candidates", lambda recovery, *args: [])
        kill(scene, "atlanta")
        source = scene.supplier("east", "JFK")
        for group in range(4):
            source.publish(group, blob=WINDOW // 2)
        scene.net.run_for(1.0)
        assert scene.directory._recoveries.waits(derived)
        assert len(plain.traces) == 4
    scene.net.run_for(LONG)
    assert sink.traces == ["0/1", "1/2", "2/3", "3/4"]
    scene.finish(sink, plain)


def test_a_relay_runs_nobody_s_code_and_makes_no_pause(scene: Scene) -> None:
    source = scene.supplier("east", "JFK")
    sink = scene.subscribe("west", "x")
    scene.offload(source, "atlanta")
    for number in range(4):
        (relay,) = scene.directory.graph.relays.values()
        lost = relay.at
        scene.net.kill(lost)
        scene.ask("hub", ClaimName(lost))
        scene.net.run_for(0.5)
        assert not scene.directory._recoveries.waits(relay.name)
        scene.net.join(scene.net.restart(lost))
        source.publish(number)
    scene.settle()
    assert sink.traces == [str(number) for number in range(4)]
    scene.finish(sink)


def test_a_channel_is_closed_when_its_relay_has_a_place_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else those whom it serves would wait for what it has still to pass on."""
    source = scene.supplier("east", "JFK")
    derived = scene.derive(Count, "dallas")
    sinks = scene.subscribe("west", "x"), scene.subscribe("west", derived)
    scene.offload(source, "atlanta")
    with monkeypatch.context() as nowhere:
        nowhere.setattr(Recovery, "candidates", lambda recovery, *args: [])
        kill(scene, "atlanta")
        (relay,) = scene.directory.graph.relays.values()
        assert scene.directory._recoveries.waits(relay.name)
        source.publish(0, 1)
        closing = scene.begin("hub", CloseChannel("x"))
        scene.net.run_for(1.0)
        assert not closing.done
    scene.net.run_until(lambda: closing.done)
    scene.settle()
    assert closing.error is None
    for sink, traces in zip(sinks, (["0", "1"], ["0/1", "1/2"]), strict=True):
        assert sink.traces == traces
        assert sink.intake.ended and sink.intake.error is None
    scene.check_nothing_left()

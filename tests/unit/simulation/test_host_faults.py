"""What faults do to hosts: deaths, silence that is too long, and who may be lost because of it."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable

import pytest

from activebroker.core.errors import Unreachable
from activebroker.events.wire import describe
from activebroker.protocol.requests import OpenChannel
from activebroker.simulation import checkers
from activebroker.simulation.drawing import AIMS, HOLDS, draw
from activebroker.simulation.faults import Faults
from activebroker.simulation.machines import is_member, is_orphan
from activebroker.simulation.reference import ITEM
from activebroker.simulation.scenario import HUB, SHORT, Fault, Scenario
from activebroker.simulation.world import World
from derivation.source import Source

LONG = 15.0  # seconds of silence for which one is taken for lost
HUB_AT, EAST = 0, 2  # where hosts are in the world
NEXT_BUT_ONE = 1  # as the `other` of a cut: east from the hub, the hub from east


def world(*faults: Fault) -> World:
    made = World(random.Random(1), ("atlanta", "east", "west"), brokers=("atlanta",))
    made.begin()
    Faults(made).plan(faults)
    return made


def settled(made: World) -> World:
    made.run_until(lambda: made.quiet() and made.agreed())
    return made


def member(made: World, name: str) -> bool:
    return is_member(made.hosts[HUB].node, made.hosts[name].member)


def wrong(made: World) -> list[str]:
    hosts = (*made.hosts.values(), *made.ended)
    return [line for host in hosts for line in checkers.membership(host)]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(1.0, "pause", EAST, seconds=LONG),
        Fault(1.0, "cut", EAST, NEXT_BUT_ONE, seconds=LONG),
        Fault(1.0, "cut", EAST, NEXT_BUT_ONE, seconds=LONG, both=False),
        Fault(1.0, "cut", HUB_AT, NEXT_BUT_ONE, seconds=LONG, both=False),
    ],
)
def test_who_is_silent_to_the_directory_for_too_long_is_lost_and_told(fault: Fault) -> None:
    made = settled(world(fault))
    east = made.hosts["east"]
    assert made.counts["hosts expelled"] == 1
    assert east.alive and east.expelled and is_orphan(east.node) and not member(made, "east")
    assert list(made.deaths) == ["east"]
    answer = east.request(OpenChannel("x", describe(ITEM)))
    settled(made)
    assert isinstance(answer.error, Unreachable)
    assert wrong(made) == []


@pytest.mark.parametrize("do", ["pause", "cut"])
def test_a_short_silence_costs_nothing(do: str) -> None:
    made = settled(world(Fault(1.0, do, EAST, NEXT_BUT_ONE, seconds=SHORT)))  # type: ignore[arg-type]
    assert not made.deaths and member(made, "east")


def test_the_hub_stands_still_for_a_short_time_only_and_is_not_crashed() -> None:
    made = world(Fault(1.0, "pause", HUB_AT, seconds=LONG), Fault(30.0, "crash", HUB_AT))
    made.run_for(25.0)
    assert not made.deaths and all(member(made, name) for name in made.hosts)
    made.run_for(10.0)
    assert list(made.deaths) == ["atlanta"]


def test_who_is_lost_may_come_back_as_another_process() -> None:
    made = settled(world(Fault(1.0, "pause", EAST, seconds=LONG, again=True)))
    settled(made)
    east = made.hosts["east"]
    assert east.member.incarnation == 2 and member(made, "east") and not east.expelled
    (before,) = made.ended
    assert before.expelled and not before.alive
    assert wrong(made) == []


def test_a_cut_that_lasts_goes_on_when_all_else_heals() -> None:
    made = world()
    faults = Faults(made)
    faults.plan([Fault(0.5, "cut", EAST, NEXT_BUT_ONE, seconds=LONG)])
    made.run_for(1.0)
    faults.heal()
    assert not made.quiet()
    settled(made)
    assert made.env.now > LONG and list(made.deaths) == ["east"]


def test_short_silences_that_follow_on_each_other_are_a_long_one() -> None:
    for gap, long in ((0.1, True), (5.0, False)):
        made = world(*(Fault(at, "pause", EAST, seconds=4.0) for at in (1.0, 5.0 + gap)))
        made.run_for(20.0)
        assert made.hosts["east"].may_be_lost is long


def test_a_process_that_began_after_the_silence_is_not_excused() -> None:
    made = settled(world(Fault(1.0, "pause", EAST, seconds=LONG)))
    assert made.hosts["east"].may_be_lost
    made.kill("east")
    made.run_for(1.0)
    again = made.restart("east")
    assert not again.may_be_lost


def test_who_was_heard_and_is_lost_all_the_same_is_found() -> None:
    made = settled(world())
    host = made.hosts["east"]
    host.node._lose(HUB)
    made.watch(host)
    assert [line.partition(":")[0] for line in wrong(made)] == ["expelled"]


def test_a_lost_process_that_hands_events_over_is_found() -> None:
    made = settled(world(Fault(1.0, "pause", EAST, seconds=LONG)))
    east = made.hosts["east"]
    outlet = east.node.outlets.open(1, "x", "s1")
    supply = east.open_supply(1, lambda batch: None)
    assert [line.partition(":")[0] for line in wrong(made)] == ["unended"]
    supply.waiting.append(None)  # type: ignore[arg-type]
    assert outlet.ready
    with pytest.raises(AttributeError):
        east.pump(1)
    assert made.violations[0].startswith("expelled: ")


def test_a_restart_is_met_by_the_machines_in_which_the_predecessor_had_a_part() -> None:
    made = world()
    made._machines["west"] = {("origin", 5, 0): (Source(), "CAPTURING")}
    made._attached["west"] = {6: None}
    made._parties = {5: ("east", "west"), 6: ("atlanta", "west")}
    made.cover_restart("east")
    assert made.covered == {("origin", "CAPTURING", "restart"): 1}
    made.cover_restart("atlanta")
    assert made.covered["source", "ATTACHED", "restart"] == 1


# --- what is drawn --------------------------------------------------------------------------------


@functools.cache
def drawn() -> list[Scenario]:
    return [draw(seed) for seed in range(2000)]


def share(holds: Callable[[Scenario], bool]) -> float:
    return sum(map(holds, drawn())) / len(drawn())


def crashes(scenario: Scenario) -> list[Fault]:
    return [fault for fault in scenario.faults if fault.do == "crash"]


def silences(scenario: Scenario) -> list[Fault]:
    return [f for f in scenario.faults if f.do in ("pause", "cut") and f.seconds > SHORT]


def test_the_mix_is_that_of_the_docs() -> None:
    assert 0.15 < share(lambda each: not each.faults) < 0.25
    assert 0.08 < share(lambda each: any(f.do == "leave" for f in each.faults)) < 0.14
    assert 0.3 < share(lambda each: bool(crashes(each))) < 0.42
    assert 0.05 < share(lambda each: len(crashes(each)) > 1) < 0.2
    firm = [each for each in drawn() if not each.options.rejoining]
    assert 0.03 < sum(bool(silences(each)) for each in firm) / len(firm) < 0.08
    with_leases = max(len(crashes(each)) for each in drawn() if each.options.lease)
    others = max(len(crashes(each)) for each in drawn() if not each.options.lease)
    assert (with_leases, others) == (5, 6)


def test_crashes_come_early_amid_all_and_late() -> None:
    late = [
        fault.at > max(step.at for step in each.steps if step.do != "publish")
        for each in drawn()
        for fault in crashes(each)
        if fault.when is None
    ]
    assert 0.1 < sum(late) / len(late) < 0.9


def test_faults_aim_at_every_state_that_lasts() -> None:
    aims = {fault.when for each in drawn() for fault in each.faults if fault.when}
    assert aims == {*AIMS, *(when for _, when in HOLDS.values())}

"""Faults planted into the core are found: each in a scenario that is clean without it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from relays_for_tests import relay_dies, slow

from activebroker.simulation.plants import PLANTS
from activebroker.simulation.run import run
from activebroker.simulation.scenario import Fault, Scenario, draw

HEAVY = 700_000  # bytes of an event: a slow consumer has a window of them under way


def broker_dies(seed: int, slow: bool = False) -> Scenario:
    """A drawn scenario with one fault only, which `draw` makes rarely enough: a broker dies amid
    it. `slow`: late in it, when events wait for their consumers."""
    scenario = draw(seed)
    last = scenario.steps[-1].at
    if not slow:
        return replace(scenario, faults=(Fault(last * 0.5, "crash", host=1),))
    return replace(
        scenario,
        options=replace(scenario.options, blob=HEAVY, pace=0.1),
        steps=tuple(
            replace(step, choice=1) if step.do == "subscribe" else step for step in scenario.steps
        ),
        faults=(Fault(last * 0.8, "crash", host=1),),
    )


FOUND = {
    "timers are never cancelled": draw(0),
    "the ACK is sent before the swap": draw(1),
    "the mark is omitted": draw(1),
    "one event too many goes the old way": draw(1),
    "gaps are accepted": draw(1),
    "what is missing is not asked for": draw(1),
    "repeated frames are taken again": draw(4),
    "one event is dropped at the switch-over": draw(21),
    "the state is not restored": draw(21),
    "the snapshot is one event early": draw(21),
    "the snapshot is one event late": draw(21),
    "the buffer is not merged": draw(25),
    "credit leaks": draw(31),
    "credit is returned twice": draw(31),
    "the buffer is merged after the new events": draw(62),
    "flows do not wait for those that they follow": draw(212),
    "the ACK overtakes what waits for credit": draw(215),
    "a stale incarnation is accepted": draw(336),
    "the end of a stream is lost at the hand-over": draw(426),
    "the loss of one source ends the streams of all": draw(859),
    "a roll-back forgets what was held": draw(1039),
    "inputs are settled before the directory has the checkpoint": broker_dies(38),
    "what is kept goes with the flow that is lost": broker_dies(38),
    "what is kept is not sent to who resumes": broker_dies(38),
    "a port does not tell how far it has come": broker_dies(38),
    "a filter goes on before those whom its events are for are served": broker_dies(227),
    "the numbering of what comes out is not restored": broker_dies(259),
    "the checkpoint's state is not restored": broker_dies(609),
    "a checkpoint is sent before what led to it is settled": broker_dies(238, slow=True),
    "who is new at a relay sees what had holes": relay_dies(3153),
    "a relay does not know how far its subscriptions have settled": slow(relay_dies(3005)),
    "who goes on at a relay does not wait for what its supplier sent itself": slow(
        relay_dies(3411)
    ),
}


def test_every_plant_has_its_scenario() -> None:
    assert set(FOUND) == set(PLANTS)


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_found(name: str) -> None:
    """By a checker: one that makes the core raise is not planted well."""
    violations = run(FOUND[name], PLANTS[name], record=False).violations
    assert violations and not [each for each in violations if each.startswith("crash")]
    assert not run(FOUND[name], record=False).violations

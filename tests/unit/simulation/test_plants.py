"""Faults planted into the core are found: each at a seed that is clean without it."""

from __future__ import annotations

import pytest

from activebroker.simulation.plants import PLANTS
from activebroker.simulation.run import run
from activebroker.simulation.scenario import draw

FOUND = {
    "timers are never cancelled": 0,
    "the ACK is sent before the swap": 1,
    "the mark is omitted": 1,
    "one event too many goes the old way": 1,
    "gaps are accepted": 1,
    "what is missing is not asked for": 1,
    "repeated frames are taken again": 4,
    "one event is dropped at the switch-over": 21,
    "the state is not restored": 21,
    "the snapshot is one event early": 21,
    "the snapshot is one event late": 21,
    "the buffer is not merged": 25,
    "the ACK overtakes what waits for credit": 31,
    "the buffer is merged after the new events": 31,
    "credit leaks": 31,
    "credit is returned twice": 31,
    "the loss of one source ends the streams of all": 40,
    "flows do not wait for those that they follow": 276,
    "a stale incarnation is accepted": 336,
    "the end of a stream is lost at the hand-over": 794,
    "a roll-back forgets what was held": 1039,
}


def test_every_plant_has_its_seed() -> None:
    assert set(FOUND) == set(PLANTS)


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_found(name: str) -> None:
    scenario = draw(FOUND[name])
    assert run(scenario, PLANTS[name], record=False).violations
    assert not run(scenario, record=False).violations

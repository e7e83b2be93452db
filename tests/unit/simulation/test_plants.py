"""Faults planted into the core are found: each by a drawn scenario that is clean without it."""

from __future__ import annotations

import pytest

from activebroker.simulation.plants import PLANTS, SEEDS, found

# `python -m activebroker.simulation.plants` prints this, and how they are found.
FOUND = {
    "the ACK overtakes what waits for credit": 778,
    "the ACK is sent before the swap": 1,
    "the mark is omitted": 1,
    "one event too many goes the old way": 3,
    "one event is dropped at the switch-over": 18,
    "flows do not wait for those that they follow": 3,
    "the buffer is not merged": 67,
    "the buffer is merged after the new events": 241,
    "the end of a stream is lost at the hand-over": 886,
    "a roll-back forgets what was held": 1455,
    "the state is not restored": 18,
    "the snapshot is one event early": 18,
    "the snapshot is one event late": 21,
    "a checkpoint is sent before what led to it is settled": 672,
    "inputs are settled before the directory has the checkpoint": 2,
    "what is kept goes with the flow that is lost": 207,
    "what is kept is not sent to who resumes": 207,
    "a port does not tell how far it has come": 207,
    "the checkpoint's state is not restored": 467,
    "the numbering of what comes out is not restored": 629,
    "a filter goes on before those whom its events are for are served": 209,
    "repeated frames are taken again": 4,
    "gaps are accepted": 1,
    "what is missing is not asked for": 1,
    "a stale incarnation is accepted": 261,
    "credit leaks": 31,
    "credit is returned twice": 31,
    "timers are never cancelled": 0,
    "the loss of one source ends the streams of all": 462,
}


def test_every_plant_has_its_seed() -> None:
    assert set(FOUND) == set(PLANTS)
    assert max(FOUND.values()) < SEEDS


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_found(name: str) -> None:
    assert found(FOUND[name], PLANTS[name]) is not None

"""Faults planted into the core are found: each by a drawn scenario that is clean without it."""

from __future__ import annotations

import pytest
from planting_for_tests import found
from plants_for_tests import PLANTS, SEEDS
from relays_for_tests import relay_dies, slow
from test_seeds import kept

from activebroker.simulation.drawing import draw

# `python plants_for_tests.py` prints this, and how they are found.
FOUND = {
    "the end marker overtakes events that wait for credit": 399,
    "the end marker is sent before the swap": 0,
    "the begin marker is omitted": 1,
    "one event too many goes the old way": 1,
    "one event is dropped at the switch-over": 18,
    "flows do not wait for those that they follow": 811,
    "the buffer is not merged": 22,
    "the buffer is merged after the new events": 22,
    "the end of a stream is lost at the hand-over": 426,
    "a roll-back forgets what was held": 1807,
    "the state is not restored": 18,
    "the snapshot is one event early": 18,
    "the snapshot is one event late": 11,
    "the sources' predicate is not widened": 44,
    "events sent by the wider predicate are not filtered": 948,
    "events sent before are filtered with the new parameters": 62,
    "a filter goes on before its new parameters are saved": 1576,
    "a filter that is there keeps its old parameters": 503,
    "a filter that comes later gets the old parameters": 400,
    "a relay is asked to run what it passes on": 131,
    "a checkpoint is sent before its outputs are acknowledged": 809,
    "inputs are acknowledged before the directory has the checkpoint": 205,
    "the retained events go with the flow that is lost": 207,
    "the retained events are not sent to a subscriber that resumes": 207,
    "an inlet does not tell how far it has come": 192,
    "the checkpoint's state is not restored": 639,
    "the numbering of the output is not restored": 76,
    "a filter goes on before its subscribers are served": 207,
    "recovery has no budget": 123,
    "suspects are tried together": 809,
    "the directory's node is not spared": 179,
    "events that were not acknowledged are not published again": 107,
    "an inlet takes repeated events": 29,
    "repeated frames are taken again": 4,
    "gaps are accepted": 3,
    "missing frames are not asked for": 2,
    "a stale incarnation is accepted": 210,
    "credit leaks": 31,
    "credit is returned twice": 31,
    "timers are never cancelled": 0,
    "the loss of one source ends the streams of all": 462,
    "a filter that may begin waits for the next tick": 1,
    "a process that answers loses its name": 1411,
    "a lease runs though the channel has a subscriber": 73,
    "leases do not run out": 15,
    "a malformed row loses its batch": 18,
    "a malformed event is lost without a word": 18,
    "a malformed batch is dropped without a word": 645,
    "a failed effect is not reported": 32,
    "the sources of a filter that was stopped retain its events": 397,
    "a log acknowledges what is not on disk": 9,
    "a log takes again what came after its checkpoint": 219,
    "a log that is opened again begins at the front": 9,
    "a log goes on at another broker": 9,
    "a late subscriber begins with the second event": 9,
    "what comes while the log is read is taken for read": 629,
    "what comes overtakes what is read": 737,
    "a slow subscriber of a log misses what it has no credit for": 113,
    "one that resumes gets again what it has": 9,
    "the end of a stream is not read": 1088,
}


# Of relays that die amid offloads of some consumers, which `draw` makes too rarely: the scenario of
# the first seed that finds it.
RELAYS = {
    "a relay does not know how far its subscriptions have acknowledged": slow(relay_dies(19)),
    "a new subscriber of a relay gets a stream with gaps": relay_dies(78),
    "a subscriber that resumes at a relay does not wait for what its supplier sent itself": slow(
        relay_dies(363), pace=0.4
    ),
}


# A broker that leaves in the very moment: a scenario that once found the fault.
LEAVES = {
    "a checkpoint of a broker that leaves is accepted": next(
        each.scenario for each in kept("regressions.jsonl") if "leaves in good order" in each.why
    )
}

# A broker whose log has events that nobody was sent when it left: a scenario that once found this.
LOGS = {"one that has nothing yet resumes at the end of the log": draw(11167)}


def test_every_plant_is_found_within_so_many_seeds() -> None:
    assert FOUND.keys() | RELAYS.keys() | LEAVES.keys() | LOGS.keys() == PLANTS.keys()
    assert max(FOUND.values()) < SEEDS


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_found(name: str) -> None:
    scenario = draw(FOUND[name]) if name in FOUND else {**RELAYS, **LEAVES, **LOGS}[name]
    assert found(scenario, PLANTS[name]) is not None

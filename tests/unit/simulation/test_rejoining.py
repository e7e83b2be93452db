"""Processes of the simulator that are taken for lost, and join again with all they had."""

from __future__ import annotations

import functools
from collections import Counter

from activebroker.simulation.drawing import draw
from activebroker.simulation.run import run
from activebroker.simulation.scenario import Scenario


@functools.cache
def drawn() -> list[Scenario]:
    return [each for each in map(draw, range(1000)) if each.options.rejoining]


def test_the_mix_is_that_of_the_docs() -> None:
    assert 40 < len(drawn()) < 80


def test_they_are_lost_and_come_back() -> None:
    counts: Counter[str] = Counter()
    for scenario in drawn()[:20]:
        outcome = run(scenario, record=False)
        assert not outcome.violations
        counts.update(outcome.counts)
    assert counts["hosts expelled"] == counts["hosts back"] > 5
    assert counts["events seen"] > 100

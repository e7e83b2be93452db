"""The contract, under random programs: every event once, in order, and nothing left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from activebroker.simulation.drawing import draw
from activebroker.simulation.run import run
from activebroker.simulation.scenario import Fault, Scenario

SEEDS_A_TEST = 20
CALM = {"loss": 0.0, "duplication": 0.0, "reordering": 0.0, "straggling": 0.0, "patience": 100.0}


def undisturbed(seed: int) -> Scenario:
    scenario = draw(seed)
    return replace(scenario, options=replace(scenario.options, **CALM), faults=())


def lossy(seed: int) -> Scenario:
    scenario = undisturbed(seed)
    return replace(scenario, options=replace(scenario.options, loss=0.03, duplication=0.03))


def deadly(seed: int) -> Scenario:
    """Two processes die, at moments that differ from seed to seed."""
    scenario = undisturbed(seed)
    last = scenario.steps[-1].at
    kills = tuple(
        Fault(0.1 + last * (seed * part % 97) / 97, "crash", host=seed * part) for part in (5, 7)
    )
    return replace(scenario, faults=kills)


def check(first: int, scenario_of: Callable[[int], Scenario]) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        outcome = run(scenario_of(seed), record=False)
        assert not outcome.violations, f"seed {seed}: " + "\n".join(outcome.violations)


@pytest.mark.parametrize("first", range(0, 160, SEEDS_A_TEST))
def test_random_programs(first: int) -> None:
    check(first, undisturbed)


@pytest.mark.parametrize("first", range(1000, 1060, SEEDS_A_TEST))
def test_random_programs_on_a_network_that_loses_and_repeats(first: int) -> None:
    check(first, lossy)


@pytest.mark.parametrize("first", range(3000, 3080, SEEDS_A_TEST))
def test_random_programs_whose_processes_die(first: int) -> None:
    """Survivors get all that was not lost with the dead, or are told; nobody waits for ever."""
    check(first, deadly)

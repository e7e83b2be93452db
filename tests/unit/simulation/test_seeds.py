"""Runs of many seeds, and of scenarios that once failed; known faults are expected to fail."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from activebroker.simulation.run import run
from activebroker.simulation.scenario import Scenario, draw

SEEDS, SEEDS_A_TEST = 1200, 100


class Kept(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a file: a scenario, and why it is kept."""

    why: str
    scenario: Scenario


def kept(name: str) -> list[object]:
    lines = (Path(__file__).parent / name).read_bytes().splitlines()
    found = [msgspec.json.decode(line, type=Kept) for line in lines]
    return [pytest.param(each.scenario, id=f"{each.scenario.seed}: {each.why}") for each in found]


def check(scenario: Scenario) -> None:
    outcome = run(scenario, record=False)
    assert not outcome.violations, f"seed {scenario.seed}: " + "\n".join(outcome.violations)


@pytest.mark.parametrize("scenario", kept("regressions.jsonl"))
def test_a_scenario_that_once_found_a_fault(scenario: Scenario) -> None:
    check(scenario)


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_A_TEST))
def test_seeds(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        check(draw(seed))


@pytest.mark.xfail(reason="not mended yet; then it belongs to regressions.jsonl", strict=True)
@pytest.mark.parametrize("scenario", kept("open.jsonl"))
def test_a_scenario_whose_fault_is_open(scenario: Scenario) -> None:
    check(scenario)

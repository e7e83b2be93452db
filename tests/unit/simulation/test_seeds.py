"""Runs of many seeds, and of scenarios that once failed; known faults are expected to fail."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from activebroker.node.dataplane.stage import Stage
from activebroker.simulation.drawing import draw
from activebroker.simulation.run import run
from activebroker.simulation.scenario import Scenario

SEEDS, SEEDS_A_TEST = 600, 100  # the first 100,000 are played by `.ci/nightly simulation`


class Kept(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a file: a scenario, and why it is kept."""

    why: str
    scenario: Scenario


def kept(name: str) -> list[Kept]:
    lines = (Path(__file__).parent / name).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Kept) for line in lines]


def named(each: Kept) -> str:
    return f"{each.scenario.seed}: {each.why}"


REGRESSIONS, OPEN = kept("regressions.jsonl"), kept("open.jsonl")


def check(scenario: Scenario) -> None:
    outcome = run(scenario, record=False)
    assert not outcome.violations, f"seed {scenario.seed}: " + "\n".join(outcome.violations)


@pytest.mark.parametrize("each", REGRESSIONS, ids=named)
def test_a_scenario_that_once_found_a_fault(each: Kept) -> None:
    check(each.scenario)


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_A_TEST))
def test_seeds(first: int) -> None:
    known = {each.scenario.seed for each in OPEN}
    for seed in range(first, first + SEEDS_A_TEST):
        if seed not in known:
            check(draw(seed))


def test_seeds_where_filters_take_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those do that use much CPU time, of which virtual hosts know nothing."""
    monkeypatch.setattr(Stage, "_most_events", lambda stage: 2)
    known = {each.scenario.seed for each in OPEN}
    for seed in range(SEEDS_A_TEST):
        if seed not in known:
            check(draw(seed))


@pytest.mark.xfail(reason="not mended yet; then it belongs to regressions.jsonl", strict=True)
@pytest.mark.parametrize("each", OPEN, ids=named)
def test_a_scenario_whose_fault_is_open(each: Kept) -> None:
    check(each.scenario)

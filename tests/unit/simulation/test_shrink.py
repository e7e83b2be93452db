from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from activebroker.simulation.drawing import draw
from activebroker.simulation.outcome import Outcome
from activebroker.simulation.scenario import Fault, Options, Scenario, Step
from activebroker.simulation.shrink import (
    SIMPLEST,
    NotAScenario,
    NothingToShrink,
    kind,
    load,
    save,
    shrink,
)

MOVE = Step(0.3, "move", host=17, object=33, place=5)
CUT = Fault(0.2, "cut", host=40, other=9, seconds=2.0)
LARGE = Scenario(
    11,
    Options(sources=3, sinks=2, duplication=0.2, jitter=1.0, blob=2000, work=0.03, patience=3.0),
    tuple(
        Step(n / 20, do, host=7 * n, object=5 * n, choice=n, place=3 * n, times=1 + n % 4, over=0.1)
        for n, do in enumerate(
            ("open supplier", "derive", "subscribe", *["publish"] * 12, "offload")
        )
    ),
    (Fault(0.1, "pause", host=3, seconds=0.5), Fault(0.4, "crash", host=9, other=2, seconds=12.0)),
)


class Runner:
    """Fails as its function says, and remembers what it was given."""

    def __init__(self, violations: Callable[[Scenario], tuple[str, ...]]) -> None:
        self.violations = violations
        self.ran: list[Scenario] = []

    def __call__(self, scenario: Scenario) -> Outcome:
        self.ran.append(scenario)
        return Outcome(scenario, self.violations(scenario), ())


def needs(step: Step, fault: Fault) -> Runner:
    """Fails where there is a step and a fault of these kinds, under loss."""

    def violations(scenario: Scenario) -> tuple[str, ...]:
        there = any(each.do == step.do for each in scenario.steps)
        there = there and any(each.do == fault.do for each in scenario.faults)
        return ("order: 7 came late",) if there and scenario.options.loss > 0 else ()

    return Runner(violations)


def with_both(scenario: Scenario) -> Scenario:
    half = len(scenario.steps) // 2
    return replace(
        scenario,
        options=replace(scenario.options, loss=0.2, brokers=3),
        steps=(*scenario.steps[:half], MOVE, *scenario.steps[half:]),
        faults=(*scenario.faults, CUT),
    )


def test_only_what_it_takes_is_left() -> None:
    runner = needs(MOVE, CUT)
    shrunk = shrink(with_both(LARGE), runner)
    (step,) = shrunk.steps
    (fault,) = shrunk.faults
    assert step.do == "move" and fault.do == "cut"
    assert replace(step, at=0.0) == replace(SIMPLEST[Step], do="move")
    assert replace(fault, at=0.0, when=None) == replace(SIMPLEST[Fault], do="cut")
    assert shrunk.options == replace(SIMPLEST[Options], loss=0.2)
    assert shrunk.seed == LARGE.seed
    assert runner(shrunk).violations


def test_nothing_is_run_twice_and_all_gets_simpler() -> None:
    runner = needs(MOVE, CUT)
    shrink(with_both(LARGE), runner)
    assert len(runner.ran) == len(set(runner.ran))
    failing = [each for each in runner.ran if runner.violations(each)]
    sizes = [len(each.steps) + len(each.faults) for each in failing]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("limit", [1, 2, 30])
def test_the_number_of_runs_is_bounded(limit: int) -> None:
    runner = needs(MOVE, CUT)
    scenario = with_both(LARGE)
    shrunk = shrink(scenario, runner, limit)
    assert len(runner.ran) == limit
    assert runner.violations(shrunk)
    assert limit > 1 or shrunk == scenario


def test_another_violation_is_another_fault() -> None:
    def violations(scenario: Scenario) -> tuple[str, ...]:
        return ("order: 3 came late",) if MOVE in scenario.steps else ("end: none came",)

    assert MOVE in shrink(with_both(LARGE), Runner(violations)).steps


def test_a_number_is_halved_where_its_simplest_value_does_not_do() -> None:
    def violations(scenario: Scenario) -> tuple[str, ...]:
        return ("lost: 1",) if any(step.times >= 5 for step in scenario.steps) else ()

    scenario = Scenario(1, steps=(Step(0.0, "publish", times=40), MOVE))
    assert shrink(scenario, Runner(violations)).steps == (Step(0.0, "publish", times=5),)


def test_what_keeps_the_contract_cannot_be_shrunk() -> None:
    with pytest.raises(NothingToShrink, match="seed 4 keeps the contract"):
        shrink(Scenario(4), Runner(lambda _: ()))


def test_the_kind_that_comes_first_is_kept() -> None:
    def violations(scenario: Scenario) -> tuple[str, ...]:
        found = ("missing: x",) if MOVE in scenario.steps else ()
        return (*found, "left: y")

    assert MOVE in shrink(with_both(LARGE), Runner(violations)).steps


def test_the_kind_is_without_details() -> None:
    assert kind("order: of s1 at east") == kind("order: of s2 at west: 5") == "order"


def test_the_kind_of_a_crash_is_its_exception_and_where_it_was_raised() -> None:
    def inner(number: int) -> float:
        return 1 / number

    def outer() -> None:
        inner(0)

    try:
        outer()
    except ZeroDivisionError:
        text = traceback.format_exc()
    assert kind(f"crash: {text}") == "crash: ZeroDivisionError in inner"


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_scenario_is_read_as_it_was_written(tmp_path: Path, seed: int) -> None:
    save(draw(seed), tmp_path / "scenario.json")
    assert load(tmp_path / "scenario.json") == draw(seed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no scenario"),
        ('{"steps": []}', "seed"),
        ('{"seed": 1, "steps": [{"at": 0, "do": "dance"}]}', "dance"),
    ],
)
def test_what_is_no_scenario_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "scenario.json").write_text(text)
    with pytest.raises(NotAScenario, match=message):
        load(tmp_path / "scenario.json")


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotAScenario, match=r"absent\.json cannot be read: No such file"):
        load(tmp_path / "absent.json")

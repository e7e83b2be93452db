"""The command, on real runs; where one has to fail, on runs that fail as the test says."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from activebroker.cli import app
from activebroker.simulation.drawing import draw
from activebroker.simulation.outcome import Outcome
from activebroker.simulation.pool import Death, Failure, Tally
from activebroker.simulation.run import run
from activebroker.simulation.scenario import Scenario, Step
from activebroker.simulation.shrink import load, save

CELL = ("origin", "CAPTURING", "pause")


def simulate(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["simulate", "3pd", *map(str, arguments)])


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def pretend(monkeypatch: pytest.MonkeyPatch, *tallies: Tally, interrupt: bool = False) -> None:
    """Let the pool yield these, and then perhaps be interrupted."""

    def run_pool(seeds: range, jobs: int) -> Iterator[Tally]:
        yield from tallies
        if interrupt:
            raise KeyboardInterrupt

    monkeypatch.setattr("activebroker.simulation.pool.run_pool", run_pool)


def break_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every scenario in which something is moved break the contract."""

    def broken(scenario: Scenario, record: bool = True) -> Outcome:
        moves = any(step.do == "move" for step in scenario.steps)
        found = ("order: planted [b]x[/b]",) if moves else ()
        return replace(run(scenario, record=record), violations=found)

    monkeypatch.setattr("activebroker.simulation.run.run", broken)


@pytest.fixture(scope="module")
def moving() -> int:
    """A seed with which something really moves."""
    seeds = range(100)
    return next(s for s in seeds if run(draw(s), record=False).counts["initiator COMPLETED"])


# --- many seeds -----------------------------------------------------------------------------------


def test_some_seeds_in_processes(tmp_path: Path, moving: int) -> None:
    result = simulate("--seeds", 4, "--first", moving, "--jobs", 1, "--json", "out.json")
    found = json.loads((tmp_path / "out.json").read_text())
    assert result.exit_code == (1 if found["failures"] else 0)
    assert (found["first"], found["seeds"], found["jobs"]) == (moving, 4, 1)
    assert found["counts"]["frames"] > 0
    assert found["seeds_per_second"] > 0
    assert "4 seeds in" in result.stdout
    assert "Faults met by state" in result.stdout
    assert "Moves completed" in result.stdout
    moves = sum(times for *_, outcome, times in found["carried"] if outcome == "COMPLETED")
    assert moves == found["counts"]["initiator COMPLETED"] > 0


def test_what_is_clean_ends_with_0(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Tally(20, Counter({"moves": 12345}), Counter({CELL: 3}))
    pretend(monkeypatch, tally, tally)
    result = simulate("--jobs", 3)
    assert result.exit_code == 0
    assert "40 seeds in" in result.stdout
    assert "in 3 processes: the contract is kept." in result.stdout
    assert "24,690" in result.stdout
    assert list(Path().iterdir()) == []


def test_a_failing_seed_is_shrunk_told_and_kept(
    monkeypatch: pytest.MonkeyPatch, moving: int
) -> None:
    failure = Failure(moving, ("order: planted [b]x[/b]",))
    pretend(monkeypatch, Tally(20, failures=[Failure(moving + 1, ("once: y",)), failure]))
    break_moves(monkeypatch)
    result = simulate("--jobs", 1, "--html", "story.html", "--json", "out.json")
    assert result.exit_code == 1
    out = result.stdout
    assert f"activebroker simulate 3pd --seed {moving}\n  order: planted [b]x[/b]" in out
    assert f"activebroker simulate 3pd --seed {moving + 1}\n  once: y" in out
    assert "2 seeds broke the contract, 0 worker processes were lost" in out
    kept = f"simulate-3pd-{moving}.json"
    assert f"--replay {kept}" in out
    assert "to 1 and 0:" in out
    assert [step.do for step in load(Path(kept)).steps] == ["move"]
    assert out.index("seconds  ") > out.index("--replay")
    assert Path("story.html").read_text().startswith("<!DOCTYPE html>")
    found = json.loads(Path("out.json").read_text())
    assert [each["seed"] for each in found["failures"]] == [moving + 1, moving]
    assert found["shrunk"]["seed"] == moving


def test_a_worker_that_died_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, Tally(5), Tally(deaths=[Death(range(5, 10), 7, "died (SIGKILL)")]))
    result = simulate("--jobs", 1)
    assert result.exit_code == 1
    assert "a worker died (SIGKILL) at seed 7; seeds 5 to 9 have no result" in result.stdout
    assert "0 seeds broke the contract, 1 worker processes were lost" in result.stdout


def test_failures_are_shown_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Failure(seed, (f"once: in {seed}", "left: z")) for seed in range(30, 0, -1)]
    pretend(monkeypatch, Tally(50, failures=[*found, Failure(7, ("order: w",))]), interrupt=True)
    out = simulate("--jobs", 1).stdout
    assert f"once, 30 seeds: {' '.join(map(str, range(1, 21)))} ...\n" in out
    assert "--seed 1\n  once: in 1\n  left: z\n" in out
    assert "once: in 2" not in out
    assert "order, 1 seeds: 7\n" in out


def test_ctrl_c_shows_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, Tally(20, Counter({"moves": 7})), interrupt=True)
    result = simulate("--jobs", 1, "--json", "out.json")
    assert result.exit_code == 130
    assert "20 seeds in" in result.stdout
    assert "interrupted: the contract is kept." in result.stdout
    assert json.loads(Path("out.json").read_text())["interrupted"] is True


def test_ctrl_c_after_a_failure_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, Tally(20, failures=[Failure(3, ("once: y",))]), interrupt=True)
    result = simulate("--jobs", 1)
    assert result.exit_code == 1
    assert "once: y" in result.stdout


def test_the_time_can_be_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[range] = []

    def run_pool(seeds: range, jobs: int) -> Iterator[Tally]:
        given.append(seeds)
        while True:
            yield Tally(1)

    monkeypatch.setattr("activebroker.simulation.pool.run_pool", run_pool)
    clock = iter(range(0, 10_000, 20))
    monkeypatch.setattr("activebroker.cli.simulate.monotonic", lambda: float(next(clock)))
    result = simulate("--minutes", 1, "--jobs", 1)
    assert result.exit_code == 0
    assert "3 seeds in 80.0 s" in result.stdout
    assert len(given[0]) > 10**9


# --- one seed -------------------------------------------------------------------------------------


def test_one_seed_tells_its_story(moving: int) -> None:
    outcome = run(draw(moving))
    result = simulate("--seed", moving, "--json", "out.json")
    assert result.exit_code == (1 if outcome.violations else 0)
    assert f"Seed {moving}, trace {outcome.trace_hash}:" in result.stdout
    assert "moves " in result.stdout
    found = json.loads(Path("out.json").read_text())
    assert found["trace_hash"] == outcome.trace_hash
    assert len(found["history"]) == len(outcome.history)
    assert found["scenario"]["seed"] == moving


def test_one_derivation_of_it(moving: int) -> None:
    numbers = [each.move for each in run(draw(moving)).history if each.move is not None]
    whole = simulate("--seed", moving).stdout.splitlines()
    part = simulate("--seed", moving, "--move", numbers[0]).stdout.splitlines()
    assert 5 < len(part) < len(whole)


def test_one_seed_that_fails(monkeypatch: pytest.MonkeyPatch, moving: int) -> None:
    break_moves(monkeypatch)
    result = simulate("--seed", moving)
    assert result.exit_code == 1
    assert "  order: planted [b]x[/b]" in result.stdout
    assert "1 violations." in result.stdout


def test_a_file_is_replayed() -> None:
    scenario = Scenario(
        5, steps=(Step(0.0, "open supplier"), Step(0.1, "publish", choice=1, times=3))
    )
    save(scenario, Path("mine.json"))
    result = simulate("--replay", "mine.json", "--html", "story.html")
    assert result.exit_code == 0
    assert f"Seed 5, trace {run(scenario).trace_hash}: the contract is kept." in result.stdout
    assert "publishes 0, 1 events" in result.stdout
    assert "publishes 2, 1 events" in Path("story.html").read_text()


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seed", 1, "--replay", "x.json"), "exclude each other"),
        (("--seed", 1, "--seeds", 5), "do not go with"),
        (("--replay", "x.json", "--minutes", 5), "do not go with"),
        (("--move", 5), "needs --seed or --replay"),
        (("--seeds", 0), "'--seeds'"),
        (("--json", "absent/out.json"), "no directory"),
        (("--replay", "absent.json"), "absent.json cannot be read"),
    ],
)
def test_mistakes_are_explained(arguments: tuple[Any, ...], message: str) -> None:
    result = simulate(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_without_simpy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simpy", None)
    result = simulate("--seed", 1)
    assert result.exit_code == 2
    assert "[simulation]'`" in result.stderr


def test_the_command_is_in_the_help() -> None:
    assert "simulate" in CliRunner().invoke(app, ["--help"]).stdout
    assert "--replay" in simulate("--help").stdout

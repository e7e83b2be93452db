from __future__ import annotations

import multiprocessing
import subprocess
import sys

import pytest
from runs_for_tests import CELL, MOVE, Unloadable, dying, hanging, leaving, plain, raising

from activebroker.simulation.pool import Death, Simulate, Tally, run_pool, run_seeds


def whole(
    seeds: range, simulate: Simulate, jobs: int = 2, chunk: int = 5, stalled: float = 60.0
) -> Tally:
    total = Tally()
    for tally in run_pool(seeds, jobs, simulate, chunk=chunk, stalled=stalled):
        total.add(tally)
    assert multiprocessing.active_children() == []
    return total


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_seed_is_run_once(jobs: int) -> None:
    total = whole(range(7, 42), plain, jobs)
    assert total.seeds == total.counts["moves"] == total.covered[CELL] == total.carried[MOVE] == 35
    assert sorted((each.seed, each.violations) for each in total.failures) == [
        (seed, (f"order: {seed} came late",)) for seed in (10, 20, 30, 40)
    ]
    assert not total.clean


def test_more_processes_than_seeds() -> None:
    total = whole(range(1, 3), plain, jobs=4)
    assert (total.seeds, total.clean) == (2, True)


def test_here_and_in_processes_is_the_same() -> None:
    seeds = range(1, 10)
    assert whole(seeds, plain, jobs=1, chunk=9) == run_seeds(seeds, plain)


@pytest.mark.parametrize(
    ("simulate", "how"), [(dying, "died (SIGKILL)"), (leaving, "died (exit 7)")]
)
def test_a_worker_that_dies_is_reported_and_replaced(simulate: Simulate, how: str) -> None:
    total = whole(range(1, 30), simulate, jobs=1)
    assert total.deaths == [Death(range(11, 16), 13, how)]
    assert total.seeds == 29 - 5
    assert str(total.deaths[0]) == (f"a worker {how} at seed 13; seeds 11 to 15 have no result")
    assert not total.clean


def test_workers_that_cannot_begin_are_not_replaced_for_ever() -> None:
    total = whole(range(100), Unloadable())
    assert sorted(total.deaths, key=lambda death: death.seeds.start) == [
        Death(seeds, None, "died (exit 5)") for seeds in (range(5), range(5, 10))
    ]
    assert total.seeds == 0
    assert "before its first seed" in str(total.deaths[0])


def test_a_fault_of_the_simulator_is_a_finding() -> None:
    total = whole(range(1, 6), raising, jobs=1)
    (failure,) = total.failures
    assert failure.seed == 3
    assert "the simulator failed" in failure.violations[0]
    assert "LookupError: no such host" in failure.violations[0]
    assert total.seeds == 5


def test_a_run_that_never_ends_is_named() -> None:
    for stalled in (3.0, 10.0, 60.0):  # on a busy machine a worker takes long to begin
        total = whole(range(1, 6), hanging, jobs=1, stalled=stalled)
        if total.deaths[0].at is not None:
            break
    assert total.deaths == [Death(range(1, 6), 1, "did not answer")]


def test_closing_ends_the_workers() -> None:
    tallies = run_pool(range(10**9), 2, plain, chunk=5)
    assert next(tallies).seeds == 5
    tallies.close()
    assert multiprocessing.active_children() == []


def test_ctrl_c_ends_everything_without_a_word() -> None:
    code = """
import multiprocessing, os, signal, sys
from runs_for_tests import interrupted
from activebroker.simulation.pool import run_pool

if __name__ == "__main__":
    try:
        for number, tally in enumerate(run_pool(range(10**9), 2, interrupted)):
            if number == 3:
                os.killpg(0, signal.SIGINT)  # as a terminal does: to the workers as well
    except KeyboardInterrupt:
        print("interrupted", multiprocessing.active_children())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted []\n", "")

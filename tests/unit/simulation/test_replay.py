from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import activebroker
from activebroker.simulation.drawing import draw
from activebroker.simulation.outcome import Outcome
from activebroker.simulation.run import run

ROOT = Path(activebroker.__file__).parents[1]
SEEDS = range(15, 35)  # some with limited bandwidth and filters that raise
REPLAY = f"""
from activebroker.simulation.run import run
from activebroker.simulation.drawing import draw
for seed in range({SEEDS.start}, {SEEDS.stop}):
    print(run(draw(seed), record=False).trace_hash)
"""


def test_a_seed_gives_the_same_scenario_and_the_same_run() -> None:
    for seed in SEEDS:
        first, second = run(draw(seed)), run(draw(seed))
        assert first.scenario == second.scenario
        assert first.trace_hash == second.trace_hash
        assert first.history == second.history
        assert (first.covered, first.counts) == (second.covered, second.counts)


def test_a_run_is_the_same_without_a_history() -> None:
    for seed in SEEDS:
        recorded, bare = run(draw(seed)), run(draw(seed), record=False)
        assert recorded.history and not bare.history
        assert recorded.trace_hash == bare.trace_hash


def test_seeds_differ() -> None:
    assert len({run(draw(seed), record=False).trace_hash for seed in SEEDS}) == len(SEEDS)


def test_a_run_is_the_same_in_another_process_under_another_hash_seed_and_elsewhere(
    tmp_path: Path,
) -> None:
    for package in ("activebroker", "derivation", "predicate_extract"):
        shutil.copytree(ROOT / package, tmp_path / package)

    def hashes(hash_seed: str, path: Path) -> str:
        return subprocess.run(
            [sys.executable, "-c", REPLAY],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    first = hashes("1", ROOT)
    assert first == hashes("2", tmp_path)
    assert first.split() == [run(draw(seed), record=False).trace_hash for seed in SEEDS]


def test_the_history_tells_what_happened() -> None:
    kinds: set[str] = set()
    for seed in SEEDS:
        outcome: Outcome = run(draw(seed))
        kinds |= {happening.kind for happening in outcome.history}
        times = [happening.at for happening in outcome.history]
        assert times == sorted(times)
    assert kinds == {"step", "fault", "send", "arrive", "drop", "repeat", "state", "see"}

"""Batches and frames that are none: no process ends, memory is bounded, others lose nothing.

Each run is a process of its own, which a fault in native code would end. `--rounds 10` makes them
50,000 batches and 200,000 frames.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def run(script: str, seed: int, count: int) -> str:
    """The last line of what a script says of `count` mutants."""
    command = [sys.executable, str(HERE / script), str(seed), str(count)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert ended.returncode == 0, f"seed {seed}: {ended.stdout}{ended.stderr}"
    return ended.stdout.splitlines()[-1]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    rounds = max(1, metafunc.config.getoption("rounds"))
    metafunc.parametrize("seed", range(rounds))


def test_batches(seed: int) -> None:
    taken, _, of, _ = run("batches_for_tests.py", seed, 5_000).split()
    assert 0 < int(taken) < int(of)


def test_frames(seed: int) -> None:
    assert "good events" in run("frames_for_tests.py", seed, 20_000)

"""The contract, under random programs: every event once, in order, and nothing left behind."""

from __future__ import annotations

import pytest
from script_for_tests import Script

SEEDS_A_TEST = 25


def play(seed: int, **faults: float) -> Script:
    script = Script(seed, **faults)
    try:
        script.play(steps=40)
        script.finish()
    except BaseException:
        print(f"seed {seed} {faults}\n{script.story()}")
        raise
    return script


@pytest.mark.parametrize("first", range(0, 250, SEEDS_A_TEST))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        play(seed)


@pytest.mark.parametrize("first", range(1000, 1100, SEEDS_A_TEST))
def test_random_programs_on_a_network_that_loses_and_repeats(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        play(seed, loss=0.03, duplication=0.03)

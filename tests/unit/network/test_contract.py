"""The contract, under random programs: every event once, in order, and nothing left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from script_for_tests import Script

from activebroker.broker.link import Link
from activebroker.broker.outlet import Outlet
from activebroker.broker.port import Port
from activebroker.broker.stage import Stage
from activebroker.filters import FilterRunner

SEEDS_A_TEST = 20


def play(seed: int, **faults: Any) -> Script:
    script = Script(seed, **faults)
    try:
        script.play(steps=40)
        script.finish()
    except BaseException:
        print(f"seed {seed} {faults}\n{script.story()}")
        raise
    return script


@pytest.mark.parametrize("first", range(0, 160, SEEDS_A_TEST))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        play(seed)


@pytest.mark.parametrize("first", range(1000, 1060, SEEDS_A_TEST))
def test_random_programs_on_a_network_that_loses_and_repeats(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        play(seed, loss=0.03, duplication=0.03)


@pytest.mark.parametrize("first", range(3000, 3080, SEEDS_A_TEST))
def test_random_programs_whose_processes_die(first: int) -> None:
    """Survivors get all that was not lost with the dead, or are told; nobody waits for ever."""
    for seed in range(first, first + SEEDS_A_TEST):
        play(seed, kills=2)


def _plant_no_gate(patch: pytest.MonkeyPatch) -> None:
    opened: Callable[..., None] = Port.opened
    patch.setattr(Port, "opened", lambda self, *args: opened(self, *args[:3], (), *args[4:]))


def _plant_no_buffer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stage, "take_buffer", lambda self: ())


def _plant_no_state(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FilterRunner, "restore", lambda self, states: None)


def _plant_no_resend(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Link, "_ask_again", lambda self: None)


def _plant_early_swap(patch: pytest.MonkeyPatch) -> None:
    """The old flow ends before what still waits for credit."""
    end_flow = Outlet.end_flow

    def early(self: Outlet, flow_id: int, *args: Any, **kwargs: Any) -> None:
        if (flow := self.flows.get(flow_id)) is not None:
            flow.waiting.clear()
        end_flow(self, flow_id, *args, **kwargs)

    patch.setattr(Outlet, "end_flow", early)


@pytest.mark.parametrize(
    ("plant", "faults"),
    [
        (_plant_no_gate, {}),
        (_plant_no_buffer, {}),
        (_plant_no_state, {}),
        (_plant_no_resend, {"loss": 0.03}),
        (_plant_early_swap, {}),
    ],
)
def test_the_checker_finds_planted_faults(
    plant: Callable[[pytest.MonkeyPatch], None],
    faults: dict[str, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    for seed in range(100):
        script = Script(seed, **faults)
        try:
            script.play(steps=40)
            script.finish()
        except AssertionError:
            return
    pytest.fail("a planted fault was not found in 100 programs")

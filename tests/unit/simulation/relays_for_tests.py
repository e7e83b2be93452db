"""Drawn scenarios in which relays die: more of them than `draw` makes."""

from __future__ import annotations

from dataclasses import replace

from activebroker.simulation.drawing import draw
from activebroker.simulation.scenario import Fault, Scenario, Step


def relay_dies(seed: int) -> Scenario:
    """A scenario with offloads, of all and of some, amid which a broker dies and nothing else."""
    scenario = draw(seed)
    last = scenario.steps[-1].at
    broker = 1 + seed % scenario.options.brokers
    steps = [
        *scenario.steps,
        Step(last * 0.3, "offload", 0, seed, seed % 3, broker - 1),
        Step(last * 0.4, "offload", 0, seed + 1, 0, broker),
        Step(last * 0.5, "subscribe", seed, 4 * seed),
        Step(last * 0.3, "publish", 0, seed, 2, 0, 12, last * 0.4),
    ]
    steps.sort(key=lambda step: step.at)
    crash = Fault(last * (0.4 + seed % 7 / 20), "crash", host=broker)
    return replace(scenario, steps=tuple(steps), faults=(crash,))


def slow(scenario: Scenario, pace: float = 0.1) -> Scenario:
    """With consumers that do not keep up (`pace` seconds a batch), so that events wait everywhere,
    and a death that is known at once."""
    return replace(
        scenario,
        options=replace(scenario.options, blob=700_000, bandwidth=0.0, pace=pace),
        steps=tuple(
            replace(step, choice=1) if step.do == "subscribe" else step for step in scenario.steps
        ),
        faults=tuple(replace(fault, seconds=0.05) for fault in scenario.faults),
    )

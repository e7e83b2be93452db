"""Makes a failing scenario small (delta debugging), and keeps scenarios in files.

Faults and steps are taken out, in halves first and one by one in the end; then options and the
numbers in steps and faults go towards their simplest values. Whatever still breaks the contract
in the same way is kept, so that each round only ever gets simpler; it ends when nothing more can
be made simpler, or after a number of runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from activebroker.core.errors import ActiveBrokerError
from activebroker.simulation.outcome import Outcome
from activebroker.simulation.scenario import Fault, Options, Scenario, Step

Part = Literal["faults", "steps"]
LIMIT = 500  # runs: some seconds
SIMPLEST: dict[type, Any] = {
    Options: Options(brokers=1, jitter=0.0, work=0.0),
    Step: Step(0.0, "publish"),
    Fault: Fault(0.0, "pause"),
}
KEPT = ("at", "do", "when")  # what a step or fault is


class NotAScenario(ActiveBrokerError, ValueError):
    """A file that should hold a scenario does not."""


class NothingToShrink(ActiveBrokerError, ValueError):
    """The scenario breaks nothing."""


def shrink(scenario: Scenario, run: Callable[[Scenario], Outcome], limit: int = LIMIT) -> Scenario:
    """The simplest scenario found, in at most `limit` runs, with a violation of the kind that
    `scenario` has first.

    Raises NothingToShrink where `scenario` breaks nothing.
    """
    violations = run(scenario).violations
    if not violations:
        raise NothingToShrink(f"The scenario of seed {scenario.seed} keeps the contract.")
    wanted = kind(violations[0])  # one of them, so that the others do not lead away from it
    shrinking = _Shrinking(
        scenario, lambda each: wanted in map(kind, run(each).violations), limit - 1
    )
    shrinking.finish()
    return shrinking.best


def kind(violation: str) -> str:
    """The word in front of the colon; of a crash also the exception and who raised it."""
    word = violation.partition(":")[0]
    if functions := _FUNCTION.findall(violation):
        error = violation.rstrip().splitlines()[-1].partition(":")[0]
        return f"{word}: {error} in {functions[-1]}"
    return word


_FUNCTION = re.compile(r'File ".*", line \d+, in (.*)')  # in a traceback


class _Shrinking:
    """`fails(scenario)` is asked at most `limit` times; `best` is the simplest that does."""

    def __init__(self, scenario: Scenario, fails: Callable[[Scenario], bool], limit: int) -> None:
        self.best = scenario
        self._fails = fails
        self._left = limit
        self._tried = {scenario}

    def finish(self) -> None:
        before = None
        while self.best != before and self._left > 0:
            before = self.best
            self._take_out("faults")
            self._take_out("steps")
            self._simplify_options()
            self._simplify_each("faults")
            self._simplify_each("steps")

    def _keep(self, candidate: Scenario) -> bool:
        """Whether the candidate fails as well; then it is the best."""
        if self._left == 0 or candidate in self._tried:
            return False
        self._left -= 1
        self._tried.add(candidate)
        if self._fails(candidate):
            self.best = candidate
            return True
        return False

    def _take_out(self, part: Part) -> None:
        size = len(getattr(self.best, part))
        while size > 0:
            at = 0
            while at < len(items := getattr(self.best, part)):
                if not self._keep(_with(self.best, part, (*items[:at], *items[at + size :]))):
                    at += size
            size //= 2

    def _simplify_options(self) -> None:
        for option in fields(Options):
            for simpler in _simpler(self.best.options, option.name):
                if self._keep(replace(self.best, options=simpler)):
                    break

    def _simplify_each(self, part: Part) -> None:
        for at, item in enumerate(getattr(self.best, part)):
            for each in fields(item):
                items = getattr(self.best, part)
                for simpler in _simpler(items[at], each.name):
                    if self._keep(_with(self.best, part, (*items[:at], simpler, *items[at + 1 :]))):
                        break


def _with(scenario: Scenario, part: Part, items: tuple[Any, ...]) -> Scenario:
    return replace(scenario, **{part: items})  # type: ignore[arg-type]


def _simpler(item: Any, name: str) -> Iterator[Any]:
    """The item with one number simpler: at its simplest, else half-way there."""
    if name in KEPT:
        return
    value, goal = getattr(item, name), getattr(SIMPLEST[type(item)], name)
    if value != goal:
        yield replace(item, **{name: goal})
    if type(value) is int and abs(value - goal) > 1:
        yield replace(item, **{name: (value + goal) // 2})


# --- files ----------------------------------------------------------------------------------------


def save(scenario: Scenario, path: Path) -> None:
    """Write a scenario as JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(scenario)) + b"\n")


def load(path: Path) -> Scenario:
    """Read a scenario. Raises NotAScenario where there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Scenario)
    except OSError as error:
        raise NotAScenario(f"{path} cannot be read: {error.strerror}.") from error
    except msgspec.DecodeError as error:
        raise NotAScenario(f"{path} holds no scenario of this version: {error}.") from error

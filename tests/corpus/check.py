"""Runs every filter of the corpus on drawn events: `uv run python -m tests.corpus.check`.

Arguments are names of modules (none: all) and a seed.

Prints how often each forwarded, raised, and did something else, and how often its expected
predicate held without anything to be seen ("quiet"). Complains where an event that forwards or does
something does not satisfy the predicate, where an exact one disagrees with its filter, and where a
filter forwards all events or none.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from random import Random
from types import FunctionType, ModuleType
from typing import Any

from activebroker import Event

from .case import CONSTRUCTS, Case
from .expected import evaluate

MODULES: tuple[str, ...] = (
    "trading",
    "trading_orders",
    "airline",
    "airline_bookings",
    "iot",
    "iot_plant",
    "weblogs",
    "weblogs_json",
    "security",
    "security_endpoints",
    "security_cloud",
    "telemetry",
    "telemetry_clients",
)
EVENTS = 300


def all_cases(*modules: str) -> Iterator[Case]:
    """The cases of these modules, or of all."""
    for module in modules or MODULES:
        yield from import_module(f".{module}", __package__).CASES


@dataclass
class Outcome:
    """What a filter did with one event."""

    forwarded: list[Any]
    raised: bool
    changed: bool
    told: bool

    @property
    def seen(self) -> bool:
        """Whether anything was to be seen."""
        return bool(self.forwarded) or self.raised or self.changed or self.told

    def is_plain(self, event: Event) -> bool:
        """Whether this event was forwarded, and nothing else was to be seen."""
        alone = len(self.forwarded) == 1 and self.forwarded[0] is event
        return alone and not (self.raised or self.changed or self.told)


class Runner:
    """One instance of a filter, which gets all events."""

    def __init__(self, case: Case) -> None:
        target = case.target
        self._filter = target(*case.args) if isinstance(target, type) else None
        self._function = target

    def run(self, event: Event) -> Outcome:
        before, content = self._state(), copy.deepcopy(event.content)
        raised, output = False, io.StringIO()
        with _logged() as records, contextlib.redirect_stdout(output):
            try:
                forwarded = self._forward(event)
            except Exception:  # noqa: BLE001 - whatever the filter raises
                raised, forwarded = True, []
        if self._filter is not None:
            forwarded = self._filter._take()
        changed = self._state() != before or repr(content) != repr(event.content)
        return Outcome(forwarded, raised, changed, bool(records) or bool(output.getvalue()))

    def _forward(self, event: Event) -> list[Any]:
        if self._filter is None:
            return [event] if self._function(event.content) else []
        self._filter.enqueue(event)
        return []

    def _state(self) -> str:
        if self._filter is not None:
            return repr({k: _shown(v) for k, v in vars(self._filter).items() if k != "_forwarded"})
        function = self._function
        while isinstance(function, partial):
            function = function.func
        if not isinstance(function, FunctionType):
            return ""
        names = function.__code__.co_names
        found = {n: _shown(function.__globals__[n]) for n in names if n in function.__globals__}
        cells = [_shown(cell.cell_contents) for cell in function.__closure__ or ()]
        return repr((found, cells))


def _shown(value: object) -> str:
    """What a value shows of its state: objects show their attributes."""
    if isinstance(value, FunctionType | ModuleType | type):
        return ""
    return repr((value, getattr(value, "__dict__", None)))


@contextlib.contextmanager
def _logged() -> Iterator[list[logging.LogRecord]]:
    records: list[logging.LogRecord] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    root, keeper = logging.getLogger(), Keeper()
    level, handlers = root.level, root.handlers[:]
    root.handlers = [keeper]
    root.setLevel(logging.DEBUG)
    try:
        yield records
    finally:
        root.handlers = handlers
        root.setLevel(level)


def examine(case: Case, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """Run a case; how often what happened, and what is wrong with it."""
    rng, runner = Random(f"{case.name}{seed}"), Runner(case)
    counts: Counter[str] = Counter()
    wrong: dict[str, str] = {}
    for seq in range(EVENTS):
        event = Event(case.events(rng), "corpus", "corpus", seq, seq)
        outcome = runner.run(event)
        value = evaluate(case.expected, event.content)
        counts["forwarded"] += bool(outcome.forwarded)
        counts["raised"] += outcome.raised
        counts["changed"] += outcome.changed
        counts["told"] += outcome.told
        counts["expected"] += value is not False
        counts["quiet"] += value is not False and not outcome.seen
        if outcome.seen and value is False:
            wrong["unsound"] = f"{outcome}, but not expected: {event.content}"
        plain = None if outcome.raised else outcome.is_plain(event)
        if case.exact and value is not plain:
            wrong["inexact"] = f"{outcome}, but expected {value}: {event.content}"
    if counts["expected"] in (0, EVENTS) and case.expected not in ("TRUE", "FALSE"):
        wrong["always"] = f"the predicate holds for {counts['expected']} events"
    if counts["forwarded"] in (0, EVENTS):
        wrong["forwards"] = f"forwards {counts['forwarded']} events"
    return counts, [f"{kind}: {text}" for kind, text in wrong.items()]


def main(*arguments: str) -> int:
    """Print the tables; the number of cases with something wrong."""
    modules = [argument for argument in arguments if not argument.isdigit()]
    seed = next((int(argument) for argument in arguments if argument.isdigit()), 0)
    names: Counter[str] = Counter()
    used: Counter[str] = Counter()
    shares: dict[str, Counter[str]] = {}
    failed = 0
    heads = ("forwarded", "raised", "changed", "told", "expected", "quiet")
    print(f"{'':58}", *(f"{head:>9}" for head in heads))
    for case in all_cases(*modules):
        counts, wrong = examine(case, seed)
        names[case.name] += 1
        used.update(case.constructs)
        share = shares.setdefault(case.name.partition(".")[0], Counter())
        share.update(cases=1, exact=case.exact, true=case.expected == "TRUE")
        mark = "=" if case.exact else " "
        print(f"{mark} {case.name:56.56}", *(f"{counts[head]:9}" for head in heads))
        for line in wrong:
            print(f"    WRONG {line}")
        failed += bool(wrong)
    print()
    for module, share in shares.items():
        _print_share(module, share)
    _print_share("all", sum(shares.values(), Counter[str]()))
    print("\nConstructs:", ", ".join(f"{name} {n}" for name, n in used.most_common()))
    print("Not used:", ", ".join(sorted(CONSTRUCTS - used.keys())) or "none")
    twice = [name for name, n in names.items() if n > 1]
    if twice:
        print("Named twice:", ", ".join(twice))
    print(f"{failed} with something wrong")
    return failed + len(twice)


def _print_share(name: str, share: Counter[str]) -> None:
    print(f"{name:20} {share['cases']:4} cases, {share['exact']:4} exact, {share['true']} TRUE")


if __name__ == "__main__":
    sys.exit(bool(main(*sys.argv[1:])))

"""Runs many seeds in many processes, and keeps of each run only what adds up.

A worker gets a chunk of seeds and answers with one `Tally`; histories stay where they are made.
Workers are spawned, not forked. One that dies (a crash below Python, no memory left) costs its
chunk, is reported with the seed it was at, and is replaced.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from activebroker.simulation.drawing import draw
from activebroker.simulation.outcome import Carried, Covered, Outcome
from activebroker.simulation.run import hush, run

Simulate = Callable[[int], Outcome]
CHUNK = 20  # seeds: some tenths of a second, so that progress is seen and little is lost
STALLED = 120.0  # seconds without a word from any worker, after which they are given up
GARBAGE = 20_000  # objects made between two looks for those that only know each other
NONE_YET = -1


@dataclass(frozen=True, slots=True)
class Failure:
    """A seed whose run broke the contract."""

    seed: int
    violations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Death:
    """A worker that ended without an answer for `seeds`; it was at seed `at` (None: at none)."""

    seeds: range
    at: int | None
    how: str

    def __str__(self) -> str:
        where = "before its first seed" if self.at is None else f"at seed {self.at}"
        return (
            f"a worker {self.how} {where}; seeds {self.seeds.start} to {self.seeds.stop - 1} "
            "have no result"
        )


@dataclass(slots=True)
class Tally:
    """What many runs come to. `seeds` counts those that have a result."""

    seeds: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    covered: Counter[Covered] = field(default_factory=Counter)
    carried: Counter[Carried] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    deaths: list[Death] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.failures or self.deaths)

    def take(self, outcome: Outcome, seed: int) -> None:
        """Add one run."""
        self.seeds += 1
        self.counts.update(outcome.counts)
        self.covered.update(outcome.covered)
        self.carried.update(outcome.carried)
        if outcome.violations:
            self.failures.append(Failure(seed, outcome.violations))

    def add(self, other: Tally) -> None:
        """Add the runs of another tally."""
        self.seeds += other.seeds
        self.counts.update(other.counts)
        self.covered.update(other.covered)
        self.carried.update(other.carried)
        self.failures += other.failures
        self.deaths += other.deaths


def simulate_seed(seed: int) -> Outcome:
    """Draw a seed's scenario and run it, without a history."""
    return run(draw(seed), record=False)


def run_seeds(
    seeds: range, simulate: Simulate = simulate_seed, began: Callable[[int], None] = lambda _: None
) -> Tally:
    """Run seeds here, one after the other. `began` is told of each before it runs."""
    tally = Tally()
    for seed in seeds:
        began(seed)
        try:
            tally.take(simulate(seed), seed)
        except Exception:  # noqa: BLE001 - a fault of the simulator is a finding like others
            text = traceback.format_exc()
            tally.seeds += 1
            tally.failures.append(Failure(seed, (f"the simulator failed: {text}",)))
    return tally


def run_pool(
    seeds: range,
    jobs: int,
    simulate: Simulate = simulate_seed,
    *,
    chunk: int = CHUNK,
    stalled: float = STALLED,
) -> Generator[Tally, None, None]:
    """Run seeds in `jobs` processes; yield a tally a chunk, in the order in which they end.

    `simulate` is a function of a module (workers import it). Closing the iterator, or an
    exception such as KeyboardInterrupt, ends the workers at once.
    """
    chunks = (seeds[at : at + chunk] for at in range(0, len(seeds), chunk))
    workers: dict[Connection, _Worker] = {}

    def start(part: range) -> None:
        worker = _Worker(simulate, part)
        workers[worker.pipe] = worker

    try:
        for first in islice(chunks, jobs):
            start(first)
        while workers:
            ready = wait(list(workers), stalled)
            if not ready:
                yield Tally(deaths=[each.death("did not answer") for each in workers.values()])
                return
            for pipe in ready:
                worker = workers[pipe]  # type: ignore[index]  # wait() returns what it was given
                if (tally := worker.receive()) is None:
                    died = workers.pop(worker.pipe).death()
                    worker.end()
                    if died.at is not None and (part := next(chunks, None)) is not None:
                        start(part)  # one that cannot even begin would die again and again
                    yield Tally(deaths=[died])
                    continue
                if (part := next(chunks, None)) is not None:
                    worker.give(part)
                else:
                    workers.pop(worker.pipe).end()
                yield tally
    finally:
        for worker in workers.values():
            worker.end()


class _Worker:
    """A process that runs one chunk after another."""

    def __init__(self, simulate: Simulate, seeds: range) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._at = context.RawValue("q", NONE_YET)
        self._process = context.Process(
            target=_work, args=(theirs, self._at, simulate), daemon=True
        )
        # Ctrl-C goes to all processes of a terminal; only this one is to act on it, from the start.
        resource_tracker.ensure_running()  # during the first start, this would unblock the signal
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self.give(seeds)

    def give(self, seeds: range) -> None:
        self._seeds = seeds
        with suppress(OSError):  # it is dead, which `receive` will find
            self.pipe.send(seeds)

    def receive(self) -> Tally | None:
        """The chunk's tally; None where the process is dead."""
        try:
            tally: Tally = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return tally

    def death(self, how: str | None = None) -> Death:
        """Where it was. `how` it ended is its exit code, unless it lives."""
        if how is None:
            self._process.join()
            code = self._process.exitcode
            how = f"died ({signal.Signals(-code).name if code and code < 0 else f'exit {code}'})"
        at: int = self._at.value
        return Death(self._seeds, None if at == NONE_YET else at, how)

    def end(self) -> None:
        """It has nothing to save."""
        self.pipe.close()
        self._process.kill()
        self._process.join()
        self._process.close()


def _work(pipe: Connection, at: Any, simulate: Simulate) -> None:
    """A worker's life: seeds in, tallies out, until the pipe is closed."""

    def began(seed: int) -> None:
        at.value = seed

    hush()
    gc.freeze()  # modules and what they hold stay: looking through them again finds nothing
    gc.set_threshold(GARBAGE)
    with suppress(EOFError, ConnectionError):
        while True:
            pipe.send(run_seeds(pipe.recv(), simulate, began))

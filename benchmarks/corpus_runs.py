"""The filters of the test corpus, as the benchmarks use them: played, extracted, and timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import median, quantiles
from time import process_time
from typing import Any

from activebroker import Event
from activebroker.events import EventType
from predicate_extract import Extraction, extract
from tests.corpus.case import Case
from tests.corpus.check import Runner

EVENTS = 300


@dataclass(frozen=True)
class Played:
    """What a filter did with one event; `plain`: it forwarded it unchanged and did nothing else."""

    content: Any
    forwarded: bool
    raised: bool
    seen: bool
    plain: bool


def play(case: Case, events: int = EVENTS) -> list[Played]:
    """Run a filter for real on events that are drawn alike each time."""
    rng, runner = Random(case.name), Runner(case)
    return [_played(runner, case.events(rng), seq) for seq in range(events)]


def _played(runner: Runner, content: Any, seq: int) -> Played:
    event = Event(content, "corpus", "corpus", seq, seq)
    outcome = runner.run(event)
    return Played(
        content, bool(outcome.forwarded), outcome.raised, outcome.seen, outcome.is_plain(event)
    )


def extractor(case: Case) -> Callable[[], Extraction]:
    """Extracts the predicate of a case as a typed channel would, or one without a type."""
    if case.typed is None:
        return lambda: extract(case.target, *case.args)
    schema = EventType.of(case.typed).schema
    return lambda: extract(case.target, *case.args, schema=schema, content=case.typed)


def holds(extraction: Extraction, played: Sequence[Played]) -> bool:
    """Whether an extraction is what it claims to be on these events: sound, and exact if it says
    so. Where the predicate raises, it says only that the event has to arrive."""
    for event in played:
        value = extraction.predicate.evaluate(event.content)
        if value is False and event.seen:
            return False
        if extraction.exact and value is True and not event.plain:
            return False
    return True


def milliseconds(
    call: Callable[[], object], repeats: int = 3, clock: Callable[[], float] = process_time
) -> float:
    """The best of several calls, after one that warms up; of this process's own time, by default,
    which other processes do not add to."""
    call()
    return min(_once(call, clock) for _ in range(repeats)) * 1e3


def interleaved(*calls: Callable[[], object], rounds: int, block: int) -> Iterator[float]:
    """The median seconds of each call, side by side: each round makes a block of each call.

    A block, since a call that follows another one finds the caches full of what that one needed.
    """
    times = [
        [_once(partial(_repeat, call, block), process_time) for call in calls]
        for _ in range(rounds)
    ]
    return (median(each) / block for each in zip(*times, strict=True))


def _repeat(call: Callable[[], object], block: int) -> None:
    for _ in range(block):
        call()


def _once(call: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    call()
    return clock() - start


def spread_of(times: Sequence[float]) -> dict[str, float]:
    """The median and the 95th percentile."""
    high = quantiles(times, n=20)[-1] if len(times) > 1 else times[0]
    return {"median": median(times), "p95": high}

"""What predicates cost: to find, to compare, and to evaluate on a batch.

*Extraction*: milliseconds a filter of the test corpus, its file already parsed. *Covers*: µs to
find that a predicate covers another of the same size. *Evaluation*: an exact predicate of three
comparisons on a batch of 10,000 real flights, as whole columns, beside the same mask written by
hand with pyarrow.compute, and beside the filter that runs for each event: of the same batch, so
that its events have to be made first, and of events that are objects already. Blocks of calls take
turns, and the medians count. All is CPU time: other processes matter little.

    uv run --group bench python benchmarks/predicates.py [--json PATH] [--plot PATH]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from corpus_runs import extractor, interleaved, milliseconds, spread_of
from report import run, verdict
from tables import Figures, write

from activebroker import Event, FIFOFilter
from activebroker.cli.demo.flights import ORIGINS, Flight, days
from activebroker.events import Batch, EventType, from_table
from predicate_extract import Predicate, extract
from predicate_extract.algebra.simplify import conjunction, disjunction
from predicate_extract.backends.columns import mask
from tests.corpus.check import all_cases

SIZES = (1, 2, 4, 8, 16, 32, 64)
ROWS = 10_000
ROUNDS, BLOCK = 9, 100
BY_HAND = 2.0  # at most so many times what the mask by hand takes
PER_EVENT = 50.0  # at least so many times faster than the filter on the same batch
SCHEMA = pa.schema(
    [pa.field(f"f{n}", pa.float64(), nullable=False) for n in range(max(SIZES))]
    + [pa.field("symbol", pa.string(), nullable=False)]
)


# --- covers -------------------------------------------------------------------------------------


def comparisons(size: int, narrow: bool) -> Predicate:
    """`f0 > 100 AND f1 > 100 …`, or 200."""
    bound = 200 if narrow else 100
    return conjunction(*(Predicate.parse(f"f{n} > {bound}") for n in range(size)))


def equalities(size: int, narrow: bool) -> Predicate:
    """`symbol = 'S0' OR symbol = 'S1' …`; the wide one has one more."""
    values = range(size) if narrow else range(size + 1)
    return disjunction(*(Predicate.parse(f"symbol = 'S{n}'") for n in values))


def ranges(size: int, narrow: bool) -> Predicate:
    """`f0 >= 0 AND f0 < 8 OR f0 >= 10 AND f0 < 18 …`, or a bit less of each."""
    inset = int(narrow)
    texts = (f"f0 >= {10 * n + inset} AND f0 < {10 * n + 8 - inset}" for n in range(size))
    return disjunction(*map(Predicate.parse, texts))


SHAPES: dict[str, Callable[[int, bool], Predicate]] = {
    "comparisons": comparisons,
    "equalities": equalities,
    "ranges": ranges,
}


def measure_covers() -> dict[str, list[float]]:
    """Microseconds by shape and size."""
    return {
        name: [covering(shape(size, False), shape(size, True)) for size in SIZES]
        for name, shape in SHAPES.items()
    }


def covering(wide: Predicate, narrow: Predicate) -> float:
    if not wide.covers(narrow, SCHEMA) or narrow.covers(wide, SCHEMA):
        raise SystemExit(f"{wide} should cover {narrow}, and not the other way round")
    calls = range(BLOCK)  # one alone would be mostly the reading of the clock
    return milliseconds(lambda: [wide.covers(narrow, SCHEMA) for _ in calls]) * 1e3 / BLOCK


# --- evaluation ---------------------------------------------------------------------------------


class LongEvenings(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        flight = event.content
        if flight.distance > 1000 and flight.hour >= 17 and flight.day <= 7:
            super().enqueue(event)


class LongEveningsOfDelta(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        flight = event.content
        if flight.distance > 1000 and flight.hour >= 17 and flight.carrier == "DL":
            super().enqueue(event)


class LateAndLong(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        flight = event.content
        if flight.dep_delay is not None and flight.dep_delay > 60 and flight.distance > 1000:
            super().enqueue(event)


def long_evenings(flights: pa.RecordBatch) -> Any:
    long = pc.greater(flights["distance"], 1000)
    evening = pc.greater_equal(flights["hour"], 17)
    return pc.and_(pc.and_(long, evening), pc.less_equal(flights["day"], 7))


def long_evenings_of_delta(flights: pa.RecordBatch) -> Any:
    long = pc.greater(flights["distance"], 1000)
    evening = pc.greater_equal(flights["hour"], 17)
    return pc.and_(pc.and_(long, evening), pc.equal(flights["carrier"], "DL"))


def late_and_long(flights: pa.RecordBatch) -> Any:
    late = pc.greater(flights["dep_delay"], 60)
    return pc.fill_null(pc.and_(late, pc.greater(flights["distance"], 1000)), False)


EVALUATED: dict[str, tuple[type[FIFOFilter], Callable[[pa.RecordBatch], Any]]] = {
    "numbers": (LongEvenings, long_evenings),
    "numbers and text": (LongEveningsOfDelta, long_evenings_of_delta),
    "with nulls": (LateAndLong, late_and_long),
}


@dataclass(frozen=True)
class Evaluated:
    """Microseconds a batch; `of_objects`: the filter alone, the objects of its events made."""

    predicate: str
    kept: int
    columns: float
    by_hand: float
    per_event: float
    of_objects: float

    @property
    def to_hand(self) -> float:
        return self.columns / self.by_hand

    @property
    def to_events(self) -> float:
        return self.per_event / self.columns

    @property
    def to_objects(self) -> float:
        return self.of_objects / self.columns


def flights_batch() -> Batch:
    """The year's first flights, of all three airports."""
    by_day = zip(*(days(origin, 1) for origin in ORIGINS), strict=True)
    table = pa.concat_tables(table for day in by_day for table in day)
    (batch,) = from_table(EventType.of(Flight), table.slice(0, ROWS), "flights", "all", 0, 0)
    return batch


def measure_evaluation(batch: Batch) -> dict[str, Evaluated]:
    return {name: evaluating(batch, *how) for name, how in EVALUATED.items()}


def evaluating(
    batch: Batch, cls: type[FIFOFilter], by_hand: Callable[[pa.RecordBatch], Any]
) -> Evaluated:
    found = extract(cls, schema=batch.type.schema, content=Flight)
    columns, events, filter = batch.columns, batch.events(), cls()

    def per_event(events: list[Event] = events) -> list[Event]:
        for event in events:
            filter.enqueue(event)
        return filter._take()

    kept = mask(found.predicate, columns)
    rows = [event.seq for event in per_event()]
    certain = found.exact and (kept.raised is None or not kept.raised.any())
    if not certain or kept.keep.nonzero()[0].tolist() != rows:
        raise SystemExit(f"{cls.__name__} and its predicate {found.predicate} disagree")
    if by_hand(columns).to_numpy(zero_copy_only=False).tolist() != kept.keep.tolist():
        raise SystemExit(f"{cls.__name__} and the mask by hand disagree")
    whole, manual, single = interleaved(
        lambda: mask(found.predicate, columns),
        lambda: by_hand(columns),
        per_event,
        rounds=ROUNDS,
        block=BLOCK,
    )
    decoded = milliseconds(lambda: per_event(batch.events())) * 1e3
    return Evaluated(
        predicate=str(found.predicate),
        kept=len(rows),
        columns=whole * 1e6,
        by_hand=manual * 1e6,
        per_event=decoded,
        of_objects=single * 1e6,
    )


# --- what was found -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    extraction: list[float]
    covers: dict[str, list[float]]
    evaluation: dict[str, Evaluated]


def measure() -> Found:
    extraction = [milliseconds(extractor(case)) for case in all_cases()]
    return Found(extraction, measure_covers(), measure_evaluation(flights_batch()))


def show(found: Found) -> dict[str, Any]:
    for table in tables(found):
        table.show()
    met = {}
    for name, each in found.evaluation.items():
        met[f"{name}, to hand"] = verdict(f"{name}: to hand", each.to_hand, BY_HAND, at_most=True)
        met[f"{name}, to events"] = verdict(f"{name}: to events", each.to_events, PER_EVENT)
    evaluation = {
        name: {
            **asdict(each),
            "to_hand": each.to_hand,
            "to_events": each.to_events,
            "to_objects": each.to_objects,
        }
        for name, each in found.evaluation.items()
    }
    return {
        "extraction": {"filters": len(found.extraction), **spread_of(found.extraction)},
        "covers": {
            name: dict(zip(SIZES, times, strict=True)) for name, times in found.covers.items()
        },
        "evaluation": evaluation,
        "met": met,
    }


def tables(found: Found) -> list[Figures]:
    spread = spread_of(found.extraction)
    filters = str(len(found.extraction))
    return [
        Figures(
            "extraction, ms a filter",
            ("filters", "median", "95th percentile"),
            [(filters, f"{spread['median']:.2f}", f"{spread['p95']:.2f}")],
        ),
        Figures(
            "covers, µs by number of conditions",
            ("", *map(str, SIZES)),
            [(name, *(f"{each:.1f}" for each in times)) for name, times in found.covers.items()],
        ),
        Figures(
            f"evaluation, µs a batch of {ROWS:,} flights",
            (
                *("three comparisons", "kept", "columns", "by hand", "ratio"),
                *("each event", "ratio", "each object", "ratio"),
            ),
            [
                (
                    name,
                    str(each.kept),
                    f"{each.columns:.0f}",
                    f"{each.by_hand:.0f}",
                    f"{each.to_hand:.2f}",
                    f"{each.per_event:.0f}",
                    f"{each.to_events:.0f}",
                    f"{each.of_objects:.0f}",
                    f"{each.to_objects:.0f}",
                )
                for name, each in found.evaluation.items()
            ],
        ),
    ]


def plot(found: Found, path: Path) -> None:
    write(tables(found), path)


if __name__ == "__main__":
    run(__doc__, "predicates.md", measure, show, plot)

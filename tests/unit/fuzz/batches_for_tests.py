"""Reads batches with changed bytes: `python batches_for_tests.py SEED COUNT`.

A batch is refused, or else all that the runtime does with a batch goes well with it. Prints how
many were taken.
"""

from __future__ import annotations

import pickle
import random
import sys
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

import numpy as np
from mutants_for_tests import Memory, mutant

from activebroker.core.errors import ProtocolError
from activebroker.events import ANY, Batch, EventType, Shape, Zone, concat, dump, encode, load
from activebroker.events.columns import checking
from activebroker.events.columns.untyped import _parts
from activebroker.matching import Chunk, select, split
from predicate_extract import extract


class Color(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Nothing:
    pass


@dataclass(frozen=True)
class Leg:
    city: str
    gate: int | None


@dataclass(frozen=True)
class Quote:
    number: int
    price: float
    name: str
    note: str | None
    raw: bytes
    good: bool


@dataclass(frozen=True)
class Trip:
    number: int
    name: str | None
    color: Color
    leg: Leg
    legs: list[Leg]
    via: list[str | None] | None
    perhaps: Leg | None
    day: date
    at: Annotated[datetime, Zone("Europe/Berlin")]
    seen: datetime | None
    fare: Decimal
    track: Annotated[np.ndarray, Shape(2, 2)]
    nothings: list[Nothing]


QUOTES = [
    Quote(i, i * 0.5, "é" * (i % 3), None if i % 2 else "n", b"\xff" * i, i % 2 == 0)
    for i in range(40)
]
TRIPS = [
    Trip(
        i,
        None if i % 3 else "x",
        Color.RED,
        Leg("Rome", i),
        [Leg("a", None)] * (i % 3),
        None if i % 2 else ["p", None],
        None if i % 4 else Leg("b", 1),
        date(2024, 1, 1),
        datetime(2024, 1, 1).astimezone(),
        None if i % 2 else datetime(2024, 1, 1),
        Decimal("1.5"),
        np.ones((2, 2)),
        [Nothing()] * (i % 2),
    )
    for i in range(40)
]
OBJECTS: list[Any] = [1, "a" * 30, {"k": [1, 2]}, np.arange(2000), None] * 8

TYPES: list[tuple[EventType, list[Any]]] = [
    (EventType.of(Quote), QUOTES),
    (EventType.of(Quote), QUOTES[:5]),
    (EventType.of(Trip), [EventType.of(Trip).check(trip, "trips") for trip in TRIPS]),
    (ANY, OBJECTS),
]
PREDICATES = {
    Quote: [
        extract(lambda q: q.name == "é" and q.number < 2**40).predicate,
        extract(lambda q: q.note is None or q.note.startswith("n") or q.price > 3).predicate,
    ],
    Trip: [
        extract(lambda t: t.color.name == "RED" and t.leg.city < "S").predicate,
        extract(lambda t: t.fare > 1 or t.number in (1, 2) or t.day > date(2020, 1, 1)).predicate,
    ],
}


def use(batch: Batch) -> None:
    """All that becomes of a batch on its way."""
    rows = len(batch)
    batch.columns.validate(full=True)
    _ = batch.nbytes, batch.seqs, batch.times, batch.columns
    sent = [bytes(part) for part in dump(batch)]
    again = load(batch.type, batch.supplier, sent)
    assert [bytes(part) for part in dump(again)] == sent
    assert again.nbytes == batch.nbytes
    assert len(concat([batch, again])) == 2 * rows
    half = batch.slice(rows // 2, rows)
    assert half.nbytes + batch.slice(0, rows // 2).nbytes == batch.nbytes
    if rows:
        split(Chunk(batch, upto=(1, batch.last_seq + 1)), (1, int(batch.seqs[0]) + 1), by_seq=True)
    for predicate in PREDICATES.get(batch.type.cls, []):
        select(Chunk(batch, upto=(1, rows)), predicate)
    if batch.type is ANY:
        # What is in a pickle is another matter: whoever may publish untyped events may run code.
        assert len(_parts(batch.columns.columns[2:])[0]) == rows
        return
    readable, events, unreadable = batch.read()
    assert len(events) + len(unreadable) == rows == len(readable) + len(unreadable)
    for event in events:
        assert batch.type.fits(event.content) or batch.type.accept(event.content) is not None
    assert all(isinstance(each.content + each.reason, str) for each in unreadable)


def main(seed: int, count: int) -> None:
    draw = random.Random(seed)
    samples = [
        (type, bytes(dump(encode(type, contents, "S", 0, 1))[0])) for type, contents in TYPES
    ]
    for type, data in samples:
        use(load(type, "S", [data]))
    memory = Memory()
    taken, few = 0, checking.FEW
    for number in range(count):
        type, data = draw.choice(samples)
        others = [other for _, other in samples]
        changed = mutant(data, draw, head=1500, others=others)
        checking.FEW = draw.choice((0, few))  # text is checked in two ways
        try:
            batch = load(type, "S", [changed])
        except ProtocolError:
            continue
        taken += 1
        try:
            use(batch)
        except BaseException:
            print(f"mutant {number} of seed {seed}: {pickle.dumps((type, changed))!r}", flush=True)
            raise
    memory.check()
    print(f"{taken} of {count} taken")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

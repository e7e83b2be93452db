"""What an executor makes of a partition, without Spark: masks, streams, errors."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from activebroker.core.errors import EventRefused, FilterStopped, InvalidFilter, MissingExtra
from activebroker.events import Event, EventType
from activebroker.filters import FIFOFilter, FilterSpec, analyse, pack
from activebroker.spark import apply, udf
from activebroker.spark.streams import KEY, Task


@dataclass(frozen=True)
class Tick:
    number: int
    name: str | None


class Even(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if divmod(event.content.number, 2)[1] == 0:
            super().enqueue(event)


class First(FIFOFilter):
    """The first of each stream, whose numbers begin at 0."""

    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event: Event) -> None:
        self.seen += 1
        if self.seen == 1 and event.seq == 0:
            super().enqueue(event)


class FirstOfAll(First):
    shared = True


class Last(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        self.last = event

    def on_end(self) -> None:
        super().enqueue(self.last)


class Inverse(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if divmod(1, event.content.number):
            super().enqueue(event)


class Twice(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        for _ in range(2):
            super().enqueue(event)


class Back(FIFOFilter):
    before = None

    def enqueue(self, event: Event) -> None:
        if self.before is not None:
            super().enqueue(event)
            super().enqueue(self.before)
        self.before = event


class Counter:
    value = 0

    def add(self, count: int) -> None:
        self.value += count


def task(filter: object, names: Sequence[str] = ("number", "name"), **options: Any) -> Task:
    spec, type = FilterSpec.of(filter), EventType.of(Tick)
    envelope = pack(spec, type, analyse(spec, type), key=KEY)
    settings = {"required": (), "skip": False, "lost": None, **options}
    return Task(envelope, tuple(names), **settings)


ROWS = [("a", 1), (None, 2), (None, 3), ("", 4), ("b", 6), ("b", 0)]


def batches(names: Sequence[str], rows: list[tuple[Any, Any]], size: int) -> Any:
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        streams, numbers = zip(*some, strict=True)
        of = {"number": pa.array(numbers, pa.int64()), "name": pa.array(["x"] * len(some))}
        yield pa.array(streams, pa.string()), *(of[name] for name in names)


def masked(job: Task, rows: list[tuple[Any, Any]] = ROWS, size: int = 100) -> list[bool]:
    found = job.mask(batches(job.names, rows, size))
    return [kept for array in found for kept in array.to_pylist()]


def forwarded(job: Task, rows: list[tuple[Any, Any]] = ROWS, size: int = 100) -> list[int]:
    names = ["$supplier", *job.names]
    parts = (pa.RecordBatch.from_arrays(list(b), names) for b in batches(job.names, rows, size))
    result = pa.schema([("number", pa.int64())])
    return [n for batch in job.forwarded(parts, result) for n in batch.column(0).to_pylist()]


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("names", [("number",), ("number", "name")])
def test_a_mask_for_each_batch(size: int, names: tuple[str, ...]) -> None:
    expected = [False, True, False, True, True, True]
    assert masked(task(Even, names), size=size) == expected
    one = task(lambda tick: divmod(tick.number, 2)[1] == 0, names)
    assert masked(one, size=size) == expected


@pytest.mark.parametrize("size", [1, 2, 100])
def test_null_and_an_empty_text_are_two_streams(size: int) -> None:
    assert masked(task(First), size=size) == [True, True, False, True, True, False]
    assert masked(task(FirstOfAll), size=size) == [True, *[False] * 5]
    assert forwarded(task(Last), size=size) == [1, 3, 4, 0]
    rows = [(None, 1), (None, 4), ("", 2), ("", 5), ("a", 3)]
    assert forwarded(task(Last), rows, size=size) == [4, 5, 3]


def test_an_error_is_raised_or_counted(caplog: pytest.LogCaptureFixture) -> None:
    text = (
        r"Filter Inverse raised ZeroDivisionError: .*, on row 1 of 'b': "
        r"Tick\(number=0, name='x'\)\nTraceback.*\n"
        r"  File .*test_spark_streams\.py.* in enqueue\n[^§]*on_error="
    )
    with pytest.raises(FilterStopped, match=text):
        masked(task(Inverse))
    lost = Counter()
    with caplog.at_level(logging.WARNING):
        assert masked(task(Inverse, skip=True, lost=lost)) == [True] * 5 + [False]
    assert lost.value == 1 and "lost 1 events" in caplog.text


@pytest.mark.parametrize("run", [masked, forwarded])
def test_a_null_that_may_not_be_is_raised_or_counted(run: Any) -> None:
    rows = [("a", 1), ("a", None), ("a", 2), ("a", None), ("a", 4)]
    with pytest.raises(EventRefused, match="row 1, field 'number': expected int, got null"):
        run(task(Even, required=(("number",),)), rows)
    lost = Counter()
    job = task(Even, required=(("number",),), skip=True, lost=lost)
    expected = [False, False, True, False, True] if run is masked else [2, 4]
    assert run(job, rows) == expected
    assert lost.value == 2


@pytest.mark.parametrize("filter", [Twice, Back])
def test_a_mask_is_no_place_for_other_events(filter: type) -> None:
    with pytest.raises(InvalidFilter, match="twice, or out of order"):
        masked(task(filter))
    assert len(forwarded(task(filter), size=1)) in (12, 4)


def test_what_needs_the_extra_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    for call in (lambda: udf(Even, Tick), lambda: apply(None, Even)):  # type: ignore[arg-type]
        with pytest.raises(MissingExtra, match="extra 'spark'"):
            call()

"""What executors make of micro-batches, and of a batch, for a keyed filter: what a plain model does
of each stream, in whatever order rows come to them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pandas as pd
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed_for_tests import Asked, Model, Teller, Told

from activebroker.events import EventType
from activebroker.filters import FilterSpec, analyse, pack
from activebroker.spark.keyed_streams import BUCKET, BUCKETS, LAST, NEWEST, SEQ, SUPPLIER, KeyedTask
from activebroker.spark.streams import KEY, Task

SUPPLIERS = ["JFK", "", None]
KEYS = ["LHR", "ÅRN", "", None]
ASKED = st.tuples(
    st.sampled_from(SUPPLIERS),
    st.sampled_from(KEYS),
    st.sampled_from(["pass", "set", "set", "cancel"]),
    st.integers(-20, 80),
    st.integers(-25, 40),
)
INPUT, OUTPUT = EventType.of(Asked), EventType.of(Told)
ANSWERS = dict[tuple[str | None, str | None], list[Told]]


class Memory:
    """What Spark keeps of a group."""

    def __init__(self) -> None:
        self.get: tuple[bytes, ...] = ()

    @property
    def exists(self) -> bool:
        return bool(self.get)

    def update(self, state: tuple[bytes]) -> None:
        self.get = state


def keyed(numbered: bool) -> KeyedTask:
    spec = FilterSpec.of(Teller)
    envelope = pack(spec, INPUT, analyse(spec, INPUT), key=KEY)
    task = Task(envelope, tuple(INPUT.schema.names), (), skip=False, lost=None)
    return KeyedTask(task, "at", numbered, pa.schema(list(OUTPUT.schema)))


def drawn(steps: list[Any]) -> list[tuple[str | None, Asked]]:
    times = accumulate((step[4] for step in steps), lambda time, by: max(0, time + by))
    return [
        (supplier, Asked(key, at, do, by))
        for (supplier, key, do, by, _), at in zip(steps, times, strict=True)
    ]


def modelled(events: list[tuple[str | None, Asked]], end: bool) -> ANSWERS:
    answers: ANSWERS = {}
    for supplier in SUPPLIERS:
        model = Model().run(asked for whose, asked in events if whose == supplier)
        for told in model.end() if end else model.told:
            answers.setdefault((supplier, told.key), []).append(told)
    return answers


def table(rows: list[tuple[str | None, Asked, dict[str, Any]]]) -> pa.RecordBatch:
    """Rows as they come to a task, with columns between the supplier and the contents."""
    between = list(rows[0][2])
    types = [pa.field(name, pa.int32() if name == BUCKET else pa.int64()) for name in between]
    schema = pa.schema([pa.field(SUPPLIER, pa.string()), *types, *INPUT.schema])
    return pa.RecordBatch.from_pylist(
        [{SUPPLIER: supplier, **more, **vars(asked)} for supplier, asked, more in rows], schema
    )


def answers(batches: Iterator[pa.RecordBatch], of: Any, found: ANSWERS) -> None:
    for batch in batches:
        for row in batch.to_pylist():
            told = Told(**row)
            found.setdefault((of, told.key), []).append(told)


def bucket(supplier: str | None, key: str | None) -> int:
    return (SUPPLIERS.index(supplier) * 7 + KEYS.index(key)) % BUCKETS


@settings(max_examples=40)
@given(st.lists(ASKED, max_size=40), st.integers(1, 15), st.randoms(use_true_random=False))
def test_micro_batches(steps: list[Any], size: int, chance: random.Random) -> None:
    events, task = drawn(steps), keyed(numbered=False)
    memories = [Memory() for _ in range(BUCKETS)]
    found: ANSWERS = {}
    for first in range(0, len(events), size):
        rows = [
            (supplier, asked, {BUCKET: bucket(supplier, asked.key), "$order0": number})
            for number, (supplier, asked) in enumerate(events[first : first + size], first)
        ]
        chance.shuffle(rows)
        groups: dict[int, list[Any]] = {}
        # Each stream is in one of the tasks, and a task has its rows in several batches.
        for streams in (SUPPLIERS[:1], SUPPLIERS[1:]):
            of = [row for row in rows if row[0] in streams]
            cut = chance.randint(0, len(of))
            batches = [table(part) for part in (of[:cut], of[cut:]) if part]
            for packed in task.packed(iter(batches)):
                for row in packed.to_pylist():
                    groups.setdefault(row[BUCKET], []).append(row)
        for number, parts in groups.items():
            frames = iter([pd.DataFrame([part], columns=["rows", "newest"]) for part in parts])
            for frame in task.step(frames, memories[number]):
                made = pa.RecordBatch.from_arrays(
                    [pa.array(frame["rows"], pa.binary())], names=["rows"]
                )
                mine = {
                    (supplier, key)
                    for supplier in SUPPLIERS
                    for key in KEYS
                    if bucket(supplier, key) == number
                }
                for batch in task.unpacked(iter([made])):
                    for row in batch.to_pylist():
                        told = Told(**row)
                        (where,) = (each for each in mine if each[1] == told.key)
                        found.setdefault(where, []).append(told)
    assert found == modelled(events, end=False)


@settings(max_examples=40)
@given(st.lists(ASKED, max_size=40), st.integers(1, 15))
def test_partitions_of_a_batch(steps: list[Any], size: int) -> None:
    events, task = drawn(steps), keyed(numbered=True)
    numbers: dict[str | None, int] = {}
    newest: dict[str | None, int] = {}
    rows = []
    for supplier, asked in events:
        newest[supplier] = max(asked.at, newest.get(supplier, asked.at))
        numbers[supplier] = numbers.get(supplier, -1) + 1
        rows.append((supplier, asked, {SEQ: numbers[supplier], NEWEST: newest[supplier]}))
    rows = [(*row[:2], {**row[2], LAST: newest[row[0]]}) for row in rows]
    found: ANSWERS = {}
    for supplier in SUPPLIERS:
        for keys in (KEYS[:2], KEYS[2:]):
            of = [row for row in rows if row[0] == supplier and row[1].key in keys]
            batches = [table(of[first : first + size]) for first in range(0, len(of), size)]
            answers(task.whole(iter(batches)), supplier, found)
    assert found == modelled(events, end=True)

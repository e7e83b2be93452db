"""Filters on fields of every kind, through a supplier, a broker and a consumer, against the same
filters in plain Python on the same events.

The three are nodes of their own, with TCP between them. An event has to arrive exactly if the
filter forwards it; so a predicate that is too narrow shows, and one that is called exact and is too
wide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from field_programs_for_tests import FieldWriter, module
from fields_for_tests import Thing, thing
from test_filter_fuzz import load

import activebroker as ab
from activebroker.events import Batch, EventType
from activebroker.events.building import encode
from activebroker.fabric.hosting import serve
from predicate_extract import Predicate, extract
from predicate_extract.backends.columns import mask
from predicate_extract.backends.sql import to_sql
from predicate_extract.extraction import FAULT

ROWS = 24
PROGRAMS = 50  # a block
TOGETHER = 10  # programs in one filter
PLACES = ("supplier", "consumer", "atlanta")
TYPE = EventType.of(Thing)


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[ab.Fabric, ab.Fabric]]:
    """The nodes of a supplier and of a consumer; they meet at a broker."""
    key = ab.generate_key()
    broker = serve("atlanta", "tcp://127.0.0.1:*", key)
    try:
        address = broker.transport.address
        assert address is not None
        with ab.connect(address, key, name="far") as far, ab.connect(address, key) as near:
            yield far, near
    finally:
        broker.stop()


def forwarded(cls: Any, contents: Sequence[Thing]) -> list[int]:
    """The rows that a filter forwards, in plain Python; one on which it raises is lost whole."""
    instance = cls(1)
    instance._forwarded = sent = []
    for row, content in enumerate(contents):
        kept = len(sent)
        try:
            instance.enqueue(ab.Event(content, "Thing", "far", row, 0))
        except Exception:  # noqa: BLE001 - whatever the filter raises
            del sent[kept:]
    return [event.content.row for event in sent]


def batch_of(random: Random, parts: int) -> Batch:
    """The same events for each part."""
    things = [thing(random, row) for row in range(ROWS)]
    contents = [replace(each, part=part) for part in range(parts) for each in things]
    numbered = [replace(each, row=row) for row, each in enumerate(contents)]
    return encode(TYPE, [TYPE.check(each, "test") for each in numbered], "far", 0, 0)


def judged(cls: Any, contents: Sequence[Thing], backends: Backends) -> tuple[bool, str]:
    """Whether the analysis is exact for a filter, and what is wrong with its predicate here."""
    found = extract(cls, 1, schema=TYPE.schema, content=Thing)
    predicate = found.predicate
    faults = [reason.message for reason in found.reasons if reason.kind == FAULT]
    for back in (Predicate.from_json(predicate.to_json()), Predicate.parse(str(predicate))):
        if back != predicate:
            faults.append(f"not the same again: {predicate} and {back}")
    sent = set(forwarded(cls, contents))
    for where, kept, sure in backends(predicate):
        for row, content in enumerate(contents):
            if content.row in sent and row not in kept:
                faults.append(f"{predicate} loses {where}: {content}")
            if found.exact and row in sure and content.row not in sent:
                faults.append(f"{predicate} is called exact, and lets pass {where}: {content}")
    return found.exact, "\n".join(faults)


Kept = tuple[str, set[int], set[int]]
"""Where a predicate is evaluated, the rows that it keeps, and those on which it is surely true."""

Backends = Callable[[Predicate], Iterator[Kept]]


def backends_of(batch: Batch, contents: Sequence[Thing], database: Any) -> Backends:
    """Evaluations of a predicate on some events; those in SQL take longest, and are a few."""
    database.register("events", pa.table(batch.columns).drop(["$seq", "$time"]))
    asked = count()

    def evaluated(predicate: Predicate) -> Iterator[Kept]:
        found = mask(predicate, batch.columns)
        sure = found.true if found.raised is None else found.true & ~found.raised
        yield "in columns", {*np.flatnonzero(found.keep)}, {*np.flatnonzero(sure)}
        answers = [predicate.evaluate(content) for content in contents]
        true = {row for row, answer in enumerate(answers) if answer is True}
        yield "as objects", true | {row for row, each in enumerate(answers) if each is None}, true
        if next(asked) % 10 == 0:
            clause, exact = to_sql(predicate, TYPE.schema)
            rows = database.execute(f"SELECT row FROM events WHERE {clause or 'TRUE'}").fetchall()
            kept = {row for (row,) in rows}
            yield f"in SQL ({clause})", kept, kept if exact else set()

    return evaluated


def check(nodes: tuple[ab.Fabric, ab.Fabric], block: int, database: Any) -> tuple[int, list[str]]:
    """How many of a block's programs are exact, and what is wrong with them."""
    far, near = nodes
    random = Random(f"fields {block}")
    bodies = [FieldWriter(Random(f"fields {block} {n}")).part() for n in range(PROGRAMS)]
    wrong: list[str] = []
    sorted_out: dict[bool, list[int]] = {True: [], False: []}
    sample = batch_of(random, 1)
    contents = sample.contents()
    backends = backends_of(sample, contents, database)
    for together in batched(range(PROGRAMS)):
        written = load(module({n: bodies[n] for n in together}), ab.FIFOFilter)
        for number in together:
            is_exact, fault = judged(written[f"Only{number}"], contents, backends)
            sorted_out[is_exact].append(number)
            if fault:
                wrong.append(
                    "\n".join((f"block {block}, program {number}", *bodies[number], fault))
                )
    channel = near.channel(f"block {block}", Thing)
    supplier = far.channel(f"block {block}").supplier("far")
    contents = batch_of(random, TOGETHER).contents()
    running = []
    for group in (*batched(sorted_out[True]), *batched(sorted_out[False])):
        parts = {part: bodies[number] for part, number in enumerate(group)}
        filter = load(module(parts), ab.FIFOFilter)["Filter"]
        derived = channel.derive((filter, 1), at=PLACES[(block + len(running)) % len(PLACES)])
        running.append((parts, filter, derived.subscribe(timeout=90)))
    with supplier:
        supplier.publish_batch(contents)
    channel.close()
    for parts, filter, subscription in running:
        with subscription as events:
            came = [event.content.row for event in events]
        expected = forwarded(filter, contents)
        for row in sorted(set(came) ^ set(expected)):
            what = "lost" if row in expected else "too many"
            body = parts.get(row // ROWS, ["no part"])
            wrong.append("\n".join((f"block {block}: {what} {contents[row]}", *body)))
        if came != expected and set(came) == set(expected):
            wrong.append(f"block {block}: other counts or another order, {came} for {expected}")
    return len(sorted_out[True]), wrong


def batched(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """As many programs at a time as are put into one filter."""
    for start in range(0, len(numbers), TOGETHER):
        yield numbers[start : start + TOGETHER]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A thousand programs; `--rounds 2000`, as at night, makes them a hundred thousand."""
    if "block" in metafunc.fixturenames:
        metafunc.parametrize("block", range(metafunc.config.getoption("rounds") or 20))


@pytest.mark.filterwarnings(
    "ignore::activebroker.core.errors.FilterWarning"
)  # some forward nothing
def test_filters_on_fields_of_every_kind(nodes, block, database):
    exact, wrong = check(nodes, block, database)
    assert not wrong, "\n\n".join(wrong[:3])
    assert exact >= PROGRAMS // 5, "too few are exact to show anything"

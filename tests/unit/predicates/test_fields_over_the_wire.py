"""Filters on fields of every kind, through a supplier, a broker and a consumer, against the same
filters in plain Python on the same events.

The three are nodes of their own, with TCP between them. An event has to arrive exactly if the
filter forwards it; so a predicate that is too narrow shows, and one that is called exact and is too
wide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from fields_for_tests import FieldWriter, Thing, module, thing
from test_filter_fuzz import load

import activebroker as ab
from activebroker.events import Batch, EventType
from activebroker.events.building import encode
from activebroker.fabric.hosting import serve
from predicate_extract import Predicate, extract
from predicate_extract.backends.columns import mask
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


def judged(cls: Any, rows: Batch, contents: Sequence[Thing]) -> tuple[bool, str]:
    """Whether the analysis is exact for a filter, and what is wrong with its predicate."""
    found = extract(cls, 1, schema=TYPE.schema, content=Thing)
    faults = [reason.message for reason in found.reasons if reason.kind == FAULT]
    if faults:
        return found.exact, str(faults)
    predicate = found.predicate
    for back in (Predicate.from_json(predicate.to_json()), Predicate.parse(str(predicate))):
        if back != predicate:
            return found.exact, f"not the same again: {predicate} and {back}"
    kept = mask(predicate, rows.columns)
    sure = kept.true if kept.raised is None else kept.true & ~kept.raised
    sent = set(forwarded(cls, contents))
    for row, content in enumerate(contents):
        if content.row in sent and not kept.keep[row]:
            return found.exact, f"{predicate} loses {content}"
        if found.exact and sure[row] and content.row not in sent:
            return found.exact, f"{predicate} is called exact, and lets pass {content}"
    return found.exact, ""


def check(nodes: tuple[ab.Fabric, ab.Fabric], block: int) -> tuple[int, list[str]]:
    """How many of a block's programs are exact, and what is wrong with them."""
    far, near = nodes
    random = Random(f"fields {block}")
    bodies = [FieldWriter(Random(f"fields {block} {n}")).part() for n in range(PROGRAMS)]
    wrong: list[str] = []
    sorted_out: dict[bool, list[int]] = {True: [], False: []}
    sample = batch_of(random, 1)
    contents = sample.contents()
    for together in batched(range(PROGRAMS)):
        written = load(module({n: bodies[n] for n in together}), ab.FIFOFilter)
        for number in together:
            is_exact, fault = judged(written[f"Only{number}"], sample, contents)
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
        running.append((parts, filter, derived.subscribe(timeout=30)))
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
    """Two thousand programs; `--rounds 2000` makes them a hundred thousand."""
    if "block" in metafunc.fixturenames:
        metafunc.parametrize("block", range(metafunc.config.getoption("rounds") or 40))


@pytest.mark.filterwarnings(
    "ignore::activebroker.core.errors.FilterWarning"
)  # some forward nothing
def test_filters_on_fields_of_every_kind(nodes, block):
    exact, wrong = check(nodes, block)
    assert not wrong, "\n\n".join(wrong[:3])
    assert exact >= PROGRAMS // 5, "too few are exact to show anything"

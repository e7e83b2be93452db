"""A keyed filter over many keys, beside a plain loop with a dict of objects over the same batches.

    uv run python benchmarks/keyed.py [--keys 100000] [--events 1000000] [--rounds 3] [--json FILE]

Both read the same batches of Arrow columns and have the same class do the counting; what they
forward is compared. Then the state of all keys is saved: as a whole, after 1 MiB of input (as a
broker takes checkpoints), and restored. Times are of the CPU; the medians of the rounds count.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

from rich.console import Console
from rich.table import Table

import activebroker as ab
from activebroker.events import Batch, EventType, encode
from activebroker.filters import FilterSpec, KeyedRunner, analyse, make_runner, pack, unpack

ROWS = 2000  # of a batch
MORE = 40_000  # events after those, of about a MiB
EACH = 8  # of a key's events, one is forwarded
MIB = 1 << 20


@dataclass(frozen=True)
class Trade:
    name: str
    at: int
    price: float


class Plain:
    """What the loop has for each name."""

    def __init__(self) -> None:
        self.count = 0
        self.highest = 0.0

    def enqueue(self, event: ab.Event, out: list[ab.Event]) -> None:
        self.count += 1
        price = event.content.price
        if price > self.highest:
            self.highest = price
        if self.count % EACH == 0:
            out.append(event)


class PerName(ab.KeyedFilter):
    key = "name"

    def __init__(self) -> None:
        self.count = 0
        self.highest = 0.0

    def enqueue(self, event: ab.Event) -> None:
        self.count += 1
        price = event.content.price
        if price > self.highest:
            self.highest = price
        if self.count % EACH == 0:
            super().enqueue(event)


class Expiring(PerName):
    time = "at"
    lateness = 5
    ttl = 1e12


class Timed(Expiring):
    def enqueue(self, event: ab.Event) -> None:
        super().enqueue(event)
        if self.count == 1:
            self.set_timer(event.content.at + 1000)

    def on_timer(self, time: int) -> None:
        self.set_timer(time + 500_000)


def made(keys: int, events: int) -> list[Batch]:
    draw, type_ = random.Random(7), EventType.of(Trade)
    trades = [
        Trade(f"name{draw.randrange(keys)}", at - draw.randrange(4), draw.random())
        for at in range(events)
    ]
    return [
        encode(type_, trades[first : first + ROWS], "NYSE", first, 0)
        for first in range(0, events, ROWS)
    ]


def loop(batches: list[Batch]) -> list[int]:
    objects: dict[str, Plain] = {}
    found: list[int] = []
    for batch in batches:
        out: list[ab.Event] = []
        for event in batch.events():
            name = event.content.name
            if (each := objects.get(name)) is None:
                each = objects[name] = Plain()
            each.enqueue(event, out)
        found += [event.seq for event in out]
    return found


def runner(filter: type[ab.KeyedFilter]) -> KeyedRunner:
    spec, type_ = FilterSpec.of(filter), EventType.of(Trade)
    envelope = pack(spec, type_, analyse(spec, type_), key=b"key")
    made = make_runner(unpack(envelope, b"key"), envelope, "derived")
    assert isinstance(made, KeyedRunner)
    return made


def run(keyed: KeyedRunner, batches: list[Batch]) -> list[int]:
    found: list[int] = []
    for batch in batches:
        result = keyed.run([batch])
        assert not result.failures and not result.late
        found += [seq for part in result.batches for seq in part.seqs.tolist()]
    return found


def took(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = process_time()
    done = work()
    return process_time() - begin, done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    *batches, last = made(options.keys, options.events + MORE)
    more = [last]
    while len(batches) * ROWS > options.events:
        more.append(batches.pop())
    more.reverse()
    filters = (PerName, Expiring, Timed)
    times: dict[str, list[float]] = {name: [] for name in ("loop", *(f.__name__ for f in filters))}
    saves: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        seconds, expected = took(lambda: loop(batches))
        times["loop"].append(seconds)
        for each in filters:
            keyed = runner(each)
            seconds, found = took(lambda keyed=keyed: run(keyed, batches))
            assert found == expected, f"{each.__name__} forwards other events than the loop"
            times[each.__name__].append(seconds)
        for name, figure in checkpoints(keyed, each, more).items():
            saves.setdefault(name, []).append(figure)
    medians = {name: statistics.median(each) for name, each in times.items()}
    figures = {
        name: {
            "events/s": options.events / seconds,
            "ns an event": seconds / options.events * 1e9,
            "times the loop": seconds / medians["loop"],
        }
        for name, seconds in medians.items()
    }
    saved = {name: statistics.median(each) for name, each in saves.items()}
    table = Table(title=f"{options.events:,} events, {options.keys:,} keys")
    for column in ("", "events/s", "ns an event", "times the loop"):
        table.add_column(column, justify="right" if column else "left")
    for name, row in figures.items():
        table.add_row(name, *(f"{v:,.0f}" if v > 99 else f"{v:.2f}" for v in row.values()))
    console = Console()
    console.print(table)
    for name, figure in saved.items():
        console.print(f"{name}: {figure:,.1f}", highlight=False)
    if options.json:
        options.json.write_text(json.dumps({"run": figures, "saved": saved}, indent=2))


def checkpoints(
    keyed: KeyedRunner, filter: type[ab.KeyedFilter], more: list[Batch]
) -> dict[str, float]:
    """What it costs to save and restore all keys; and to save them once more after 1 MiB."""
    whole, state = took(keyed.snapshot)
    nbytes = 0
    events = 0
    for batch in more:
        if nbytes < MIB:
            nbytes += batch.nbytes
            events += batch.num_rows
            keyed.run([batch])
    again, state_then = took(keyed.snapshot)
    other = runner(filter)
    restore, _ = took(lambda: other.restore(state_then))
    woken, _ = took(lambda: other.run(more[-5:]))
    return {
        "first snapshot, ms": whole * 1e3,
        "KB": len(state["NYSE"]) / 1e3,
        f"snapshot after {events:,} more events, ms": again * 1e3,
        "KB of it": len(state_then["NYSE"]) / 1e3,
        "restore, ms": restore * 1e3,
        "first 10,000 events after it, ms": woken * 1e3,
    }


if __name__ == "__main__":
    main()

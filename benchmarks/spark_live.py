"""Filters on channels, at Spark and beside it: latency, events a second, and a heavy transform.

Events go from a supplier's process through the filter to a consumer's process. The filter is at a
broker in a Spark task, at Spark in a job for each micro-batch, at a broker's process, or in the
consumer. The light filter forwards one event in ten, by a condition that no analysis sees through;
the heavy one makes a spectrum of 4,096 numbers (32 KB), and is measured in a plain loop and in an
embedded fabric, too. With two tasks, two channels have a filter each, one supplier each. All run in
turns. Every consumer checks how many events come, and their order.

    uv run python benchmarks/spark_live.py [--rounds N] [--json PATH] [--markdown PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from processes import Worker, broker, workers
from rich.progress import track
from tables import Figures, write

import activebroker as ab
from activebroker.spark import SparkPlace

NUMBERS = 4096  # of a heavy event
RATE, PACED = 1_000, 5_000  # events a second, and in all
LIGHT, HEAVY = 2_000_000, 8_000  # events
ROWS = {"light": 2_000, "heavy": 64}  # of a batch
TASKS, JOBS, BROKER, CONSUMER = "Spark task", "Spark job", "broker", "consumer"
PATIENCE = 300.0


@dataclass(frozen=True)
class Reading:
    number: int
    made: int  # nanoseconds, monotonic


@dataclass(frozen=True)
class Signal:
    number: int
    values: Annotated[np.ndarray, ab.Shape(NUMBERS)]


@dataclass(frozen=True)
class Peak:
    number: int
    frequency: int
    power: float


class Passing(ab.FIFOFilter):
    def enqueue(self, event: ab.Event) -> None:
        if hash(event.content.number) >= 0:
            super().enqueue(event)


class Tenth(ab.FIFOFilter):
    def enqueue(self, event: ab.Event) -> None:
        if hash(event.content.number) % 10 == 0:
            super().enqueue(event)


class Spectrum(ab.FIFOFilter):
    output = Peak

    def enqueue(self, event: ab.Event) -> None:
        signal = event.content
        super().enqueue(event.replace(peak(signal.number, signal.values)))


def peak(number: int, values: np.ndarray) -> Peak:
    power = np.abs(np.fft.rfft(values * np.hanning(NUMBERS))) ** 2
    at = int(power[1:].argmax()) + 1
    return Peak(number, at, float(power[at]))


FILTERS = {"paced": (Reading, Passing), "light": (Reading, Tenth), "heavy": (Signal, Spectrum)}


def signals(first: int, rows: int) -> pa.RecordBatch:
    """Sines, each of another frequency."""
    numbers = np.arange(first, first + rows)
    angles = np.outer(numbers % 1000 + 1, np.arange(NUMBERS) * (2 * np.pi / NUMBERS))
    values = pa.FixedSizeListArray.from_arrays(np.sin(angles).ravel(), NUMBERS)
    return pa.RecordBatch.from_arrays([pa.array(numbers), values], ["number", "values"])


def readings(first: int, rows: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + rows)
    return pa.RecordBatch.from_arrays([pa.array(numbers)] * 2, ["number", "made"])


# --- the processes ------------------------------------------------------------------------------


def derive(pipe: Connection, address: str, key: str) -> None:
    """Derives what it is told: (name, what, place)."""
    os.environ["SPARK_MASTER"] = "local[4]"  # two slots for brokers, two for jobs
    with ab.connect(address, key, name="driver") as fabric:
        place = SparkPlace(tasks=2)
        while (order := pipe.recv()) is not None:
            name, what, at = order
            type, filter = FILTERS[what]
            channel = fabric.channel(name, type)
            membership = fabric._membership
            if at == JOBS:
                membership.place = lambda at: "spark"  # not at a broker in a task
            channel.derive(filter, at=place if at in (TASKS, JOBS) else at, name=f"{name} derived")
            vars(membership).pop("place", None)
            pipe.send("derived")


def supply(pipe: Connection, address: str, key: str) -> None:
    """Publishes as told: (what, channels); each channel's supplier in a thread."""
    with ab.connect(address, key, name="source") as fabric:
        suppliers: dict[str, ab.Supplier] = {}
        heavy = [signals(first, ROWS["heavy"]) for first in range(0, 1024, ROWS["heavy"])]
        while (order := pipe.recv()) is not None:
            what, names = order
            for name in set(names) - set(suppliers):
                suppliers[name] = fabric.channel(name, FILTERS[what][0]).supplier(name)
            pipe.send(time.monotonic_ns())
            publish = {"paced": pace, "light": spill, "heavy": lambda each: pour(each, heavy)}[what]
            threads = [threading.Thread(target=publish, args=(suppliers[name],)) for name in names]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()


def pace(supplier: ab.Supplier) -> None:
    due = time.monotonic()
    for number in range(PACED):
        due += 1 / RATE
        time.sleep(max(0.0, due - time.monotonic()))
        supplier.publish(Reading(number, time.monotonic_ns()))


def spill(supplier: ab.Supplier) -> None:
    for first in range(0, LIGHT, ROWS["light"]):
        supplier.publish_batch(readings(first, ROWS["light"]))


def pour(supplier: ab.Supplier, batches: list[pa.RecordBatch]) -> None:
    for number in range(HEAVY // ROWS["heavy"]):
        supplier.publish_batch(batches[number % len(batches)])


def consume(pipe: Connection, address: str, key: str) -> None:
    """Takes what it is told: (what, channels, events of each). Says when it had all of them, and
    the latencies."""
    with ab.connect(address, key, name="sink") as fabric, ExitStack() as stack:
        subscriptions: dict[str, ab.Subscription] = {}
        while (order := pipe.recv()) is not None:
            what, names, count = order
            for name in names:
                if name not in subscriptions:
                    subscription = fabric.channel(f"{name} derived").subscribe(timeout=PATIENCE)
                    subscriptions[name] = stack.enter_context(subscription)
            pipe.send("ready")
            latencies: list[int] = []
            threads = [
                threading.Thread(target=take, args=(what, subscriptions[each], count, latencies))
                for each in names
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            pipe.send((time.monotonic_ns(), latencies))


def take(what: str, events: ab.Subscription, count: int, latencies: list[int]) -> None:
    if what == "paced":
        for number, event in zip(range(count), events, strict=False):
            latencies.append(time.monotonic_ns() - event.content.made)
            expect(event.content.number, number)
        return
    seen = 0
    for batch in events.batches():
        numbers = batch.columns.column("number").to_numpy()
        if what == "light":
            expect(int(numbers[0]), 10 * seen)
        seen += len(batch)
        if seen >= count:
            expect(seen, count)
            return


def expect(found: int, due: int) -> None:
    if found != due:
        raise SystemExit(f"{found} came where {due} was due")


def embed(pipe: Connection) -> None:
    """The heavy filter with its supplier and its consumer in this process; says events a second."""
    heavy = [signals(first, ROWS["heavy"]) for first in range(0, 1024, ROWS["heavy"])]
    with ab.Fabric() as fabric:
        channel = fabric.channel("heavy", Signal)
        supplier = channel.supplier("source")
        with channel.derive(Spectrum).subscribe(timeout=PATIENCE) as events:
            while pipe.recv() is not None:
                start = time.perf_counter()
                thread = threading.Thread(target=pour, args=(supplier, heavy))
                thread.start()
                take("heavy", events, HEAVY, [])
                thread.join()
                pipe.send(HEAVY / (time.perf_counter() - start))


# --- the rounds ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """What is measured where, with so many channels."""

    what: str
    place: str
    channels: int = 1

    @property
    def names(self) -> list[str]:
        return [f"{self.what} at {self.place} {n} of {self.channels}" for n in range(self.channels)]

    @property
    def published(self) -> int:
        return {"paced": PACED, "light": LIGHT, "heavy": HEAVY}[self.what]

    @property
    def expected(self) -> int:
        return self.published // 10 if self.what == "light" else self.published


CELLS = [
    *(Cell("paced", place) for place in (TASKS, JOBS, BROKER, CONSUMER)),
    *(Cell("light", place) for place in (TASKS, JOBS, BROKER, CONSUMER)),
    Cell("heavy", TASKS),
    Cell("heavy", TASKS, 2),
    Cell("heavy", JOBS),
    Cell("heavy", BROKER),
    Cell("heavy", CONSUMER),
]


class Scene:
    def __init__(self, start: Callable[..., Worker]) -> None:
        key = ab.generate_key()
        address = start("the hub", broker, key, "hub").hear()
        start("the broker", broker, key, BROKER, address).hear()
        self._driver = start("the driver", derive, address, key)
        self._source = start("the source", supply, address, key)
        self._sink = start("the sink", consume, address, key)
        for cell in CELLS:
            for name in cell.names:
                self._driver.tell((name, cell.what, cell.place))
                self._driver.hear(PATIENCE)

    def run(self, cell: Cell) -> tuple[float, list[int]]:
        """Events a second, and latencies in nanoseconds."""
        self._sink.tell((cell.what, cell.names, cell.expected))
        self._sink.hear()
        self._source.tell((cell.what, cell.names))
        start = self._source.hear()
        end, latencies = self._sink.hear(PATIENCE)
        return cell.channels * cell.published / (end - start) * 1e9, latencies


def by_hand() -> float:
    """Events a second of the heavy transform in a plain loop over views of the numbers."""
    batch = signals(0, 512)
    values = batch.column("values").flatten().to_numpy().reshape(-1, NUMBERS)
    start = time.perf_counter()
    for number in range(HEAVY):
        peak(number, values[number % 512])
    return HEAVY / (time.perf_counter() - start)


def measure(rounds: int) -> dict[str, Any]:
    found: dict[Cell, list[tuple[float, list[int]]]] = {cell: [] for cell in CELLS}
    loops: list[float] = []
    embedded: list[float] = []
    with workers() as start:
        scene, alone = Scene(start), start("an embedded fabric", embed)
        for _ in track(range(rounds + 1), "measuring"):
            loops.append(by_hand())
            alone.tell("go")
            embedded.append(alone.hear(PATIENCE))
            for cell in CELLS:
                found[cell].append(scene.run(cell))
    figures: dict[str, Any] = {
        "heavy in a loop": median(loops[1:]),
        "heavy embedded": median(embedded[1:]),
    }
    for cell, results in found.items():
        name = f"{cell.what} at {cell.place}" + (" twice" * (cell.channels > 1))
        if cell.what == "paced":
            latencies = np.concatenate([each for _, each in results[1:]]) / 1e6
            figures[name] = [float(q) for q in np.percentile(latencies, [50, 99])]
        else:
            figures[name] = median(rate for rate, _ in results[1:])
    return figures


def rows(figures: dict[str, Any]) -> Iterator[list[str]]:
    for place in (TASKS, JOBS, BROKER, CONSUMER):
        p50, p99 = figures[f"paced at {place}"]
        cells = [place, f"{p50:.1f} / {p99:.1f} ms", f"{figures[f'light at {place}']:,.0f}/s"]
        yield [*cells, *shown(figures[f"heavy at {place}"], figures)]
        if place == TASKS:
            two = figures[f"heavy at {TASKS} twice"]
            yield ["two of them, a filter each", "", "", *shown(two, figures)]
    yield ["an embedded fabric", "", "", *shown(figures["heavy embedded"], figures)]


def shown(heavy: float, figures: dict[str, Any]) -> list[str]:
    bases = figures["heavy embedded"], figures["heavy in a loop"]
    return [f"{heavy:,.0f}/s", *(f"{heavy / base:.2f}" for base in bases)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    options = parser.parse_args()
    figures = measure(options.rounds)
    table = Figures(
        "filters on channels",
        ("place", f"p50 / p99 at {RATE:,}/s", "light", "heavy", "to embedded", "to a loop"),
        list(rows(figures)),
    )
    table.show()
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))
    if options.markdown:
        write([table], options.markdown)


if __name__ == "__main__":
    main()

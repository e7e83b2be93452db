"""Whether memory stays flat while a slow consumer holds everyone back.

A supplier process offers events at a steady rate. One consumer process is fast, one takes fewer
than are offered, so that back-pressure reaches the supplier all the time; a third takes what a
stateful filter on the broker forwards. Every consumer checks each event against what it computes
by itself. The resident memory of every process is sampled; after a warm-up its trend over the
rest of the run must stay within a few megabytes.

    uv run python benchmarks/soak.py [--minutes N] [--rate N] [--slow N] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from processes import Quote, Worker, broker, workers
from rich.console import Console
from rich.table import Table
from soak_events import Jumps, jumps, quote

import activebroker as ab

TICK = 0.01  # seconds between the supplier's bursts
SAMPLE_EVERY = 2.0  # seconds
WARM_UP = 0.25  # of the whole run: caches and buffers find their size
FLAT = 5.0  # megabytes that a process may grow by, along its trend


# --- the processes ------------------------------------------------------------------------------


def supply(pipe: Connection, address: str, key: str, rate: int) -> None:
    with ab.connect(address, key) as fabric:
        channel = fabric.channel("quotes", Quote)
        supplier = channel.supplier("NYSE")
        pipe.send("ready")
        pipe.recv()  # when the consumers are there
        numbers = count()
        due = time.monotonic()
        while not pipe.poll():
            for _ in range(int(rate * TICK)):
                supplier.publish(quote(next(numbers)))
            # What back-pressure has held up is not made up for: the rate is an upper bound.
            due = max(due + TICK, time.monotonic())
            time.sleep(due - time.monotonic() if due > time.monotonic() else 0)
        channel.close()
        pipe.send(supplier.published)
        pipe.recv()


def consume(pipe: Connection, address: str, key: str, channel: str, rate: int | None) -> None:
    """Check every event of a channel, at no more than `rate` events a second."""
    with ab.connect(address, key) as fabric, fabric.channel(channel).subscribe() as events:
        pipe.send("ready")
        expected = iter(jumps()) if channel == "jumps" else count()
        seen = 0
        for batch in events.batches():
            for event in batch.events():
                number = next(expected)
                if event.seq != number or vars_of(event.content) != vars_of(quote(number)):
                    raise SystemExit(f"{channel}: {event} came where {quote(number)} was due")
            seen += len(batch)
            if rate is not None:
                time.sleep(len(batch) / rate)
        pipe.send((seen, next(expected)))
        pipe.recv()


def vars_of(content: Any) -> tuple[Any, ...]:
    """A content's values: here its class may be one that was made from the type's description."""
    return tuple(vars(content).values())


# --- the run ------------------------------------------------------------------------------------


@dataclass
class Memory:
    """Samples of a process's resident memory, in megabytes."""

    process: psutil.Process
    times: list[float]
    megabytes: list[float]

    @classmethod
    def of(cls, worker: Worker) -> Memory:
        return cls(psutil.Process(worker.pid), [], [])

    def sample(self, at: float) -> None:
        self.times.append(at)
        self.megabytes.append(self.process.memory_info().rss / 2**20)

    def growth(self) -> float:
        """Megabytes by which the trend rises from the end of the warm-up to the end."""
        times, megabytes = np.array(self.times), np.array(self.megabytes)
        steady = times >= times[-1] * WARM_UP
        slope = np.polyfit(times[steady], megabytes[steady], 1)[0]
        return float(slope * np.ptp(times[steady]))

    def figures(self) -> dict[str, Any]:
        steady = self.megabytes[int(len(self.megabytes) * WARM_UP) :]
        return {
            "start_mb": self.megabytes[0],
            "low_mb": min(steady),
            "high_mb": max(steady),
            "end_mb": self.megabytes[-1],
            "growth_mb": self.growth(),
            "samples_mb": self.megabytes,
        }


def run(minutes: float, rate: int, slow: int) -> dict[str, Any]:
    key = ab.generate_key()
    with workers() as start, ExitStack() as stack:
        node = start("broker", broker, key)
        address = node.hear()
        fabric = stack.enter_context(ab.connect(address, key))
        fabric.channel("quotes", Quote).derive(Jumps, at="broker", name="jumps")
        source = start("supplier", supply, address, key, rate)
        source.hear()
        consumers = {
            "fast": start("fast consumer", consume, address, key, "quotes", None),
            "slow": start("slow consumer", consume, address, key, "quotes", slow),
            "filtered": start("filter's consumer", consume, address, key, "jumps", None),
        }
        for consumer in consumers.values():
            consumer.hear()
        memory = {w.name: Memory.of(w) for w in (node, source, *consumers.values())}
        source.tell("go")
        begin = time.monotonic()
        while (now := time.monotonic() - begin) < minutes * 60:
            for each in memory.values():
                each.sample(now)
            time.sleep(SAMPLE_EVERY)
        source.tell("stop")
        patience = 120.0  # the slow consumer has a window of events before it
        published = source.hear(patience)
        seconds = time.monotonic() - begin
        got = {name: consumer.hear(patience) for name, consumer in consumers.items()}
    complete = {
        name: seen == published if name != "filtered" else following >= published
        for name, (seen, following) in got.items()
    }
    return {
        "minutes": minutes,
        "offered_per_second": rate,
        "published": published,
        "published_per_second": published / seconds,
        "received": {name: seen for name, (seen, _) in got.items()},
        "complete": complete,
        "memory": {name: each.figures() for name, each in memory.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=int, default=20_000, help="events offered a second")
    parser.add_argument(
        "--slow", type=int, default=5_000, help="events the slow one takes a second"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    figures = run(options.minutes, options.rate, options.slow)

    console = Console()
    table = Table(title=f"resident memory over {options.minutes:g} minutes, in MB")
    for column in ("process", "start", "low", "high", "end", "trend"):
        table.add_column(column, justify="left" if column == "process" else "right")
    for name, each in figures["memory"].items():
        keys = ("start_mb", "low_mb", "high_mb", "end_mb")
        table.add_row(name, *(f"{each[key]:.1f}" for key in keys), f"{each['growth_mb']:+.1f}")
    console.print(table)
    console.print(
        f"{figures['published']:,} events published, {figures['published_per_second']:,.0f} of "
        f"{options.rate:,} offered a second: the slow consumer takes {options.slow:,}. "
        f"Low and high are after the warm-up."
    )
    flat = all(each["growth_mb"] <= FLAT for each in figures["memory"].values())
    complete = all(figures["complete"].values())
    figures["flat"] = flat
    console.print("every event came, once and in order" if complete else "events are missing")
    console.print("memory is flat" if flat else f"memory grew by more than {FLAT:g} MB")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))
    raise SystemExit(0 if flat and complete else 1)


if __name__ == "__main__":
    main()

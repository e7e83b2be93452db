"""Whether filters that arrive at one broker spread by themselves, and then stay.

Three brokers are processes; over a minute consumers arrive, and each derives a filter that works a
fixed number of iterations on every event, always at the same broker. `fabric.balance` has to bring
every broker under the limit, with few moves, and then leave all as it is. Every consumer checks
that it gets each event once and in order, and that the state of its filter went along. A CPU's
share is what filters have used in a period. Where the machine is busy with other things the same
work takes more CPU time, by a quarter and more, to which balancing answers.

    uv run python benchmarks/balance.py [--minutes N] [--limit SHARE] [--json PATH]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean
from typing import Any

from processes import PATIENCE, broker, workers
from rich.console import Console
from rich.table import Table

import activebroker as ab

BROKERS = ("atlanta", "dallas", "boston")
CONSUMERS = 12
SHARE = 0.065  # of a CPU that one filter takes, as this machine is when the run begins
RATE = 50  # events a second
TRIAL = 10.0  # seconds to find out how much work that is
TRIED = 20_000, 80_000  # iterations
ARRIVING = 60.0  # seconds over which consumers arrive
TOGETHER = 3  # samples that are judged together: what waited in one runs in the next
PERIOD = 5.0  # seconds between looks
MOST_MOVES = 1.5  # times those of the best plan


@dataclass(frozen=True)
class Reading:
    number: int


@dataclass(frozen=True)
class Worked:
    number: int
    count: int


class Work(ab.FIFOFilter):
    """Keeps state: a lost or repeated event, or a lost state, shows in the counts."""

    output = Worked

    def __init__(self, iterations: int) -> None:
        self.iterations = iterations
        self.count = 0

    def enqueue(self, event: ab.Event) -> None:
        self.count += 1
        work(self.iterations)
        super().enqueue(event.replace(Worked(event.content.number, self.count)))


def work(iterations: int) -> None:
    for _ in range(iterations):
        pass


def iterations_for(share: float, fabric: ab.Fabric, readings: ab.Channel) -> int:
    """How many take a filter this share of a CPU, by two that are tried in the broker."""
    trials = [readings.derive((Work, tried), at=BROKERS[0]) for tried in TRIED]
    time.sleep(TRIAL)
    stages = {each["channel"]: each for each in fabric.status()["nodes"][BROKERS[0]]["stages"]}
    used = [stages[each.name] for each in trials]
    few, many = (each["cpu_seconds"] / each["taken_events"] * RATE for each in used)
    for each in trials:
        each.close()
    found = TRIED[0] + (share - few) * (TRIED[1] - TRIED[0]) / (many - few)
    if not found > 0:
        raise SystemExit(f"this machine is too busy: {few:.2f} of a CPU for {TRIED[0]} iterations")
    return round(found)


def supply(pipe: Connection, address: str, key: str) -> None:
    with ab.connect(address, key) as fabric:
        channel = fabric.channel("readings", Reading)
        supplier = channel.supplier("sensor")
        pipe.send("ready")
        due = time.monotonic()
        while not pipe.poll():
            supplier.publish(Reading(supplier.published))
            # What back-pressure has held up is not made up for: the rate is an upper bound.
            due = max(due + 1 / RATE, time.monotonic())
            time.sleep(due - time.monotonic() if due > time.monotonic() else 0)
        channel.close()
        pipe.send(supplier.published)
        pipe.recv()


class Consumer:
    """A thread that checks every event which a filter of its own forwards."""

    def __init__(self, readings: ab.Channel, number: int, iterations: int) -> None:
        name = f"work {number}"
        self.derived = readings.derive((Work, iterations), at=BROKERS[0], name=name)
        self._events = self.derived.subscribe()
        self.first: Worked | None = None
        self.seen = 0
        self.wrong: str | None = None
        self._thread = threading.Thread(target=self._consume, name=name, daemon=True)
        self._thread.start()

    def _consume(self) -> None:
        for event in self._events:
            content = event.content
            if self.first is None:
                self.first = content
            expected = self.first.number + self.seen, self.first.count + self.seen
            if (content.number, content.count) != expected and self.wrong is None:
                self.wrong = f"{content} came where {expected} was due"
            self.seen += 1

    def ended(self, published: int, patience: float) -> str | None:
        """Wait for the end; say what was wrong."""
        self._thread.join(patience)
        if self._thread.is_alive():
            return f"its events have not ended within {patience:g} s"
        if self.first is None or self.first.number + self.seen != published:
            return self.wrong or f"{self.seen} events from {self.first} on, of {published}"
        return self.wrong


class Shares:
    """What each broker's filters take of a CPU, over time."""

    def __init__(self, fabric: ab.Fabric, begin: float) -> None:
        self._fabric = fabric
        self._begin = begin
        self._latest: tuple[float, dict[str, float]] | None = None
        self.samples: list[tuple[float, dict[str, float]]] = []

    def sample(self) -> None:
        nodes = self._fabric.status()["nodes"]
        now = time.monotonic()
        used = {name: nodes[name]["cpu_seconds"] for name in BROKERS}
        if self._latest is not None:
            at, before = self._latest
            shares = {name: (used[name] - before[name]) / (now - at) for name in BROKERS}
            self.samples.append((now - self._begin, shares))
        self._latest = now, used

    def largest(self) -> list[tuple[float, float]]:
        """When, and the share of the broker that took most, over some samples each."""
        return [
            (
                self.samples[last][0],
                max(
                    fmean(
                        shares[name] for _, shares in self.samples[last + 1 - TOGETHER : last + 1]
                    )
                    for name in BROKERS
                ),
            )
            for last in range(TOGETHER - 1, len(self.samples))
        ]


def run(minutes: float, limit: float) -> dict[str, Any]:
    key = ab.generate_key()
    with workers() as start:
        first = start(BROKERS[0], broker, key, BROKERS[0])
        address = first.hear()
        for name in BROKERS[1:]:
            start(name, broker, key, name, address).hear()
        source = start("supplier", supply, address, key)
        source.hear()
        with ab.connect(address, key, name="operator") as fabric:
            readings = fabric.channel("readings", Reading)
            iterations = iterations_for(SHARE, fabric, readings)
            consumers: list[Consumer] = []
            begin, begun_at = time.monotonic(), time.time()
            shares = Shares(fabric, begin)
            with fabric.balance(ab.Balance(limit, limit / 4), period=PERIOD) as balancing:
                for step in itertools.count(1):
                    shares.sample()
                    arrived = min(1.0, step * PERIOD / ARRIVING) * CONSUMERS
                    while len(consumers) < round(arrived):
                        consumers.append(Consumer(readings, len(consumers), iterations))
                    if step * PERIOD > minutes * 60:
                        break
                    time.sleep(max(0.0, begin + step * PERIOD - time.monotonic()))
            places = {
                each["name"]: each["at"] for each in fabric.status()["channels"] if each["parent"]
            }
            source.tell("stop")
            published = source.hear()
            wrong = {
                each.derived.name: said
                for each in consumers
                if (said := each.ended(published, PATIENCE)) is not None
            }
    quiet = minutes * 40  # seconds after which nothing has to happen any more: the last third
    moves = [(move.at - begun_at, move) for move in balancing.moves]
    largest = shares.largest()
    taken = fmean(sum(each.values()) for at, each in shares.samples if at >= quiet) / CONSUMERS
    return {
        "minutes": minutes,
        "limit": limit,
        "filter_share": taken,
        "iterations": iterations,
        "published": published,
        "received": sum(each.seen for each in consumers),
        "wrong": wrong,
        "moves": [
            {"at": at, "channel": m.channel, "to": m.to, "reason": m.reason, "error": m.error}
            for at, m in moves
        ],
        "best": max(1, CONSUMERS - int(limit / taken)),  # so many have to leave
        "failed": balancing.failed,
        "over_until": max((at for at, share in largest if share > limit), default=0.0),
        "quiet": quiet,
        "late_moves": sum(at >= quiet for at, _ in moves),
        "largest_share": max(share for at, share in largest if at >= quiet),
        "filters": {name: list(places.values()).count(name) for name in BROKERS},
        "samples": [{"at": at, **each} for at, each in shares.samples],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=3.0, help="at least 3")
    parser.add_argument("--limit", type=float, default=0.45, help="of a CPU, for each broker")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    figures = run(max(3.0, options.minutes), options.limit)

    console = Console()
    table = Table(title=f"shares of a CPU, limit {options.limit:g}, {os.cpu_count()} cores")
    table.add_column("at", justify="right")
    for name in BROKERS:
        table.add_column(name, justify="right")
    table.add_column("moved")
    earlier = 0.0
    for sample in figures["samples"]:
        moved = [
            f"{move['channel']} to {move['to']}" + (" (failed)" if move["error"] else "")
            for move in figures["moves"]
            if earlier <= move["at"] < sample["at"]
        ]
        earlier = sample["at"]
        shares = (f"{sample[name]:.2f}" for name in BROKERS)
        table.add_row(f"{sample['at']:.0f} s", *shares, ", ".join(moved))
    console.print(table)

    made, best = len(figures["moves"]), figures["best"]
    over, largest = figures["over_until"], figures["largest_share"]
    late = figures["late_moves"]
    checks = {
        f"{made} moves where the best plan has {best} ({made / best:.2f})": made
        <= MOST_MOVES * best,
        f"{figures['failed']} moves have failed": not figures["failed"],
        f"no broker was over its limit after {over:.0f} s": over <= figures["quiet"],
        f"the largest share after {figures['quiet']:.0f} s was {largest:.2f}": largest
        <= figures["limit"],
        f"{late} moves in that time": not late,
        f"{figures['received']:,} events came, each once and in order": not figures["wrong"],
    }
    for said, met in checks.items():
        console.print(f"{said}: [green]met[/]" if met else f"{said}: [red]missed[/]")
    for name, wrong in figures["wrong"].items():
        console.print(f"[red]{name}: {wrong}[/]")
    figures["met"] = checks
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))
    raise SystemExit(0 if all(checks.values()) else 1)


if __name__ == "__main__":
    main()

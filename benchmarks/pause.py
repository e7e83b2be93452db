"""The pause of a move: the largest gap between events at a consumer, at a steady 20,000 a second.

A filter moves between two brokers and back, while its supplier publishes and its consumer takes;
six processes on this machine. Before each move the same stream is watched for as long without one:
what the move adds to that largest gap is its pause. Beside it, what one would do otherwise: close
the filter's channel, derive it again at the other broker and subscribe again, which loses the state
and the events in between. Counts and order are checked for every event.

    uv run python benchmarks/pause.py [--rounds N] [--json PATH]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from processes import Worker, workers
from rich.console import Console
from rich.progress import track
from rich.table import Table
from steady import Counting, Passing, Reading, Span, broker, consume, supply

import activebroker as ab

STATES: dict[str, Any] = {
    "no state": Passing,
    "0 MB": (Counting, 0),
    "1 MB": (Counting, 1 << 20),
    "100 MB": (Counting, 100 << 20),
}
PLACES = ("atlanta", "dallas")
SPAN = 1.5  # seconds that are watched, with a move in them and without
WARM = 3.0  # seconds at first that are not
ALLOWED = 0.020  # seconds that a move may add to the usual largest gap

Figures = dict[str, list[float]]  # seconds, by round


def gap_since(consumer: Worker, start: float) -> float:
    """The largest, from `start` until SPAN seconds later, or now if that is later."""
    time.sleep(max(0.0, start + SPAN - time.monotonic()))
    consumer.tell((start, time.monotonic()))
    span: Span = consumer.hear()
    return span.largest_gap


class Stream:
    """A supplier and a consumer of its own, and the filter between them, at first at atlanta."""

    def __init__(
        self, start: Callable[..., Worker], fabric: ab.Fabric, where: tuple[str, str], what: str
    ) -> None:
        self.filter = STATES[what.partition(",")[0]]
        self.what = what
        self.restarts = what.endswith("restarted")
        self.readings = fabric.channel(what, Reading)
        self.channel = self.derive("atlanta")
        self.consumer = start(
            f"consumer, {what}", consume, *where, self.channel.name, self.restarts
        )
        self.supplier = start(f"supplier, {what}", supply, *where, what)
        for worker in (self.consumer, self.supplier):
            worker.hear()

    def derive(self, place: str) -> ab.Channel:
        return self.readings.derive(self.filter, at=place)

    def change(self, place: str) -> None:
        if not self.restarts:
            self.channel.move(to=place)
            return
        self.channel.close()
        self.channel = self.derive(place)
        self.consumer.tell(self.channel.name)
        self.consumer.hear()

    def play(self, rounds: int, out: Console) -> dict[str, Any]:
        self.supplier.tell("go")
        time.sleep(WARM)
        figures: Figures = {"usual": [], "changed": [], "took": []}
        places = itertools.islice(itertools.cycle(reversed(PLACES)), rounds)
        for place in track(list(places), self.what, console=out, transient=True):
            figures["usual"].append(gap_since(self.consumer, time.monotonic()))
            begun = time.monotonic()
            self.change(place)
            figures["took"].append(time.monotonic() - begun)
            figures["changed"].append(gap_since(self.consumer, begun))
        self.supplier.tell("end")
        published = self.supplier.hear()
        self.readings.close()
        self.consumer.tell(None)
        broken, came, missed = self.consumer.hear()
        if broken or came != published or (missed and not self.restarts):
            raise SystemExit(f"{self.what}: {published} published, {came} came; {broken[:3]}")
        added = [
            after - before
            for before, after in zip(figures["usual"], figures["changed"], strict=True)
        ]
        return {
            **figures,
            "added": added,
            "events": published,
            "missed a change": missed / rounds,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="moves of each kind (20)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    out = Console()
    key = ab.generate_key()
    results: dict[str, dict[str, Any]] = {}
    with workers() as start:
        address = start("hub", broker, key, "hub", None).hear()
        for place in PLACES:
            start(place, broker, key, place, address).hear()
        with ab.connect(address, key, name="operator") as fabric:
            for what in (*STATES, "0 MB, restarted"):
                stream = Stream(start, fabric, (address, key), what)
                results[what] = stream.play(options.rounds, out)
                for worker in (stream.supplier, stream.consumer):
                    worker.end()
    table = Table(title=f"gaps in ms, medians of {options.rounds}, {os.cpu_count()} cores")
    for heading in ("", "usual", "with a change", "added", "it took", "events missed"):
        table.add_column(heading, justify="right" if heading else "left")
    for what, figures in results.items():
        shown = (median(figures[each]) for each in ("usual", "changed", "added", "took"))
        table.add_row(
            what, *(f"{1000 * each:.1f}" for each in shown), f"{figures['missed a change']:,.0f}"
        )
    out.print(table)
    met = {what: median(each["added"]) <= ALLOWED for what, each in results.items()}
    for what in ("no state", "0 MB", "1 MB"):
        word = "met" if met[what] else "NOT met"
        out.print(f"{what}: a move adds at most {1000 * ALLOWED:.0f} ms: {word}")
    if options.json:
        options.json.write_text(json.dumps({"results": results, "met": met}, indent=2))


if __name__ == "__main__":
    main()

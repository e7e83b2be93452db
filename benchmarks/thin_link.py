"""A supplier behind a thin link, 1 to 16 consumers: how long its events take, without and with 3PD.

The supplier's host has a link of 5 Mbit/s each way, all others 100 Mbit/s; each process is on a
host (a network namespace) of its own. *Flat*: the supplier serves all consumers. *Offloaded*: it
hands all of them over to a broker before, and sends each event once.

Beyond a few consumers the flat case has no steady state: what waits grows as long as events come.
So a burst is measured: 200 events of 100 float64, published as fast as they are accepted, when
nothing else is under way. The delivery time is that from just before the first is published until
the last consumer has the last one, divided by 200: milliseconds an event. It is the median of
some rounds; each has a channel, subscriptions and hand-over of its own. What the links allow is
computed from the payload of TCP at their rates. Each consumer checks that it gets every event once
and in order.

    uv run --group bench python benchmarks/thin_link.py [--json PATH] [--plot PATH]
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from namespaces import goodput
from report import Line, draw, run, verdict
from rich.console import Console
from rich.table import Table
from scene import EVENT_BYTES, Flow, Scene, scene

CONSUMERS = (1, 2, 4, 6, 8, 10, 12, 14, 16)
THIN, WIDE = 5.0, 100.0  # Mbit/s
BROKER = "b1"
EVENTS = 200  # of a burst
ROWS = 16  # events that are published at once
BEFORE = 32  # events that flow while consumers are handed over
QUIET = 0.5  # seconds, and as long again for what the thin link has to carry
ROUNDS = {False: 3, True: 7}  # flat and offloaded; the latter are short


@dataclass(frozen=True)
class Point:
    """Milliseconds an event; `rounds` are those measured, `delivery` is their median."""

    consumers: int
    offloaded: bool
    rounds: list[float]

    @property
    def delivery(self) -> float:
        return median(self.rounds)

    @property
    def allowed(self) -> float:
        """Milliseconds in which the fullest link carries an event to all who get it."""
        thin = EVENT_BYTES / goodput(THIN)
        wide = EVENT_BYTES / goodput(WIDE)
        streams = self.consumers
        return 1e3 * (max(thin, streams * wide) if self.offloaded else streams * thin)


def measure_round(stage: Scene, consumers: int, offloaded: bool) -> float:
    """Milliseconds an event."""
    stage.open(consumers)
    stage.tell_supplier(Flow(BEFORE, ROWS))
    if offloaded:
        stage.spread(0, {BROKER: consumers})
    time.sleep(QUIET + BEFORE * EVENT_BYTES * consumers / goodput(THIN))
    start = stage.tell_supplier(Flow(EVENTS, ROWS))
    end = max(float(trace.times[-1]) for trace in stage.close())
    return (end - start) / EVENTS * 1e3


def measure() -> list[Point]:
    links = {"supplier": THIN, "other": WIDE}
    with scene(links, [BROKER], max(CONSUMERS)) as stage:
        return [
            Point(
                consumers,
                offloaded,
                [measure_round(stage, consumers, offloaded) for _ in range(ROUNDS[offloaded])],
            )
            for consumers in CONSUMERS
            for offloaded in (False, True)
        ]


# --- what was found -----------------------------------------------------------------------------


def show(found: list[Point]) -> dict[str, Any]:
    flat = [point for point in found if not point.offloaded]
    offloaded = [point for point in found if point.offloaded]
    table = Table(title=f"delivery time in ms an event; the supplier's link: {THIN:.0f} Mbit/s")
    for column in ("consumers", "flat", "links allow", "offloaded", "links allow", "flat / off."):
        table.add_column(column, justify="right")
    for one, other in zip(flat, offloaded, strict=True):
        table.add_row(
            str(one.consumers),
            f"{one.delivery:.2f}",
            f"{one.allowed:.2f}",
            f"{other.delivery:.2f}",
            f"{other.allowed:.2f}",
            f"{one.delivery / other.delivery:.1f}",
        )
    Console().print(table)
    most = max(CONSUMERS)
    growth = {name: each[-1].delivery / each[0].delivery for name, each in kinds(found).items()}
    met = verdict(f"offloaded, {most} consumers to 1", growth["offloaded"], 1.5, at_most=True)
    print(f"flat, {most} consumers to 1: {growth['flat']:.2f}")
    points = [
        {**asdict(point), "delivery": point.delivery, "allowed": point.allowed} for point in found
    ]
    return {"points": points, "met": {"offloaded": met}, "growth": growth}


def plot(found: list[Point], path: Path) -> None:
    lines = [
        Line(
            label=kind,
            xs=CONSUMERS,
            measured=[point.delivery for point in points],
            allowed=[point.allowed for point in points],
            colour=colour,
        )
        for (kind, points), colour in zip(
            kinds(found).items(), ("tab:red", "tab:blue"), strict=True
        )
    ]
    draw(path, lines, "consumers", "delivery time, ms an event")


def kinds(found: list[Point]) -> dict[str, list[Point]]:
    return {
        name: [point for point in found if point.offloaded == offloaded]
        for name, offloaded in (("flat", False), ("offloaded", True))
    }


if __name__ == "__main__":
    run(__doc__, "thin_link.svg", measure, show, plot)

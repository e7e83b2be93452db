"""One supplier, 1 to 16 consumers: how many events a second each gets, without and with brokers.

Every process is on a host of its own (a network namespace) whose link carries 100 Mbit/s each way.
Events have 100 float64 and are published as fast as they are accepted. *Flat*: the supplier serves
all consumers. *Two brokers*: with more than six consumers it hands most of them over to two brokers
while events flow, in the spread that loads the fullest uplink least. *Best*: to as many brokers as
make the fullest uplink carry the fewest streams. *Levels*, with 16 consumers only: through brokers
that feed brokers. An offload does not make those; there a channel that forwards everything is
derived at each broker, and consumers subscribe to it.

A rate is the events that a consumer gets in a span of seconds, once the hand-over and what waited
in the links before it are through: that of the slowest consumer, and the mean of all. What the
links allow is computed: the payload of TCP over 100 Mbit/s, by the bytes of an event and the
streams on the fullest uplink. Each consumer checks that it gets every event once and in order,
across the hand-over and to the end.

    uv run --group bench python benchmarks/fan_out.py [--json PATH] [--plot PATH]
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from namespaces import goodput
from report import Line, draw, run, verdict
from rich.console import Console
from rich.table import Table
from scene import EVENT_BYTES, Flow, Scene, scene, settling
from spread import Levels, Spread, best_spread, levels, spread

CONSUMERS = (1, 2, 4, 6, 8, 10, 12, 14, 16)
MBIT = 100.0
ALONE = 6  # consumers that the supplier serves without the two brokers
MOST_BROKERS = 6  # in one level
BROKERS_IN_LEVELS = 7
SPAN = 4.0  # seconds
STEADY = 1.5  # seconds until TCP has found its rates


@dataclass(frozen=True)
class Point:
    """`slowest` and `mean` are events a second; `offload`: seconds that it took."""

    consumers: int
    spread: Spread | Levels
    slowest: float
    mean: float
    offload: float

    @property
    def allowed(self) -> float:
        """Events a second for each consumer if the fullest uplink is full."""
        return goodput(MBIT) / EVENT_BYTES / self.spread.streams


def measure_point(stage: Scene, consumers: int, spread: Spread | Levels) -> Point:
    offload, wait = 0.0, STEADY
    if isinstance(spread, Levels):
        names = [None, *map(broker_name, range(len(spread.feeders)))]
        feeders = {broker_name(n): names[feeder] for n, feeder in enumerate(spread.feeders)}
        stage.open_levels(feeders, dict(zip(names, spread.served, strict=True)))
        stage.tell_supplier(Flow())
    else:
        stage.open(consumers)
        stage.tell_supplier(Flow())
        if spread.relayed:
            relayed = {broker_name(n): count for n, count in enumerate(spread.relayed)}
            offload = stage.spread(spread.direct, relayed)
    if spread.streams < consumers:
        # What was on its way to all consumers, then what fills the new streams.
        wait += settling(consumers + spread.streams, goodput(MBIT))
    time.sleep(wait)
    start = time.monotonic()
    time.sleep(SPAN)
    rates = [(trace.at(start + SPAN) - trace.at(start)) / SPAN for trace in stage.close()]
    return Point(consumers, spread, min(rates), sum(rates) / len(rates), offload)


def measure() -> dict[str, list[Point]]:
    """The points of each kind, by ascending number of consumers."""
    names = [broker_name(number) for number in range(BROKERS_IN_LEVELS)]
    most = max(CONSUMERS)
    found: dict[str, list[Point]] = {"flat": [], "two": [], "best": [], "levels": []}
    with scene({"supplier": MBIT, "other": MBIT}, names, most) as stage:
        for consumers in CONSUMERS:
            measured: dict[Spread, Point] = {}
            for kind, wanted in (
                ("flat", spread(consumers, 0)),
                ("two", spread(consumers, 2 if consumers > ALONE else 0)),
                ("best", best_spread(consumers, MOST_BROKERS)),
            ):
                if wanted not in measured:
                    measured[wanted] = measure_point(stage, consumers, wanted)
                found[kind].append(measured[wanted])
        found["levels"].append(measure_point(stage, most, levels(most, BROKERS_IN_LEVELS)))
    return found


def broker_name(index: int) -> str:
    return f"b{index + 1}"


# --- what was found -----------------------------------------------------------------------------


def show(found: dict[str, list[Point]]) -> dict[str, Any]:
    console = Console(width=110)
    flat = {point.consumers: point for point in found["flat"]}
    table = Table(title=f"events/s of a consumer: slowest (mean); links of {MBIT:.0f} Mbit/s")
    for column in ("consumers", "brokers", "streams", "slowest", "mean", "links allow", "reached"):
        table.add_column(column, justify="right")
    for column in ("ratio to flat", "links allow", "offload"):
        table.add_column(column, justify="right")
    every = dict.fromkeys(point for points in found.values() for point in points)
    for consumers in CONSUMERS:
        for point in (point for point in every if point.consumers == consumers):
            handed = f"{point.offload:.1f} s" if point.offload else ""
            table.add_row(
                str(consumers),
                spelled(point.spread),
                str(point.spread.streams),
                f"{point.slowest:,.0f}",
                f"{point.mean:,.0f}",
                f"{point.allowed:,.0f}",
                f"{point.slowest / point.allowed:.0%} ({point.mean / point.allowed:.0%})",
                f"{point.slowest / flat[consumers].slowest:.2f} "
                f"({point.mean / flat[consumers].mean:.2f})",
                f"{point.allowed / flat[consumers].allowed:.2f}",
                handed,
            )
        table.add_section()
    console.print(table)
    points = {
        kind: [{**asdict(point), "allowed": point.allowed} for point in points]
        for kind, points in found.items()
    }
    return {"points": points, "met": judge(found)}


def plot(found: dict[str, list[Point]], path: Path) -> None:
    styles = {
        "flat": ("the supplier alone", "tab:red"),
        "two": ("two brokers", "tab:blue"),
        "best": ("best spread", "tab:green"),
        "levels": ("two levels", "tab:purple"),
    }
    lines = [
        Line(
            label=styles[kind][0],
            xs=[point.consumers for point in points],
            measured=[point.slowest for point in points],
            allowed=[point.allowed for point in points],
            colour=styles[kind][1],
        )
        for kind, points in found.items()
    ]
    draw(path, lines, "consumers", "events/s of the slowest consumer", logarithmic=True)


def judge(found: dict[str, list[Point]]) -> dict[str, bool]:
    """Print the ratios that are asked for; which of them are met."""
    met = {}
    flat = {point.consumers: point for point in found["flat"]}
    for kind, consumers, target in (("two", 12, 0.9 * 2.4), ("best", 16, 4.0), ("levels", 16, 4.0)):
        (point,) = (point for point in found[kind] if point.consumers == consumers)
        for who in ("slowest", "mean"):
            what = f"{consumers} consumers, {spelled(point.spread)}, {who} to flat"
            ratio = getattr(point, who) / getattr(flat[consumers], who)
            met[what] = verdict(what, ratio, target)
    return met


def spelled(spread: Spread | Levels) -> str:
    """The number of brokers, then the consumers of the supplier and of each: `2: 2 + 5 + 5`."""
    if isinstance(spread, Levels):
        return f"{len(spread.feeders)} in levels"
    if not spread.relayed:
        return "none"
    return f"{len(spread.relayed)}: " + " + ".join(map(str, (spread.direct, *spread.relayed)))


if __name__ == "__main__":
    run(__doc__, "fan_out.svg", measure, show, plot)

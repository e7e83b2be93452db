"""How long a stream pauses when the broker of its filter dies, on a Ray cluster of three nodes.

20,000 events a second go from a supplier's process through a filter at dallas to a consumer's
process. Dallas is killed (SIGKILL), after the filter has moved there; Ray starts it again, and it
joins the fabric. The filter goes on from its last checkpoint elsewhere. The time to recover is the
largest gap between events at the consumer; that nothing is lost, comes twice or out of order is
checked for every event. Each death is another filter's first: one that has seen several within a
minute is made to wait.

    uv run python benchmarks/recovery.py [--rounds N] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from pathlib import Path
from statistics import median
from typing import Any

from processes import Worker, workers
from rich.console import Console
from rich.progress import track
from rich.table import Table
from steady import Counting, Passing, Reading, Span, consume, supply

from ray_deploy import RayFabric
from ray_deploy.local_cluster import local_cluster

FILTERS: dict[str, Any] = {"stateless": Passing, "stateful": (Counting, 0)}
BROKERS = ("hub", "atlanta", "dallas")
VICTIM = "dallas"
WARM = 2.0  # seconds of the stream before the broker dies
PATIENCE = 60.0  # seconds


def pid_of(fabric: RayFabric, broker: str) -> int:
    import ray

    look = fabric._ray._actors[broker].__ray_call__.remote(lambda actor: os.getpid())
    return int(ray.get(look, timeout=PATIENCE))


def wait_until_back(fabric: RayFabric, broker: str) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if broker in [member["name"] for member in fabric.status()["members"]]:
            return
        time.sleep(0.05)
    raise SystemExit(f"{broker} has not come back within {PATIENCE:g} s")


def time_to_recover(fabric: RayFabric, consumer: Worker) -> float:
    """In seconds."""
    killed = time.monotonic()
    os.kill(pid_of(fabric, VICTIM), signal.SIGKILL)
    deadline = killed + PATIENCE
    while time.monotonic() < deadline:
        time.sleep(0.5)
        now = time.monotonic()
        consumer.tell((now - 0.4, now))
        latest: Span = consumer.hear()
        if now > killed + 1.0 and latest.events:
            break
    consumer.tell((killed, time.monotonic()))
    span: Span = consumer.hear()
    return span.largest_gap


def play(start: Any, fabric: RayFabric, what: str, number: int) -> tuple[float, int]:
    """One death: the seconds to recover, and how many events there were."""
    readings = fabric.channel(f"readings, {what} {number}", Reading)
    counted = readings.derive(FILTERS[what], at="atlanta", name=f"counted, {what} {number}")
    where = fabric.address, fabric.key
    consumer = start(f"consumer, {what}", consume, *where, counted.name, False)
    supplier = start(f"supplier, {what}", supply, *where, readings.name)
    for worker in (consumer, supplier):
        worker.hear()
    supplier.tell("go")
    wait_until_back(fabric, VICTIM)
    counted.move(to=VICTIM)
    time.sleep(WARM)
    seconds = time_to_recover(fabric, consumer)
    supplier.tell("end")
    published = supplier.hear()
    readings.close()
    consumer.tell(None)
    broken, came, missed = consumer.hear()
    if broken or missed or came != published:
        raise SystemExit(f"{what}: {published} published, {came} came; {broken[:3]}")
    for worker in (supplier, consumer):
        worker.end()
    return seconds, published


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="deaths of each kind (10)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    out = Console()
    with local_cluster(BROKERS) as fabric, workers() as start:
        results = {
            what: [
                play(start, fabric, what, number)
                for number in track(range(options.rounds), what, console=out, transient=True)
            ]
            for what in FILTERS
        }
    table = Table(title=f"seconds to recover, {options.rounds} deaths each, {os.cpu_count()} cores")
    for heading in ("filter", "least", "median", "most", "events", "lost or twice"):
        table.add_column(heading, justify="left" if heading == "filter" else "right")
    for what, deaths in results.items():
        seconds, events = zip(*deaths, strict=True)
        shown = (f"{figure:.2f}" for figure in (min(seconds), median(seconds), max(seconds)))
        table.add_row(what, *shown, f"{sum(events):,}", "0")
    out.print(table)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()

"""This version beside another one of the project, on the way from process to process.

Each version has a broker, a supplier and a consumer of its own, and runs what `loopback.py` does:
batches, events one by one, a steady thousand a second. Both run in turns, so that what else the
machine does hits both. Beside the rates, or the latency, is the CPU time of supplier and consumer:
it does not tell of time spent waiting, but is steadier. The other version is a checkout with an
environment of its own (`uv sync`).

    uv run python benchmarks/versions.py OTHER_CHECKOUT [--rounds N] [--only WORD] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
from loopback import BATCH_SIZES, BATCHED_EVENTS, PACED_EVENTS, Task, consume, run, supply
from processes import broker, workers
from rich.console import Console
from rich.table import Table

import activebroker as ab

HERE = Path(__file__).parent.parent
TASKS = {
    **{f"batches of {rows:,}": Task("batches", BATCHED_EVENTS, rows) for rows in BATCH_SIZES},
    "one by one": Task("singly", 200_000),
    "paced": Task("paced", PACED_EVENTS),
}


def serve() -> None:
    """One version: does the tasks that it is told on its input."""
    key = ab.generate_key()
    with workers() as start:
        address = start("the broker", broker, key).hear()
        sink = start("the consumer", consume, address, key)
        sink.hear()
        source = start("the supplier", supply, address, key)
        source.hear()
        processes = [psutil.Process(each.pid) for each in (source, sink)]
        print("ready", flush=True)
        for name in map(str.strip, sys.stdin):
            before = cpu_seconds(processes)
            rate, latencies = run(TASKS[name], source, sink)
            used = cpu_seconds(processes) - before
            p50 = float(np.median(latencies)) / 1000 if latencies else None
            print(json.dumps({"rate": rate, "p50": p50, "cpu": used}), flush=True)


def cpu_seconds(processes: list[psutil.Process]) -> float:
    times = [each.cpu_times() for each in processes]
    return sum(each.user + each.system for each in times)


class Version:
    """A checkout, in a process that serves."""

    def __init__(self, checkout: Path, stack: ExitStack) -> None:
        command = [str(checkout / ".venv/bin/python"), __file__, "--serve"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=checkout
        )
        self._process = stack.enter_context(process)
        self.results: list[dict[str, Any]] = []
        self._hear()

    def do(self, task: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(task, file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._hear())
        return answer

    def _hear(self) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise SystemExit("a version failed: its traceback is above")
        return line


def measure(other: Path, rounds: int, only: str) -> dict[str, Any]:
    """By task, the figures of all rounds of the other version, and of this one."""
    figures: dict[str, Any] = {}
    with ExitStack() as stack:
        versions = {"other": Version(other, stack), "this": Version(HERE, stack)}
        for name in (each for each in TASKS if only in each):
            found: dict[str, list[Any]] = {who: [] for who in versions}
            for turn in range(rounds + 1):
                # Who is first changes: the second finds the machine as the first has left it.
                for who in sorted(versions, reverse=bool(turn % 2)):
                    found[who].append(versions[who].do(name))
            figures[name] = {who: each[1:] for who, each in found.items()}
    return figures


def rows_of(name: str, figure: dict[str, Any]) -> list[tuple[str, ...]]:
    """The medians of one task, and the median of the ratios of each round."""
    events = TASKS[name].events
    what = ("p50", "latency, µs", 1.0) if name == "paced" else ("rate", "million events/s", 1e-6)
    cpu = ("cpu", "CPU, µs/batch" if "batches" in name else "CPU, µs/event", 0.0)
    rows = []
    for key, unit, factor in (what, cpu):
        factor = factor or 1e6 / TASKS[name].messages
        other, this = ([each[key] * factor for each in figure[who]] for who in ("other", "this"))
        ratio = median(b / a for a, b in zip(other, this, strict=True))
        shown = f"{median(other):,.4g}", f"{median(this):,.4g}", f"{ratio:.3f}"
        rows.append((name, f"{events:,}", unit, *shown))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, nargs="?", help="the checkout of the other version")
    parser.add_argument("--rounds", type=int, default=9, help="measured rounds of each task")
    parser.add_argument("--only", default="", help="a word of the tasks to run")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    if options.other is None:
        parser.error("which other version?")
    figures = measure(options.other.resolve(), options.rounds, options.only)
    table = Table(title=f"medians of {options.rounds} rounds")
    for column in ("", "events a round", "", "other", "this", "ratio"):
        table.add_column(column, justify="right" if column else "left")
    for name, figure in figures.items():
        for row in rows_of(name, figure):
            table.add_row(*row)
    Console(width=110).print(table)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()

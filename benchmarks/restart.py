"""A device that died, or does not answer, and starts anew under its name: when is it back?

The device publishes to a supplier of its own, and is killed (SIGKILL) or frozen (SIGSTOP). At once
a new process starts, with the same name of the node, or only with the same name of the supplier.
Seconds from there until a consumer elsewhere has its first event, beside those of the interpreter
and `import activebroker`, and of `connect` to the first event. `--python` is the device's: one in
which `pip install activebroker` was all. Where pandas is installed, pyarrow imports it as well.

    uv run python benchmarks/restart.py [--rounds N] [--python PATH] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from processes import broker, workers
from rich.console import Console
from rich.table import Table

import activebroker as ab

TARGET = 1.0  # seconds
DEVICE = """
import os, sys, time
begin = time.time()
import activebroker as ab
imported = time.time()
address, name = sys.argv[1:]
with ab.connect(address, name=name or None, reconnect=False) as fabric:
    supplier = fabric.channel("readings", object).supplier("sensor")
    print(imported - begin, imported, flush=True)
    while True:
        supplier.publish(os.getpid())
        time.sleep(0.01)
"""


class Device:
    def __init__(self, python: str, address: str, key: str, name: str) -> None:
        self.begin = time.time()
        command = [python, "-c", DEVICE, address, name]
        env = os.environ | {"ACTIVEBROKER_KEY": key}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)

    def imported(self) -> tuple[float, float]:
        """How long the import took, and when it was done."""
        assert self.process.stdout is not None
        took, at = map(float, self.process.stdout.readline().split())
        return took, at

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def restart(python: str, address: str, key: str, how: str, name: str) -> dict[str, float]:
    with ab.connect(address, key) as fabric:
        readings = fabric.channel("readings", object)
        with readings.subscribe(timeout=60) as events:
            first = Device(python, address, key, name)
            next(iter(events))
            os.kill(first.process.pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
            second = Device(python, address, key, name)
            next(each for each in events if each.content == second.process.pid)
            there = time.time()
            took, at = second.imported()
            second.end()
            first.end()
    return {"from start": there - second.begin, "import": took, "from connect": there - at}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default=sys.executable, help="the device's interpreter")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    key = ab.generate_key()
    figures: dict[str, Any] = {}
    table = Table(title="A device restarts: seconds, median (slowest)")
    for column in ("", "from start", "import", "from connect", "target", ""):
        table.add_column(column, justify="left" if not column else "right")
    with workers() as start:
        address = start("broker", broker, key).hear()
        for how in ("killed", "frozen"):
            for name in ("sensor", ""):
                rounds = [
                    restart(options.python, address, key, how, name) for _ in range(options.rounds)
                ]
                case = f"{how}, the {'node' if name else 'supplier'}'s name"
                seconds = {part: [each[part] for each in rounds] for part in rounds[0]}
                figures[case] = seconds
                shown = [f"{median(each):.2f} ({max(each):.2f})" for each in seconds.values()]
                met = max(seconds["from start"]) <= TARGET
                table.add_row(case, *shown, f"≤ {TARGET:g} s", "met" if met else "missed")
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()

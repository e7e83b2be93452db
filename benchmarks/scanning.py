"""How long `activebroker explain` takes for a source tree of a thousand filters.

The tree holds ten copies of the test corpus, each in its own package, so that every file is read,
compiled and analysed for itself. The command runs in a process of its own, its start included.

    uv run --group bench python benchmarks/scanning.py [--json PATH] [--plot PATH]
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from report import run, verdict
from tables import Figures, write

CORPUS = Path(__file__).parent.parent / "tests" / "corpus"
COPIES = 10
RUNS = 5
TARGET = 5.0  # seconds for 1,000 filters


@dataclass(frozen=True)
class Scanned:
    """One run of the command over a tree. Times in seconds, of this machine."""

    filters: int
    elapsed: float
    cpu: float

    @property
    def per_thousand(self) -> float:
        return self.elapsed / self.filters * 1000


def measure() -> list[Scanned]:
    with tempfile.TemporaryDirectory() as folder:
        for copy in range(COPIES):
            package = Path(folder, f"team{copy}", CORPUS.name)
            shutil.copytree(CORPUS, package, ignore=shutil.ignore_patterns("__pycache__"))
        return [explain(folder) for _ in range(RUNS)]


def explain(folder: str) -> Scanned:
    command = [str(Path(sys.executable).with_name("activebroker")), "explain", folder, "--json"]
    before, start = _cpu_of_children(), perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    elapsed = perf_counter() - start
    return Scanned(len(json.loads(done.stdout)), elapsed, _cpu_of_children() - before)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def show(found: list[Scanned]) -> dict[str, Any]:
    table(found).show()
    verdict("seconds for 1,000 filters", _median(found), TARGET, at_most=True)
    return {"runs": [asdict(each) for each in found], "seconds for 1,000": _median(found)}


def _median(found: list[Scanned]) -> float:
    return median(each.per_thousand for each in found)


def table(found: list[Scanned]) -> Figures:
    rows = [
        (str(each.filters), f"{each.elapsed:.2f}", f"{each.cpu:.2f}", f"{each.per_thousand:.2f}")
        for each in found
    ]
    columns = ("filters", "elapsed s", "CPU s", "elapsed s for 1,000")
    return Figures(f"explaining a tree; median for 1,000: {_median(found):.2f} s", columns, rows)


def plot(found: list[Scanned], path: Path) -> None:
    write([table(found)], path)


if __name__ == "__main__":
    run(__doc__, "scanning.md", measure, show, plot)

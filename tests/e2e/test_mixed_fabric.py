"""A fabric of processes with different Pythons and packages; only with `--rounds N`.

uv run pytest tests/e2e/test_mixed_fabric.py -n 0 -s --rounds 1
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes_for_tests import Program, Programs

import activebroker as ab

ROOT = Path(__file__).parents[2]
UV = os.environ.get("UV") or shutil.which("uv")
PYENV = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
VERSIONS = ["3.11", "3.12", "3.13"]
MADE = {"exact": ["2.0", "3.0"], "counted": ["1/1.0", "2/2.0", "3/3.0"], "packed": ["2.0", "3.0"]}

pytestmark = [
    pytest.mark.table,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(UV is None, reason="no uv on PATH"),
]

PROGRAM = """
try:
    import six
except ImportError:
    six = None
from helpers_beside import limit

class Exact(ab.FIFOFilter):
    def enqueue(self, event):
        if event.content.price > 1:
            super().enqueue(event)

class Counting(ab.FIFOFilter):
    def __init__(self):
        self.count = 0

    def enqueue(self, event):
        self.count += 1
        super().enqueue(event.replace(Trade(f"{self.count}/{event.content.price}", 1.0)))

class Packed(ab.FIFOFilter):
    def enqueue(self, event):
        if event.content.price > limit(1) and six.PY3:
            super().enqueue(event)

FILTERS = {"exact": Exact, "counted": Counting, "packed": Packed}

def shown(kind, event):
    return event.content.name if kind == "counted" else str(event.content.price)

name, address = sys.argv[1:]
with ab.connect(address, name=name) as fabric:
    suppliers, taken = {}, {}
    for line in sys.stdin:
        do, channel, *more = json.loads(line)
        quotes = fabric.channel(channel, Trade)
        if do == "supply":
            suppliers[channel] = quotes.supplier(f"{name} on {channel}")
        elif do == "publish":
            for price in (1.0, 2.0, 3.0):
                suppliers[channel].publish(Trade("IBM", price))
            suppliers[channel].flush()
        elif do == "derive":
            derived = [quotes.derive(FILTERS[kind], name=f"{channel} {kind}") for kind in more]
            taken[channel] = [each.subscribe(timeout=30) for each in derived]
        elif do == "take":
            counts, = more
            came = {}
            for kind, events in zip(counts, taken.pop(channel)):
                streams = came[kind] = {}
                for _, event in zip(range(counts[kind]), events):
                    streams.setdefault(event.supplier, []).append(shown(kind, event))
            status = {each["name"]: each for each in fabric.status()["channels"]}
            at = {kind: status[f"{channel} {kind}"]["at"] for kind in counts}
            say(json.dumps([came, at]))
            quotes.close()
            continue
        say("done")
"""
HELPERS = """
import functools

@functools.lru_cache
def limit(number):
    return number
"""


def interpreter(version: str, folder: Path) -> str:
    """A core-only environment of this Python, with this checkout."""
    assert UV is not None
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        known = [sys.executable]
    else:
        known = [version, *map(str, sorted(PYENV.glob(f"{version}.*/bin/python")))]
    for each in known:
        made = subprocess.run([UV, "venv", "-q", "--python", each, folder], capture_output=True)
        if made.returncode == 0:
            break
    else:
        pytest.skip(f"uv makes no Python {version} here")
    python = str(folder / "bin" / "python")
    subprocess.run([UV, "pip", "install", "-q", "--python", python, "-e", ROOT], check=True)
    return python


class Member:
    def __init__(self, name: str, program: Program) -> None:
        self.name, self._program = name, program

    def ask(self, *what: Any) -> Any:
        self._program.tell(json.dumps(what))
        answer = self._program.line()
        assert answer, (self.name, what, self._program.finish())
        return None if answer == "done" else json.loads(answer)


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Member]]:
    """One of each Python, core only; and one of each over which `six` is laid."""
    folder = tmp_path_factory.mktemp("mixed")
    pythons = {each: interpreter(each, folder / each) for each in VERSIONS}
    (folder / "run").mkdir()
    (folder / "run" / "helpers_beside.py").write_text(HELPERS)
    with Programs(folder / "run", ab.generate_key()) as programs:
        _, address = programs.broker("hub")
        found: dict[str, Member] = {}
        for version, python in pythons.items():
            plain = programs.run(PROGRAM, f"core {version}", address, command=[python])
            assert UV is not None
            overlay = [UV, "run", "-q", "--no-project", "--python", python, "--with", "six"]
            overlay += ["--with-editable", str(ROOT), "python"]
            laid = programs.run(PROGRAM, f"six {version}", address, command=overlay)
            found[version] = Member(f"core {version}", plain)
            found[f"six {version}"] = Member(f"six {version}", laid)
        yield found


@pytest.mark.parametrize("analyst", [f"six {version}" for version in VERSIONS])
def test_every_order_of_joining_and_deriving_works(
    analyst: str, members: dict[str, Member], request: pytest.FixtureRequest
) -> None:
    suppliers = [*VERSIONS, "six 3.12"]
    orders = list(itertools.permutations([*suppliers, "derive"]))
    for round, order in itertools.product(range(request.config.getoption("rounds")), orders):
        channel = f"{analyst} {round} {' '.join(order)}"
        for step in order:
            if step == "derive":
                members[analyst].ask("derive", channel, *MADE)
            else:
                members[step].ask("supply", channel)
        for each in suppliers:
            members[each].ask("publish", channel)
        counts = {kind: len(made) * len(suppliers) for kind, made in MADE.items()}
        came, at = members[analyst].ask("take", channel, counts)
        for kind, made in MADE.items():
            expected = {f"{members[each].name} on {channel}": made for each in suppliers}
            assert came[kind] == expected, (order, kind)
        assert at == {"exact": "supplier", "counted": "consumer", "packed": "consumer"}, order

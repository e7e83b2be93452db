"""What the README says under Install, done as it says, in fresh environments."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
INSTALL = README.partition("## Install")[2].partition("\n## ")[0]
LINES = [line.partition("#")[0].strip() for line in re.findall(r"^    (.+)", INSTALL, re.MULTILINE)]
BUILD = [line for line in LINES if "pip install" not in line]
PIP = [line for line in LINES if "pip install" in line]
EXAMPLE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
UV = os.environ.get("UV") or shutil.which("uv")
UV_AND_THE_REST = [str(Path(UV or "").parent), os.environ["PATH"]]
pytestmark = pytest.mark.skipif(UV is None, reason="no uv on PATH")

# What an extra brings, tried by something that uses it.
USES = {
    "ray": "from ray_deploy import RayFabric; import ray_deploy.host",
    "spark": "from activebroker.spark.session import require; require()",
    "demo": "from activebroker.cli.demo import flights, show; flights.data_file()",
    "simulation": "from activebroker.cli import app; app('simulate 3pd --seed 1'.split())",
    "sql": "from predicate_extract.backends.sql import to_sql",
}


FILTER = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Event:
    a: int

def rule(event):
    return event.a > 1
"""

CORE = """
import importlib, sys
import activebroker, activebroker.cli, derivation, predicate_extract, ray_deploy
from activebroker.core.errors import ActiveBrokerError

COMMANDS = [
    "--help",
    "demo",
    "simulate 3pd --seed 1",
    "explain filters/mine.py:rule --sql --type filters/mine.py:Event",
]

for package in (activebroker, derivation, predicate_extract, ray_deploy):
    assert next(iter(package.__path__)).startswith(sys.prefix)
    assert importlib.resources.files(package).joinpath("py.typed").is_file()
absent = {"ray", "pyspark", "pandas", "simpy", "sqlglot", "psutil"} | {"asyncio"}  # a slow one
assert not absent & set(sys.modules)
assert activebroker.__version__ == importlib.metadata.version("activebroker")
with activebroker.Fabric() as fabric:
    quotes = fabric.channel("quotes", Quote)
    on_spark = lambda: quotes.derive(lambda quote: True, at="spark")
    for attempt in (ray_deploy.RayFabric, on_spark):
        try:
            attempt()
        except ActiveBrokerError as error:
            print(error)
for command in COMMANDS:
    try:
        activebroker.cli.app(command.split())
    except SystemExit as end:
        print("ended with", end.code)
"""


class Environment:
    """A new environment, and a folder to work in that is not the checkout."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        assert UV is not None
        self._folder = folder
        self._environment = os.environ | {
            "PATH": os.pathsep.join([str(folder / "env" / "bin"), *UV_AND_THE_REST]),
            "VIRTUAL_ENV": str(folder / "env"),
            "WHEEL": str(wheel),
        }
        self._environment.pop("UV_PYTHON", None)  # else uv installs there, and not here
        self.run(f"uv venv --quiet --python {sys.executable} env")

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["sh", "-ec", command],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}"
        return done.stdout

    def python(self, code: str) -> str:
        script = self._folder / "script.py"
        script.write_text(code)
        return self.run(f"python {script}")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Built as the README says, but for where it goes."""
    assert UV is not None
    dist = tmp_path_factory.mktemp("dist")
    assert BUILD[0] == "uv build --wheel"
    command = [UV, "build", "--wheel", "--quiet", "--out-dir", str(dist)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=100)
    (built,) = dist.glob("activebroker-*.whl")
    yield built


def test_the_core_alone(wheel: Path, tmp_path: Path) -> None:
    fresh = Environment(tmp_path, wheel)
    fresh.run(PIP[0])
    (tmp_path / "filters").mkdir()
    (tmp_path / "filters" / "mine.py").write_text(FILTER)
    listed = fresh.run("activebroker explain filters")
    assert "a > 1" in listed
    said = fresh.python(EXAMPLE + CORE)
    assert "name = 'IBM' OR price > 100 [Quote(name='IBM', price=82.5)" in said
    for extra in USES:
        assert f"uv pip install 'PATH[{extra}]'" in said
    assert said.count("ended with 2") == 3 and said.count("ended with 0") == 1


def test_the_licence_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        (name,) = [name for name in packed.namelist() if name.endswith("licenses/LICENSE")]
        assert packed.read(name) == (ROOT / "LICENSE").read_bytes()


@pytest.mark.table
@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", PIP[1:])
def test_an_extra(wheel: Path, tmp_path: Path, command: str) -> None:
    extra = command.split("[")[1].partition("]")[0]
    fresh = Environment(tmp_path, wheel)
    fresh.run(command)
    for name in USES if extra == "all" else [extra]:
        fresh.python(USES[name])
    assert "activebroker 0." in fresh.run("activebroker --version")


@pytest.mark.table
@pytest.mark.timeout(300)
def test_a_project_of_uvs(wheel: Path, tmp_path: Path) -> None:
    (command,) = re.findall(r"`(uv add .*?)`", INSTALL)
    fresh = Environment(tmp_path, wheel)
    fresh.run(f"uv init --bare --quiet; {command}; uv run python -c 'import ray_deploy.host'")


def test_every_extra_is_in_the_readme() -> None:
    listed = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2]
    extras = re.findall(r"^(\w+) = \[", listed.partition("\n[")[0], re.MULTILINE)
    assert {f'uv pip install "$WHEEL[{extra}]"' for extra in extras} == set(PIP[1:])
    assert {*extras} == {*USES, "all"}

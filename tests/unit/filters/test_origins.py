"""Which modules are the user's own, wherever packages are installed."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import numpy as np
import pytest

from activebroker.events import Event
from activebroker.filters import Envelope, unpack
from activebroker.filters.origins import is_users_own

ROOT = Path(__file__).parents[3]
RECORD = "{0}.py,sha256=x,1\n{0}-1.0.dist-info/RECORD,,\n"


@pytest.fixture
def made() -> Iterator[list[str]]:
    """Names of modules to be forgotten afterwards."""
    names: list[str] = []
    yield names
    for name in names:
        sys.modules.pop(name, None)


def imported(name: str, root: Path, made: list[str], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(root))
    made += [name, name.partition(".")[0]]
    return importlib.import_module(name)


def install(root: Path, name: str) -> None:
    """What `pip install --target` leaves."""
    (root / f"{name}-1.0.dist-info").mkdir(parents=True)
    (root / f"{name}-1.0.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    (root / f"{name}-1.0.dist-info" / "RECORD").write_text(RECORD.format(name))
    (root / f"{name}.py").write_text("")


@pytest.mark.parametrize(
    "where", ["venv/lib/python3/site-packages", "usr/lib/dist-packages", "any"]
)
def test_what_a_distribution_brought_is_installed(
    where: str, tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / where, "brought_along")
    assert not is_users_own(imported("brought_along", tmp_path / where, made, monkeypatch))


def test_a_link_to_what_a_distribution_brought_is_installed(
    tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As `uv pip install --link-mode symlink` does: the files lie in its cache.
    install(tmp_path / "cache", "linked_along")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "linked_along.py").symlink_to(tmp_path / "cache" / "linked_along.py")
    assert not is_users_own(imported("linked_along", tmp_path / "site", made, monkeypatch))


def test_a_script_s_modules_are_its_own_beside_installed_ones(
    tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "bundled")
    (tmp_path / "own_helpers.py").write_text("")
    assert not is_users_own(imported("bundled", tmp_path, made, monkeypatch))
    assert is_users_own(imported("own_helpers", tmp_path, made, monkeypatch))


def test_a_project_that_is_installed_editable_is_the_user_s_own(
    tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Setuptools leaves metadata in the source tree, too: a list of sources, but no RECORD.
    (tmp_path / "own_project.egg-info").mkdir()
    (tmp_path / "own_project.egg-info" / "PKG-INFO").write_text("Name: own_project\nVersion: 1\n")
    (tmp_path / "own_project.egg-info" / "SOURCES.txt").write_text("own_project/__init__.py\n")
    (tmp_path / "own_project").mkdir()
    (tmp_path / "own_project" / "__init__.py").write_text("")
    assert is_users_own(imported("own_project", tmp_path, made, monkeypatch))


def test_packages_without_a_file_are_where_their_directories_are(
    tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_space").mkdir()
    (tmp_path / "site-packages" / "their_space").mkdir(parents=True)
    assert is_users_own(imported("own_space", tmp_path, made, monkeypatch))
    theirs = imported("their_space", tmp_path / "site-packages", made, monkeypatch)
    assert not is_users_own(theirs)


@pytest.mark.parametrize("name", ["sys", "json", "zoneinfo", "pytest", "numpy", "activebroker"])
def test_what_everybody_has_is_nobody_s_own(name: str) -> None:
    assert not is_users_own(importlib.import_module(name))


@pytest.mark.parametrize("file", [None, "made_up.py", 7])
def test_a_module_that_only_says_where_it_is_from_is_nobody_s_own(file: object) -> None:
    module = ModuleType("made_up")
    module.__file__ = file  # type: ignore[assignment]
    assert not is_users_own(module)


# --- environments -----------------------------------------------------------------------------

HELPERS = """\
import functools
import numpy as np

@functools.singledispatch
def size(value):
    return 0

@size.register
def _(value: int):
    return int(np.abs(value))

@functools.lru_cache
def limit(factor):
    return 2 * factor
"""
SCRIPT = """\
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
import msgspec
import numpy
from helpers_beside import limit, size
from activebroker import FIFOFilter
from activebroker.events import EventType
from activebroker.filters import FilterSpec, analyse, pack

@dataclass(frozen=True)
class Reading:
    value: int

class Large(FIFOFilter):
    @cached_property
    def limit(self):
        return numpy.int64(limit(1))

    def enqueue(self, event):
        if size(event.content.value) > self.limit:
            super().enqueue(event)

type_ = EventType.of(Reading)
spec = FilterSpec.of(Large)
envelope = pack(spec, type_, analyse(spec, type_), key=b"k")
Path(sys.argv[1]).write_bytes(msgspec.msgpack.encode(envelope))
"""


def environment(kind: str, tmp_path: Path) -> tuple[dict[str, str], list[str]]:
    """An interpreter's variables and arguments, such that our packages are not in its own
    site-packages."""
    packages = sysconfig.get_path("purelib")
    paths = f"{packages}\n{ROOT}\n"
    if kind == "PYTHONPATH":
        return {"PYTHONPATH": os.pathsep.join(paths.split())}, []
    if kind == "user":
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        site = tmp_path / "lib" / version / "site-packages"
        site.mkdir(parents=True)
        (site / "own.pth").write_text(paths)
        return {"PYTHONUSERBASE": str(tmp_path)}, []
    # As `uv run --with` does.
    site = tmp_path / "overlay" / "lib" / "site-packages"
    site.mkdir(parents=True)
    (site / "_overlay.pth").write_text(f"import site; site.addsitedir({packages!r})\n{ROOT}\n")
    start = (
        f"import site, sys; site.addsitedir({str(site)!r}); sys.argv = sys.argv[1:];"
        "sys.path.insert(0, sys.argv[0].rpartition('/')[0]);"
        "import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    return {}, ["-c", start]


@pytest.mark.parametrize("kind", ["PYTHONPATH", "user", "overlay"])
def test_a_filter_travels_from_any_environment(kind: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "helpers_beside.py").write_text(HELPERS)
    variables, arguments = environment(kind, tmp_path)
    command = [sys._base_executable, *arguments, str(tmp_path / "script.py")]  # type: ignore[attr-defined]
    subprocess.run(
        [*command, str(tmp_path / "payload")],
        check=True,
        timeout=60,
        env={**os.environ, **variables},
    )
    envelope = msgspec.msgpack.decode((tmp_path / "payload").read_bytes(), type=Envelope)
    assert len(envelope.body) < 8000
    payload = unpack(envelope, b"k")
    filter = payload.make()
    for seq, value in enumerate([1, -3, 7]):
        filter.enqueue(Event(payload.input.cls(value), "Reading", "s", seq, 0))
    assert [event.content.value for event in filter._take()] == [-3, 7]
    assert isinstance(filter.limit, np.int64)  # type: ignore[attr-defined]

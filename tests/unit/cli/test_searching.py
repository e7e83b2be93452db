"""A source tree that several processes divide among them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest
from typer.testing import CliRunner

from activebroker.cli import app, searching
from activebroker.cli.searching import look_through
from predicate_extract.scan.rules import load_rules
from predicate_extract.scan.search import source_files

RULE = "def rule(event):\n    return event.get('severity') == {}\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for number in range(5):
        (tmp_path / f"rule{number}.py").write_text(RULE.format(number))
    (tmp_path / "broken.py").write_text("def rule(event):\n    return (\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(searching, "FILES_A_PROCESS", 1)
    monkeypatch.setattr(searching, "CHUNK", 1)
    return tmp_path


def test_they_find_what_one_finds(tree: Path) -> None:
    files, rules = source_files(tree), load_rules()
    alone = list(look_through(tree, rules, files, 1))
    assert list(look_through(tree, rules, files, 2)) == alone
    assert [file["path"] for file in alone] == list(map(str, files))
    assert [len(file["filters"]) for file in alone] == [0, 1, 1, 1, 1, 1]


def test_one_that_dies_is_an_error_that_says_what_to_do(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "deadly.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setattr(searching, "KNOWN", ["deadly"])
    result = CliRunner().invoke(app, ["explain", str(tree), "--jobs", "2"])
    assert result.exit_code == 2 and "--jobs 1" in result.stderr


HANGING = """
import os, threading
with open(f"started.{os.getpid()}", "w"):
    pass
threading.Event().wait()
"""
LOOKING = """
from pathlib import Path
from activebroker.cli import searching
from predicate_extract.scan.rules import load_rules
from predicate_extract.scan.search import source_files

if __name__ == "__main__":
    searching.KNOWN, searching.FILES_A_PROCESS = ["hanging"], 1
    root = Path.cwd()
    list(searching.look_through(root, load_rules(), source_files(root), 2))
"""


def test_they_end_when_their_owner_is_killed(tree: Path) -> None:
    (tree / "hanging.py").write_text(HANGING)
    (tree / "looking.py").write_text(LOOKING)
    owner = subprocess.Popen([sys.executable, "looking.py"])
    try:
        _until(lambda: len(list(tree.glob("started.*"))) == 2)
    finally:
        owner.kill()
        owner.wait()
    pids = [int(path.suffix[1:]) for path in tree.glob("started.*")]
    _until(lambda: not any(map(psutil.pid_exists, pids)))


def test_a_second_ctrl_c_ends_them_too(tree: Path) -> None:
    for number in range(300):
        (tree / f"more{number}.py").write_text(RULE.format(number))
    (tree / "hanging.py").write_text(HANGING.replace("threading.Event().wait()", ""))
    (tree / "looking.py").write_text(LOOKING)
    owner = subprocess.Popen([sys.executable, "looking.py"], stderr=subprocess.DEVNULL)
    try:
        _until(lambda: len(list(tree.glob("started.*"))) == 2)
        for _ in range(2):
            owner.send_signal(signal.SIGINT)
            sleep(0.01)
        assert owner.wait(30) != 0
    finally:
        owner.kill()
        owner.wait()
    pids = [int(path.suffix[1:]) for path in tree.glob("started.*")]
    _until(lambda: not any(map(psutil.pid_exists, pids)))


def _until(holds: Callable[[], bool]) -> None:
    deadline = monotonic() + 30
    while not holds():
        assert monotonic() < deadline
        sleep(0.01)

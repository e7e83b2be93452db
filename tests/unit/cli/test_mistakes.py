"""Whatever is wrong with what a command is given, it says so in a message, and ends with code 2."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from activebroker.cli import app

DEAD = "tcp://127.0.0.1:1"  # nobody listens at this port
PROGRAM = Path(sys.executable).with_name("activebroker")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current one, with files that are good and bad."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ACTIVEBROKER_KEY", raising=False)
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "good.py").write_text("def rule(event):\n    return event.a > 1\n")
    (tmp_path / "broken.py").write_text("def rule(:\n")
    (tmp_path / "binary.py").write_bytes(b"\x00\xff")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "broken.json").write_text("{oh")
    (tmp_path / "broken.yml").write_text(": :")
    return tmp_path


def run(command: str) -> Result:
    return CliRunner().invoke(app, shlex.split(command))


@pytest.mark.parametrize(
    "command",
    [
        # paths and names of code
        "explain none.py",
        "explain none/",
        "explain ''",
        "explain broken.py",
        "explain binary.py",
        "explain empty.py",
        "explain folder.py:rule",
        "explain good.py:role",
        "explain no_such_module:rule",
        "explain good.py:rule --type no_such_module:Type",
        "explain good.py:rule --type good.py:rule",
        "explain good.py:rule --type good.py",
        "explain good.py:rule --type builtins:dict",
        "explain . --rules none.yml",
        "explain . --rules broken.yml",
        "explain . --rules folder.py",
        "explain . --jobs 0",
        # files to read and to write
        "simulate 3pd --replay none.json",
        "simulate 3pd --replay broken.json",
        "simulate 3pd --replay binary.py",
        "simulate 3pd --replay folder.py",
        "simulate 3pd --seed 1 --html none/story.html",
        "simulate 3pd --seed 1 --html folder.py",
        "simulate 3pd --seed 1 --html /proc/story.html",
        "simulate 3pd --seed 1 --json /dev/full",
        "simulate 3pd --seed -1",
        # addresses and keys
        "broker",
        "broker --listen nowhere",
        "broker --listen 127.0.0.1:7400",
        "broker --listen tcp://127.0.0.1:99999",
        "broker --listen tcp://0.0.0.0:*",
        "broker --listen tcp://127.0.0.1:* --name ''",
        "broker --listen tcp://127.0.0.1:* --name supplier",
        "broker --listen tcp://127.0.0.1:* --join nowhere",
        "broker --listen tcp://127.0.0.1:* --key short",
        f"broker --listen tcp://no.such.host.invalid:7400 --key {'k' * 40}",
        *(
            command.format(address)
            for command in ("status {}", "story {} late", "balance {}")
            for address in (
                "nowhere",
                "tcp://127.0.0.1",
                f"{DEAD} --key short",
                "tcp://10.0.0.5:7400",  # without a key
                f"tcp://no.such.host.invalid:7400 --key {'k' * 40}",
            )
        ),
        f"status {DEAD} --watch 0",
        f"balance {DEAD} --limit -1",
        f"balance {DEAD} --limit much",
        "no-such-command",
    ],
)
def test_it_is_told(command: str) -> None:
    result = run(command)
    assert result.exit_code == 2
    assert result.stderr.strip()
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(
    "command",
    [f"broker --listen {DEAD}", f"status {DEAD}", f"story {DEAD} late", f"balance {DEAD}"],
)
def test_a_home_that_cannot_be_written_is_told(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/proc/none")
    result = run(command)
    assert result.exit_code == 2
    assert "/proc/none" in result.stderr and "ACTIVEBROKER_KEY" in result.stderr


def test_a_host_that_is_none_is_named_at_once() -> None:
    result = run(f"status tcp://no.such.host.invalid:7400 --key {'k' * 40}")
    assert "no host 'no.such.host.invalid'" in result.stderr


@pytest.mark.parametrize(
    ("shell", "code", "said"),
    [
        ("{} explain . > /dev/full", 2, "No space left"),
        ("{} --help > /dev/full", 2, "No space left"),
        ("{} explain . >&-", 0, ""),
        ("{} explain . | true; exit ${{PIPESTATUS[0]}}", 1, ""),
    ],
)
def test_an_output_that_takes_nothing(shell: str, code: int, said: str) -> None:
    done = subprocess.run(
        ["bash", "-c", shell.format(PROGRAM)],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        env=os.environ | {"COLUMNS": "200"},
    )
    assert done.returncode == code
    assert said in done.stderr and "Traceback" not in done.stderr and "ignored" not in done.stderr
    assert len(done.stderr.splitlines()) == (1 if said else 0)

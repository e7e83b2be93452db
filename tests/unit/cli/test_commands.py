from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner, Result

import activebroker as ab
from activebroker.cli import app
from activebroker.cli.app import GROUP, InstalledCommands
from activebroker.core.errors import UnknownPlace
from activebroker.transport import generate_key


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_help_lists_the_commands() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for name in ("broker", "demo", "explain", "key", "status", "story"):
        assert name in result.stdout


def test_help_loads_neither_ray_nor_spark() -> None:
    code = (
        "import sys\n"
        "from activebroker.cli import app\n"
        "app(['--help'], standalone_mode=False)\n"
        "print(*{'ray', 'pyspark', 'pandas'} & set(sys.modules), file=sys.stderr, end='')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_version() -> None:
    assert run("--version").stdout.startswith("activebroker 0.")


def test_a_misspelt_command_gets_a_suggestion() -> None:
    result = run("stauts")
    assert result.exit_code == 2
    assert "'status'" in result.stderr


def test_key_prints_a_usable_key() -> None:
    key = run("key").stdout.strip()
    assert len(key) == 40
    assert key != run("key").stdout.strip()


# --- commands of other packages -------------------------------------------------------------------

plugin = typer.Typer()


@plugin.command()
def up() -> None:
    """Start."""
    typer.echo("up")


@plugin.command()
def down() -> None:
    """Stop."""
    raise UnknownPlace("There is no cluster [b]here[/b].")


def interrupted() -> None:
    """Wait."""
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def points(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The installed commands, and some of this module's."""
    installed = InstalledCommands.__init__

    def with_ours(self: InstalledCommands) -> None:
        installed(self)
        for name, value in {
            "cluster": f"{__name__}:plugin",
            "wait": f"{__name__}:interrupted",
            "absent": "no_such_package.commands:run",
        }.items():
            self.data[name] = EntryPoint(name, value, GROUP)

    monkeypatch.setattr(InstalledCommands, "__init__", with_ours)
    yield


def test_a_package_adds_a_group_of_commands() -> None:
    assert run("cluster", "up").stdout == "up\n"


def test_an_error_is_a_message_and_code_2() -> None:
    result = run("cluster", "down")
    assert result.exit_code == 2
    assert result.stderr == "Error: There is no cluster [b]here[/b].\n"
    assert result.stdout == ""


def test_ctrl_c_ends_with_code_130() -> None:
    result = run("wait")
    assert (result.exit_code, result.output) == (130, "")


def test_a_command_that_cannot_be_loaded_leaves_the_others_alone() -> None:
    assert "Not available" in run("--help").stdout
    assert run("key").exit_code == 0
    result = run("absent", "--option", "argument")
    assert result.exit_code == 2
    assert "No module named 'no_such_package'" in result.stderr


# --- what a broker and a status refuse ------------------------------------------------------------


def test_a_broker_beyond_loopback_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACTIVEBROKER_KEY", raising=False)
    result = run("broker", "--listen", "tcp://0.0.0.0:*")
    assert result.exit_code == 2
    assert "needs a key" in result.stderr


def test_a_broker_says_what_is_wrong_with_its_key() -> None:
    result = run("broker", "--listen", "tcp://127.0.0.1:*", "--key", "short")
    assert result.exit_code == 2
    assert "expected 40 characters" in result.stderr


@pytest.mark.parametrize("address", ["nowhere", "tcp://192.0.2.1:7400"])
def test_a_broker_says_where_it_cannot_listen(address: str) -> None:
    result = run("broker", "--listen", address, "--key", generate_key())
    assert result.exit_code == 2
    assert f"Cannot listen at {address}" in result.stderr


def test_status_says_what_an_address_looks_like() -> None:
    result = run("status", "nowhere", "--key", ab.generate_key())
    assert result.exit_code == 2
    assert "tcp://host:port" in result.stderr

"""The program `activebroker`, and how it finds its commands.

A command is an entry point in the group `activebroker.commands`: its name, and a function or a
Typer application. So another package adds commands without being imported here. A command's module
is imported when the command is run, or listed by `--help`: it should import what is slow inside
its functions.
"""

from __future__ import annotations

import os
import sys
from collections import UserDict
from importlib.metadata import EntryPoint, entry_points
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from activebroker import __version__
from activebroker.core.errors import ActiveBrokerError, MissingExtra

GROUP = "activebroker.commands"
FAILED = 2  # exit code of an error that has a message


class InstalledCommands(UserDict[str, Any]):
    """Commands by name; one is loaded when it is looked up."""

    def __init__(self) -> None:
        found = sorted(entry_points(group=GROUP), key=lambda point: point.name)
        super().__init__({point.name: point for point in found})

    def __getitem__(self, name: str) -> Any:
        point: EntryPoint = self.data[name]
        try:
            target = point.load()
        except (ImportError, AttributeError) as error:
            target = _unavailable(point, error)
        if not isinstance(target, typer.Typer):
            function, target = target, typer.Typer(add_completion=False)
            target.command(name)(function)
        return typer.main.get_command(target)


class CommandGroup(TyperGroup):
    """Shows the errors that users can meet as messages, without a traceback."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = InstalledCommands()

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ActiveBrokerError as error:
            typer.secho(f"Error: {error}", fg="red", err=True)
            raise typer.Exit(FAILED) from error

    def main(self, *arguments: Any, **settings: Any) -> Any:
        try:
            return super().main(*arguments, **settings)
        except OSError as error:  # a file that cannot be read or written; a disk that is full
            typer.secho(f"Error: {error}", fg="red", err=True)
            _abandon_output()
            sys.exit(FAILED)


app = typer.Typer(cls=CommandGroup, no_args_is_help=True, pretty_exceptions_enable=False)


def main() -> None:
    """Run the command that `sys.argv` names, and exit."""
    if sys.stdout is None:  # closed by who started this
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):  # users' names and texts may be more than it can show
        sys.stdout.reconfigure(errors="backslashreplace")
    app()


def _abandon_output() -> None:
    """What cannot be written any more is not tried again when Python ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"activebroker {__version__}")
        raise typer.Exit


@app.callback()
def activebroker(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Bring your Python filter to the events, not the events to your filter."""


def _unavailable(point: EntryPoint, error: Exception) -> typer.Typer:
    """A stand-in, so that one command that cannot be loaded does not disable the others."""
    stand_in = typer.Typer(add_completion=False)

    @stand_in.command(
        point.name,
        help=f"Not available: {error}",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def fail() -> None:
        raise MissingExtra(f"The command {point.name!r} cannot be loaded: {error}") from error

    return stand_in

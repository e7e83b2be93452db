"""`activebroker explain`: what the analysis finds in a filter, or in a tree of them; and where one
of a running fabric runs."""

from __future__ import annotations

import gc
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress

from activebroker.cli.console import console
from activebroker.cli.targets import filters_in, load
from activebroker.core.errors import (
    InvalidFilter,
    MissingExtra,
    UnknownChannel,
    suggestion,
    with_extra,
)
from activebroker.events import ANY, EventType
from activebroker.fabric import connect
from activebroker.filters import FilterSpec, analyse
from activebroker.observe import explanation, placement, report, survey
from predicate_extract import Extraction


def explain(
    target: Annotated[
        str,
        typer.Argument(
            help="FILE.py:NAME or module:NAME of a filter class, an instance, or a predicate "
            "function; FILE.py or a module for all filter classes in it, and its function called "
            "rule; a folder for all filter classes and detection rules under it. With --fabric, "
            "the name of a derived channel.",
        ),
    ],
    event_type: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="module:DATACLASS",
            help="The events' type (also FILE.py:DATACLASS): fields that it lacks are errors.",
        ),
    ] = None,
    rules: Annotated[
        list[Path] | None,
        typer.Option(
            "--rules",
            metavar="FILE.yml",
            help="More rules, in ast-grep's form, of what is a filter or a hazard in a folder.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Processes for a folder of many files; one a core by default."),
    ] = None,
    fabric: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="tcp://HOST:PORT of any broker of a fabric: show a channel of it, and where its "
            "filter runs.",
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="The fabric's key; better given as ACTIVEBROKER_KEY.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
    as_sql: Annotated[
        bool,
        typer.Option("--sql", help="Print WHERE clauses; needs --type and the extra 'sql'."),
    ] = False,
    dialect: Annotated[
        Literal["duckdb", "spark"], typer.Option(help="The database that --sql writes for.")
    ] = "duckdb",
) -> None:
    """Show the predicate found in a filter, and the lines that weaken it; or where a filter runs.

    This imports a file or module, and so runs its top-level code. Of a folder nothing is imported.
    """
    if fabric is not None:
        _explain_channel(target, fabric, key, as_json)
        return
    if not target:
        raise InvalidFilter("Name a file, a module or a folder; . is this one.")
    if Path(target).is_dir():
        if as_sql:
            raise InvalidFilter("--sql is for filters of a known type, not for a folder.")
        _explain_folder(Path(target), rules or [], jobs or os.cpu_count() or 1, as_json)
        return
    if target.endswith(("/", os.sep)):
        raise InvalidFilter(f"There is no folder {target}.")
    if as_sql and event_type is None:
        raise InvalidFilter("--sql needs the events' type, which tells the columns: --type.")
    if rules:
        raise InvalidFilter("--rules are for a folder; a file is imported, and analysed without.")
    input_type = ANY if event_type is None else _type(event_type)
    found = load(target)
    filters = filters_in(found) if isinstance(found, ModuleType) else [found]
    extractions = [analyse(FilterSpec.of(each), input_type) for each in filters]
    if as_json:
        _print_json([each.to_dict() for each in extractions])
        return
    if as_sql:
        for extraction in extractions:
            typer.echo(_where(extraction, input_type, dialect))
        return
    out = console()
    for extraction in extractions:
        out.print(explanation(extraction))


def _explain_channel(name: str, address: str, key: str | None, as_json: bool) -> None:
    with connect(
        address, key, name=f"explain-{secrets.token_hex(4)}", listen=False, reconnect=False
    ) as fabric:
        told = report(fabric.status(), at=time.time(), observer=fabric.node)
    derived = {each.name: each for each in told.channels if each.filter is not None}
    if (channel := derived.get(name)) is None:
        raise UnknownChannel(f"There is no derived channel {name!r}." + suggestion(name, derived))
    if as_json:
        _print_json([msgspec.to_builtins(channel)])
    else:
        console().print(placement(channel, told.derivations))


def _type(target: str) -> EventType:
    found = load(target)
    if not isinstance(found, type):
        raise InvalidFilter(f"--type names a dataclass; {target} is {found!r}.")
    return EventType.of(found)


def _where(extraction: Extraction, input_type: EventType, dialect: str) -> str:
    try:
        from predicate_extract.backends.sql import to_sql
    except ImportError as error:
        raise MissingExtra(f"Writing SQL needs SQLGlot. {with_extra('sql')}") from error
    text, exact = to_sql(extraction.predicate, input_type.schema, dialect)
    kept = "what it forwards" if exact and extraction.exact else "what it forwards, and maybe more"
    return f"-- {extraction.name}: {kept}\nWHERE {text or 'TRUE'}"


def _explain_folder(folder: Path, rule_files: list[Path], jobs: int, as_json: bool) -> None:
    from activebroker.cli.searching import look_through
    from predicate_extract.scan.rules import RuleError, load_rules
    from predicate_extract.scan.search import source_files

    root = folder.resolve()
    files = source_files(root)
    try:
        rules = load_rules(rule_files)
    except RuleError as error:
        raise InvalidFilter(str(error)) from error
    looked = look_through(root, rules, files, jobs)
    shown = Console(stderr=True)
    progress = Progress(console=shown, transient=True, disable=not shown.is_terminal)
    with progress, _no_collection():
        found = list(progress.track(looked, len(files), description="Looking for filters"))
    if not as_json:
        console().print(survey(found, root))
        return
    for file in found:
        if file["error"]:
            typer.echo(f"{file['path']} is left out: {file['error']}", err=True)
    _print_json([each for file in found for each in file["filters"]])


@contextmanager
def _no_collection() -> Iterator[None]:
    """Syntax trees are many objects in no cycles: looking for cycles takes a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _print_json(data: list[dict[str, Any]]) -> None:
    typer.echo(json.dumps(data, indent=2))

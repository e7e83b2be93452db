"""`activebroker explain`: what the analysis finds in a filter."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Annotated

import typer

from activebroker.cli.console import console
from activebroker.cli.targets import filters_in, load
from activebroker.events import ANY, EventType
from activebroker.filters import FilterSpec, analyse
from activebroker.observe import explanation, explanation_data


def explain(
    target: Annotated[
        str,
        typer.Argument(
            help="FILE.py:NAME or module:NAME of a filter class, an instance, or a predicate "
            "function; FILE.py or a module for all filter classes in it.",
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
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """Show the predicate found in a filter, and the lines that weaken it.

    This imports the file or module, and so runs its top-level code.
    """
    input_type = ANY if event_type is None else EventType.of(load(event_type))
    found = load(target)
    filters = filters_in(found) if isinstance(found, ModuleType) else [found]
    extractions = [analyse(FilterSpec.of(each), input_type) for each in filters]
    if as_json:
        typer.echo(json.dumps([explanation_data(each) for each in extractions], indent=2))
        return
    out = console()
    for extraction in extractions:
        out.print(explanation(extraction))

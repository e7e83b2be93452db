"""What the analysis found in a source tree, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from predicate_extract import TRUE, Extraction

if TYPE_CHECKING:
    from predicate_extract.scan.search import FileFound


def survey(found: Sequence[FileFound], root: Path, files: int) -> RenderableType:
    """A line for each filter, and the sums; `files` were looked at."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("filter", no_wrap=True)
    table.add_column("predicate", ratio=3)
    table.add_column("exact")
    table.add_column("in the way", ratio=2, style="dim")
    for file in found:
        place = str(file.path.relative_to(root))
        if file.error:
            table.add_row(Text(place, style="red"), Text(file.error, style="red"), "", "")
        for each in file.extractions:
            table.add_row(*_row(each, place))
    extractions = [each for file in found for each in file.extractions]
    return Group(table, "", Text(_sums(extractions, files), style="bold"))


def _row(each: Extraction, place: str) -> tuple[RenderableType, ...]:
    name = Text.assemble((each.name, "bold"), (f"  {place}:{each.first_line}", "dim"))
    reasons = [f"{r.line}: {r.message}" if r.line else r.message for r in each.reasons]
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    style = "green" if each.predicate != TRUE else "yellow"
    predicate = Text(str(each.predicate), style=style)
    exact = "yes" if each.exact else "no"
    return name, predicate, exact, Text(reasons[0] + more if reasons else "")


def _sums(extractions: Sequence[Extraction], files: int) -> str:
    some = sum(each.predicate != TRUE for each in extractions)
    exact = sum(each.exact for each in extractions)
    return (
        f"{_count(len(extractions), 'filter')} in {_count(files, 'file')}: "
        f"{some} with a predicate, {exact} with an exact one."
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"

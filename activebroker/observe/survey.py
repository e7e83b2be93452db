"""What the analysis found in a source tree, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text


def survey(found: Sequence[Mapping[str, Any]], root: Path) -> RenderableType:
    """A line for each filter under the folder `root`, and the sums. `found`: each file that was
    looked through, in the form of `FileFound.to_dict`."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("filter", no_wrap=True)
    table.add_column("predicate", ratio=3)
    table.add_column("exact")
    table.add_column("in the way", ratio=2, style="dim")
    for file in found:
        place = str(Path(file["path"]).relative_to(root))
        if file["error"]:
            table.add_row(Text(place, style="red"), Text(file["error"], style="red"), "", "")
        for each in file["filters"]:
            table.add_row(*_row(each, place))
    return Group(table, "", Text(_sums(found), style="bold"))


def _row(each: Mapping[str, Any], place: str) -> tuple[RenderableType, ...]:
    name = Text.assemble((each["name"], "bold"), (f"  {place}:{each['first_line']}", "dim"))
    reasons = [
        f"{r['line']}: {r['message']}" if r["line"] else r["message"] for r in each["reasons"]
    ]
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    predicate = Text(each["predicate"], style="yellow" if each["predicate"] == "TRUE" else "green")
    exact = "yes" if each["exact"] else "no"
    return name, predicate, exact, Text(reasons[0] + more if reasons else "")


def _sums(found: Sequence[Mapping[str, Any]]) -> str:
    filters = [each for file in found for each in file["filters"]]
    some = sum(each["predicate"] != "TRUE" for each in filters)
    exact = sum(each["exact"] for each in filters)
    return (
        f"{_count(len(filters), 'filter')} in {_count(len(found), 'file')}: "
        f"{some} with a predicate, {exact} with an exact one."
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"

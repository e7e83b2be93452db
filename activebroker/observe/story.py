"""The story of a move, for the terminal."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text


def story_table(story: dict[str, Any]) -> RenderableType:
    """What `Fabric.story` tells, a row for each thing that a party was told."""
    table = Table(
        title=_title(story), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD
    )
    table.add_column("ms", justify="right")
    for heading in ("party", "part", "was told", "is", "does"):
        table.add_column(heading)
    for line in story["lines"]:
        before, after = line["before"], line["after"]
        table.add_row(
            f"{1000 * line['at']:.1f}",
            *map(Text, (line["party"], line["role"], line["input"])),
            Text(after if after == before else f"{before} → {after}"),
            Text("\n".join(line["effects"])),
        )
    silent = (Text(f"{who}: {why}", style="red") for who, why in story["silent"].items())
    return Group(table, *silent)


def _title(story: dict[str, Any]) -> str:
    origins, destinations = (", ".join(story[each]) for each in ("origins", "destinations"))
    way = f"{story['channel']}: {origins or 'nowhere'} → {destinations}"
    if "outcome" in story:
        reason = f": {story['reason']}" if story["reason"] else ""
        return f"{way}, {story['outcome']} after {story['seconds']:.3f} s{reason}"
    waits = ", ".join(story["waits_for"])
    return f"{way}, {story['phase']} for {story['seconds']:.3f} s, waits for {waits}"

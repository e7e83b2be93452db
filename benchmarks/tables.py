"""Tables that are shown on the console, and written as Markdown for the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figures:
    """Rows of words and numbers under a heading; the first column is text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def show(self) -> None:
        table = Table(title=self.title, box=box.SIMPLE_HEAD)
        for place, column in enumerate(self.columns):
            table.add_column(column, justify="right" if place else "left", no_wrap=not place)
        for row in self.rows:
            table.add_row(*row)
        Console(width=130).print(table)

    def markdown(self) -> str:
        """
        >>> print(Figures("ages", ("who", "age"), [("Ann", "7")]).markdown())
        **ages**
        <BLANKLINE>
        | who | age |
        |---|---:|
        | Ann | 7 |
        <BLANKLINE>
        """
        rule = ["---", *("---:" for _ in self.columns[1:])]
        lines = [self.columns, *self.rows]
        head, *body = (f"| {' | '.join(line)} |" for line in lines)
        return "\n".join([f"**{self.title}**", "", head, f"|{'|'.join(rule)}|", *body, ""])


def write(figures: Sequence[Figures], path: Path) -> None:
    """Write tables to a file of Markdown."""
    path.write_text("\n".join(table.markdown() for table in figures))

"""What the analysis found in a filter, and where one runs, for the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from activebroker.observe.report import Channel, Derivation
from predicate_extract import Extraction, Reason


def explanation(extraction: Extraction) -> RenderableType:
    """Predicate, exactness, the source with the lines that weakened it marked, and why."""
    findings = Padding(_findings(extraction), (1, 2), expand=False)
    parts: list[RenderableType] = [_heading(extraction), findings]
    if extraction.source is not None:
        parts.append(
            Syntax(
                extraction.source,
                "python",
                theme="ansi_dark",
                line_numbers=True,
                start_line=extraction.first_line,
                highlight_lines={reason.line for reason in extraction.reasons},
                word_wrap=True,
            )
        )
    if extraction.reasons:
        parts.append(_reasons(extraction.reasons))
    return Group(*parts, "")


def placement(channel: Channel, derivations: list[Derivation]) -> RenderableType:
    """What a derived channel forwards, where its filter was asked to run, and where it does."""
    table = Table.grid(padding=(0, 2))
    at = [each for each in derivations if each.channel == channel.name]
    runs = ", ".join(f"{each.node!r}" for each in at) or "nowhere now"
    table.add_row("derived from", Text(channel.parent or ""))
    table.add_row("predicate", Text(channel.predicate or "", style="bold green"))
    table.add_row("exact", "yes" if channel.exact else "no")
    table.add_row("asked for", Text(channel.asked))
    table.add_row("runs at", Text(f"{channel.at} ({runs})"))
    if channel.instead:
        table.add_row("why not there", Text(channel.instead))
    if channel.ended:
        table.add_row("ended", Text(channel.ended))
    heading = Text.assemble((channel.filter or "", "bold"), (f"  channel {channel.name}", "dim"))
    return Group(heading, Padding(table, (1, 2), expand=False))


def _heading(extraction: Extraction) -> Text:
    place = f"  {extraction.filename}:{extraction.first_line}" if extraction.filename else ""
    return Text.assemble((extraction.name, "bold"), (place, "dim"))


def _findings(extraction: Extraction) -> Table:
    table = Table.grid(padding=(0, 2))
    exact = (
        "yes: these events are forwarded and no others, so the filter's Python need not run"
        if extraction.exact
        else "no: the filter's Python runs on the events that match"
    )
    table.add_row("predicate", Text(str(extraction.predicate), style="bold green"))
    table.add_row("exact", exact)
    table.add_row("stateful", "yes" if extraction.stateful else "no")
    return table


def _reasons(reasons: tuple[Reason, ...]) -> Table:
    table = Table(
        title="Why it is not exact", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD
    )
    table.add_column("line", justify="right")
    for heading in ("code", "what the analysis met", "what would help"):
        table.add_column(heading)
    for reason in reasons:
        line = str(reason.line) if reason.line else ""
        table.add_row(line, *map(Text, (reason.code, reason.message, reason.hint)))
    return table

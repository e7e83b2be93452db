"""The tables at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from rich.console import Group
from rich.table import Table
from rich.text import Text

from activebroker import Channel
from activebroker.cli.demo.consumers import Gaps
from activebroker.cli.demo.expected import Verdict
from activebroker.cli.demo.traffic import Flow


@dataclass(frozen=True, slots=True)
class Switch:
    """The move of a filter during the stream: when (monotonic seconds), and how many flights had
    not been published when it began."""

    begun: float
    ended: float
    still_to_come: int


def filters(rows: Iterable[tuple[Channel, str, str]]) -> Table:
    """One row for each derived channel, with where its filter ran and on what engine."""
    table = Table(title="Filters", title_justify="left")
    for heading in ("filter", "ran at", "engine", "predicate at the source", "exact"):
        table.add_column(heading)
    for channel, place, engine in rows:
        found = channel.extraction
        assert found is not None
        table.add_row(
            found.name, place, engine, str(found.predicate), "yes" if found.exact else "no"
        )
    return table


def links(flows: Iterable[Flow], missed: int) -> Group:
    """Events and bytes of each flow, without and with the pushed predicate.

    `missed` events are in no row.
    """
    table = Table(title="Events and bytes, without and with the predicate", title_justify="left")
    for heading in ("for", "from", "to"):
        table.add_column(heading)
    for heading in ("events without", "with", "bytes without", "with", "share"):
        table.add_column(heading, justify="right")
    between, within = Flow("between nodes", "", ""), Flow("within a node", "", "")
    for channel, group in groupby(flows, key=lambda flow: flow.channel):
        for number, flow in enumerate(group):
            to = f"{flow.target} (same node)" if flow.inside else flow.target
            table.add_row(channel if number == 0 else "", flow.source, to, *_numbers(flow))
            (within if flow.inside else between).add(flow)
        table.add_section()
    for total in (between, within):
        if total.offered_events:
            table.add_row(total.channel, "", "", *_numbers(total), style="bold")
    if not missed:
        return Group(table)
    note = f"Not in these counts: {missed:,} events, on their way while their flow was switched."
    return Group(table, note)


def switch_over(filter: str, switch: Switch, gaps: Gaps) -> str:
    """What the consumer noticed of the move."""
    return (
        f"[bold]{filter}[/] moved from the consumer to atlanta in "
        f"{(switch.ended - switch.begun) * 1000:.0f} ms, with {switch.still_to_come:,} flights "
        f"still to come. Its consumer's longest pause around the move: {gaps.during * 1000:.0f} "
        f"ms; at other times: {gaps.otherwise * 1000:.0f} ms (typical: {gaps.typical * 1000:.0f} "
        "ms)."
    )


def verdicts(found: Iterable[tuple[str, Verdict]]) -> Table:
    """What each consumer got, against pandas."""
    table = Table(title="Consumers against pandas", title_justify="left")
    table.add_column("consumer")
    for heading in ("expected", "got"):
        table.add_column(heading, justify="right")
    for heading in ("order", "checksum expected", "checksum got", "verdict"):
        table.add_column(heading)
    for name, verdict in found:
        table.add_row(
            name,
            f"{verdict.expected:,}",
            f"{verdict.got:,}",
            "in order" if verdict.in_order else "broken",
            f"{verdict.expected_checksum:016x}",
            f"{verdict.got_checksum:016x}",
            Text("equal", "green") if verdict.good else Text("DIFFERENT", "bold"),
            style=None if verdict.good else "red",
        )
    return table


def _numbers(flow: Flow) -> tuple[str, ...]:
    share = flow.sent_bytes / flow.offered_bytes if flow.offered_bytes else 1.0
    return (
        f"{flow.offered_events:,}",
        f"{flow.sent_events:,}",
        _size(flow.offered_bytes),
        _size(flow.sent_bytes),
        f"{share:.1%}",
    )


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e6:,.2f} MB" if nbytes >= 1e5 else f"{nbytes / 1e3:,.1f} kB"

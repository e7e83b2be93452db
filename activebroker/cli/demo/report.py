"""The tables at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from activebroker import Channel
from activebroker.cli.demo.consumers import Gaps
from activebroker.cli.demo.expected import Verdict
from activebroker.cli.demo.traffic import Flow


@dataclass(frozen=True, slots=True)
class Switch:
    """The move of a filter amid the stream. `published` of `total` had been published when it
    began."""

    where: str
    took: float
    published: int
    total: int


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


def links(flows: Iterable[Flow]) -> Table:
    """Events and bytes of each flow, without and with the pushed predicate."""
    table = Table(title="Events and bytes, without and with the predicate", title_justify="left")
    for heading in ("from", "to", "for"):
        table.add_column(heading)
    for heading in ("events without", "with", "bytes without", "with", "kept"):
        table.add_column(heading, justify="right")
    between = Flow("between nodes", "", "", inside=False)
    within = Flow("within a node", "", "", inside=True)
    for flow in flows:
        table.add_row(*_row(flow))
        total = within if flow.inside else between
        total.offered_events += flow.offered_events
        total.offered_bytes += flow.offered_bytes
        total.sent_events += flow.sent_events
        total.sent_bytes += flow.sent_bytes
    table.add_section()
    for total in (between, within):
        if total.offered_events:
            table.add_row(*_row(total), style="bold")
    return table


def switch_over(filter: str, switch: Switch, gaps: Gaps) -> str:
    """What the consumer noticed of the move."""
    left = switch.total - switch.published
    return (
        f"[bold]{filter}[/] moved {switch.where} in {switch.took * 1000:.0f} ms, with {left:,} of "
        f"{switch.total:,} flights still to come. Its consumer's longest pause around the move: "
        f"{gaps.during * 1000:.0f} ms; at other times: {gaps.otherwise * 1000:.0f} ms "
        f"(typical: {gaps.typical * 1000:.0f} ms)."
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


def _row(flow: Flow) -> tuple[str, ...]:
    share = flow.sent_bytes / flow.offered_bytes if flow.offered_bytes else 1.0
    return (
        flow.source,
        f"{flow.target} (same node)" if flow.inside and flow.target else flow.target,
        flow.use,
        f"{flow.offered_events:,}",
        f"{flow.sent_events:,}",
        _size(flow.offered_bytes),
        _size(flow.sent_bytes),
        f"{share:.1%}",
    )


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e6:,.2f} MB" if nbytes >= 1e5 else f"{nbytes / 1e3:,.1f} kB"

"""A report as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from activebroker.observe.report import (
    Channel,
    Derivation,
    Flow,
    Move,
    Node,
    Rates,
    Report,
)
from activebroker.protocol.status import EndedMove

RIGHT = ">"  # in front of the heading of a column of numbers


def tables(report: Report) -> RenderableType:
    """Brokers and channels always; derivations, moves and flows where there are any."""
    parts = [_nodes(report.nodes), _channels(report.channels)]
    if instead := [channel for channel in report.channels if channel.instead]:
        parts.append(_instead(instead))
    if report.derivations:
        parts.append(_derivations(report.derivations))
    if report.moves:
        parts.append(_moves(report.moves))
    if report.ended_moves:
        parts.append(_ended_moves(report.ended_moves))
    if report.flows:
        parts.append(_flows(report.flows))
    return Group(*parts)


def _nodes(nodes: list[Node]) -> Table:
    headings = ("name", "kind", "address", ">flows", ">filters", ">CPU", ">unacknowledged")
    return _table(
        "Brokers and processes",
        headings,
        (
            (
                node.name,
                "broker" if node.broker else "process",
                node.address or "dials out only",
                _count(node.flows),
                _count(node.stages),
                _share(node.per_second),
                _count(node.unacknowledged),
            )
            for node in nodes
        ),
    )


def _place(channel: Channel) -> str:
    if channel.closed:
        return "closed"
    if channel.runs_out_in is None:
        return channel.at
    return f"{channel.at}, ends in {channel.runs_out_in:.0f} s"


def _channels(channels: list[Channel]) -> Table:
    headings = ("name", "type", "place", "filter", "predicate", "exact", "suppliers", ">consumers")
    return _table(
        "Channels",
        headings,
        (
            (
                channel.name,
                channel.type,
                _place(channel),
                channel.filter or "",
                channel.predicate or "",
                "" if channel.exact is None else "yes" if channel.exact else "no",
                ", ".join(channel.suppliers),
                _count(channel.consumers),
            )
            for channel in channels
        ),
    )


def _instead(channels: list[Channel]) -> Table:
    return _table(
        "Filters that are not where they were asked to be",
        ("channel", "asked for", "place", "why"),
        ((channel.name, channel.asked, channel.at, channel.instead) for channel in channels),
    )


def _derivations(derivations: list[Derivation]) -> Table:
    headings = (
        "channel", "node", "engine", ">taken", ">taken/s", ">in Python", ">emitted", ">emitted/s",
        ">lost", ">keys", ">backlog", ">queue", ">CPU",
    )  # fmt: skip
    return _table(
        "Derivations",
        headings,
        (
            (
                each.channel,
                each.node,
                each.engine,
                _count(each.taken_events),
                _rate(each.per_second, "taken_events"),
                _count(each.python_events),
                _count(each.emitted_events),
                _rate(each.per_second, "emitted_events"),
                _lost(each),
                _count(each.keys) if each.keys else "",
                _count(each.backlog),
                _count(each.queue_length),
                _share(each.per_second),
            )
            for each in derivations
        ),
    )


def _lost(each: Derivation) -> str:
    late = f" ({_count(each.late_events)} late)" if each.late_events else ""
    return f"{_count(each.lost_events)}{late}"


def _moves(moves: list[Move]) -> Table:
    headings = (
        "channel", "from", "to", ">age", "node", "part", "phase", "waits for", ">events held",
        ">bytes held",
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for move in moves:
        waits = ", ".join(move.waits_for)
        rows.append((*_way(move), "", "initiator", move.phase, waits, "", ""))
        rows += [
            (
                *("", "", "", ""),
                part.node,
                part.role,
                part.phase,
                ", ".join(part.waits_for),
                _count(part.held_events),
                decimal(part.held_bytes),
            )
            for part in move.parts
        ]
    return _table("Moves under way", headings, rows)


def _ended_moves(moves: list[EndedMove]) -> Table:
    headings = ("channel", "from", "to", ">took", "outcome", "reason")
    rows = ((*_way(move), move.outcome, move.reason) for move in moves)
    return _table("Moves that have ended", headings, rows)


def _way(move: Move | EndedMove) -> tuple[str, ...]:
    took = f"{move.seconds:.3f} s"
    return move.channel, ", ".join(move.origins), ", ".join(move.destinations), took


def _flows(flows: list[Flow]) -> Table:
    headings = (
        "channel", "from", "to", ">events offered", ">sent", ">offered/s", ">sent/s",
        ">bytes offered", ">sent", ">sent/s", ">share", ">waiting",
    )  # fmt: skip
    return _table(
        "Flows",
        headings,
        (
            (
                flow.channel,
                f"{flow.supplier} at {flow.node}" if flow.supplier else f"filter at {flow.node}",
                flow.target,
                _count(flow.offered_events),
                _count(flow.sent_events),
                _rate(flow.per_second, "offered_events"),
                _rate(flow.per_second, "sent_events"),
                decimal(flow.offered_bytes),
                decimal(flow.sent_bytes),
                decimal(round(flow.per_second["sent_bytes"])) if flow.per_second else "",
                f"{flow.sent_bytes / flow.offered_bytes:.1%}" if flow.offered_bytes else "",
                _count(flow.waiting),
            )
            for flow in flows
        ),
    )


def _table(title: str, headings: Iterable[str], rows: Iterable[tuple[str, ...]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in headings:
        right = heading.startswith(RIGHT)
        table.add_column(heading.removeprefix(RIGHT), justify="right" if right else "left")
    for row in rows:
        # As Text: names are the users' and may look like markup.
        table.add_row(*map(Text, row))
    return table


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _rate(per_second: Rates | None, counter: str) -> str:
    return _count(per_second[counter]) if per_second else ""


def _share(per_second: Rates | None) -> str:
    """Of one CPU, by filters."""
    return f"{per_second['cpu_seconds']:.1%}" if per_second else ""

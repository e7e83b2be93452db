"""A fabric's status as typed rows, with rates where there is an earlier report to compare with."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import structs
from msgspec.structs import asdict

from activebroker.matching import parse
from activebroker.protocol.status import (
    ChannelStatus,
    EndedMove,
    MemberStatus,
    MoveStatus,
    NodeStatus,
    Status,
)

Rates = dict[str, float]  # the counter's name → how much it grows in a second


class Node(msgspec.Struct, frozen=True):
    """A member of the fabric. `address` is None where others cannot dial it.

    `cpu_seconds`: used by its filters so far.
    """

    name: str
    address: str | None
    broker: bool
    flows: int
    stages: int
    unacknowledged: int
    cpu_seconds: float
    per_second: Rates | None = None


class Channel(msgspec.Struct, frozen=True):
    """`parent`, `at`, `filter`, `predicate` (reads like SQL) and `exact` say how it is derived;
    `asked` is the place where its filter was asked to run, `instead` why it is not there.

    `owner` is the process that derived it, empty if that is gone; `runs_out_in`: seconds after
    which it ends if nobody takes it; `ended`: why it did, if no user closed it.
    """

    name: str
    type: str
    parent: str | None
    at: str
    asked: str
    instead: str
    filter: str | None
    predicate: str | None
    exact: bool | None
    closed: bool
    suppliers: list[str]
    consumers: int
    owner: str = ""
    runs_out_in: float | None = None
    ended: str = ""


class Derivation(msgspec.Struct, frozen=True):
    """A derived channel's filter at one node, a stage; counters are of events.

    Of `lost_events`, `late_events` came later than a keyed filter allows; it has instances for so
    many `keys`.
    `python_events` are those of `taken_events` for which Python ran. `backlog` batches wait for the
    filter, and in them `queue_length` events. The rate of `cpu_seconds` is its share of a CPU.
    """

    channel: str
    node: str
    id: int
    engine: str
    taken_events: int
    python_events: int
    emitted_events: int
    lost_events: int
    late_events: int
    keys: int
    backlog: int
    queue_length: int
    cpu_seconds: float
    per_second: Rates | None = None


class Part(msgspec.Struct, frozen=True):
    """What an origin or a destination of a move does, for whom it waits, and what it holds back."""

    move: int
    node: str
    role: str
    phase: str
    waits_for: list[str]
    held_events: int
    held_bytes: int


class Move(msgspec.Struct, frozen=True):
    """A move under way, `seconds` old, with its parts at the nodes."""

    move: int
    channel: str
    origins: list[str]
    destinations: list[str]
    phase: str
    waits_for: list[str]
    seconds: float
    parts: list[Part]


class Flow(msgspec.Struct, frozen=True):
    """One channel's events from a supplier (None: from a filter) at `node` to node `target`.

    What its predicate refuses is offered and not sent; `waiting` batches have no credit yet.
    """

    channel: str
    supplier: str | None
    node: str
    target: str
    outlet: int
    inlet: int
    offered_events: int
    offered_bytes: int
    sent_events: int
    sent_bytes: int
    waiting: int
    per_second: Rates | None = None


class Report(msgspec.Struct, frozen=True):
    """All that `Fabric.status()` tells, at the time `at` (seconds)."""

    at: float
    nodes: list[Node]
    channels: list[Channel]
    derivations: list[Derivation]
    moves: list[Move]
    ended_moves: list[EndedMove]
    flows: list[Flow]


def report(
    status: dict[str, Any],
    *,
    at: float,
    earlier: Report | None = None,
    observer: str | None = None,
) -> Report:
    """Bring a status to rows. The node that only looks, `observer`, is left out.

    Rates are those since `earlier`; a row that is new, or whose counters began again, has none.
    """
    told = msgspec.convert(status, Status)
    engines = {stage.id: stage.engine for channel in told.channels for stage in channel.stages}
    each_node = told.nodes.items()
    derivations = [
        Derivation(node=node, engine=engines.get(stage.id, ""), **asdict(stage))
        for node, counters in each_node
        for stage in counters.stages
    ]
    flows = [
        Flow(node=node, **asdict(flow)) for node, counters in each_node for flow in counters.flows
    ]
    parts = [
        Part(node=node, **asdict(part)) for node, counters in each_node for part in counters.moves
    ]
    nodes = [
        _node(member, told.nodes[member.name]) for member in told.members if member.name != observer
    ]
    if earlier is not None:
        seconds = at - earlier.at
        derivations = _with_rates(derivations, earlier.derivations, seconds)
        flows = _with_rates(flows, earlier.flows, seconds)
        nodes = _with_rates(nodes, earlier.nodes, seconds)
    return Report(
        at=at,
        nodes=nodes,
        channels=[_channel(channel) for channel in told.channels],
        derivations=derivations,
        moves=[_move(move, parts) for move in told.moves],
        ended_moves=told.ended_moves,
        flows=flows,
    )


def _node(member: MemberStatus, counters: NodeStatus) -> Node:
    return Node(
        name=member.name,
        address=member.address,
        broker=member.broker,
        flows=len(counters.flows),
        stages=len(counters.stages),
        unacknowledged=sum(link.unacknowledged for link in counters.links.values()),
        cpu_seconds=counters.cpu_seconds,
    )


def _channel(told: ChannelStatus) -> Channel:
    wire = told.predicate
    predicate = None if wire is None else str(parse(wire) or "of another release")
    return msgspec.convert({**asdict(told), "predicate": predicate}, Channel)


def _move(told: MoveStatus, parts: list[Part]) -> Move:
    own = [part for part in parts if part.move == told.move]
    return Move(parts=own, **asdict(told))


Row = TypeVar("Row", Node, Derivation, Flow)
COUNTERS = ("_events", "_bytes", "_seconds")  # how the names of what only grows end


def _with_rates(rows: list[Row], earlier: list[Row], seconds: float) -> list[Row]:
    before = {_identity(row): row for row in earlier}
    return [
        structs.replace(row, per_second=_rates(row, before[key], seconds))
        if (key := _identity(row)) in before
        else row
        for row in rows
    ]


def _identity(row: Node | Derivation | Flow) -> tuple[object, ...]:
    if isinstance(row, Node):
        return (row.name,)
    if isinstance(row, Derivation):
        return row.node, row.id
    return row.node, row.outlet, row.target, row.inlet


def _rates(row: Row, before: Row, seconds: float) -> Rates | None:
    counters = [name for name in row.__struct_fields__ if name.endswith(COUNTERS)]
    growth = {name: getattr(row, name) - getattr(before, name) for name in counters}
    if seconds <= 0 or min(growth.values()) < 0:
        return None
    return {name: grown / seconds for name, grown in growth.items()}

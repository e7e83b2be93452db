"""What a status tells: the directory's picture of the fabric, and every node's own counters."""

from __future__ import annotations

import msgspec


class FlowStatus(msgspec.Struct, frozen=True):
    """What an outlet was offered for a flow and has sent; `waiting` batches have no credit yet."""

    channel: str
    outlet: int
    supplier: str | None
    target: str
    inlet: int
    offered_events: int
    offered_bytes: int
    sent_events: int
    sent_bytes: int
    waiting: int


class StageStatus(msgspec.Struct, frozen=True):
    """What a stage has done, and what waits for it: batches, and the events in them."""

    id: int
    channel: str
    taken_events: int = 0
    python_events: int = 0
    emitted_events: int = 0
    lost_events: int = 0
    backlog: int = 0
    queue_length: int = 0
    cpu_seconds: float = 0.0


class PartStatus(msgspec.Struct, frozen=True):
    """A node's part in a derivation: for whom it waits, and what it holds back."""

    derivation: int
    role: str
    phase: str
    waits_for: list[str]
    held_events: int
    held_bytes: int


class LinkStatus(msgspec.Struct, frozen=True):
    unacknowledged: int


class NodeStatus(msgspec.Struct, frozen=True):
    """`links` are by peer; `error` is why the node has not told its counters."""

    flows: list[FlowStatus] = []
    stages: list[StageStatus] = []
    cpu_seconds: float = 0.0
    moves: list[PartStatus] = []
    links: dict[str, LinkStatus] = {}
    error: str | msgspec.UnsetType = msgspec.UNSET


class MemberStatus(msgspec.Struct, frozen=True):
    name: str
    address: str | None
    broker: bool


class StagePlace(msgspec.Struct, frozen=True):
    id: int
    node: str
    engine: str


class RelayStatus(msgspec.Struct, frozen=True):
    supplier: str
    node: str
    subscribers: list[str]
    newcomers: bool


class ChannelStatus(msgspec.Struct, frozen=True):
    """What is only a derived channel's has its default in that of a root."""

    name: str
    type: str
    parent: str | None = None
    at: str = ""
    asked: str = ""
    instead: str = ""
    filter: str | None = None
    predicate: str | None = None
    exact: bool | None = None
    closed: bool = False
    ended: str = ""
    owner: str = ""
    lease: float | None = None
    runs_out_in: float | None = None
    suppliers: list[str] = []
    supplier_nodes: dict[str, str] = {}
    consumers: int = 0
    stages: list[StagePlace] = []
    relays: list[RelayStatus] = []


class MoveStatus(msgspec.Struct, frozen=True):
    """A derivation under way, `seconds` old."""

    derivation: int
    channel: str
    origins: list[str]
    destinations: list[str]
    seconds: float
    phase: str
    waits_for: list[str]


class EndedMove(msgspec.Struct, frozen=True):
    """One that has ended after `seconds`: completed, rolled back or failed, and why."""

    derivation: int
    channel: str
    origins: list[str]
    destinations: list[str]
    seconds: float
    outcome: str
    reason: str


class Status(msgspec.Struct, frozen=True):
    """`nodes` are by name; the last of the `ended_moves` comes last."""

    members: list[MemberStatus]
    channels: list[ChannelStatus]
    moves: list[MoveStatus]
    ended_moves: list[EndedMove]
    nodes: dict[str, NodeStatus]

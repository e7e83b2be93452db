"""The answer to a request for the status: the directory's picture, and every node's counters."""

from __future__ import annotations

import msgspec


class FlowStatus(msgspec.Struct, frozen=True):
    """What an outlet was offered for a flow, and has sent."""

    channel: str
    outlet: int
    supplier: str | None
    target: str
    inlet: int
    offered_events: int
    offered_bytes: int
    sent_events: int
    sent_bytes: int
    waiting: int  # batches without credit


class StageStatus(msgspec.Struct, frozen=True):
    """What a stage has done, and what waits for it."""

    id: int
    channel: str
    taken_events: int = 0
    python_events: int = 0
    emitted_events: int = 0
    lost_events: int = 0
    late_events: int = 0  # of those that were lost
    keys: int = 0
    backlog: int = 0  # batches
    queue_length: int = 0  # events
    cpu_seconds: float = 0.0


class PartStatus(msgspec.Struct, frozen=True):
    """A node's part in a move, and what it holds back."""

    move: int
    role: str
    phase: str
    waits_for: list[str]  # nodes
    held_events: int
    held_bytes: int


class LinkStatus(msgspec.Struct, frozen=True):
    unacknowledged: int


class NodeStatus(msgspec.Struct, frozen=True):
    """A node's own counters, or why it did not tell them."""

    flows: list[FlowStatus] = []
    stages: list[StageStatus] = []
    cpu_seconds: float = 0.0
    moves: list[PartStatus] = []
    links: dict[str, LinkStatus] = {}  # by peer
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
    """A channel. The fields of derived channels have their defaults in a root channel."""

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
    """A move, or an offload, under way."""

    move: int
    channel: str
    origins: list[str]
    destinations: list[str]
    seconds: float  # since it began
    phase: str
    waits_for: list[str]  # nodes


class EndedMove(msgspec.Struct, frozen=True):
    """A move, or an offload, that has ended."""

    move: int
    channel: str
    origins: list[str]
    destinations: list[str]
    seconds: float  # that it took
    outcome: str  # completed, rolled back or failed
    reason: str


class Status(msgspec.Struct, frozen=True):
    """The fabric's status."""

    members: list[MemberStatus]
    channels: list[ChannelStatus]
    moves: list[MoveStatus]
    ended_moves: list[EndedMove]  # in the order in which they ended
    nodes: dict[str, NodeStatus]  # by name

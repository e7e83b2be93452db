"""What nodes are told of each other, of flows and of stages."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from activebroker.events import TypeDescription
from activebroker.filters import Envelope
from activebroker.matching import parse
from derivation.protocol import Count as Count
from derivation.protocol import Position as Position
from derivation.protocol import Positions as Positions

NOWHERE: Position = (-1, 0)  # before the first event of any stream
UNPLACED = ""  # instead of a node's name: the place of a filter that waits for one


class Member(msgspec.Struct, frozen=True):
    """A node of the fabric. `address` is None where it cannot be dialled."""

    name: str
    address: str | None
    is_broker: bool
    incarnation: int


class ChannelInfo(msgspec.Struct, frozen=True):
    """How the directory describes a channel."""

    name: str
    type: TypeDescription
    parent: str | None


class FlowSpec(msgspec.Struct, frozen=True):
    """A FIFO stream of events from an outlet of one node to a port of another.

    `predicate` is the JSON of what the port wants, None for everything; it is not `certain` where
    it is wider than the filter's. Events of this flow are held at the port until every flow in
    `after` has ended there. `supplier` is None where it comes from a filter.

    `taker` names who wants the events, wherever it may move: a subscription, or a derived channel's
    filter. If that `recovers`, what it has not settled is kept for it, and a flow that `resumes`
    begins with that. What it has already, up to `since`, is not sent. What was before it `began` is
    not for it, and so is not kept. Where the outlet has ended, or serves the taker no more, the
    flow ends then. One that is `behind` follows also what the port has of the supplier when it
    begins.
    """

    id: int
    outlet: int
    source: str
    port: int
    target: str
    predicate: str | None = None
    after: tuple[int, ...] = ()
    since: Positions = {}
    supplier: str | None = None
    taker: str = ""
    recovers: bool = False
    resumes: bool = False
    behind: bool = False
    began: Positions = {}
    certain: bool = True

    def __post_init__(self) -> None:
        parse(self.predicate)  # so that what is none is found while it is decoded


class Checkpoint(msgspec.Struct, frozen=True):
    """A filter's state between two events: `state` by supplier (by "" if shared), after the events
    up to `inputs`, of which came those up to `outputs`."""

    state: dict[str, bytes]
    inputs: Positions
    outputs: Positions


def later(one: Positions, other: Positions) -> Positions:
    """The later of two positions of each supplier."""
    return {**one, **{name: max(at, one.get(name, at)) for name, at in other.items()}}


def merged(parts: Iterable[Checkpoint]) -> Checkpoint:
    """One checkpoint of several, for different suppliers or else the later for the earlier."""
    whole = Checkpoint({}, {}, {})
    for part in parts:
        whole.state.update(part.state)
        whole.inputs.update(part.inputs)
        whole.outputs.update(part.outputs)
    return whole


class StageSpec(msgspec.Struct, frozen=True):
    """A filter at a place. Its port and its outlet bear the stage's id.

    Without an envelope it is a relay of the channel, called `relay`: it forwards what it gets. With
    a `checkpoint` it goes on where another place has left off.
    """

    id: int
    channel: str
    engine: str  # "python" or "spark"
    envelope: Envelope | None
    owner: str  # the node that derived it, where failures are reported
    recovers: bool = False  # if its node is lost, it goes on elsewhere
    checkpoint: Checkpoint | None = None
    relay: str = ""

    @property
    def makes(self) -> str:
        """The channel, or the relay, that it is a place of."""
        return self.relay or self.channel

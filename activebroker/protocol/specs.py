"""What nodes are told of each other, of flows and of stages."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from activebroker.events import TypeDescription
from activebroker.filters import Envelope
from activebroker.matching import parse
from derivation.protocol import Count as Count
from derivation.protocol import Offset as Offset
from derivation.protocol import Offsets as Offsets

NOWHERE: Offset = (-1, 0)  # before the first event of any stream
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
    """A FIFO stream of events from an outlet of one node to an inlet of another.

    `predicate` is the JSON of what the inlet wants, None for everything; it is not `certain` where
    it is wider than the filter's. Events of this flow are held at the inlet until every flow in
    `after` has ended there. `supplier` is None where it comes from a filter.

    `subscriber` names who wants the events, wherever it may move: a subscription, or a derived
    channel's filter. If that `recovers`, what it has not acknowledged is retained for it, and a
    flow that `resumes` begins with that. What it has already, up to `since`, is not sent. What was
    before it `began` is not for it, and so is not retained. Where the outlet has ended, or serves
    the subscriber no more, the flow ends then. One that is `behind` follows also what the inlet has
    of the supplier when it begins.
    """

    id: int
    outlet: int
    source: str
    inlet: int
    target: str
    predicate: str | None = None
    after: tuple[int, ...] = ()
    since: Offsets = {}
    supplier: str | None = None
    subscriber: str = ""
    recovers: bool = False
    resumes: bool = False
    behind: bool = False
    began: Offsets = {}
    certain: bool = True

    def __post_init__(self) -> None:
        parse(self.predicate)  # so that what is none is found while it is decoded


class Checkpoint(msgspec.Struct, frozen=True):
    """A filter's state between two events: `state` by supplier (by "" if shared), after the events
    up to `inputs`, of which came those up to `outputs`."""

    state: dict[str, bytes]
    inputs: Offsets
    outputs: Offsets


def later(one: Offsets, other: Offsets) -> Offsets:
    """The later of two offsets of each supplier."""
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
    """A filter at a place. Its inlet and its outlet bear the stage's id.

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

"""Descriptions of members, channels, flows, checkpoints and stages, as messages carry them."""

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
LOG = "log"  # the engine of the stage that keeps a channel's events on disk


class Member(msgspec.Struct, frozen=True):
    """A node of the fabric."""

    name: str
    address: str | None  # None if it cannot be dialled
    is_broker: bool
    incarnation: int


class ChannelInfo(msgspec.Struct, frozen=True):
    """How the directory describes a channel."""

    name: str
    type: TypeDescription
    parent: str | None


class LogSpec(msgspec.Struct, frozen=True):
    """A log on the disk of its broker, and what it keeps; None: all."""

    path: str
    segment_bytes: int
    keep_bytes: int | None = None
    keep_seconds: float | None = None


class Since(msgspec.Struct, frozen=True):
    """Where in a log a subscriber begins: by one of the first three, or with the first event that
    is left. It ends at the position `until`, or with what there is at its begin, if it `ends`;
    otherwise it goes on with what comes."""

    position: int | None = None
    time: int | None = None  # of publication, in ns since 1970
    seqs: dict[str, int] = {}  # by supplier, the first sequence number of its last stream
    until: int | None = None
    ends: bool = False
    had: Offsets = {}  # what it has already, from an earlier subscription


class FlowSpec(msgspec.Struct, frozen=True):
    """A FIFO stream of events from an outlet of one node to an inlet of another.

    A subscriber is a subscription, a derived channel's filter or a relay, wherever it moves.
    """

    id: int
    outlet: int
    source: str  # the outlet's node
    inlet: int
    target: str  # the inlet's node
    predicate: str | None = None  # the JSON of what the inlet wants; None: everything
    after: tuple[int, ...] = ()  # the inlet holds the flow until all of these have ended there
    since: Offsets = {}  # what the subscriber has already, and is not sent
    supplier: str | None = None  # None if the flow comes from a filter
    subscriber: str = ""
    recovers: bool = False  # what the subscriber has not acknowledged is retained for it
    # Begin with what is retained. If the outlet has ended, or no longer serves the subscriber, end
    # after that.
    resumes: bool = False
    follows: bool = False  # the flow also follows what the inlet has of the supplier by then
    began: Offsets = {}  # what was before is not for the subscriber, and not retained
    certain: bool = True  # False: the predicate is wider than the filter's
    log: Since | None = None  # begin with what a log has; None: with what comes next

    def __post_init__(self) -> None:
        parse(self.predicate)  # so that a bad predicate is found while the message is decoded


class Checkpoint(msgspec.Struct, frozen=True):
    """A filter's state between two events."""

    state: dict[str, bytes]  # by supplier; by "" if the filter is shared
    inputs: Offsets  # of the last events that the state has seen
    outputs: Offsets  # of the last events that it made of them


def later(one: Offsets, other: Offsets) -> Offsets:
    """The later of two offsets of each supplier."""
    return {**one, **{name: max(at, one.get(name, at)) for name, at in other.items()}}


def merged(parts: Iterable[Checkpoint]) -> Checkpoint:
    """One checkpoint of several; for the same supplier the last one counts."""
    whole = Checkpoint({}, {}, {})
    for part in parts:
        whole.state.update(part.state)
        whole.inputs.update(part.inputs)
        whole.outputs.update(part.outputs)
    return whole


class StageSpec(msgspec.Struct, frozen=True):
    """A filter, or a relay, at a place. Its inlet and its outlet have the stage's id."""

    id: int
    channel: str
    engine: str  # "python", "spark" or `LOG`
    envelope: Envelope | None  # None at a relay, which forwards what it gets
    owner: str  # the node that derived the channel, and is told of failures
    recovers: bool = False  # if its node is lost, it goes on elsewhere
    checkpoint: Checkpoint | None = None  # to go on from
    relay: str = ""  # a relay's name
    stream: int = 0  # higher than the numbers of all streams that began before it
    log: LogSpec | None = None  # of the stage of a log

    @property
    def makes(self) -> str:
        """The channel, or the relay, whose stage this is."""
        return self.relay or self.channel

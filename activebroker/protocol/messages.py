"""What nodes say to each other: small typed messages whose decoding never runs code.

Messages *in band* travel inside a flow, in order with its events. Bulk data follows its message in
separate buffers.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from activebroker.events import TypeDescription
from activebroker.filters import Envelope, Failure
from activebroker.protocol.specs import (
    ChannelInfo,
    Checkpoint,
    FlowSpec,
    Member,
    Offset,
    Offsets,
    StageSpec,
)
from activebroker.protocol.status import NodeStatus, Status
from derivation.protocol import (
    Cancel,
    End,
    Error,
    HandOver,
    Message,
    Prepare,
    Prepared,
    Proceed,
    Refused,
    RequestSwap,
    Started,
)

# --- in band ----------------------------------------------------------------------------------


class FlowOpened(Message, frozen=True):
    """A flow begins here."""

    flow: int
    inlet: int
    outlet: int
    after: tuple[int, ...]  # the flows that it follows
    supplier: str | None = None  # None if the flow comes from a filter
    subscriber: str = ""  # for which the outlet retains the flow's events; empty if it does not
    recovers: bool = False  # the outlet's stage is recovered elsewhere if this node is lost
    behind: bool = False  # the flow also follows what the inlet has of the supplier now
    # Set if the supplier lost its fabric and joined it again: events before this offset may be
    # repetitions, those after it are new to all.
    begins: Offset | None = None
    so_far: Offset | None = None  # where the supplier's stream is now
    began: Offset | None = None  # where it was when the subscriber came, if that is known


MOST_TO = 64  # flows that share a message


class Events(Message, frozen=True):
    """One batch for one or more flows; its buffers follow."""

    to: Annotated[tuple[tuple[int, int], ...], msgspec.Meta(max_length=MOST_TO)]  # (flow, inlet)
    supplier: str
    type: str  # fingerprint
    certain: bool  # the predicate raises on none of the rows
    upto: Offset  # after the batch


class StreamEnded(Message, frozen=True):
    """A supplier's stream is complete."""

    flow: int
    inlet: int
    supplier: str
    upto: Offset


class FlowEnded(Message, frozen=True):
    """A flow ends here."""

    flow: int
    inlet: int
    finished: bool = False  # because the channel was closed
    error: Error | None = None  # why the filter was stopped, if it was


class TypeAnnounced(Message, frozen=True):
    """Describes a type, before its first events on a link."""

    type: TypeDescription


class CreditReturned(Message, frozen=True):
    """Inlet to outlet: `nbytes` of the flow were consumed."""

    flow: int
    outlet: int
    nbytes: int


class Acknowledged(Message, frozen=True):
    """Subscriber to outlet: events up to these offsets will never be asked for again, whichever
    node is lost."""

    outlet: int
    subscriber: str
    upto: Offsets
    ended: bool = False  # the end of the flow has arrived, too


class FlowDropped(Message, frozen=True):
    """Inlet to outlet: the inlet is gone, send nothing more."""

    flow: int
    outlet: int
    subscriber: bool = True  # its subscriber is gone, too: retain nothing either


class FlowRewound(Message, frozen=True):
    """Inlet to outlet: the flow followed a gap; begin it once more, after what the inlet has."""

    flow: int
    outlet: int
    since: Offsets  # what the inlet has


# --- calls, answered with Answer --------------------------------------------------------------


class Call(Message, frozen=True):
    id: int
    body: CallBody


class Answer(Message, frozen=True):
    id: int
    result: Any = None
    error: Error | None = None


# user to directory


class ClaimName(Message, frozen=True):
    """A process that is about to join asks for its name. A member that has the name keeps it if it
    answers at once; otherwise it is taken for lost."""

    name: str
    replace: bool = False  # take that member for lost even if it answers
    again: bool = False  # the process has had the name before: give that member more time


class Join(Message, frozen=True):
    member: Member


class Leave(Message, frozen=True):
    name: str


class OpenChannel(Message, frozen=True):
    """Open a channel, or make it."""

    name: str
    type: TypeDescription | None  # None: only open it, with the type that it has


class CloseChannel(Message, frozen=True):
    name: str


class OpenSupplier(Message, frozen=True):
    channel: str
    supplier: str
    node: str


class CloseSupplier(Message, frozen=True):
    channel: str
    supplier: str


class Subscribe(Message, frozen=True):
    channel: str
    node: str
    inlet: int


class Unsubscribe(Message, frozen=True):
    channel: str
    inlet: int


class Derive(Message, frozen=True):
    """Make a channel of another one and a filter."""

    channel: str
    name: str | None
    envelope: Envelope
    at: str
    node: str  # the new channel's owner
    # Seconds that the channel lives without its owner and without a consumer; None: until closed.
    lease: float | None = None


class Move(Message, frozen=True):
    channel: str
    to: str
    node: str
    patience: float


class Reconfigure(Message, frozen=True):
    """Give a channel's filter the parameters of this envelope."""

    channel: str
    envelope: Envelope
    node: str
    patience: float


class Offload(Message, frozen=True):
    """Let a broker serve a supplier's consumers."""

    channel: str
    supplier: str
    to: str
    patience: float
    # The nodes whose subscriptions and filters are handed over; None: all, and those to come.
    consumers: tuple[str, ...] | None = None


class ReportStatus(Message, frozen=True):
    """Answer with the whole fabric: members, channels, and every node's counters."""


class TellStory(Message, frozen=True):
    """Answer with how the last move of a channel went, or goes."""

    channel: str


# directory to node


class OpenOutlet(Message, frozen=True):
    outlet: int
    channel: str
    supplier: str


class CloseOutlet(Message, frozen=True):
    """End the outlet after what it has sent."""

    outlet: int
    finished: bool  # because its channel was closed


class OpenFlow(Message, frozen=True):
    spec: FlowSpec


class CloseFlow(Message, frozen=True):
    """The inlet is gone for good: stop sending to it, retain nothing for its subscriber."""

    outlet: int
    flow: int
    subscriber: str


class ForgetSubscriber(Message, frozen=True):
    """A subscriber is gone for good: retain nothing for it at an outlet that no longer serves
    it."""

    outlet: int
    subscriber: str


class ForgetSaved(Message, frozen=True):
    """A filter runs at its suppliers from now on: it is lost with this node."""

    stage: int


class FinishFlow(Message, frozen=True):
    """The derived channel that the flow feeds was closed: end the flow after what it was given."""

    outlet: int
    flow: int
    behind: Offsets  # at a relay: and after these offsets, which are still on their way there


class ReportSent(Message, frozen=True):
    """Answer with how far an outlet has given a subscriber events, by supplier."""

    outlet: int
    subscriber: str


class SetPredicate(Message, frozen=True):
    """A relay's predicate has changed with its consumers, or a filter's with its parameters. The
    answer is the offset from which on the outlet applies the new one."""

    outlet: int
    subscriber: str
    predicate: str | None
    certain: bool = True  # False: the predicate is wider than the filter's


class ChangeStage(Message, frozen=True):
    """Go on with another envelope, after the events of before.

    The answer is True once the filter has changed for good, even if this node is lost; False if the
    filter has ended; otherwise the reason why it goes on as it was.
    """

    stage: int
    change: int  # tells this change from others
    envelope: Envelope
    # By outlet: the offsets after which the filter changes. Flows from other outlets that have not
    # ended come before the change as a whole.
    behind: dict[int, Offsets]
    # What was not sent up to here, the old parameters did not want: should it be sent again, the
    # new ones do not get it.
    passed: Offsets


class KeepStage(Message, frozen=True):
    """Do not carry out this change, after all. The answer is whether the filter goes on as it
    was."""

    stage: int
    change: int


class CloseInlet(Message, frozen=True):
    """End the inlet when all of `flows` have finished."""

    inlet: int
    flows: tuple[int, ...]


class AbandonInlet(Message, frozen=True):
    """What fed the inlet was lost and will not come back."""

    inlet: int
    reason: str


class ReleaseInlet(Message, frozen=True):
    """These outlets, which fed the inlet, are lost or taken down, and will be replaced. The answer
    is what the inlet has, by supplier."""

    inlet: int
    outlets: tuple[int, ...]


class ReportNode(Message, frozen=True):
    """Answer with the node's own counters."""


class ReportStory(Message, frozen=True):
    """Answer with the node's own part in a move."""

    move: int


class Deploy(Message, frozen=True):
    stage: StageSpec


class Undeploy(Message, frozen=True):
    """Take a stage down."""

    stage: int
    discard: bool = False  # with all it retains, since another place makes that again


# Requests that the directory answers at once: they change nothing in the picture.
Question = ClaimName | ReportStatus | TellStory

# Requests that the directory carries out one after another.
ChangeRequest = (
    Join
    | Leave
    | OpenChannel
    | CloseChannel
    | OpenSupplier
    | CloseSupplier
    | Subscribe
    | Unsubscribe
    | Derive
    | Move
    | Offload
    | Reconfigure
)

# Calls of the directory to a member.
Order = (
    ReportNode
    | ReportStory
    | OpenOutlet
    | CloseOutlet
    | OpenFlow
    | CloseFlow
    | ForgetSubscriber
    | ForgetSaved
    | FinishFlow
    | ReportSent
    | SetPredicate
    | ChangeStage
    | KeepStage
    | CloseInlet
    | AbandonInlet
    | ReleaseInlet
    | Deploy
    | Undeploy
)

CallBody = Question | ChangeRequest | Order

# The types of the answers that nodes work with; the others are for users.
ANSWERS: dict[type[Message], Any] = {
    Join: tuple[Member, ...],
    OpenChannel: ChannelInfo,
    Derive: ChannelInfo,
    OpenFlow: Offsets,
    ReportSent: Offsets,
    SetPredicate: Offsets,
    ReleaseInlet: Offsets,
    ChangeStage: bool | str,
    KeepStage: bool,
    ReportStatus: Status,
    ReportNode: NodeStatus,
    ReportStory: dict[str, Any],
}


# --- one way ----------------------------------------------------------------------------------


class MembersChanged(Message, frozen=True):
    """Directory to all: the fabric's members now."""

    members: tuple[Member, ...]


class Greet(Message, frozen=True):
    """Directory to a node that cannot be dialled: connect to `peer`, which will need you."""

    peer: str


class ExpectFlow(Message, frozen=True):
    """Directory to an inlet's node: the flow is being opened; connect to its source."""

    spec: FlowSpec
    recovers: bool = False  # if the source is lost, another takes its place


class FailuresReported(Message, frozen=True):
    """A stage's node to the stage's owner: `count` events lost, some of them in full."""

    channel: str
    count: int
    samples: tuple[Failure, ...]


class CheckpointTaken(Message, frozen=True):
    """A stage's node to the directory: a checkpoint, from which the filter can go on if this node
    is lost."""

    makes: str  # the channel, or the relay
    stage: int
    checkpoint: Checkpoint
    change: int = 0  # the last `ChangeStage` before the checkpoint; 0: none


class CheckpointKept(Message, frozen=True):
    """Directory to a stage's node: it has the last checkpoint of the stage."""

    stage: int


GRACE = 3.0  # seconds in which a peer that was suspended is heard again


class PeerSuspected(Message, frozen=True):
    """A node to the directory: it has not heard a peer for too long, or never."""

    peer: str
    incarnation: int
    heard: bool  # False: never


class OutletDrained(Message, frozen=True):
    """A node to the directory: an outlet has ended, and retains nothing any more."""

    outlet: int
    stopped: bool = False  # an error stopped its filter, and all subscribers know


class PrepareMove(Message, frozen=True):
    """`Prepare`, and what the node needs for it."""

    prepare: Prepare
    origin_stage: int | None  # which an origin gives up
    stage: StageSpec | None  # which a destination has to load
    outputs: tuple[FlowSpec, ...]  # which a destination will open


class SwapFlows(Message, frozen=True):
    """`RequestSwap`, and what the node needs for it."""

    request: RequestSwap
    outlet: int
    spec: FlowSpec  # of the new flow


class ChunkHead(msgspec.Struct, frozen=True, array_like=True):
    """An item of a hand-over's buffer; its buffers follow the message."""

    supplier: str
    type: TypeDescription | None  # None: not a batch but the end of the supplier's stream
    certain: bool
    buffers: int  # how many of them are this item's
    upto: Offset


class Heard(Message, frozen=True):
    """Keeps a quiet link alive, carries a late acknowledgement, or says what is missing."""


class Expelled(Message, frozen=True):
    """The receiver was taken for lost and is no longer a member. Outside the sequence of frames."""


Body = (
    FlowOpened
    | Events
    | StreamEnded
    | FlowEnded
    | TypeAnnounced
    | CreditReturned
    | Call
    | Answer
    | MembersChanged
    | FailuresReported
    | PrepareMove
    | Prepared
    | Refused
    | SwapFlows
    | Proceed
    | HandOver[ChunkHead]
    | Started
    | Cancel
    | End
    | FlowDropped
    | FlowRewound
    | Acknowledged
    | CheckpointTaken
    | CheckpointKept
    | OutletDrained
    | PeerSuspected
    | Greet
    | ExpectFlow
    | Heard
    | Expelled
)

"""What nodes say to each other: small typed messages whose decoding never runs code.

Messages *in band* travel inside a flow, in order with its events; bulk data follows a message as
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
    """`subscriber` is whom the outlet retains the flow's events for until it hears that they are
    acknowledged; empty where it does not. `recovers`: the flow comes from what goes on elsewhere if
    this node is lost. `behind`: it follows what the inlet has of the supplier now. `so_far`: where
    its stream is now, and `began`: where it was when the subscriber came, if that is known. With
    `begins`, the flow may repeat what was before the supplier lost its fabric and joined it again;
    what is new to all begins there."""

    flow: int
    inlet: int
    outlet: int
    after: tuple[int, ...]
    supplier: str | None = None
    subscriber: str = ""
    recovers: bool = False
    behind: bool = False
    begins: Offset | None = None
    so_far: Offset | None = None
    began: Offset | None = None


MOST_TO = 64  # flows that share a message


class Events(Message, frozen=True):
    """One batch, which goes `to` each (flow, inlet); its buffers follow. `certain`: the predicate
    raises on none of its rows. `upto`: the offset behind it."""

    to: Annotated[tuple[tuple[int, int], ...], msgspec.Meta(max_length=MOST_TO)]
    supplier: str
    type: str  # fingerprint
    certain: bool
    upto: Offset


class StreamEnded(Message, frozen=True):
    """A supplier's stream is complete."""

    flow: int
    inlet: int
    supplier: str
    upto: Offset


class FlowEnded(Message, frozen=True):
    """`finished`: the channel was closed. `error` names why its filter was stopped, if it was."""

    flow: int
    inlet: int
    finished: bool = False
    error: Error | None = None


class TypeAnnounced(Message, frozen=True):
    """Precedes the first events of a type on a link."""

    type: TypeDescription


class CreditReturned(Message, frozen=True):
    """Inlet to outlet: so many bytes of the flow were consumed."""

    flow: int
    outlet: int
    nbytes: int


class Acknowledged(Message, frozen=True):
    """Subscriber to outlet: these offsets will never be asked for again, whoever dies.

    `ended`: the end of the flow has come, too.
    """

    outlet: int
    subscriber: str
    upto: Offsets
    ended: bool = False


class FlowDropped(Message, frozen=True):
    """Inlet to outlet: the inlet is gone, send nothing more. `subscriber`: and so is the one that
    it was for, retain nothing either."""

    flow: int
    outlet: int
    subscriber: bool = True


class FlowRewound(Message, frozen=True):
    """Inlet to outlet: the flow followed a gap; begin it once more, behind what the inlet has."""

    flow: int
    outlet: int
    since: Offsets


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
    """A process that is about to join asks for its name: the bearer keeps it if it answers at once,
    and is taken for lost if it does not, or is to be `replace`d. `again`: the process has borne it
    before, so that the bearer has more time."""

    name: str
    replace: bool = False
    again: bool = False


class Join(Message, frozen=True):
    member: Member


class Leave(Message, frozen=True):
    name: str


class OpenChannel(Message, frozen=True):
    """`type` None: open an existing channel as whatever it is."""

    name: str
    type: TypeDescription | None


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
    """`lease`: seconds that the channel lives without its owner, `node`, and without anybody who
    takes it; None: until it is closed."""

    channel: str
    name: str | None
    envelope: Envelope
    at: str
    node: str
    lease: float | None = None


class Move(Message, frozen=True):
    channel: str
    to: str
    node: str
    patience: float


class Reconfigure(Message, frozen=True):
    """Give a channel's filter other parameters: those of this envelope."""

    channel: str
    envelope: Envelope
    node: str
    patience: float


class Offload(Message, frozen=True):
    """`consumers`: the nodes whose subscriptions and filters are handed over; None: all, and who
    comes later."""

    channel: str
    supplier: str
    to: str
    patience: float
    consumers: tuple[str, ...] | None = None


class ReportStatus(Message, frozen=True):
    """The whole fabric: members, channels, and every node's counters."""


class TellStory(Message, frozen=True):
    """How the last derivation of a channel went, or goes."""

    channel: str


# directory to node


class OpenOutlet(Message, frozen=True):
    outlet: int
    channel: str
    supplier: str


class CloseOutlet(Message, frozen=True):
    """End the outlet behind what it has sent. `finished`: because its channel was closed."""

    outlet: int
    finished: bool


class OpenFlow(Message, frozen=True):
    spec: FlowSpec


class CloseFlow(Message, frozen=True):
    """The inlet is gone for good: stop sending to it, retain nothing for its subscriber."""

    outlet: int
    flow: int
    subscriber: str


class ForgetSubscriber(Message, frozen=True):
    """A subscriber is gone for good: retain nothing for it at an outlet that serves it no more."""

    outlet: int
    subscriber: str


class ForgetSaved(Message, frozen=True):
    """A filter has come to stay with its suppliers: it is lost with this node."""

    stage: int


class FinishFlow(Message, frozen=True):
    """The derived channel that the flow feeds was closed: end it behind what it was given, or, at
    a relay, `behind` what is still on its way there."""

    outlet: int
    flow: int
    behind: Offsets


class ReportSent(Message, frozen=True):
    """The answer is how far an outlet has given a subscriber events, by supplier."""

    outlet: int
    subscriber: str


class SetPredicate(Message, frozen=True):
    """What a relay wants has changed with its consumers, or what a filter wants with its
    parameters. The answer is the offset from which on the outlet gives it that."""

    outlet: int
    subscriber: str
    predicate: str | None
    certain: bool = True


class ChangeStage(Message, frozen=True):
    """Go on with another envelope, behind all that came by these outlets up to there, and all that
    comes by flows from others that have not ended. The answer is True, as soon as it can go on so
    elsewhere, too; False, if the filter has ended; or why it goes on as it was. `change` tells it
    from others. `passed`: what has not come up to there, the filter did not want; should it be made
    again, it is not for the new ones."""

    stage: int
    change: int
    envelope: Envelope
    behind: dict[int, Offsets]
    passed: Offsets


class KeepStage(Message, frozen=True):
    """Do not carry out this change, after all. The answer is whether it goes on as it was."""

    stage: int
    change: int


class CloseInlet(Message, frozen=True):
    """The inlet ends when all of `flows` have finished."""

    inlet: int
    flows: tuple[int, ...]


class AbandonInlet(Message, frozen=True):
    """What fed the inlet was lost and will not come back."""

    inlet: int
    reason: str


class ReleaseInlet(Message, frozen=True):
    """What fed the inlet by these outlets is lost or taken down, and will be replaced. The answer
    is how far it has come, by supplier."""

    inlet: int
    outlets: tuple[int, ...]


class ReportNode(Message, frozen=True):
    """The node's own counters."""


class ReportStory(Message, frozen=True):
    """The node's own part in a derivation."""

    derivation: int


class Deploy(Message, frozen=True):
    stage: StageSpec


class Undeploy(Message, frozen=True):
    """`discard`: with all it has, since another place makes it again."""

    stage: int
    discard: bool = False


# What the directory is asked at once: it changes nothing in the picture.
Question = ClaimName | ReportStatus | TellStory

# What it is asked to change, one request after another.
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

# What it asks of a member.
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

# What nodes go on with; others' answers are for users.
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
    """Directory to an inlet's node: the flow is being opened; connect to its source. `recovers`: if
    that is lost, another takes its place."""

    spec: FlowSpec
    recovers: bool = False


class FailuresReported(Message, frozen=True):
    """A stage's node to the stage's owner: `count` events lost, some of them in full."""

    channel: str
    count: int
    samples: tuple[Failure, ...]


class CheckpointTaken(Message, frozen=True):
    """A stage's node to the directory: what `makes` the channel, or the relay, can go on from here,
    should this node be lost; `change`: as it is behind this one, 0 for none."""

    makes: str
    stage: int
    checkpoint: Checkpoint
    change: int = 0


class CheckpointKept(Message, frozen=True):
    """The directory to a stage's node: it has the last one."""

    stage: int


GRACE = 3.0  # seconds in which a peer that has stood still is heard again


class PeerSuspected(Message, frozen=True):
    """A node to the directory: it has not heard this process of a peer for too long, or never."""

    peer: str
    incarnation: int
    heard: bool


class OutletDrained(Message, frozen=True):
    """A node to the directory: an outlet that has ended retains nothing for anybody any more.
    `stopped`: its filter was, by an error, of which all who take it know."""

    outlet: int
    stopped: bool = False


class PrepareMove(Message, frozen=True):
    """`Prepare`, and what the node needs for it: the stage that an origin gives up, and what a
    destination has to load, with the flows that it will open."""

    prepare: Prepare
    origin_stage: int | None
    stage: StageSpec | None
    outputs: tuple[FlowSpec, ...]


class SwapFlows(Message, frozen=True):
    """`RequestSwap`, and what the node needs for it: at which outlet, and what the new flow is."""

    request: RequestSwap
    outlet: int
    spec: FlowSpec


class ChunkHead(msgspec.Struct, frozen=True, array_like=True):
    """How an item of a hand-over's buffer is laid out in the buffers that follow.

    `type` None: not a batch but the end of the supplier's stream.
    """

    supplier: str
    type: TypeDescription | None
    certain: bool
    buffers: int
    upto: Offset


class Heard(Message, frozen=True):
    """Keeps a quiet link alive, carries a late acknowledgement, or says what is missing."""


class Expelled(Message, frozen=True):
    """Outside the sequence: the receiver was taken for lost and is no longer a member."""


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

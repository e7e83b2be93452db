"""What nodes say to each other: small typed messages whose decoding never runs code.

Messages *in band* travel inside a flow, in order with its events. Bulk data follows its message in
separate buffers.
"""

from __future__ import annotations

from typing import Any

import msgspec

from activebroker.events import TypeDescription
from activebroker.filters import Failure
from activebroker.protocol.flows import (
    Acknowledged,
    CreditReturned,
    Events,
    FlowDropped,
    FlowEnded,
    FlowOpened,
    FlowRewound,
    StreamEnded,
    TypeAnnounced,
)
from activebroker.protocol.orders import (
    ChangeStage,
    KeepStage,
    OpenFlow,
    Order,
    ReleaseInlet,
    ReportNode,
    ReportSent,
    ReportStory,
    SetPredicate,
)
from activebroker.protocol.requests import (
    ChangeRequest,
    Derive,
    Join,
    OpenChannel,
    Question,
    ReportStatus,
)
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


class Call(Message, frozen=True):
    id: int
    body: CallBody


class Answer(Message, frozen=True):
    id: int
    result: Any = None
    error: Error | None = None


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


class CheckpointStored(Message, frozen=True):
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
    | CheckpointStored
    | OutletDrained
    | PeerSuspected
    | Greet
    | ExpectFlow
    | Heard
    | Expelled
)

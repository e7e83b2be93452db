"""The inputs of a node (past tense) and its effects, which its driver carries out (imperative).

The driver is the runtime, with threads and sockets, or the simulation, in virtual time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from activebroker.core.errors import ActiveBrokerError
from activebroker.events import Batch, in_order
from activebroker.filters import Envelope, Failure, RunResult
from activebroker.matching import Chunk
from activebroker.protocol.flows import StreamEnded
from activebroker.protocol.frame import Buffers
from activebroker.protocol.messages import CallBody, FailuresReported
from activebroker.protocol.specs import Offset, Offsets, Since, StageSpec
from derivation.protocol import Error

# --- inputs -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FrameArrived:
    """A frame came from the wire: its encoded head, the buffers that follow, and the node at the
    other end of the connection."""

    head: bytes | memoryview
    buffers: Sequence[Any]
    source: str


@dataclass(frozen=True, slots=True)
class PeerHeard:
    """Part of a frame has come from a peer: the peer is alive, though its link may be slow."""

    peer: str


@dataclass(frozen=True, slots=True)
class PeerHungUp:
    """A peer has closed its connection: its process may have ended."""

    peer: str


@dataclass(frozen=True, slots=True)
class PeerEnded:
    """No process listens any more at the address where a peer was dialled."""

    peer: str


@dataclass(frozen=True, slots=True)
class PeerAbsent:
    """No process listens at the address of a silent peer: the answer to `Knock`."""

    peer: str


@dataclass(frozen=True, slots=True)
class BatchPublished:
    """The user's supplier published a batch at `outlet`, which must be ready."""

    outlet: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class SupplierDrained:
    """All that the user's supplier had published was handed over: the answer to
    `DrainSupplier`."""

    outlet: int
    finished: bool


@dataclass(frozen=True, slots=True)
class BatchConsumed:
    """The user took `nbytes` of a flow from a subscription."""

    inlet: int
    flow: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class RequestMade:
    """The user asked the directory for something; `Reply` with the same id answers."""

    id: int
    body: CallBody
    patience: float  # seconds


@dataclass(frozen=True, slots=True)
class SyncAsked:
    """The user wants to know when all that was published at an outlet so far is acknowledged.
    `Reply` with the same id tells."""

    id: int
    outlet: int


@dataclass(frozen=True, slots=True)
class InletOpened:
    """The user opened the receiving end of a subscription."""

    inlet: int
    received: Offsets = field(default_factory=dict)  # at the program's node before this one
    logged: bool = False  # what comes is from a log, whose offsets hold in any fabric
    ends: bool = False  # it ends with its flow, though the channel goes on


@dataclass(frozen=True, slots=True)
class InletClosed:
    inlet: int


@dataclass(frozen=True, slots=True)
class LogState:
    """What a log has: all from the position `first` to `position`, and of each supplier all before
    its offset."""

    first: int
    position: int
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class StageLoaded:
    """A payload was verified and unpacked, or refused with `error`."""

    stage: int
    error: str | None = None
    log: LogState | None = None  # of a log's stage


@dataclass(frozen=True, slots=True)
class WorkDone:
    """The answer to `RunStage`."""

    stage: int
    result: RunResult
    cpu_seconds: float = 0.0  # used by the filter since the last answer, also for snapshots


@dataclass(frozen=True, slots=True)
class LogAppended:
    """The items are on disk, or could not be written; then nothing more can."""

    stage: int
    first: int  # the first position that is kept
    error: Error | None = None


@dataclass(frozen=True, slots=True)
class LogRead:
    """What was read for a flow."""

    stage: int
    flow: int
    position: int  # of the first item
    items: tuple[Chunk | StreamEnded, ...] = ()
    since: Offsets = field(default_factory=dict)  # what `start` leaves out, if it was looked up
    error: Error | None = None


@dataclass(frozen=True, slots=True)
class StateSnapshotted:
    stage: int
    state: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class StateFailed:
    """A filter's `snapshot` or `restore` raised: the filter goes on without the state of its old
    place."""

    stage: int
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class StageChanged:
    """A filter has taken other parameters, and this is its state; or it could not: `error`."""

    stage: int
    state: dict[str, bytes]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TimerFired:
    key: str


Input = (
    FrameArrived
    | PeerHeard
    | PeerHungUp
    | PeerEnded
    | PeerAbsent
    | BatchPublished
    | SupplierDrained
    | BatchConsumed
    | RequestMade
    | SyncAsked
    | InletOpened
    | InletClosed
    | StageLoaded
    | WorkDone
    | LogAppended
    | LogRead
    | StateSnapshotted
    | StateFailed
    | StageChanged
    | TimerFired
)

# --- effects ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Knock:
    """See whether a process listens at the address of a silent peer. Repeated as long as the peer
    is silent."""

    peer: str
    address: str


@dataclass(frozen=True, slots=True)
class Transmit:
    """Put frames on the wire to `peer`, in order. They may be lost: the link sends them again."""

    peer: str
    address: str | None
    frames: Sequence[tuple[bytes, Buffers]]


@dataclass(frozen=True, slots=True)
class ForgetPeer:
    """The peer is lost: drop its connection."""

    peer: str


@dataclass(frozen=True, slots=True)
class Deliver:
    """Put a batch in the queue of a subscription; `BatchConsumed` follows when it is taken."""

    inlet: int
    flow: int
    batch: Batch
    nbytes: int


@dataclass(frozen=True, slots=True)
class EndSubscription:
    """Nothing more will come; `error` says why, if that is not the end of the channel."""

    inlet: int
    error: ActiveBrokerError | None = None


@dataclass(frozen=True, slots=True)
class DrainSupplier:
    """Take no more from the user's supplier; `SupplierDrained` answers when all that it has
    published was handed over."""

    outlet: int
    finished: bool


@dataclass(frozen=True, slots=True)
class EndSupplier:
    """Take no more from the user's supplier: its outlet is closed."""

    outlet: int
    finished: bool  # because its channel was closed
    error: ActiveBrokerError | None = None  # because this node is in no fabric any more
    # All events before this number were taken over by all their subscribers.
    acknowledged: int | None = None


@dataclass(frozen=True, slots=True)
class Legacy:
    """What a node has left when it left a fabric that it could not reach; the program's next node
    goes on with it."""

    reason: str
    # By channel and subscriber that its outlets served: where suppliers' streams began for it.
    subscribers: Mapping[str, Mapping[str, Offsets]] = field(default_factory=dict)
    # By stream: the events that some subscriber may not have.
    unacknowledged: Mapping[int, Sequence[Batch]] = field(default_factory=dict)
    # By channel and supplier: how far the stream has come.
    streams: Mapping[tuple[str, str], Offset] = field(default_factory=dict)
    # By inlet: how far a subscription to a channel with suppliers has come.
    received: Mapping[int, Offsets] = field(default_factory=dict)
    # By derived channel: how far a filter that was still at work has come.
    filtered: Mapping[str, Offsets] = field(default_factory=dict)

    def then(self, later: Legacy) -> Legacy:
        """What this node has left together with a later one, which was lost before it had taken
        over all of that."""
        served = {
            name: subscribers for name, subscribers in later.subscribers.items() if subscribers
        }
        return Legacy(
            later.reason,
            {**self.subscribers, **served},
            {**self.unacknowledged, **later.unacknowledged},
            {**self.streams, **later.streams},
            {**self.received, **later.received},
            {**self.filtered, **later.filtered},
        )

    def unacknowledged_of(self, channel: str, supplier: str) -> list[Batch]:
        """The events of a supplier that some subscriber may not have, in order."""
        stream, _ = self.streams.get((channel, supplier), (-1, 0))
        return in_order(self.unacknowledged.get(stream, ()))


@dataclass(frozen=True, slots=True)
class Depart:
    """End the node, which has left its fabric, and let another one go on with what it leaves."""

    legacy: Legacy


@dataclass(frozen=True, slots=True)
class ResumeOutlet:
    """The outlet is ready again."""

    outlet: int


@dataclass(frozen=True, slots=True)
class LoadStage:
    """Verify and unpack the stage's payload; `StageLoaded` answers."""

    stage: StageSpec


@dataclass(frozen=True, slots=True)
class RunStage:
    """Run the filter. `WorkDone` answers; until then the node asks for nothing more of this
    stage."""

    stage: int
    items: tuple[Batch | str, ...] = ()  # in order; a name: that supplier's stream has ended
    idle: bool = False  # call the idle hook instead
    end: bool = False  # all streams have ended


@dataclass(frozen=True, slots=True)
class AppendLog:
    """Append to the stage's log, in order, and bring it to disk. `LogAppended` answers; until then
    the node asks for nothing more to be appended."""

    stage: int
    items: tuple[Chunk | StreamEnded, ...]


@dataclass(frozen=True, slots=True)
class ReadLog:
    """Read from the stage's log for a flow, from a position on; `LogRead` answers.

    Without a position it is looked up: where `start` says, and after what the subscriber has
    already, `since`.
    """

    stage: int
    flow: int
    position: int | None
    upto: int  # the position where to stop
    nbytes: int  # to read, about
    start: Since | None = None
    since: Offsets = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SnapshotStage:
    """Take the filter's state; `StateSnapshotted` answers."""

    stage: int


@dataclass(frozen=True, slots=True)
class RestoreStage:
    """Give the filter the state from its old place, before any further work."""

    stage: int
    state: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Give the stage's filter the parameters of this envelope; `StageChanged` answers."""

    stage: int
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class UnloadStage:
    stage: int


@dataclass(frozen=True, slots=True)
class LeaveFabric:
    """Let the process leave the fabric: it is not needed any more."""


@dataclass(frozen=True, slots=True)
class ShowFailures:
    """Events were lost by a filter that this node derived."""

    report: FailuresReported


@dataclass(frozen=True, slots=True)
class Reply:
    request: int
    result: Any = None
    error: ActiveBrokerError | None = None


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Give `TimerFired(key)` in `after` seconds; replaces an earlier timer of the same key."""

    key: str
    after: float


@dataclass(frozen=True, slots=True)
class CancelTimer:
    key: str


Effect = (
    Transmit
    | ForgetPeer
    | Knock
    | Deliver
    | EndSubscription
    | DrainSupplier
    | EndSupplier
    | Depart
    | ResumeOutlet
    | LoadStage
    | RunStage
    | AppendLog
    | ReadLog
    | SnapshotStage
    | RestoreStage
    | ChangeFilter
    | UnloadStage
    | LeaveFabric
    | ShowFailures
    | Reply
    | SetTimer
    | CancelTimer
)

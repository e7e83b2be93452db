"""What a node is told (past tense) and what it asks its driver to do (imperative).

The driver is the runtime, with threads and sockets, or a simulation, in virtual time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from activebroker.core.errors import ActiveBrokerError
from activebroker.events import Batch, in_order
from activebroker.filters import Envelope, Failure, RunResult
from activebroker.protocol.frame import Buffers
from activebroker.protocol.messages import CallBody, FailuresReported
from activebroker.protocol.specs import Offset, Offsets, StageSpec

# --- inputs -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FrameArrived:
    """A frame from the wire: its encoded head, the buffers that follow it, and the node that the
    connection is with."""

    head: bytes | memoryview
    buffers: Sequence[Any]
    source: str


@dataclass(frozen=True, slots=True)
class PeerHeard:
    """Part of a frame has come from a peer: it lives, though its link may be thin."""

    peer: str


@dataclass(frozen=True, slots=True)
class PeerHungUp:
    """The connection to a peer has ended, from the other end: its process may have, too."""

    peer: str


@dataclass(frozen=True, slots=True)
class PeerEnded:
    """A peer that was dialled at its address is no process any more."""

    peer: str


@dataclass(frozen=True, slots=True)
class PeerAbsent:
    """Nobody was there where a silent peer listens: see `Knock`."""

    peer: str


@dataclass(frozen=True, slots=True)
class BatchPublished:
    """The user's supplier behind `outlet` has a batch. The outlet must be ready."""

    outlet: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class SupplierDrained:
    """All that the user had published behind `outlet` was handed over; see `DrainSupplier`."""

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
    """The user asks the directory for something; `Reply` with the same id answers."""

    id: int
    body: CallBody
    patience: float  # seconds


@dataclass(frozen=True, slots=True)
class InletOpened:
    """The user opened the receiving end of a subscription, which has `received` so much before."""

    inlet: int
    received: Offsets = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InletClosed:
    inlet: int


@dataclass(frozen=True, slots=True)
class StageLoaded:
    """A payload was verified and unpacked, or refused with `error`."""

    stage: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class WorkDone:
    """`cpu_seconds`: what the filter has used since the last one, snapshots and all."""

    stage: int
    result: RunResult
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class StateSnapshotted:
    stage: int
    state: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class StateFailed:
    """A filter's `snapshot` or `restore` raised: it goes on without the state of its old place."""

    stage: int
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class StageChanged:
    """A filter has other parameters, and this is its state; or it could not take them: `error`."""

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
    | InletOpened
    | InletClosed
    | StageLoaded
    | WorkDone
    | StateSnapshotted
    | StateFailed
    | StageChanged
    | TimerFired
)

# --- effects ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Knock:
    """See whether anybody is there where a silent peer listens. Asked time and again as long as it
    is silent, each time as if it were the first."""

    peer: str
    address: str


@dataclass(frozen=True, slots=True)
class Transmit:
    """Put frames on the wire to `peer`, in order. May lose them: the link sends again."""

    peer: str
    address: str | None
    frames: Sequence[tuple[bytes, Buffers]]


@dataclass(frozen=True, slots=True)
class ForgetPeer:
    """The peer is lost: drop its connection."""

    peer: str


@dataclass(frozen=True, slots=True)
class Deliver:
    """Put a batch in the queue of a subscription; `BatchConsumed` tells when it was taken."""

    inlet: int
    flow: int
    batch: Batch
    nbytes: int


@dataclass(frozen=True, slots=True)
class EndSubscription:
    """Nothing more will come; `error` where that is not the end of the channel."""

    inlet: int
    error: ActiveBrokerError | None = None


@dataclass(frozen=True, slots=True)
class DrainSupplier:
    """Take no more from the user's supplier; `SupplierDrained` answers when what was published
    has been handed over."""

    outlet: int
    finished: bool


@dataclass(frozen=True, slots=True)
class OutletClosed:
    """A supplier's outlet takes no more; `finished`: because its channel was closed; `error`:
    because this node is in no fabric any more.

    `acknowledged`: all events before this number were taken over by all who want them.
    """

    outlet: int
    finished: bool
    error: ActiveBrokerError | None = None
    acknowledged: int | None = None


@dataclass(frozen=True, slots=True)
class Departed:
    """This node has left a fabric that it cannot reach, and does nothing more.

    `subscribers` are, by channel, those whom its outlets served, and where suppliers' streams began
    for them. `streams`: how far those of suppliers have come, by channel and supplier;
    `unacknowledged`, by stream: the events that somebody may not have. `received`: how far
    subscriptions to such channels have come; `filtered`, by derived channel: how far filters have
    that were still at work.
    """

    reason: str
    subscribers: Mapping[str, Mapping[str, Offsets]] = field(default_factory=dict)
    unacknowledged: Mapping[int, Sequence[Batch]] = field(default_factory=dict)
    streams: Mapping[tuple[str, str], Offset] = field(default_factory=dict)
    received: Mapping[int, Offsets] = field(default_factory=dict)
    filtered: Mapping[str, Offsets] = field(default_factory=dict)

    def then(self, later: Departed) -> Departed:
        """What this node has left and a later one, which was lost before all was laid there."""
        served = {
            name: subscribers for name, subscribers in later.subscribers.items() if subscribers
        }
        return Departed(
            later.reason,
            {**self.subscribers, **served},
            {**self.unacknowledged, **later.unacknowledged},
            {**self.streams, **later.streams},
            {**self.received, **later.received},
            {**self.filtered, **later.filtered},
        )

    def unacknowledged_of(self, channel: str, supplier: str) -> list[Batch]:
        """The events of a supplier that somebody may not have, in order."""
        stream, _ = self.streams.get((channel, supplier), (-1, 0))
        return in_order(self.unacknowledged.get(stream, ()))


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
    """Run the filter, items in order: a batch, or a supplier's name whose stream has ended.

    `idle`: call its idle hook; `end`: all streams have ended. `WorkDone` answers; until then the
    node asks for nothing more of this stage.
    """

    stage: int
    items: tuple[Batch | str, ...] = ()
    idle: bool = False
    end: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotStage:
    """`StateSnapshotted` answers."""

    stage: int


@dataclass(frozen=True, slots=True)
class RestoreStage:
    """Give the stage the state from its old place, before any further work."""

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
    """`TimerFired(key)` in `after` seconds; replaces an earlier timer of the same key."""

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
    | OutletClosed
    | Departed
    | ResumeOutlet
    | LoadStage
    | RunStage
    | SnapshotStage
    | RestoreStage
    | ChangeFilter
    | UnloadStage
    | ShowFailures
    | Reply
    | SetTimer
    | CancelTimer
)

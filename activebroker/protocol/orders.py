"""What the directory asks of the nodes."""

from __future__ import annotations

from activebroker.filters import Envelope
from activebroker.protocol.specs import (
    FlowSpec,
    Offsets,
    StageSpec,
)
from derivation.protocol import (
    Message,
)


class StepDown(Message, frozen=True):
    """Leave the fabric: the process is not needed any more."""


class OpenOutlet(Message, frozen=True):
    outlet: int
    channel: str
    supplier: str
    stream: int  # the number of its stream, higher than those of all streams before, in any fabric


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
    after: Offsets  # at a relay: and after these offsets, which are still on their way there


class ReportLog(Message, frozen=True):
    """Answer with the positions that a log's stage has: the first and the next one."""

    stage: int


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
    after: dict[int, Offsets]
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


# Calls of the directory to a member.
Order = (
    ReportNode
    | ReportLog
    | ReportStory
    | StepDown
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

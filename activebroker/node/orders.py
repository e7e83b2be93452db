"""The orders of the directory to a node, and the answers of the driver for its filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from activebroker.core.errors import PayloadRefused
from activebroker.directory.context import Done
from activebroker.filters import Failure
from activebroker.node.counters import counters
from activebroker.node.dataplane.inlets import Inlets
from activebroker.node.dataplane.logged import LogOutlet
from activebroker.node.dataplane.outlets import Outlets
from activebroker.node.dataplane.plane import FilterChanged, Plane
from activebroker.node.dataplane.saving import SavingState
from activebroker.node.dataplane.stage import Stage
from activebroker.node.dataplane.stages import Stages
from activebroker.node.dataplane.states import StageState
from activebroker.node.effects import (
    DrainSupplier,
    LeaveFabric,
    LoadStage,
    LogAppended,
    LogRead,
    LogState,
    RestoreStage,
    StageChanged,
    StageLoaded,
    StateFailed,
    StateSnapshotted,
    WorkDone,
)
from activebroker.node.executor import Answer
from activebroker.node.links.peers import Peers
from activebroker.node.moves import Moves
from activebroker.protocol.messages import FailuresReported
from activebroker.protocol.orders import (
    AbandonInlet,
    ChangeStage,
    CloseFlow,
    CloseInlet,
    CloseOutlet,
    Deploy,
    FinishFlow,
    ForgetSaved,
    ForgetSubscriber,
    KeepStage,
    OpenFlow,
    OpenOutlet,
    Order,
    ReleaseInlet,
    ReportLog,
    ReportNode,
    ReportSent,
    ReportStory,
    SetPredicate,
    StepDown,
    Undeploy,
)
from activebroker.protocol.specs import StageSpec

SAMPLES = 10  # failures reported in full for each piece of work


class Orders:
    """Carries orders out. Two of them, which the driver has to do, are answered later."""

    def __init__(
        self,
        plane: Plane,
        outlets: Outlets,
        inlets: Inlets,
        stages: Stages,
        moves: Moves,
        peers: Peers,
    ) -> None:
        self._plane = plane
        self._context = plane.context
        self._outlets = outlets
        self._inlets = inlets
        self._stages = stages
        self._moves = moves
        self._peers = peers
        self.deploying: dict[int, Done] = {}
        self._changing: dict[int, Done] = {}

    def carry_out(self, order: Order, done: Done) -> None:
        match order:
            case Deploy(spec):
                self._deploy(spec, done)
            case ChangeStage():
                self._change(order, done)
            case _:
                done(self._answer(order), None)

    def changed(self, fact: FilterChanged) -> None:
        if (done := self._changing.pop(fact.stage, None)) is not None:
            done(fact.outcome, None)

    def driver_answered(self, answer: Answer) -> None:
        """Go on after what the driver has done for a stage; the stage may be gone meanwhile."""
        stage = self._plane.stages.get(answer.stage)
        match answer:
            case StageLoaded(stage_id, error, log):
                if stage is not None and log is not None:
                    error = self._begin_log(stage, log)
                if not self._moves.loaded(stage_id, error):
                    self._loaded(stage_id, error)
            case LogAppended(_, first, failure) if stage is not None:
                stage.appended(first, failure)
            case LogRead() if stage is not None and isinstance(stage.outlet, LogOutlet):
                stage.outlet.read(answer)
            case WorkDone(_, result, cpu_seconds):
                self._stages.cpu_seconds += cpu_seconds
                if stage is not None:
                    told = [*result.failures, *result.late_samples]
                    self._report(stage, told, len(result.failures) + result.late)
                    stage.done(result, cpu_seconds)
            case StateSnapshotted(stage_id, state):
                if stage is not None and stage.state is StageState.SNAPSHOTTING:
                    stage.snapshot_taken(state)
                else:
                    self._moves.captured(stage_id, state)
            case StateFailed(_, failures) if stage is not None:
                if not stage.saving.fails:  # else it was reported, and a move has asked once more
                    self._report(stage, failures, len(failures))
                saving = stage.saving.state is SavingState.TAKING or stage.changing is not None
                stage.saving.fails |= saving
            case StageChanged(_, state, error) if stage is not None:
                stage.changed(state, error)
        self._plane.touch(answer.stage)

    # --- inside -------------------------------------------------------------------------------

    def _answer(self, order: Order) -> Any:
        """Carry out an order at once; return the answer."""
        match order:
            case OpenOutlet(outlet, channel, supplier, stream):
                self._outlets.open(outlet, channel, supplier, stream)
            case CloseOutlet(outlet, finished):
                self._close_outlet(outlet, finished)
            case OpenFlow(spec):
                return self._outlets.open_flow(spec)
            case CloseFlow(outlet, flow, subscriber):
                self._outlets.close_flow(outlet, flow, subscriber)
            case FinishFlow(outlet, flow, after):
                self._outlets.finish_flow(outlet, flow, after)
            case ForgetSubscriber(outlet, subscriber):
                self._outlets.forget_subscriber(outlet, subscriber)
            case ReportSent(outlet, subscriber):
                return self._outlets.sent_to(outlet, subscriber)
            case SetPredicate(outlet, subscriber, predicate, certain):
                return self._outlets.set_predicate(outlet, subscriber, predicate, certain)
            case CloseInlet(inlet, flows):
                self._inlets.complete(inlet, flows)
            case AbandonInlet(inlet, reason):
                self._inlets.abandon(inlet, reason)
            case ReleaseInlet(inlet, outlets):
                return self._inlets.release(inlet, outlets)
            case Undeploy(stage_id, discard):
                (self._stages.discard if discard else self._stages.remove)(stage_id)
            case ForgetSaved(stage_id):
                if (stage := self._plane.stages.get(stage_id)) is not None:
                    self._stages.forget_saved(stage)
            case KeepStage(stage_id, change):
                stage = self._plane.stages.get(stage_id)
                if kept := stage is None or stage.keep(change):
                    self._changing.pop(stage_id, None)
                return kept
            case StepDown():
                self._context.effects.append(LeaveFabric())
            case ReportLog(stage_id):
                outlet_ = self._plane.outlets.get(stage_id)
                return outlet_.positions if isinstance(outlet_, LogOutlet) else None
            case ReportNode():
                return counters(self._plane, self._stages.cpu_seconds, self._moves, self._peers)
            case ReportStory(move):
                return {"now": self._context.now, "parts": self._moves.story(move)}
            case Deploy() | ChangeStage():
                raise AssertionError(f"{order!r} is answered by the driver")
            case _:
                assert_never(order)
        return None

    def _deploy(self, spec: StageSpec, done: Done) -> None:
        stage = self._stages.open(spec)
        stage.inlet.anew = spec.checkpoint is None
        if spec.envelope is None:  # a relay has nothing to load
            self._stages.start(stage)
            done(None, None)
            return
        self.deploying[spec.id] = done
        self._context.effects.append(LoadStage(spec))
        if spec.checkpoint is not None and spec.checkpoint.state:
            self._context.effects.append(RestoreStage(spec.id, spec.checkpoint.state))

    def _loaded(self, stage_id: int, error: str | None) -> None:
        if (done := self.deploying.pop(stage_id, None)) is None:
            return
        if error is not None:
            self._stages.remove(stage_id)
            done(None, PayloadRefused(f"{self._context.here!r} cannot run it: {error}"))
        else:
            if (stage := self._plane.stages.get(stage_id)) is not None:  # else it was taken down
                self._stages.start(stage)
            done(None, None)

    def _begin_log(self, stage: Stage, log: LogState) -> str | None:
        """Let a log's stage go on after what is on disk. Returns why it cannot: the numbers of
        streams have to go up, or events would be taken for some that are there already."""
        newest = max((stream for stream, _ in log.offsets.values()), default=0)
        if newest >= stage.spec.stream:
            return (
                "the log has events of a fabric that began later than this one, by its clock: set "
                "the clock of the first broker's machine, or give the log another directory"
            )
        stage.begin_log(log)
        return None

    def _change(self, order: ChangeStage, done: Done) -> None:
        if (stage := self._plane.stages.get(order.stage)) is None:
            done(False, None)
            return
        self._changing[order.stage] = done
        stage.change(order.change, order.envelope, order.after, order.passed)
        self._plane.touch(order.stage)

    def _close_outlet(self, outlet_id: int, finished: bool) -> None:
        outlet = self._plane.outlets.get(outlet_id)
        if outlet is not None and finished:
            self._outlets.let_go(outlet)
        if outlet is None or not outlet.ended:
            self._context.effects.append(DrainSupplier(outlet_id, finished))

    def _report(self, stage: Stage, failures: Sequence[Failure], count: int) -> None:
        """Tell the channel's owner which events its filter has lost, or some of them."""
        if count:
            samples = tuple(failures[:SAMPLES])
            report = FailuresReported(stage.spec.channel, count, samples)
            self._context.send(stage.spec.owner, report, ())

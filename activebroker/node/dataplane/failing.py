"""What follows when an effect could not be carried out: its stage or subscription ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from activebroker.core.errors import flatten
from activebroker.filters import Failure, RunResult
from activebroker.node.dataplane.stage import Stage
from activebroker.node.effects import (
    AppendLog,
    ChangeFilter,
    Deliver,
    Effect,
    InletClosed,
    Input,
    LoadStage,
    LogAppended,
    LogRead,
    ReadLog,
    RestoreStage,
    RunStage,
    SnapshotStage,
    StageChanged,
    StageLoaded,
    StateFailed,
    StateSnapshotted,
    WorkDone,
)


def instead(
    effect: Effect, stages: Mapping[int, Stage], error: Exception
) -> Sequence[Input] | None:
    """The inputs for the node instead of the effect's own answer; None if the effect was not for
    one stage or subscription.

    A stage whose work fails stops, and its subscribers get the error.
    """
    text = f"{type(error).__name__}: {error}"
    match effect:
        case Deliver(inlet):
            return [InletClosed(inlet)]
        case LoadStage(spec):
            return [StageLoaded(spec.id, text)]
        case RunStage(stage):
            failures = [_failure(stages.get(stage), error)]
            return [WorkDone(stage, RunResult(failures=failures, stopped=True))]
        case RestoreStage(stage):
            return [StateFailed(stage, (_failure(stages.get(stage), error),))]
        case AppendLog(stage):
            return [LogAppended(stage, 0, flatten(error))]
        case ReadLog(stage, flow):
            return [LogRead(stage, flow, 0, error=flatten(error))]
        case SnapshotStage(stage):
            failed = StateFailed(stage, (_failure(stages.get(stage), error),))
            return [failed, StateSnapshotted(stage, {})]
        case ChangeFilter(stage):
            return [StageChanged(stage, {}, text)]
    return None


def _failure(stage: Stage | None, error: Exception) -> Failure:
    channel = stage.spec.channel if stage is not None else ""
    envelope = stage.spec.envelope if stage is not None else None
    return Failure.of(error, channel, envelope.name if envelope is not None else "")

"""Runs a stage's filter: a piece of work in, the inputs that answer it out.

The executor has no thread and no clock. The runtime calls it in a strand of its pool, the
simulation when the time of a piece of work is over. User code can raise anything; no exception
leaves the executor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from activebroker.core.errors import ActiveBrokerError, LogUnavailable, flatten
from activebroker.filters import Envelope, Failure, Payload, Runner, RunResult, make_runner
from activebroker.node.effects import (
    AppendLog,
    ChangeFilter,
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
from activebroker.node.logwriter import LogWriter
from activebroker.protocol.specs import StageSpec

log = logging.getLogger(__name__)
T = TypeVar("T")

MakeRunner = Callable[[Payload, Envelope, StageSpec], Runner | LogWriter]
Unpack = Callable[[Envelope], Payload]
Work = RunStage | RestoreStage | SnapshotStage | ChangeFilter | AppendLog | ReadLog
Answer = (
    StageLoaded | WorkDone | StateFailed | StateSnapshotted | StageChanged | LogAppended | LogRead
)


def python_runner(payload: Payload, envelope: Envelope, stage: StageSpec) -> Runner:
    """Runs the filter in this process."""
    return make_runner(payload, envelope, stage.channel)


class Executor:
    """Runs one stage's filter. `unpack` makes a payload of an envelope; an engine makes a runner of
    the payload."""

    def __init__(self, spec: StageSpec, unpack: Unpack, engines: Mapping[str, MakeRunner]) -> None:
        self.spec = spec
        self._unpack = unpack
        self._engines = engines
        self._runner: Runner | LogWriter | None = None

    def load(self) -> StageLoaded:
        envelope = self.spec.envelope
        assert envelope is not None  # a relay has nothing to load
        try:
            make = self._engines.get(self.spec.engine)
            if make is None:
                raise ActiveBrokerError(f"This node cannot run filters on {self.spec.engine!r}.")
            self._runner = make(self._unpack(envelope), envelope, self.spec)
        except BaseException as error:  # noqa: BLE001 - a payload can raise anything
            return StageLoaded(self.spec.id, _text(error))
        log = self._runner.state if isinstance(self._runner, LogWriter) else None
        return StageLoaded(self.spec.id, log=log)

    def carry_out(self, work: Work) -> list[Answer]:
        """Do a piece of work. The answer is empty if the filter was not loaded: the node knows."""
        runner, stage = self._runner, self.spec.id
        if runner is None:
            return []
        if isinstance(runner, LogWriter):
            return self._log(runner, work)
        match work:
            case RunStage(_, items, idle, end):
                if idle:
                    result, failed = self._attempt(runner.idle)
                elif end:
                    result, failed = self._attempt(runner.end_all)
                else:
                    result, failed = self._attempt(lambda: runner.run(items))
                return [WorkDone(stage, result or RunResult(failures=failed))]
            case RestoreStage(_, state):
                _, failed = self._attempt(lambda: runner.restore(state))
                return self._state_failed(failed)
            case SnapshotStage():
                taken, failed = self._attempt(runner.snapshot)
                return [*self._state_failed(failed), StateSnapshotted(stage, taken or {})]
            case ChangeFilter(_, envelope):
                try:
                    runner.reconfigure(self._unpack(envelope), envelope)
                except BaseException as error:  # noqa: BLE001 - a payload can raise anything
                    return [StageChanged(stage, {}, _text(error))]
                taken, failed = self._attempt(runner.snapshot)
                return [*self._state_failed(failed), StageChanged(stage, taken or {})]
        return []  # for a log, and this is none

    def _log(self, log: LogWriter, work: Work) -> list[Answer]:
        """Append to a log, or read from it."""
        match work:
            case AppendLog(stage, items):
                try:
                    return [LogAppended(stage, log.append(items))]
                except BaseException as error:  # noqa: BLE001 - whatever a disk does
                    return [LogAppended(stage, 0, flatten(_of_the_log(error)))]
            case ReadLog(stage, flow):
                try:
                    return [log.read(work)]
                except BaseException as error:  # noqa: BLE001 - as above
                    return [LogRead(stage, flow, 0, error=flatten(_of_the_log(error)))]
        return []  # it has no state

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()

    def _attempt(self, action: Callable[[], T]) -> tuple[T | None, list[Failure]]:
        """Call the runner, which handles itself what a filter raises; catch everything else."""
        try:
            return action(), []
        except BaseException as error:  # even SystemExit must not end the thread
            log.exception("stage of channel %r failed", self.spec.channel)
            envelope = self.spec.envelope
            name = envelope.name if envelope is not None else ""
            return None, [Failure.of(error, self.spec.channel, name)]

    def _state_failed(self, failed: list[Failure]) -> list[Answer]:
        return [StateFailed(self.spec.id, tuple(failed))] if failed else []


def _of_the_log(error: BaseException) -> ActiveBrokerError:
    return error if isinstance(error, ActiveBrokerError) else LogUnavailable(_text(error))


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"

"""Where user code runs: each stage whose filter has to run has a strand of the process's pool."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from activebroker.core.errors import ActiveBrokerError
from activebroker.events import Batch, TypeRegistry
from activebroker.filters import Envelope, Failure, FilterRunner, Payload, Runner, RunResult, load
from activebroker.node.effects import (
    ChangeFilter,
    Input,
    RestoreStage,
    RunStage,
    SnapshotStage,
    StageChanged,
    StageLoaded,
    StateFailed,
    StateSnapshotted,
    WorkDone,
)
from activebroker.protocol.specs import StageSpec
from activebroker.runtime.pool import POOL

log = logging.getLogger(__name__)

MakeRunner = Callable[[Payload, Envelope, str], Runner]
Work = RunStage | RestoreStage | SnapshotStage | ChangeFilter
Post = Callable[[Input], None]


def python_runner(payload: Payload, envelope: Envelope, channel: str) -> Runner:
    """Runs the filter in this process."""
    return FilterRunner(
        payload,
        channel=channel,
        name=envelope.name,
        shared=envelope.shared,
        stop_on_error=envelope.on_error == "stop",
        only_looks=envelope.only_looks,
    )


class Workers:
    """The runners of one node's stages. `post` puts an input into the node's queue."""

    def __init__(
        self, key: bytes, engines: dict[str, MakeRunner], registry: TypeRegistry, post: Post
    ) -> None:
        self._key = key
        self._registry = registry
        self._engines = engines
        self._post = post
        self._stages: dict[int, _Worker] = {}
        # So that there is a thread for filters when the system gives no more.
        self._reserve = POOL.strand()

    def load(self, spec: StageSpec) -> None:
        """Verify and unpack a payload, away from the node's thread: importing can take long."""
        worker = self._stages[spec.id] = _Worker(spec, self._post, self._unpack)
        worker.strand.do(lambda: self._load(spec, worker))

    def do(self, work: Work) -> None:
        """Queue a piece of work of a stage."""
        if (worker := self._stages.get(work.stage)) is not None:
            worker.strand.do(lambda: worker.carry_out(work))

    def unload(self, stage: int) -> None:
        if (worker := self._stages.pop(stage, None)) is not None:
            worker.strand.end(worker.close)

    def close(self) -> None:
        for stage in list(self._stages):
            self.unload(stage)
        self._reserve.end()

    def _unpack(self, envelope: Envelope) -> Payload:
        return load(envelope, self._key, self._registry)

    def _load(self, spec: StageSpec, worker: _Worker) -> None:
        assert spec.envelope is not None
        try:
            make = self._engines.get(spec.engine)
            if make is None:
                raise ActiveBrokerError(f"This node cannot run filters on {spec.engine!r}.")
            payload = self._unpack(spec.envelope)
            worker.runner = make(payload, spec.envelope, spec.channel)
        except BaseException as error:  # noqa: BLE001 - a payload can raise anything
            self._post(StageLoaded(spec.id, f"{type(error).__name__}: {error}"))
        else:
            self._post(StageLoaded(spec.id))


class _Worker:
    """One stage's filter and strand. `cpu_seconds`: of the filter, that were not told yet."""

    def __init__(self, spec: StageSpec, post: Post, unpack: Callable[[Envelope], Payload]) -> None:
        self.strand = POOL.strand()
        self.runner: Runner | None = None
        self.cpu_seconds = 0.0
        self._unpack = unpack
        self._spec = spec
        self._post = post

    def close(self) -> None:
        if self.runner is not None:
            self.runner.close()

    def carry_out(self, work: Work) -> None:
        if self.runner is None:
            return  # it was refused; the node knows
        runner, stage, begin = self.runner, self._spec.id, time.thread_time()
        match work:
            case RunStage(_, items, idle, end):
                result = self._run(runner, items, idle, end)
                used, self.cpu_seconds = self.cpu_seconds + time.thread_time() - begin, 0.0
                self._post(WorkDone(stage, result, used))
                return
            case RestoreStage(_, state):
                if (failed := self._attempt(lambda: runner.restore(state))) is not None:
                    self._post(StateFailed(stage, tuple(failed.failures)))
            case ChangeFilter(_, envelope):
                self._change(runner, envelope)
            case SnapshotStage():
                taken: dict[str, bytes] = {}
                if (failed := self._attempt(lambda: taken.update(runner.snapshot()))) is not None:
                    self._post(StateFailed(stage, tuple(failed.failures)))
                self._post(StateSnapshotted(stage, taken))
        self.cpu_seconds += time.thread_time() - begin

    def _change(self, runner: Runner, envelope: Envelope) -> None:
        taken: dict[str, bytes] = {}
        try:
            runner.reconfigure(self._unpack(envelope), envelope)
        except BaseException as error:  # noqa: BLE001 - a payload can raise anything
            self._post(StageChanged(self._spec.id, {}, f"{type(error).__name__}: {error}"))
            return
        if (failed := self._attempt(lambda: taken.update(runner.snapshot()))) is not None:
            self._post(StateFailed(self._spec.id, tuple(failed.failures)))
        self._post(StageChanged(self._spec.id, taken))

    def _run(
        self, runner: Runner, items: Sequence[Batch | str], idle: bool, end: bool
    ) -> RunResult:
        result = RunResult()

        def run() -> None:
            nonlocal result
            result = runner.idle() if idle else runner.end_all() if end else runner.run(items)

        return self._attempt(run) or result

    def _attempt(self, action: Callable[[], None]) -> RunResult | None:
        """The runner itself handles what a filter raises; this is for all else that can fail."""
        try:
            action()
        except BaseException as error:  # even SystemExit must not end the thread
            log.exception("stage of channel %r failed", self._spec.channel)
            envelope = self._spec.envelope
            name = envelope.name if envelope is not None else ""
            return RunResult(failures=[Failure.of(error, self._spec.channel, name)])
        return None

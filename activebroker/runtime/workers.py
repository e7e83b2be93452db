"""Where user code runs: a thread for each stage whose filter has to run at all.

So a filter that is slow, or stuck, holds up its own stage and nothing else.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import traceback
from collections.abc import Callable, Sequence

from activebroker.broker.effects import (
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
from activebroker.core.errors import ActiveBrokerError
from activebroker.events import Batch, TypeRegistry
from activebroker.filters import Envelope, Failure, FilterRunner, Payload, Runner, RunResult, unpack
from activebroker.routing import StageSpec

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

    def load(self, spec: StageSpec) -> None:
        """Verify and unpack a payload, away from the node's thread: importing can take long."""
        worker = self._stages[spec.id] = _Worker(spec, self._post, self._key)
        worker.do(lambda: self._load(spec, worker))

    def do(self, work: Work) -> None:
        """Queue a piece of work of a stage."""
        if (worker := self._stages.get(work.stage)) is not None:
            worker.do(lambda: worker.carry_out(work))

    def unload(self, stage: int) -> None:
        if (worker := self._stages.pop(stage, None)) is not None:
            worker.stop()

    def close(self) -> None:
        for stage in list(self._stages):
            self.unload(stage)

    def _load(self, spec: StageSpec, worker: _Worker) -> None:
        assert spec.envelope is not None
        try:
            make = self._engines.get(spec.engine)
            if make is None:
                raise ActiveBrokerError(f"This node cannot run filters on {spec.engine!r}.")
            payload = unpack(spec.envelope, self._key)
            # Before the first event comes: the filter meets instances of its own classes.
            self._registry.register(payload.input)
            self._registry.register(payload.output)
            worker.begin(make(payload, spec.envelope, spec.channel))
        except BaseException as error:  # noqa: BLE001 - a payload can raise anything
            self._post(StageLoaded(spec.id, f"{type(error).__name__}: {error}"))
        else:
            self._post(StageLoaded(spec.id))


class _Worker:
    """One stage's thread; it starts with the first work and ends with the stage."""

    def __init__(self, spec: StageSpec, post: Post, key: bytes) -> None:
        self.runner: Runner | None = None
        self._key = key
        self._spec = spec
        self._post = post
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        # A daemon: a filter that never returns must not keep the process alive.
        self._thread = threading.Thread(
            target=self._loop, name=f"stage {spec.channel}", daemon=True
        )
        self._started = False
        self._counted = 0.0  # CPU seconds of the thread that were told, or are not the filter's

    def begin(self, runner: Runner) -> None:
        """Have a filter; on the worker's thread."""
        self.runner = runner
        self._counted = time.thread_time()

    def do(self, task: Callable[[], None]) -> None:
        if not self._started:
            self._started = True
            self._thread.start()
        self._tasks.put(task)

    def stop(self) -> None:
        self._tasks.put(None)

    def carry_out(self, work: Work) -> None:
        runner = self.runner
        if runner is None:
            return  # it was refused; the node knows
        stage = self._spec.id
        match work:
            case RunStage(_, items, idle, end):
                result = self._run(runner, items, idle, end)
                before, self._counted = self._counted, time.thread_time()
                self._post(WorkDone(stage, result, self._counted - before))
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

    def _change(self, runner: Runner, envelope: Envelope) -> None:
        taken: dict[str, bytes] = {}
        try:
            runner.modulate(unpack(envelope, self._key), envelope)
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
            text = f"{type(error).__name__}: {error}"
            trace = traceback.format_exc()
            return RunResult(failures=[Failure(self._spec.channel, name, "", -1, text, trace)])
        return None

    def _loop(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
        if self.runner is not None:
            self.runner.close()

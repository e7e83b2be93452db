"""Where user code runs: each stage whose filter has to run has a strand of the pool."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from activebroker.events import TypeRegistry
from activebroker.filters import Envelope, Payload, load
from activebroker.node.effects import Input, WorkDone
from activebroker.node.executor import Executor, MakeRunner, Work
from activebroker.protocol.specs import StageSpec
from activebroker.runtime.pool import POOL

Post = Callable[[Input], None]


class Workers:
    """The filters of one node's stages. `post` puts an input into the node's queue."""

    def __init__(
        self, key: bytes, engines: dict[str, MakeRunner], registry: TypeRegistry, post: Post
    ) -> None:
        self._key = key
        self._registry = registry
        self._engines = engines
        self._post = post
        self._stages: dict[int, _Worker] = {}
        # So that there is a thread for filters even when the system gives no more.
        self._reserve = POOL.strand()

    def load(self, spec: StageSpec) -> None:
        """Verify and unpack a payload, outside the node's thread, since imports can take long."""
        executor = Executor(spec, self._unpack, self._engines)
        worker = self._stages[spec.id] = _Worker(executor, self._post)
        worker.strand.do(lambda: self._post(executor.load()))

    def do(self, work: Work) -> None:
        """Queue a piece of work of a stage."""
        if (worker := self._stages.get(work.stage)) is not None:
            worker.strand.do(lambda: worker.carry_out(work))

    def unload(self, stage: int) -> None:
        if (worker := self._stages.pop(stage, None)) is not None:
            worker.strand.end(worker.executor.close)

    def close(self) -> None:
        for stage in list(self._stages):
            self.unload(stage)
        self._reserve.end()

    def _unpack(self, envelope: Envelope) -> Payload:
        return load(envelope, self._key, self._registry)


class _Worker:
    """One stage's filter and strand. Answers to work report the CPU time that the filter took."""

    def __init__(self, executor: Executor, post: Post) -> None:
        self.executor = executor
        self.strand = POOL.strand()
        self._post = post
        self._cpu_seconds = 0.0  # that were not reported yet

    def carry_out(self, work: Work) -> None:
        begin = time.thread_time()
        answers = self.executor.carry_out(work)
        self._cpu_seconds += time.thread_time() - begin
        for answer in answers:
            if isinstance(answer, WorkDone):
                answer, self._cpu_seconds = replace(answer, cpu_seconds=self._cpu_seconds), 0.0
            self._post(answer)

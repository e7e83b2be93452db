"""The workers: a filter may do anything, and the node is told of it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import activebroker as ab
from activebroker.events import Event, EventType, TypeRegistry, encode
from activebroker.filters import FilterSpec, analyse, pack
from activebroker.node.effects import (
    Input,
    RestoreStage,
    RunStage,
    SnapshotStage,
    StageLoaded,
    StateFailed,
    StateSnapshotted,
    WorkDone,
)
from activebroker.node.executor import python_runner
from activebroker.protocol.specs import StageSpec
from activebroker.runtime.pool import POOL
from activebroker.runtime.workers import Workers

KEY = b"k" * 32


@dataclass(frozen=True)
class Tick:
    n: int


TICK = EventType.of(Tick)


class Count(ab.FIFOFilter):
    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event: Event) -> None:
        self.seen += 1
        super().enqueue(event.replace(Tick(self.seen)))


class Busy(Count):
    """Uses the processor for 20 ms an event, and as long for a snapshot."""

    def enqueue(self, event: Event) -> None:
        self._use()

    def snapshot(self) -> bytes:
        self._use()
        return b""

    def _use(self) -> None:
        enough = time.thread_time() + 0.02
        while time.thread_time() < enough:
            pass


class Quitter(Count):
    """Ends the process whenever it can."""

    def enqueue(self, event: Event) -> None:
        raise SystemExit("in enqueue")

    def snapshot(self) -> bytes:
        raise SystemExit("in snapshot")

    def restore(self, state: bytes) -> None:
        raise SystemExit("in restore")


class Bench:
    def __init__(self) -> None:
        self.posted: queue.Queue[Input] = queue.Queue()
        engines = {"python": python_runner}
        self.workers = Workers(KEY, engines, TypeRegistry(), self.posted.put)

    def load(self, filter: type[ab.FIFOFilter], engine: str = "python") -> Input:
        spec = FilterSpec.of(filter)
        envelope = pack(spec, TICK, analyse(spec, TICK), key=KEY)
        self.workers.load(StageSpec(1, "ticks", engine, envelope, "owner"))
        return self.next()

    def next(self) -> Any:
        return self.posted.get(timeout=30)

    def run(self, *numbers: int) -> Any:
        batch = encode(TICK, [Tick(n) for n in numbers], "A", 0, 0)
        self.workers.do(RunStage(1, (batch,)))
        return self.next()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.workers.close()


def test_work_is_done_in_order_and_state_goes_along(bench: Bench) -> None:
    assert bench.load(Count) == StageLoaded(1)
    done = bench.run(7, 7)
    assert isinstance(done, WorkDone)
    assert [c.n for batch in done.result.batches for c in batch.contents()] == [1, 2]
    bench.workers.do(SnapshotStage(1))
    snapshot = bench.next()
    assert isinstance(snapshot, StateSnapshotted) and list(snapshot.state) == ["A"]
    bench.workers.unload(1)
    bench.load(Count)
    bench.workers.do(RestoreStage(1, snapshot.state))
    done = bench.run(7)
    assert [c.n for batch in done.result.batches for c in batch.contents()] == [3]


def test_a_filter_that_exits_ends_nothing(bench: Bench) -> None:
    assert bench.load(Quitter) == StageLoaded(1)
    done = bench.run(1, 2)
    assert [failure.error for failure in done.result.failures] == ["SystemExit: in enqueue"] * 2
    bench.workers.do(SnapshotStage(1))
    failed, snapshot = bench.next(), bench.next()
    assert isinstance(failed, StateFailed)
    (failure,) = failed.failures
    assert failure.error == "SystemExit: in snapshot" and failure.seq == -1
    assert 'raise SystemExit("in snapshot")' in failure.traceback
    assert snapshot == StateSnapshotted(1, {})
    bench.workers.do(RestoreStage(1, {"B": b""}))
    failed = bench.next()
    assert isinstance(failed, StateFailed)
    assert failed.failures[0].error == "SystemExit: in restore"
    assert isinstance(bench.run(3), WorkDone), "the thread goes on"


def test_what_a_filter_uses_is_told_with_its_work(bench: Bench) -> None:
    bench.load(Busy)
    assert bench.run(1, 2).cpu_seconds >= 0.04
    bench.workers.do(SnapshotStage(1))
    bench.next()
    assert bench.run().cpu_seconds >= 0.02, "the snapshot's"


def test_an_engine_that_the_node_lacks_is_refused(bench: Bench) -> None:
    refused = bench.load(Count, engine="abacus")
    assert isinstance(refused, StageLoaded)
    assert refused.error == "ActiveBrokerError: This node cannot run filters on 'abacus'."


def test_work_for_a_stage_that_is_gone_is_dropped(bench: Bench) -> None:
    bench.load(Count)
    bench.workers.unload(1)
    bench.workers.do(SnapshotStage(1))
    bench.load(Count)
    assert bench.posted.empty()


def test_closing_leaves_no_strand(bench: Bench) -> None:
    bench.load(Count)
    strand = bench.workers._stages[1].strand
    assert any(strand in thread.strands for thread in POOL.threads)
    bench.workers.unload(1)
    end = time.monotonic() + 30
    while any(strand in thread.strands for thread in POOL.threads):
        assert time.monotonic() < end
        time.sleep(0.001)


class Connected(Count):
    """What it opens can be used by one thread only."""

    def on_start(self) -> None:
        self.made_by = threading.get_ident()

    def enqueue(self, event: Event) -> None:
        assert self.made_by == threading.get_ident()
        super().enqueue(event)


def test_a_filter_stays_on_its_thread(bench: Bench) -> None:
    bench.load(Connected)
    others = [Workers(KEY, {}, TypeRegistry(), bench.posted.put) for _ in range(20)]
    for number in range(20):
        assert not bench.run(number).result.failures
    for each in others:
        each.close()

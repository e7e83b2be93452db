"""What runs a filter: each piece of work is answered, whatever user code does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import activebroker as ab
from activebroker.events import Event, EventType, TypeRegistry, encode
from activebroker.filters import Envelope, FilterSpec, Payload, analyse, load, pack
from activebroker.node.effects import (
    ChangeFilter,
    RestoreStage,
    RunStage,
    SnapshotStage,
    StageChanged,
    StageLoaded,
    StateFailed,
    StateSnapshotted,
    WorkDone,
)
from activebroker.node.executor import Executor, python_runner
from activebroker.protocol.specs import StageSpec

KEY = b"k" * 32


@dataclass(frozen=True)
class Mark:
    n: int


MARK = EventType.of(Mark)


class Times(ab.FIFOFilter):
    """Numbers what it has seen; by default it raises wherever it can but for its events."""

    parameters = ("by",)

    def __init__(self, by: int = 0) -> None:
        self.by = by
        self.seen = 0

    def enqueue(self, event: Event) -> None:
        self.seen += 1
        super().enqueue(event.replace(Mark(self.seen * self.by)))

    def snapshot(self) -> bytes:
        if not self.by:
            raise SystemExit("in snapshot")
        return str(self.seen).encode()

    def restore(self, state: bytes) -> None:
        if not self.by:
            raise SystemExit("in restore")
        self.seen = int(state)


def envelope_for(by: int, changed: int | None = None) -> Envelope:
    spec = FilterSpec.of((Times, by))
    if changed is not None:
        spec = spec.reconfigured({"by": changed})
    return pack(spec, MARK, analyse(spec, MARK), key=KEY)


def executor_of(by: int, unpack: Any = None, engine: str = "python") -> Executor:
    registry = TypeRegistry()

    def trusted(envelope: Envelope) -> Payload:
        return load(envelope, KEY, registry)

    spec = StageSpec(7, "marks.Times", engine, envelope_for(by), "owner")
    return Executor(spec, unpack or trusted, {"python": python_runner})


def run(executor: Executor, *numbers: int) -> list[int]:
    work = RunStage(7, (encode(MARK, [Mark(n) for n in numbers], "A", 0, 0),))
    (answer,) = executor.carry_out(work)
    assert isinstance(answer, WorkDone) and not answer.result.failures
    return [content.n for batch in answer.result.batches for content in batch.contents()]


def test_state_and_parameters_go_with_the_filter() -> None:
    first, second = executor_of(2), executor_of(2)
    assert first.load() == second.load() == StageLoaded(7)
    assert run(first, 0, 0) == [2, 4]
    (taken,) = first.carry_out(SnapshotStage(7))
    assert isinstance(taken, StateSnapshotted)
    assert second.carry_out(RestoreStage(7, taken.state)) == []
    (changed,) = second.carry_out(ChangeFilter(7, envelope_for(2, 10)))
    assert changed == StageChanged(7, taken.state)
    assert run(second, 0) == [30]


@pytest.mark.parametrize("engine", ["python", "none such"])
def test_what_cannot_be_loaded_is_refused_and_answers_nothing_more(engine: str) -> None:
    def refuse(envelope: Envelope) -> Payload:
        raise SystemExit("while it is unpacked")

    executor = executor_of(1, refuse, engine)
    loaded = executor.load()
    why = "SystemExit: while it is unpacked" if engine == "python" else "filters on 'none such'"
    assert loaded.error is not None and why in loaded.error
    assert executor.carry_out(SnapshotStage(7)) == []
    executor.close()


def test_a_state_that_fails_is_told_and_is_empty() -> None:
    executor = executor_of(0)
    executor.load()
    run(executor, 0)
    failed, taken = executor.carry_out(SnapshotStage(7))
    assert isinstance(failed, StateFailed) and taken == StateSnapshotted(7, {})
    assert [each.error for each in failed.failures] == ["SystemExit: in snapshot"]
    (failed,) = executor.carry_out(RestoreStage(7, {"A": b"1"}))
    assert isinstance(failed, StateFailed)
    assert [each.error for each in failed.failures] == ["SystemExit: in restore"]


def test_a_filter_that_cannot_be_changed_stays_as_it_is() -> None:
    registry, broken = TypeRegistry(), False

    def unpack(envelope: Envelope) -> Payload:
        if broken:
            raise SystemExit("while it is unpacked")
        return load(envelope, KEY, registry)

    executor = executor_of(2, unpack)
    executor.load()
    broken = True
    (changed,) = executor.carry_out(ChangeFilter(7, envelope_for(2, 10)))
    assert changed == StageChanged(7, {}, "SystemExit: while it is unpacked")
    assert run(executor, 0) == [2]


def test_a_filter_that_has_changed_and_has_no_state_to_show_tells_both() -> None:
    executor = executor_of(2)
    executor.load()
    run(executor, 0)
    failed, changed = executor.carry_out(ChangeFilter(7, envelope_for(2, 0)))
    assert isinstance(failed, StateFailed) and changed == StageChanged(7, {})


def test_an_engine_that_fails_costs_the_work_and_not_the_thread() -> None:
    executor = executor_of(2)
    executor.load()
    (done,) = executor.carry_out(RunStage(7, (object(),)))  # type: ignore[arg-type]
    assert isinstance(done, WorkDone) and len(done.result.failures) == 1
    assert done.result.batches == []

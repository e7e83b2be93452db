"""The stage: what needs the filter, what passes by it, and how it stops."""

from __future__ import annotations

from typing import Any

import pytest
from chunks_for_tests import Note, chunk, envelope, groups

from activebroker.filters import Failure, RunResult
from activebroker.matching import Chunk
from activebroker.node.dataplane.inlet import LOST, Inlet
from activebroker.node.dataplane.logged import LogOutlet
from activebroker.node.dataplane.outlet import WINDOW, OutFlow, Outlet
from activebroker.node.dataplane.stage import FIRST_EVENTS, WORK_BYTES, WORK_SECONDS, Stage
from activebroker.node.effects import AppendLog, LogState, RunStage, SnapshotStage
from activebroker.protocol.flows import FlowEnded, StreamEnded
from activebroker.protocol.specs import LOG, Checkpoint, FlowSpec, StageSpec

STOPPED = ("FilterStopped", "ValueError: planted")


class Bench:
    """A stage with one flow in and one flow out."""

    def __init__(self, spec: StageSpec, started: bool = True) -> None:
        self.sent: list[Any] = []
        self.inlet = Inlet(1)
        self.outlet = (
            LogOutlet(1, "late", self._carry)
            if spec.engine == LOG
            else Outlet(1, "late", None, self._carry, numbers=spec.envelope is not None)
        )
        self.stage = Stage(spec, self.inlet, self.outlet)
        if started:
            self.stage.start()
        self.outlet.open(FlowSpec(20, 1, "here", 9, "there", subscriber="inlet 9"))
        self.inlet.opened(10, "s", 90, (), subscriber="late")
        self.flow = self.inlet.flows[10]

    def _carry(self, flow: OutFlow, item: Any) -> None:
        self.sent.append(groups(item))

    @property
    def consumed(self) -> int:
        return self.flow.consumed

    def put(self, *items: Chunk | StreamEnded) -> None:
        self.stage.put([(self.flow, item) for item in items])

    def close(self) -> None:
        """The channel is closed and all has arrived."""
        self.inlet.close((10,))
        self.inlet.arrived(10, FlowEnded(10, 1, finished=True))


@pytest.fixture
def exact() -> Bench:
    return Bench(StageSpec(1, "late", "python", envelope(exact=True), "owner"))


@pytest.fixture
def python() -> Bench:
    return Bench(StageSpec(1, "late", "python", envelope(exact=False), "owner"))


@pytest.fixture
def log() -> Bench:
    return Bench(StageSpec(1, "late", LOG, envelope(exact=False), "owner", recovers=True))


@pytest.fixture
def relay() -> Bench:
    return Bench(StageSpec(1, "late", "python", None, "owner"))


def taken(bench: Bench) -> list[object]:
    """What the filter has to do next."""
    work = bench.stage.pump()
    assert isinstance(work, RunStage)
    return [content for batch in work.items for content in batch.contents()]  # type: ignore[union-attr]


def ended(supplier: str = "A", upto: int = 9) -> StreamEnded:
    return StreamEnded(10, 1, supplier, (1, upto))


def uncertain(*numbers: int) -> Chunk:
    """The predicate raises on some row: the filter has to see it."""
    return Chunk(chunk(*numbers).batch, certain=False)


def result(*numbers: int, **more: Any) -> RunResult:
    return RunResult(batches=[chunk(number).batch for number in numbers], **more)


def failure(error: str = "ValueError: planted") -> Failure:
    return Failure("late", "Late", "A", 0, error, "")


def test_where_the_predicate_decides_python_is_not_run(exact: Bench) -> None:
    exact.put(chunk(1, 2), ended())
    assert exact.stage.pump() is None
    assert exact.sent == [[1, 2], "StreamEnded"]
    assert exact.stage.python_events == 0 and exact.consumed > 0


def test_what_makes_the_predicate_raise_goes_to_the_filter_in_its_turn(exact: Bench) -> None:
    exact.put(chunk(1), uncertain(2), chunk(3))
    work = exact.stage.pump()
    assert isinstance(work, RunStage) and len(work.items) == 1
    assert exact.sent == [[1]]
    assert exact.stage.pump() is None, "one piece of work at a time"
    exact.stage.done(result(2))
    assert exact.stage.pump() is None
    assert exact.sent == [[1], [2], [3]]


def test_python_work_is_taken_together_up_to_a_bound(python: Bench) -> None:
    python.put(chunk(1), chunk(2), chunk(3, size=WORK_BYTES), chunk(4))
    work = python.stage.pump()
    assert isinstance(work, RunStage) and len(work.items) == 3
    assert python.stage.backlog == 1


def test_the_end_of_a_stream_ends_the_work_and_goes_out_behind_it(python: Bench) -> None:
    """The same supplier may come again, and its new stream must not overtake the end."""
    python.put(chunk(1), ended(), chunk(2))
    work = python.stage.pump()
    assert isinstance(work, RunStage) and work.items[1:] == ("A",)
    python.stage.done(result(1))
    assert python.sent == [[1], "StreamEnded"]
    assert isinstance(python.stage.pump(), RunStage)


def test_a_stage_takes_nothing_while_its_outlet_is_not_ready(exact: Bench) -> None:
    big = chunk(1, size=WINDOW + 1)
    exact.put(big, big, chunk(3), chunk(4))
    exact.stage.pump()
    assert not exact.outlet.ready and exact.stage.backlog == 2
    consumed = exact.consumed
    exact.outlet.return_credit(20, 3 * WINDOW)
    exact.stage.pump()
    assert exact.stage.backlog == 0 and exact.consumed > consumed


def test_nothing_is_done_before_the_start() -> None:
    python = Bench(StageSpec(1, "late", "python", envelope(exact=False), "owner"), started=False)
    python.put(chunk(1))
    assert python.stage.pump() is None
    python.stage.start()
    assert isinstance(python.stage.pump(), RunStage)


def test_a_hand_over_takes_what_was_not_filtered(python: Bench) -> None:
    python.put(chunk(1))
    python.stage.pump()
    python.put(chunk(2), ended("B"))
    python.stage.capture()
    assert python.stage.pump() is None, "the work in hand goes first"
    python.stage.done(result(1))
    assert python.stage.pump() == SnapshotStage(1)
    buffer = python.stage.take_buffer()
    assert [(supplier, groups(item)) for supplier, item in buffer] == [
        ("A", [2]),
        ("B", "StreamEnded"),
    ]
    assert python.stage.backlog == 0


def test_a_handed_over_buffer_comes_first(python: Bench) -> None:
    python.put(chunk(3, first=2))
    python.stage.put_first([chunk(1), chunk(2, first=1)])
    assert taken(python) == [Note(1, ""), Note(2, ""), Note(3, "")]


def test_what_a_hand_over_has_brought_is_not_taken_again(python: Bench) -> None:
    """The source was replaced amid the move, and its successor did not know how far it had come."""
    python.flow.supplier = "A"
    came = chunk(0, 1), chunk(2, 3, first=2), chunk(4, 5, first=4), chunk(6, first=6)
    python.put(*came)
    python.stage.take_over({"A": (1, 1)}, {})
    python.stage.put_first([chunk(1, first=1), chunk(2, 3, 4, first=2)])
    assert taken(python) == [Note(number, "") for number in range(1, 7)]
    assert python.consumed == sum(each.nbytes for each in came), "of the credit nothing is lost"


def test_what_came_before_a_checkpoint_is_not_taken_again(python: Bench) -> None:
    python.stage.take_over({"A": (1, 2)}, {})
    python.put(chunk(0, 1), chunk(2, first=2), chunk(9, supplier="B"))
    assert taken(python) == [Note(2, ""), Note(9, "")]


def test_the_end_of_the_channel_lets_the_filter_end_first(python: Bench) -> None:
    python.put(chunk(1))
    python.close()
    python.stage.pump()
    python.stage.done(result(1))
    assert python.stage.pump() == RunStage(1, end=True)
    python.stage.done(result(2))
    assert python.sent == [[1], [2], "FlowEnded"]
    assert python.outlet.drained


def test_a_filter_does_not_end_where_what_it_was_to_see_is_lost(python: Bench) -> None:
    """It would forward what it holds back, or a sum, as if that were all."""
    python.flow.recovers = True
    python.put(chunk(1))
    python.stage.pump()
    python.stage.done(result(1))
    python.inlet.close([10])
    python.inlet.lost("s")
    assert python.stage.pump() is None
    assert python.sent == [[1], "FlowEnded"]
    assert python.outlet.error == LOST


def test_the_end_of_the_channel_where_no_filter_runs(exact: Bench) -> None:
    exact.close()
    assert exact.stage.pump() is None
    assert exact.sent == ["FlowEnded"]


def test_a_stop_ends_the_outlet_and_what_still_comes_blocks_nobody(python: Bench) -> None:
    python.put(chunk(1))
    python.stage.pump()
    python.stage.done(RunResult(failures=[failure()], stopped=True))
    assert python.outlet.ended and python.outlet.error == STOPPED
    python.flow.consumed = 0
    python.put(chunk(2), ended())
    assert python.stage.pump() is None
    assert python.sent == ["FlowEnded"]
    assert python.consumed > 0 and python.stage.backlog == 0


def test_an_error_above_ends_the_channel_below_with_it(exact: Bench) -> None:
    exact.put(chunk(1))
    exact.inlet.error = STOPPED
    exact.stage.pump()
    assert exact.sent == [[1], "FlowEnded"]
    assert exact.outlet.error == STOPPED


def test_a_filter_does_not_end_where_there_was_an_error_above(python: Bench) -> None:
    python.put(chunk(1))
    python.stage.pump()
    python.stage.done(result(1))
    python.inlet.error = STOPPED
    assert python.stage.pump() is None
    assert python.sent == [[1], "FlowEnded"]
    assert python.outlet.error == STOPPED


def test_the_idle_hook_runs_only_after_a_quiet_time(python: Bench) -> None:
    assert python.stage.idle() is None, "the first look begins the quiet time"
    assert python.stage.idle() == RunStage(1, idle=True)
    assert python.stage.idle() is None, "work is in hand"
    python.stage.done(result())
    python.put(chunk(1))
    python.stage.pump()
    python.stage.done(result(1))
    assert python.stage.idle() is None, "there was an event since"


def test_a_relay_leaves_behind_what_it_was_given(relay: Bench) -> None:
    relay.put(chunk(1))
    relay.stage.leave_when_empty()
    assert relay.stage.pump() is None
    assert relay.sent == [[1], "FlowEnded"]
    assert not relay.outlet.drained, "it is lost still if this node is"
    relay.outlet.acknowledge("inlet 9", {"A": (1, 1)}, ended=True)
    assert relay.outlet.drained


def test_a_piece_of_work_takes_no_longer_than_a_while(python: Bench) -> None:
    """By what the filter has used; of a supplier's chunk only so many events are taken."""
    python.flow.supplier = "A"
    python.put(chunk(*range(FIRST_EVENTS)), chunk(0, 1, 2, 3, 4, first=FIRST_EVENTS))
    assert len(taken(python)) == FIRST_EVENTS, "the first one is small"
    assert python.stage.queue_length == 5
    python.stage.done(result(), cpu_seconds=FIRST_EVENTS * WORK_SECONDS / 2)
    assert [note.group for note in taken(python)] == [0, 1]  # type: ignore[attr-defined]
    assert (python.stage.queue_length, python.stage.backlog) == (3, 1)
    python.stage.done(result(), cpu_seconds=WORK_SECONDS)
    assert python.stage.saving.inputs == {"A": (1, FIRST_EVENTS + 2)}
    python.put(ended(upto=FIRST_EVENTS + 6))
    assert [note.group for note in taken(python)] == [2, 3]  # type: ignore[attr-defined]
    python.stage.done(result(), cpu_seconds=100.0)
    work = python.stage.pump()
    assert isinstance(work, RunStage)
    assert [groups(Chunk(item)) for item in work.items if not isinstance(item, str)] == [[4]]
    sizes = chunk(*range(FIRST_EVENTS)).nbytes + chunk(0, 1, 2, 3, 4).nbytes
    assert python.consumed == sizes, "of the credit nothing is lost"


def test_a_piece_of_work_holds_whole_events(python: Bench) -> None:
    python.flow.supplier = "A"
    python.put(chunk(0, 1))
    python.stage.pump()
    python.stage.done(result(), cpu_seconds=2 * WORK_SECONDS / 2.5)
    python.put(chunk(2, 3, first=2), chunk(4, 5, first=4))
    assert [note.group for note in taken(python)] == [2, 3]  # type: ignore[attr-defined]


def test_what_a_filter_has_made_is_taken_whole(python: Bench) -> None:
    python.put(chunk(*range(FIRST_EVENTS + 1)))
    assert len(taken(python)) == FIRST_EVENTS + 1


# --- a log ------------------------------------------------------------------------------------


def test_what_a_log_has_not_written_does_not_leave(log: Bench) -> None:
    log.put(chunk(1), chunk(2, first=1), ended(upto=3))
    work = log.stage.pump()
    assert isinstance(work, AppendLog)
    assert [groups(item) for item in work.items] == [[1], [2], "StreamEnded"]
    log.put(chunk(3, supplier="B"))
    assert log.sent == [] and log.stage.pump() is None
    log.stage.appended(0)
    assert log.sent == [[1], [2], "StreamEnded"]
    assert log.stage.saving.inputs == {"A": (1, 3)}
    assert isinstance(log.stage.pump(), AppendLog)


def test_what_a_log_has_is_acknowledged_whether_or_not_its_subscribers_have_it(log: Bench) -> None:
    log.put(chunk(1, size=WINDOW), chunk(2, first=1, size=WINDOW))
    for _ in range(2):
        assert isinstance(log.stage.pump(), AppendLog)
        log.stage.appended(0)
    assert log.stage.pump() is None
    assert len(log.sent) == 1  # the other one waits for credit, on disk
    checkpoint = log.stage.saving.to_send()
    assert checkpoint is not None and checkpoint.inputs["A"] >= (1, 1)


def test_a_log_goes_on_after_what_it_has_and_not_after_its_checkpoint() -> None:
    checkpoint = Checkpoint({}, {"A": (1, 1)}, {"A": (1, 1)})
    spec = StageSpec(1, "late", LOG, envelope(exact=True), "owner", True, checkpoint)
    bench = Bench(spec, started=False)
    bench.flow.supplier = "A"
    bench.stage.begin_log(LogState(0, 3, {"A": (1, 3)}))
    bench.stage.start()
    bench.put(chunk(2, 3, first=1), chunk(4, first=3))
    work = bench.stage.pump()
    assert isinstance(work, AppendLog)
    assert [groups(item) for item in work.items] == [[4]]
    assert bench.consumed > chunk(4).nbytes  # also what was dropped gives credit back


@pytest.mark.parametrize("supplier", ["A", None])
def test_of_what_is_sent_again_a_log_takes_what_it_lacks(supplier: str | None) -> None:
    """Of a filter, too, whose events are counted."""
    bench = Bench(StageSpec(1, "late", LOG, envelope(exact=True), "owner", True), started=False)
    bench.flow.supplier = supplier
    bench.stage.begin_log(LogState(0, 2, {"A": (1, 2)}))
    bench.stage.start()
    bench.put(chunk(1, 2, 3, 4))
    work = bench.stage.pump()
    assert isinstance(work, AppendLog)
    assert [groups(item) for item in work.items] == [[3, 4]]


def test_a_log_that_cannot_write_ends_its_channel_with_the_reason(log: Bench) -> None:
    full = "LogUnavailable", "the disk is full"
    log.put(chunk(1))
    log.stage.pump()
    log.stage.appended(0, full)
    assert log.sent == ["FlowEnded"]
    assert log.outlet.error == full and log.stage.saving.to_send() is None

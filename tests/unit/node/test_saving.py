"""A stage's checkpoints: nothing is acknowledged upstream before it cannot be lost any more."""

from __future__ import annotations

from typing import Any

import pytest
from chunks_for_tests import chunk, envelope

from activebroker.filters import RunResult
from activebroker.matching import Chunk
from activebroker.node.dataplane.inlet import Inlet
from activebroker.node.dataplane.outlet import OutFlow, Outlet
from activebroker.node.dataplane.saving import CHECKPOINT_BYTES, CHECKPOINT_TICKS, SavingState
from activebroker.node.dataplane.stage import Stage
from activebroker.node.effects import RunStage, SnapshotStage
from activebroker.protocol.flows import FlowEnded, StreamEnded
from activebroker.protocol.specs import Checkpoint, FlowSpec, StageSpec

STATE = {"A": b"state"}
SOURCE = ("source", 90, "late")  # node, outlet, and whom it keeps events for


class Bench:
    """A stage that recovers, fed by one outlet, and with one subscriber."""

    def __init__(
        self, exact: bool = False, recovers: bool = True, checkpoint: Checkpoint | None = None
    ) -> None:
        spec = StageSpec(1, "late", "python", envelope(exact), "owner", recovers, checkpoint)
        self.inlet = Inlet(1)
        self.outlet = Outlet(1, "late", None, self._carry, numbers=True)
        self.stage = Stage(spec, self.inlet, self.outlet)
        self.saving = self.stage.saving
        self.stage.start()
        self.outlet.open(FlowSpec(20, 1, "here", 9, "there", subscriber="inlet 9"))
        self.inlet.opened(10, SOURCE[0], SOURCE[1], (), subscriber=SOURCE[2])

    def _carry(self, flow: OutFlow, item: Any) -> None:
        pass

    def put(self, *items: Chunk | StreamEnded) -> None:
        for item in items:
            self.stage.put(self.inlet.arrived(10, item))

    def run(self, *items: Chunk | StreamEnded) -> None:
        """Take items and forward all events."""
        self.put(*items)
        work = self.stage.pump()
        assert isinstance(work, RunStage)
        batches = [each for each in work.items if not isinstance(each, str)]
        self.stage.done(RunResult(batches=batches))

    def acknowledge(self, count: int, supplier: str = "A") -> None:
        self.outlet.acknowledge("inlet 9", {supplier: (1, count)})

    def wait(self) -> None:
        for _ in range(CHECKPOINT_TICKS):
            self.saving.tick()


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def alone() -> Bench:
    """One that would be lost with what feeds it."""
    return Bench(recovers=False)


# --- the order of the steps ---------------------------------------------------------------------


def test_the_steps_of_a_checkpoint(bench: Bench) -> None:
    bench.run(chunk(1, 2, 3))
    bench.wait()
    assert bench.stage.pump() == SnapshotStage(1)
    assert bench.saving.to_send() is None, "the snapshot is not there yet"
    bench.stage.snapshot_taken(STATE)
    assert bench.saving.to_send() is None, "nothing of what came out is acknowledged"
    bench.acknowledge(2)
    assert bench.saving.to_send() is None, "not all of what came out is acknowledged"
    assert bench.saving.kept() == [], "it was not even sent"
    bench.acknowledge(3)
    assert bench.saving.to_send() == Checkpoint(STATE, {"A": (1, 3)}, {"A": (1, 3)})
    assert bench.saving.to_send() is None, "it is sent once"
    assert bench.saving.kept() == [(*SOURCE, {"A": (1, 3)}, False)]
    assert bench.saving.kept() == [], "it is acknowledged once"
    assert bench.saving.state is SavingState.IDLE


def test_what_comes_behind_the_snapshot_is_not_of_the_checkpoint(bench: Bench) -> None:
    bench.run(chunk(1))
    bench.wait()
    assert bench.stage.pump() == SnapshotStage(1)
    bench.put(chunk(2, first=1))
    assert bench.stage.pump() is None, "one thing at a time"
    bench.stage.snapshot_taken(STATE)
    bench.run()
    bench.acknowledge(1)
    assert bench.saving.to_send() == Checkpoint(STATE, {"A": (1, 1)}, {"A": (1, 1)})
    assert bench.saving.kept() == [(*SOURCE, {"A": (1, 1)}, False)]


def test_the_state_is_taken_between_two_pieces_of_work(bench: Bench) -> None:
    bench.put(chunk(1))
    assert isinstance(bench.stage.pump(), RunStage)
    bench.saving.urge()
    assert bench.stage.pump() is None, "work is in hand"
    bench.stage.done(RunResult(batches=[chunk(1).batch]))
    assert bench.stage.pump() == SnapshotStage(1)


def test_one_checkpoint_is_under_way_at_a_time(bench: Bench) -> None:
    bench.run(chunk(1))
    bench.wait()
    bench.stage.pump()
    bench.stage.snapshot_taken(STATE)
    bench.run(chunk(2, first=1))
    bench.wait()
    assert bench.stage.pump() is None, "the first is not acknowledged"
    bench.acknowledge(1)
    assert bench.saving.to_send() is not None
    assert bench.stage.pump() is None, "the directory does not have the first"
    bench.saving.kept()
    assert bench.stage.pump() == SnapshotStage(1)


def test_what_a_filter_did_not_forward_is_covered_too(bench: Bench) -> None:
    bench.put(chunk(1, 2))
    bench.stage.pump()
    bench.stage.done(RunResult())
    bench.wait()
    bench.stage.pump()
    bench.stage.snapshot_taken({})
    assert bench.saving.to_send() == Checkpoint({}, {"A": (1, 2)}, {})


def test_where_no_filter_runs_there_is_no_state_to_take() -> None:
    bench = Bench(exact=True)
    bench.put(chunk(1, 2))
    assert bench.stage.pump() is None
    bench.wait()
    assert bench.stage.pump() is None and bench.saving.state is SavingState.ACKNOWLEDGING
    bench.acknowledge(2)
    assert bench.saving.to_send() == Checkpoint({}, {"A": (1, 2)}, {"A": (1, 2)})


def test_a_state_that_cannot_be_taken_is_asked_for_once(bench: Bench) -> None:
    """Events must not be kept for ever on its account: elsewhere it would start afresh."""
    bench.run(chunk(1))
    bench.wait()
    assert bench.stage.pump() == SnapshotStage(1)
    bench.saving.fails = True  # as the node does when the driver says so
    bench.stage.snapshot_taken({})
    bench.acknowledge(1)
    assert bench.saving.to_send() == Checkpoint({}, {"A": (1, 1)}, {"A": (1, 1)})
    bench.saving.kept()
    bench.run(chunk(2, first=1))
    bench.wait()
    assert bench.stage.pump() is None and bench.saving.state is SavingState.ACKNOWLEDGING
    bench.acknowledge(2)
    assert bench.saving.to_send() == Checkpoint({}, {"A": (1, 2)}, {"A": (1, 2)})


# --- when it is due -----------------------------------------------------------------------------


def test_without_input_nothing_is_due(bench: Bench) -> None:
    bench.wait()
    bench.saving.urge()
    bench.saving.kept()
    assert not Bench().saving.due and not Bench().saving.active


def test_it_is_due_after_some_bytes_or_some_time(bench: Bench) -> None:
    bench.run(chunk(1))
    assert not bench.saving.due and bench.saving.active
    bench.wait()
    assert bench.saving.due
    big = Bench()
    big.run(chunk(1, size=CHECKPOINT_BYTES))
    assert big.saving.due


def test_the_end_of_a_stream_makes_it_due(bench: Bench) -> None:
    """So that what the supplier's process keeps can go with it."""
    bench.run(chunk(1), StreamEnded(10, 1, "A", (1, 2)))
    assert bench.stage.pump() == SnapshotStage(1)
    bench.stage.snapshot_taken({})
    bench.acknowledge(2)
    assert bench.saving.to_send() == Checkpoint({}, {"A": (1, 2)}, {"A": (1, 2)})


@pytest.mark.parametrize("why", ["does not recover", "nobody keeps for it"])
def test_none_is_taken_of_a_stage_that(why: str) -> None:
    bench = Bench(recovers=why != "does not recover")
    if why == "nobody keeps for it":
        bench.inlet.sources.clear()
    bench.run(chunk(1))
    bench.wait()
    assert bench.stage.pump() is None
    assert bench.saving.state is SavingState.IDLE and not bench.saving.active


def test_it_waits_for_all_that_a_hand_over_brought(bench: Bench) -> None:
    """Nobody else may have that."""
    buffer: list[Chunk | StreamEnded] = [chunk(3), chunk(1, 2, supplier="B")]
    bench.stage.put_first(buffer)
    bench.saving.urge()
    assert not bench.saving.due
    bench.saving.covered({"A": (1, 1)}, 1)
    bench.saving.urge()
    assert not bench.saving.due
    bench.saving.covered({"B": (1, 1)}, 1)
    assert not bench.saving.due
    bench.saving.covered({"B": (1, 2)}, 1)
    assert bench.saving.due
    bench.saving.covered({"A": (1, 2)}, 1)
    assert bench.saving.due


# --- who is told --------------------------------------------------------------------------------


def test_all_who_keep_something_are_told(bench: Bench) -> None:
    bench.inlet.opened(11, "other", 91, (), subscriber="late")
    bench.inlet.opened(12, "third", 92, ())  # keeps nothing
    bench.run(chunk(1))
    bench.wait()
    bench.stage.pump()
    bench.stage.snapshot_taken({})
    bench.acknowledge(1)
    bench.saving.to_send()
    upto = {"A": (1, 1)}
    assert bench.saving.kept() == [(*SOURCE, upto, False), ("other", 91, "late", upto, False)]


def test_from_a_checkpoint_it_goes_on_where_that_was_taken() -> None:
    bench = Bench(checkpoint=Checkpoint(STATE, {"A": (1, 5), "B": (2, 1)}, {"A": (1, 3)}))
    assert bench.inlet.received == {"A": (1, 5), "B": (2, 1)}
    bench.run(chunk(1, first=5))
    assert bench.outlet.offsets == {"A": (1, 4)}
    bench.wait()
    bench.stage.pump()
    bench.stage.snapshot_taken(STATE)
    bench.acknowledge(4)
    expected = Checkpoint(STATE, {"A": (1, 6), "B": (2, 1)}, {"A": (1, 4)})
    assert bench.saving.to_send() == expected


def test_who_has_ended_is_told_that_its_end_has_come(bench: Bench) -> None:
    bench.run(chunk(1))
    bench.stage.put(bench.inlet.arrived(10, FlowEnded(10, 1)))
    bench.wait()
    bench.stage.pump()
    bench.stage.snapshot_taken({})
    bench.acknowledge(1)
    bench.saving.to_send()
    assert bench.saving.kept() == [(*SOURCE, {"A": (1, 1)}, True)]


# --- a filter at its suppliers --------------------------------------------------------------------


def test_a_filter_that_is_lost_with_its_suppliers_takes_no_checkpoint(alone: Bench) -> None:
    alone.run(chunk(1))
    alone.wait()
    assert alone.stage.pump() is None and not alone.saving.active


def test_before_it_leaves_them_it_takes_one_of_all_that_they_had_sent(alone: Bench) -> None:
    alone.run(chunk(1))
    alone.stage.begin_to_recover({"A": (1, 2)})
    alone.stage.moving = True
    assert alone.stage.pump() is None, "not all of it has come"
    alone.run(chunk(2, first=1))
    assert alone.stage.pump() == SnapshotStage(1)
    alone.stage.snapshot_taken(STATE)
    alone.acknowledge(2)
    assert alone.saving.to_send() == Checkpoint(STATE, {"A": (1, 2)}, {"A": (1, 2)})
    assert alone.saving.wanted
    alone.saving.kept()
    assert not alone.saving.wanted


def test_and_of_what_waits_here_of_one_that_has_ended(alone: Bench) -> None:
    alone.run(chunk(1))
    alone.put(StreamEnded(10, 1, "A", (1, 2)))
    alone.stage.begin_to_recover({})
    assert alone.stage.pump() == RunStage(1, ("A",)), "its state ends with it"
    alone.stage.done(RunResult())
    assert alone.stage.pump() == SnapshotStage(1)
    alone.stage.snapshot_taken({})
    alone.acknowledge(2)
    assert alone.saving.to_send() == Checkpoint({}, {"A": (1, 2)}, {"A": (1, 2)})


def test_a_checkpoint_that_is_no_longer_wanted_is_dropped(alone: Bench) -> None:
    alone.run(chunk(1))
    alone.stage.begin_to_recover({})
    assert alone.stage.pump() == SnapshotStage(1)
    alone.saving.recover_no_more()
    alone.stage.snapshot_taken(STATE)
    assert alone.saving.state is SavingState.IDLE and alone.saving.to_send() is None
    alone.stage.begin_to_recover({})
    assert alone.stage.pump() == SnapshotStage(1), "and the next one is taken"

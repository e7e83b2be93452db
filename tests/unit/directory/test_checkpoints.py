"""Which checkpoints the directory keeps, and when."""

from __future__ import annotations

import pytest
from outside_for_tests import Fabric
from picture_for_tests import LOW, Trade, envelope

from activebroker.directory.parts import SUPPLIER, Next
from activebroker.protocol.messages import CheckpointStored, CheckpointTaken
from activebroker.protocol.orders import ForgetSaved, ForgetSubscriber, SetPredicate
from activebroker.protocol.specs import Checkpoint

FIRST = Checkpoint({"A": b"1"}, {"A": (1, 7)}, {"A": (1, 6)})
SECOND = Checkpoint({"A": b"2"}, {"A": (1, 9)}, {"A": (1, 9)})


class Bench(Fabric):
    def __init__(self) -> None:
        super().__init__()
        self.trade = Trade(self.graph)
        self.late = self.trade.late

    def taken(self, checkpoint: Checkpoint, stage: int | None = None, change: int = 0) -> None:
        stage = self.trade.stage.id if stage is None else stage
        self.checkpoints.taken(CheckpointTaken("x.Late", stage, checkpoint, change))
        self.go_on()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_last_one_is_kept_and_its_node_told(bench: Bench) -> None:
    bench.taken(FIRST)
    bench.taken(SECOND)
    assert bench.late.checkpoint == SECOND and not bench.late.fresh
    assert bench.told == [("b1", CheckpointStored(bench.trade.stage.id))] * 2


def test_that_of_a_relay_is_kept(bench: Bench) -> None:
    relay = bench.trade.offload("b2")
    (id,) = relay.stages
    bench.checkpoints.taken(CheckpointTaken(relay.name, id, FIRST))
    assert relay.checkpoint == FIRST and bench.told == [("b2", CheckpointStored(id))]


def test_that_of_another_place_is_not(bench: Bench) -> None:
    bench.taken(FIRST, stage=999)
    assert bench.late.checkpoint is None and bench.told == []


def test_that_of_a_place_which_is_gone_or_leaves_is_not(bench: Bench) -> None:
    """The filter may have begun at another place already, from the checkpoint before."""
    bench.taken(FIRST)
    del bench.members["b1"], bench.told[:]
    bench.taken(SECOND)
    assert bench.late.checkpoint == FIRST and bench.told == []


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "unknown"])
def test_that_of_what_has_ended_is_not(bench: Bench, closed: bool) -> None:
    if closed:
        bench.late.closed = True
    else:
        del bench.graph.channels["x.Late"]
    bench.taken(FIRST)
    assert bench.told == [] and bench.checkpoints.waiting == {}


def test_that_of_a_filter_which_is_lost_with_its_suppliers_is_not(bench: Bench) -> None:
    bench.graph.relocate(bench.late, SUPPLIER)
    bench.taken(FIRST)
    assert bench.late.checkpoint is None and bench.told == []


def test_it_waits_for_what_may_be_lost_still_of_an_earlier_place(bench: Bench) -> None:
    bench.late.left[77] = bench.trade.supplier("earlier place", "b2")
    bench.taken(FIRST)
    assert bench.late.checkpoint is None and bench.told == []
    bench.endings.drained(77, stopped=False)
    assert bench.late.checkpoint == FIRST and len(bench.told) == 1


def test_none_is_taken_that_was_sent_before_it_began_anew(bench: Bench) -> None:
    bench.late.left[77] = bench.trade.supplier("earlier place", "b2")
    bench.taken(FIRST)
    bench.checkpoints.forget("x.Late")
    bench.late.left.clear()
    bench.checkpoints.accept("x.Late")
    assert bench.late.checkpoint is None


@pytest.mark.parametrize("change", [5, 0], ids=["after", "before"])
def test_a_filter_has_changed_when_a_checkpoint_after_that_is_kept(
    bench: Bench, change: int
) -> None:
    old, new = bench.late.envelope, envelope(LOW)
    bench.late.next = Next(5, new)
    bench.taken(FIRST, change=change)
    assert bench.late.envelope == (new if change else old)
    assert (bench.late.next is None) is bool(change)


def test_one_that_changed_behind_its_request_is_narrowed_then(bench: Bench) -> None:
    bench.late.next = Next(5, envelope(LOW), late=True)
    bench.taken(FIRST, change=5)
    assert bench.asked == [("a", SetPredicate(bench.trade.own.id, "x.Late", LOW))]


def test_of_a_filter_at_several_places_each_has_a_part(bench: Bench) -> None:
    other = bench.trade.put(bench.late, "b2")
    bench.taken(FIRST)
    bench.taken(Checkpoint({"B": b"b"}, {"B": (2, 1)}, {}), other.id)
    assert bench.late.checkpoint == Checkpoint(
        {"A": b"1", "B": b"b"}, {"A": (1, 7), "B": (2, 1)}, {"A": (1, 6)}
    )


def test_a_filter_that_is_back_at_its_suppliers_is_not_kept_for_when_all_is_safe(
    bench: Bench,
) -> None:
    bench.late.at, bench.late.returning = SUPPLIER, True
    bench.late.checkpoint = FIRST
    bench.checkpoints.accept("x.Late")
    bench.go_on()
    assert bench.asked == [
        ("b1", ForgetSaved(bench.trade.stage.id)),
        ("a", ForgetSubscriber(bench.trade.own.id, "x.Late")),
    ]
    assert not bench.late.recovers and bench.late.checkpoint is None


def test_it_is_kept_for_if_one_of_its_places_is_lost_by_then(bench: Bench) -> None:
    bench.late.at, bench.late.returning = SUPPLIER, True
    bench.gone("b1")
    bench.checkpoints.accept("x.Late")
    bench.go_on()
    assert bench.asked == [] and bench.late.returning

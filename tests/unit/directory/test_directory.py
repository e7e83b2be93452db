"""The directory as a whole: requests, timers, and news from nodes."""

from __future__ import annotations

import pytest
from whole_for_tests import SILENT, Whole

from activebroker.core.errors import MoveFailed, NameTaken, Unreachable
from activebroker.protocol.messages import CheckpointStored, CheckpointTaken, PeerSuspected
from activebroker.protocol.orders import Deploy, OpenFlow, ReportNode
from activebroker.protocol.requests import (
    ClaimName,
    Join,
    Leave,
    Move,
    OpenSupplier,
    ReportStatus,
    Subscribe,
    TellStory,
    Unsubscribe,
)
from activebroker.protocol.specs import Checkpoint
from activebroker.protocol.status import NodeStatus, Status
from derivation.protocol import Prepared, Refused, Started


@pytest.fixture
def bench() -> Whole:
    return Whole()


SUBSCRIBE = Subscribe("x.Late", "c", 902)


# --- requests -----------------------------------------------------------------------------------


def test_a_request_is_answered_when_all_that_it_needs_is_done(bench: Whole) -> None:
    ending = bench.ask(SUBSCRIBE)
    assert bench.kinds() == [("b1", OpenFlow)] and not ending.done
    bench.work()
    assert ending.done and ending.error is None


def test_requests_are_carried_out_one_after_the_other(bench: Whole) -> None:
    first, second = bench.ask(SUBSCRIBE), bench.ask(Unsubscribe("x.Late", 902))
    assert len(bench.asked) == 1
    bench.work()
    assert first.done and second.done and 902 not in bench.late.inlets


def test_what_only_looks_does_not_wait(bench: Whole) -> None:
    bench.ask(SUBSCRIBE)
    story, claim, status = bench.ask(TellStory("x")), bench.ask(ClaimName("d")), ReportStatus()
    assert story.done and claim.done
    seen = bench.ask(status)
    assert [node for node, kind in bench.kinds() if kind is ReportNode] == list(bench.members)
    bench.answer_all()
    assert isinstance(seen.result, Status) and list(seen.result.nodes) == list(bench.members)


def test_a_node_that_does_not_answer_is_in_the_status_with_the_reason(bench: Whole) -> None:
    seen = bench.ask(ReportStatus())
    bench.replies["b1", ReportNode] = SILENT
    bench.answer_all()
    assert seen.result.nodes["b1"] == NodeStatus(error="no answer")


@pytest.mark.parametrize("back", [False, True])
def test_what_a_node_asked_for_goes_with_it(bench: Whole, back: bool) -> None:
    bench.ask(SUBSCRIBE)
    second = bench.ask(OpenSupplier("x", "B", "b2"))
    bench.directory.lost("b2")
    if back:
        bench.members["b2"] = bench.member("b2", incarnation=2)
    bench.work()
    assert isinstance(second.error, Unreachable)
    assert "B" not in {each.supplier for each in bench.trade.x.outlets.values()}


@pytest.mark.parametrize("answers", [True, False])
def test_who_has_a_name_keeps_it_if_it_answers(bench: Whole, answers: bool) -> None:
    ending = bench.ask(OpenSupplier("x", "A", "c"))
    assert bench.asked == [("a", ReportNode())]
    bench.replies["a", ReportNode] = NodeStatus() if answers else SILENT
    bench.work()
    assert bench.expelled == ([] if answers else ["a"])
    assert isinstance(ending.error, NameTaken) is answers
    (outlet,) = bench.trade.x.outlets.values()
    assert outlet.node == ("a" if answers else "c")


def test_who_joins_has_its_name_before_its_turn_comes(bench: Whole) -> None:
    bench.ask(SUBSCRIBE)
    bench.incarnations["d"] = 1
    joined = bench.ask(Join(bench.member("d")))
    bench.ask(ClaimName("d"))
    assert bench.asked[-1] == ("d", ReportNode())
    bench.work()
    assert [each.name for each in joined.result][-1] == "d"


def test_who_leaves_is_no_member_any_more(bench: Whole) -> None:
    ending = bench.ask(Leave("b2"))
    assert ending.done and "b2" not in bench.members


# --- timers -------------------------------------------------------------------------------------


def test_a_channel_that_nobody_holds_ends_with_its_lease(bench: Whole) -> None:
    bench.late.lease = 5.0
    bench.lose("c")
    assert bench.timers == {"lease x.Late": 5.0}
    bench.directory.timer_fired("lease", "x.Late")
    bench.work()
    assert bench.late.closed and bench.timers == {}


def test_a_channel_that_is_taken_again_keeps_going(bench: Whole) -> None:
    bench.late.lease = 5.0
    bench.lose("c")
    bench.ask(Subscribe("x.Late", "a", 903))
    bench.work()
    assert bench.timers == {}


def test_a_filter_that_waits_goes_on_with_its_timer(bench: Whole) -> None:
    bench.waits_for_a_place()
    assert list(bench.timers) == ["recover x.Late"]
    bench.members["b2"] = bench.member("b2")
    bench.directory.timer_fired("recover", "x.Late")
    bench.work()
    assert bench.places() == ["b2"]


# --- news ---------------------------------------------------------------------------------------


def test_a_checkpoint_is_kept_and_its_node_told(bench: Whole) -> None:
    saved = Checkpoint({"A": b"1"}, {"A": (1, 7)}, {})
    id = bench.trade.stage.id
    bench.directory.told("b1", CheckpointTaken("x.Late", id, saved))
    assert bench.late.checkpoint == saved and bench.told == [("b1", CheckpointStored(id))]
    bench.lose("b1")
    (spec,) = [body.stage for _, body in bench.asked if isinstance(body, Deploy)]
    assert spec.checkpoint == saved


def test_a_suspicion_is_looked_into(bench: Whole) -> None:
    bench.directory.told("a", PeerSuspected("c", 1, heard=True))
    bench.replies["c", ReportNode] = SILENT
    bench.work()
    assert bench.expelled == ["c"] and bench.late.inlets == {}


@pytest.mark.parametrize("ended", ["completed", "rolled back"])
def test_the_parties_of_a_move_bring_it_to_its_end(bench: Whole, ended: str) -> None:
    ending = bench.ask(Move("x.Late", "hub", "c", 1.0))
    (move,) = bench.directory.planned
    if ended == "completed":
        for node in ("b1", "hub"):
            bench.directory.answered(Prepared(move, node))
        bench.directory.answered(Started(move, "hub"))
    else:
        bench.directory.answered(Refused(move, "hub", "no numpy"))
    bench.work()
    assert ending.done and bench.directory.planned == {}
    assert bench.places() == (["hub"] if ended == "completed" else ["b1"])
    status = bench.ask(ReportStatus())
    bench.work()
    assert [each.outcome for each in status.result.ended_moves] == [ended]


def test_a_move_does_not_wait_for_who_is_lost(bench: Whole) -> None:
    ending = bench.ask(Move("x.Late", "b2", "c", 1.0))
    bench.lose("b2")
    assert isinstance(ending.error, MoveFailed) and bench.directory.planned == {}
    assert bench.places() == ["b1"]


def test_a_move_that_fails_late_is_seen_to(bench: Whole) -> None:
    bench.moves_still()
    assert bench.places() == ["b2"]
    bench.lose("b2")
    assert bench.directory.planned == {} and bench.places() == ["b1"]


@pytest.mark.parametrize("how", ["refused", "origin lost"])
def test_a_filter_goes_on_if_its_move_fails_when_all_think_it_is_there(
    bench: Whole, how: str
) -> None:
    bench.moves_still()
    (move,) = bench.directory.planned
    bench.asked.clear()
    if how == "refused":
        bench.directory.answered(Refused(move, "b2", "no numpy"))
        bench.work()
    else:
        bench.lose("b1")  # with what the filter had made there
    assert bench.directory.planned == {}
    assert [node for node, kind in bench.kinds() if kind is Deploy] == bench.places() == ["b2"]


def test_a_process_that_has_ended_is_lost_at_once(bench: Whole) -> None:
    bench.directory.ended("b1")
    bench.work()
    assert bench.expelled == ["b1"] and bench.places() == ["b2"]

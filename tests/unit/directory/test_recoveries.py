"""When what was lost goes on: at once, after a pause, when there is a place for it, or no more."""

from __future__ import annotations

import pytest
from deaths_for_tests import NAME, Deaths

from activebroker.core.errors import DeadlineExceeded, PayloadRefused
from activebroker.directory.recoveries import LONGEST_WAIT, LOOK_UP, ONCE_MORE, WAIT
from activebroker.protocol.messages import CheckpointTaken
from activebroker.protocol.orders import Deploy, ReportNode, Undeploy
from activebroker.protocol.specs import UNPLACED, Checkpoint


@pytest.fixture
def bench() -> Deaths:
    return Deaths()


# --- at once ------------------------------------------------------------------------------------


def test_after_one_death_it_goes_on_at_once(bench: Deaths) -> None:
    assert bench.dies("b1", back=False) == ""
    assert bench.place() == "b2"
    assert not bench.recoveries.waits(NAME) and bench.timers == {}


@pytest.mark.parametrize("stopped", [True, False])
def test_what_cannot_go_on_says_why(bench: Deaths, stopped: bool) -> None:
    bench.late.stopped, bench.late.fresh = stopped, stopped
    why = "it has been stopped" if stopped else "there is no checkpoint of it"
    assert bench.recover() == f"it could not go on elsewhere: {why}"
    assert bench.asked == []


def test_what_an_earlier_place_has_sent_is_not_taken_any_more(bench: Deaths) -> None:
    bench.late.left[77] = bench.trade.supplier("earlier place", "b2")
    bench.checkpoints.taken(CheckpointTaken(NAME, bench.trade.stage.id, Checkpoint({}, {}, {})))
    assert bench.checkpoints.waiting
    bench.recover()
    assert not bench.checkpoints.waiting


# --- after a pause, and no more -----------------------------------------------------------------


def test_after_a_second_death_it_is_nowhere_for_a_while(bench: Deaths) -> None:
    bench.dies("b1", at_event=1)
    (stage_id,) = bench.late.stages
    bench.asked.clear()
    assert bench.dies("b2", at_event=2) == ""
    assert bench.recoveries.waits(NAME) and bench.place() == UNPLACED
    assert [body for _, body in bench.asked if type(body) is Deploy] == []
    assert bench.passes(1.0) == ""
    assert bench.place() == "b2" and not bench.recoveries.waits(NAME)
    assert ("b2", Undeploy(stage_id, discard=True)) in bench.asked, "nothing of it is left there"


def test_after_three_deaths_by_one_event_it_is_in_quarantine(bench: Deaths) -> None:
    bench.dies("b1")
    bench.dies("b2")
    bench.passes(1.0)
    assert bench.dies(bench.place()) == (
        "it is in quarantine: 3 processes died with it ('b1', 'b2', 'b2'), "
        "each time at event 0 of supplier 'A', or soon after"
    )


def test_after_five_deaths_within_a_minute_it_is_in_quarantine(bench: Deaths) -> None:
    why = ""
    for number, pause in enumerate((0.0, 1.0, 2.0, 4.0, 0.0)):
        assert why == ""
        why = bench.dies(bench.place(), at_event=number + 1)
        if pause:
            why = bench.passes(pause)
    assert why.startswith("it is in quarantine: 5 processes died with it (")
    assert why.endswith("within 60 s")


def test_what_has_ended_starts_over(bench: Deaths) -> None:
    bench.dies("b1")
    bench.dies("b2")
    bench.recoveries.forget(NAME)
    assert bench.timers == {} and not bench.recoveries.waits(NAME)
    assert bench.recover() == "" and not bench.recoveries.waits(NAME)


def test_what_a_move_had_begun_elsewhere_is_taken_away_when_it_goes_on(bench: Deaths) -> None:
    bench.dies("b1")
    bench.gone("b2")
    bench.carry_out(bench.recoveries.died("b2"))
    bench.carry_out(bench.recoveries.recover(bench.late, also=(("hub", 999),)))
    assert bench.recoveries.waits(NAME)
    bench.asked.clear()
    bench.passes(1.0)
    assert ("hub", Undeploy(999, discard=True)) in bench.asked


# --- there is no place --------------------------------------------------------------------------


def test_what_may_be_the_cause_waits_a_while_for_a_broker(bench: Deaths) -> None:
    bench.gone("b2")
    assert bench.dies("b1", back=False) == ""
    assert bench.recoveries.waits(NAME)
    bench.members["b2"] = bench.member("b2")
    assert bench.passes(LOOK_UP) == "" and bench.place() == "b2"


def test_with_no_broker_it_goes_to_who_derived_it_after_a_while(bench: Deaths) -> None:
    bench.gone("b2")
    bench.dies("b1", back=False)
    while bench.recoveries.waits(NAME):
        assert bench.passes(LOOK_UP) == ""
    assert (bench.time, bench.place()) == (WAIT, "c")


def test_it_waits_for_a_broker_when_its_pause_is_over(bench: Deaths) -> None:
    bench.dies("b1", back=False)
    bench.dies("b2", at_event=2, back=False)
    bench.passes(1.0)
    while bench.recoveries.waits(NAME):
        assert bench.passes(LOOK_UP) == ""
    assert (bench.time, bench.place()) == (1.0 + WAIT, "c")


def test_it_does_not_go_to_the_directory_where_it_could_end_the_fabric(bench: Deaths) -> None:
    bench.gone("b2", "c")
    why = bench.dies("b1", back=False)
    while bench.recoveries.waits(NAME):
        why = bench.passes(LOOK_UP)
    assert bench.time == LONGEST_WAIT
    assert why == (
        "it is in quarantine: 1 process died with it ('b1'), each time at event 0 of supplier "
        "'A', or soon after; and there was no place for it but the directory's"
    )


def test_places_that_do_not_answer_are_asked_again(bench: Deaths) -> None:
    for node in ("b2", "hub", "c"):
        bench.replies[node, ReportNode] = DeadlineExceeded(f"{node!r} did not answer")
    bench.gone("b1")
    assert bench.recover() == "" and bench.recoveries.waits(NAME)
    del bench.replies["hub", ReportNode]
    assert bench.passes(ONCE_MORE) == ""
    assert bench.place() == "hub"


def test_places_that_do_not_answer_are_not_asked_for_ever(bench: Deaths) -> None:
    for node in ("b2", "hub", "c"):
        bench.replies[node, ReportNode] = DeadlineExceeded(f"{node!r} did not answer")
    bench.gone("b1")
    why = bench.recover()
    while bench.recoveries.waits(NAME):
        why = bench.passes(ONCE_MORE)
    assert bench.time == LONGEST_WAIT
    assert why.startswith("it could not go on elsewhere: 'b2' did not answer; 'hub' did not")


def test_who_has_refused_a_filter_is_not_asked_again(bench: Deaths) -> None:
    bench.replies["b2", Deploy] = PayloadRefused("no numpy")
    for node in ("hub", "c"):
        bench.replies[node, ReportNode] = DeadlineExceeded("no answer")
    bench.gone("b1")
    bench.recover()
    bench.asked.clear()
    bench.passes(ONCE_MORE)
    assert [node for node, body in bench.asked if type(body) is ReportNode] == ["hub", "c"]
    del bench.replies["b2", Deploy]
    bench.members["b2"] = bench.member("b2", incarnation=2)  # which may have what it needs
    bench.passes(ONCE_MORE)
    assert bench.place() == "b2"


def test_what_all_refuse_ends_at_once(bench: Deaths) -> None:
    for node in ("b2", "hub", "c"):
        bench.replies[node, Deploy] = PayloadRefused(f"no numpy at {node}.")
    bench.gone("b1")
    assert bench.recover() == (
        "it could not go on elsewhere: no numpy at b2; no numpy at hub; no numpy at c"
    )
    assert bench.timers == {}

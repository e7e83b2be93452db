"""A stage whose filter gets other parameters: when, and what waits for that."""

from __future__ import annotations

from typing import Any

import pytest
from chunks_for_tests import chunk
from msgspec import structs
from test_stage import Bench, ended, envelope, result, taken

from activebroker.node.dataplane.changing import SOURCE_LOST, Changing
from activebroker.node.dataplane.inlet import InFlow
from activebroker.node.dataplane.outlet import OutFlow, Outlet
from activebroker.node.effects import ChangeFilter
from activebroker.protocol.flows import FlowEnded, StreamEnded
from activebroker.protocol.specs import FlowSpec, StageSpec
from predicate_extract import extract

FEEDING: dict[int, Any] = {90: {}}  # whatever it has sent has arrived
NEXT = structs.replace(envelope(exact=False), name="Next")


def changing(after: dict[int, Any], *ending: int, waiting: Any = ()) -> Changing:
    return Changing(7, NEXT, after, {}, frozenset(ending), waiting)


def inbox(**upto: Any) -> list[tuple[None, StreamEnded]]:
    """Items that wait, which come so far."""
    return [(None, StreamEnded(0, 0, supplier, at)) for supplier, at in upto.items()]


def flows(**outlets: int) -> dict[int, InFlow]:
    """Flows from these outlets, by number: `f1=90`."""
    by_id = {int(name[1:]): outlet for name, outlet in outlets.items()}
    return {id: InFlow(id, "there", outlet, set()) for id, outlet in by_id.items()}


def test_it_waits_for_what_was_sent_and_for_what_has_arrived() -> None:
    change = changing({90: {"A": (1, 3)}, 91: {"B": (2, 1)}}, waiting=inbox(A=(1, 4)))
    assert not change.due({}, flows(f1=90, f2=91), [])
    assert not change.due({"A": (1, 3)}, flows(f1=90, f2=91), [])
    assert not change.due({"A": (1, 3), "B": (2, 1)}, flows(f1=90, f2=91), inbox(A=(1, 5)))
    assert change.due({"A": (1, 4), "B": (2, 1)}, {}, inbox(A=(1, 5))), "what came later waits"


def test_it_waits_for_the_end_of_flows_whose_outlets_have_ended_and_for_all_they_brought() -> None:
    change = changing({90: {"A": (1, 3)}}, 2)
    assert not change.due({"A": (1, 3)}, flows(f1=90, f2=91), [])
    assert not change.due({"A": (1, 3)}, flows(f1=90, f3=92), inbox(B=(2, 1)))
    assert change.due({"A": (1, 3), "B": (2, 1)}, flows(f1=90, f3=92), inbox(C=(3, 1)))


def test_a_source_that_is_lost_ends_it_when_nothing_of_it_waits() -> None:
    change = changing({90: {"A": (1, 3)}})
    assert not change.due({"A": (1, 2)}, {}, inbox(A=(1, 3))) and change.outcome is None
    assert not change.due({"A": (1, 2)}, {}, [])
    assert change.outcome == SOURCE_LOST


def bench(*, recovers: bool = False, exact: bool = False) -> Bench:
    spec = StageSpec(1, "late", "python", envelope(exact=exact), "owner", recovers)
    return Bench(spec)


def test_the_filter_takes_them_between_two_pieces_of_work() -> None:
    late = bench()
    late.put(chunk(1))
    assert taken(late) != []
    late.put(chunk(2, first=1))
    late.stage.change(7, NEXT, {90: {"A": (1, 1)}}, {})
    assert late.stage.pump() is None, "one piece of work at a time"
    late.stage.done(result(1))
    assert taken(late) != [], "what had arrived comes first"
    late.stage.done(result(2))
    assert late.stage.pump() == ChangeFilter(1, NEXT)
    late.put(chunk(3, first=2))
    assert late.stage.pump() is None
    late.stage.changed({}, None)
    assert late.stage.take_change() is True and late.stage.spec.envelope is NEXT
    assert taken(late) != []


def test_where_it_recovers_nothing_is_filtered_before_the_state_is_saved() -> None:
    late = bench(recovers=True)
    late.stage.change(7, NEXT, FEEDING, {})
    assert late.stage.pump() == ChangeFilter(1, NEXT)
    late.stage.changed({"A": b"new"}, None)
    assert late.stage.pump() is None and late.stage.take_change() is None
    assert late.stage.idle() is None and late.stage.idle() is None, "an idle hook waits too"
    late.put(chunk(1))
    assert late.stage.pump() is None
    checkpoint = late.stage.saving.to_send()
    assert checkpoint is not None and checkpoint.state == {"A": b"new"}
    assert late.stage.saving.change == 7
    late.stage.saving.kept()
    assert late.stage.take_change() is True
    assert taken(late) != []


def resuming(*, exact: bool) -> Bench:
    """One whose consumer `one` has two events of A, which a lost place had made."""
    late = bench(recovers=True, exact=exact)
    has = FlowSpec(99, 1, "here", 60, "there", since={"A": (1, 2)}, subscriber="one")
    late.stage.outlet.open(has)
    late.stage.change(7, NEXT, FEEDING, {})
    return late


def test_what_a_lost_place_had_made_is_made_again_before_it_changes() -> None:
    """Else its consumers would have of one stretch of a stream what the old parameters made of it,
    and what the new ones make."""
    late = resuming(exact=False)
    assert late.stage.pump() is None
    late.put(chunk(1))
    assert taken(late) != []
    late.stage.done(result(1))
    assert late.stage.pump() is None, "there is a second one"
    late.put(chunk(2, first=1))
    assert taken(late) != []
    late.stage.done(result(2))
    assert late.stage.pump() == ChangeFilter(1, NEXT)


def test_an_exact_filter_too_passes_on_again_what_a_lost_place_had() -> None:
    late = resuming(exact=True)
    late.put(chunk(1), chunk(2, first=1), chunk(3, first=2))
    assert late.stage.pump() == ChangeFilter(1, NEXT)
    assert late.sent == [[1], [2]]


@pytest.mark.parametrize("exact", [True, False])
def test_what_it_did_not_want_before_is_not_for_the_new_parameters(exact: bool) -> None:
    """Who feeds it may be lost and make that again, or it may be lost itself; then it is offered
    what lies between the last event that it was sent and the change."""
    late = bench(recovers=True, exact=exact)
    late.stage.change(7, NEXT, FEEDING, {"A": (1, 4), "B": (2, 1)})
    assert late.stage.pump() == ChangeFilter(1, NEXT)
    late.stage.changed({}, None)
    checkpoint = late.stage.saving.to_send()
    assert checkpoint is not None and checkpoint.inputs == {"A": (1, 4), "B": (2, 1)}
    assert late.inlet.release([90]) == {"A": (1, 4), "B": (2, 1)}


def test_what_it_did_not_want_is_never_more_than_it_has_had() -> None:
    late = bench(exact=True)
    late.put(chunk(1, 2, 3))
    late.stage.change(7, NEXT, FEEDING, {"A": (1, 2)})
    assert late.stage.pump() == ChangeFilter(1, NEXT)
    assert late.stage.saving.inputs == {"A": (1, 3)}


def test_it_can_be_called_off_until_the_filter_takes_them() -> None:
    late = bench()
    late.stage.change(7, NEXT, {90: {"A": (1, 1)}}, {})
    assert late.stage.pump() is None
    assert late.stage.keep(7) and late.stage.changing is None
    late.stage.change(8, NEXT, FEEDING, {})
    assert late.stage.pump() == ChangeFilter(1, NEXT)
    assert not late.stage.keep(8), "it is under way"
    late.stage.changed({}, None)
    assert late.stage.take_change() is True
    assert not late.stage.keep(8), "it has come about"
    assert late.stage.keep(9)


def test_a_filter_that_cannot_take_them_goes_on_as_it_was() -> None:
    late = bench(recovers=True)
    late.stage.change(7, NEXT, FEEDING, {})
    late.stage.pump()
    late.stage.changed({}, "ValueError: planted")
    assert late.stage.take_change() == "ValueError: planted"
    assert late.stage.spec.envelope == envelope(exact=False)


def test_a_filter_that_has_ended_says_so() -> None:
    late = bench()
    late.stage.change(7, NEXT, {90: {"A": (1, 9)}}, {})
    late.stage.outlet.end(finished=True, error=("FilterStopped", "planted"))
    assert late.stage.pump() is None
    assert late.stage.take_change() is False


def test_a_source_that_is_lost_is_noticed() -> None:
    late = bench()
    late.stage.change(7, NEXT, {90: {"A": (1, 9)}}, {})
    late.put(*[])
    late.inlet.arrived(10, FlowEnded(10, 1))
    assert late.stage.pump() is None
    assert late.stage.take_change() == SOURCE_LOST


def test_an_exact_filter_changes_behind_what_it_passes_on() -> None:
    late = bench(exact=True)
    late.stage.change(7, NEXT, {90: {"A": (1, 2)}}, {})
    late.put(chunk(1, 2), ended(upto=3))
    assert late.stage.pump() == ChangeFilter(1, NEXT)
    assert late.sent == [[1, 2]]


def test_what_is_wider_than_a_filter_is_sent_as_not_certain() -> None:
    sent: list[Any] = []

    def carry(flow: OutFlow, item: Any) -> None:
        sent.append(item.certain)

    outlet = Outlet(1, "late", "A", carry)
    low = extract(lambda note: note.group < 3).predicate.to_json()
    outlet.open(FlowSpec(1, 1, "here", 50, "there", low, subscriber="late.X"))
    outlet.emit(chunk(1))
    outlet.set_predicate("late.X", None, certain=False)
    outlet.emit(chunk(5, first=1))
    outlet.set_predicate("late.X", low)
    outlet.emit(chunk(2, first=2))
    assert sent == [True, False, True]

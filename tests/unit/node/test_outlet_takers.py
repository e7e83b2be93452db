"""The outlet's takers: what is kept for them, and what they get when they come back."""

from __future__ import annotations

from typing import Any

import pytest
from parcels_for_tests import groups, parcel

from activebroker.matching import Parcel
from activebroker.node.dataplane.outlet import KEPT, WINDOW, OutFlow, Outlet
from activebroker.protocol.messages import FlowEnded, StreamEnded
from activebroker.protocol.specs import FlowSpec, Positions
from predicate_extract import extract

HIGH = extract(lambda note: note.group > 5).predicate.to_json()


class Sent:
    """An outlet with what it has handed on; flow n leads to taker "late" unless it is named."""

    def __init__(self, supplier: str | None = "A", numbers: bool = False) -> None:
        self.items: list[tuple[int, Any]] = []
        self.outlet = Outlet(1, "late", supplier, self._carry, numbers)

    def _carry(self, flow: OutFlow, item: Any) -> None:
        self.items.append((flow.spec.id, item))

    def take(self) -> list[tuple[int, Any]]:
        """What was sent since the last look."""
        items, self.items = self.items, []
        return [(flow, groups(item)) for flow, item in items]

    def open(
        self,
        flow: int,
        predicate: str | None = None,
        since: Positions | None = None,
        taker: str = "late",
        keeps: bool = True,
        resumes: bool = False,
    ) -> None:
        spec = FlowSpec(
            flow,
            1,
            "here",
            50 + flow,
            "there",
            predicate,
            since=since or {},
            taker=taker,
            recovers=keeps,
            resumes=resumes,
        )
        self.outlet.open(spec, keeps)

    def kept(self, taker: str = "late") -> list[Any]:
        return [groups(item) for _, _, item in self.outlet.takers[taker].kept]


@pytest.fixture
def sent() -> Sent:
    """That of a supplier: what it emits bears its positions."""
    return Sent()


@pytest.fixture
def made() -> Sent:
    """That of a filter: it numbers what it emits."""
    return Sent(supplier=None, numbers=True)


# --- keeping and settling -----------------------------------------------------------------------


def test_what_was_sent_is_kept_until_it_is_settled(sent: Sent) -> None:
    sent.open(1)
    for first in (0, 2, 4):
        sent.outlet.emit(parcel(first, first + 1, first=first))
    assert sent.take() == [(1, [0, 1]), (1, [2, 3]), (1, [4, 5])]
    assert sent.kept() == [[0, 1], [2, 3], [4, 5]]
    sent.outlet.settle("late", {"A": (1, 2)})
    assert sent.kept() == [[2, 3], [4, 5]]
    sent.outlet.settle("late", {"A": (1, 5)})  # amid a batch: all of it is kept
    assert sent.kept() == [[4, 5]]
    sent.outlet.settle("late", {"A": (1, 6)})
    assert sent.kept() == [] and sent.outlet.takers["late"].kept_bytes == 0
    assert sent.outlet.ready and not sent.outlet.unsettled


def test_nothing_is_kept_for_who_does_not_recover(sent: Sent) -> None:
    sent.open(1, keeps=False)
    sent.outlet.emit(parcel(1))
    assert sent.kept() == [] and not sent.outlet.unsettled


def test_only_what_a_taker_wants_is_kept_for_it(sent: Sent) -> None:
    sent.open(1, HIGH)
    sent.outlet.emit(parcel(7, 1))
    sent.outlet.emit(parcel(2, first=2))
    sent.outlet.end_stream("A")
    assert sent.kept() == [[7], "StreamEnded"]


def test_each_supplier_is_settled_by_itself(made: Sent) -> None:
    made.open(1)
    for supplier in ("A", "B"):
        made.outlet.emit(parcel(1, supplier=supplier))
    made.outlet.settle("late", {"B": (1, 1)})
    assert [supplier for supplier, _, _ in made.outlet.takers["late"].kept] == ["A"]


def test_a_later_stream_is_further_on_than_all_of_an_earlier_one(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(parcel(*range(9)))
    sent.outlet.settle("late", {"A": (2, 1)})
    assert sent.kept() == []


def test_too_much_that_is_kept_holds_up_the_producer(sent: Sent) -> None:
    """Also where the flow has credit."""
    sent.open(1)
    first = 0
    while sent.outlet.takers["late"].kept_bytes < KEPT:
        assert sent.outlet.ready
        sent.outlet.emit(parcel(0, first=first, size=WINDOW // 2))
        sent.outlet.return_credit(1, WINDOW // 2 + 1024)
        first += 1
    assert not any(flow.waiting for flow in sent.outlet.flows.values())
    assert not sent.outlet.ready
    sent.outlet.settle("late", {"A": (1, 1)})
    assert sent.outlet.ready


def test_what_is_numbered_here_is_settled_though_it_is_not_kept(made: Sent) -> None:
    """A checkpoint waits for subscriptions, too."""
    made.open(1, keeps=False)
    made.outlet.emit(parcel(1, 2))
    made.outlet.emit(parcel(3, supplier="B"))
    assert not made.outlet.settled({"A": (1, 2)})
    assert made.outlet.settled({"C": (1, 9)}), "of this it was given nothing"
    made.outlet.settle("late", {"A": (1, 1)})
    assert made.outlet.settled({"A": (1, 1)}) and not made.outlet.settled({"A": (1, 2)})
    made.outlet.settle("late", {"A": (1, 2)})
    assert made.outlet.settled({"A": (1, 2)}) and made.outlet.unsettled
    made.outlet.settle("late", {"B": (1, 1)})
    assert not made.outlet.unsettled


def test_what_all_takers_have_settled_is_settled(made: Sent) -> None:
    made.open(1, taker="late")
    made.open(2, taker="port 52", keeps=False)
    made.outlet.emit(parcel(1))
    for taker in ("late", "port 52"):
        assert not made.outlet.settled({"A": (1, 1)})
        made.outlet.settle(taker, {"A": (1, 1)})
    assert made.outlet.settled({"A": (1, 1)})


def test_who_wanted_none_of_it_has_settled_it(made: Sent) -> None:
    made.open(1, HIGH)
    made.outlet.emit(parcel(1))
    assert made.outlet.settled({"A": (1, 1)})


# --- numbering ----------------------------------------------------------------------------------


def test_a_filter_s_events_are_numbered_and_its_ends_with_them(made: Sent) -> None:
    made.open(1)
    made.outlet.emit(parcel(1, 2, first=40))
    made.outlet.end_stream("A")
    made.outlet.emit(parcel(3, first=0))
    assert [item.upto for _, item in made.items] == [(1, 2), (1, 3), (1, 4)]
    assert made.outlet.positions == {"A": (1, 4)}


def test_a_supplier_s_events_keep_their_positions(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(parcel(1, 2, first=40))
    sent.outlet.end_stream("A")
    assert [item.upto for _, item in sent.items] == [(1, 42), (1, 43)]


# --- resuming -----------------------------------------------------------------------------------


def test_who_resumes_gets_what_is_kept_and_then_what_comes(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(parcel(0, 1))
    sent.outlet.emit(parcel(2, first=2))
    sent.outlet.close(1)
    sent.outlet.emit(parcel(3, first=3))  # when nobody is there
    sent.take()
    sent.open(2, resumes=True)
    sent.outlet.emit(parcel(4, first=4))
    assert sent.take() == [(2, [0, 1]), (2, [2]), (2, [3]), (2, [4])]
    assert sent.kept() == [[0, 1], [2], [3], [4]]


def test_who_resumes_amid_a_batch_gets_the_rest_of_it(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(parcel(0, 1, 2, 3))
    sent.outlet.emit(parcel(4, first=4))
    sent.outlet.close(1)
    sent.take()
    sent.open(2, since={"A": (1, 2)}, resumes=True)
    (_, part), _ = sent.items
    assert part.upto == (1, 4)
    assert sent.take() == [(2, [2, 3]), (2, [4])]
    assert sent.kept() == [[0, 1], [2, 3], [4]], "what it has is not settled by that"


def test_who_resumes_amid_a_selection_of_a_filter_s_batch(made: Sent) -> None:
    """The rows of a selection have the numbers of the whole."""
    made.open(1, HIGH)
    made.outlet.emit(parcel(7, 1, 8, 2, 9))
    made.outlet.close(1)
    made.take()
    made.open(2, since={"A": (1, 3)}, resumes=True)
    assert made.take() == [(2, [9])]
    assert made.outlet.takers["late"].predicate is not None
    made.outlet.emit(parcel(1, 6))
    assert made.take() == [(2, [6])], "its predicate is the one it had"


def test_what_who_resumes_has_already_is_not_sent_when_it_comes(made: Sent) -> None:
    """The filter has gone on from a checkpoint, and makes again what its taker had got."""
    made.open(1, since={"A": (1, 3), "B": (1, 1)})
    made.outlet.emit(parcel(0, 1))
    made.outlet.emit(parcel(2, 3))
    made.outlet.emit(parcel(5, supplier="B"))
    made.outlet.emit(parcel(4))
    assert made.take() == [(1, [3]), (1, [4])]
    assert made.kept() == [[0, 1], [2], [3], [5], [4]]


def test_an_end_that_who_resumes_has_heard_is_not_sent_again(made: Sent) -> None:
    made.open(1, since={"A": (1, 2)})
    made.outlet.emit(parcel(0))
    made.outlet.end_stream("A")
    made.outlet.emit(parcel(1))
    made.outlet.end_stream("A")
    assert made.take() == [(1, [1]), (1, "StreamEnded")]


def test_what_is_kept_stays_with_a_taker_that_is_served_by_another_flow(sent: Sent) -> None:
    """A switch-over: what went the old way is settled no more by that."""
    sent.open(1)
    sent.outlet.emit(parcel(0))
    sent.outlet.end_flow(1)
    sent.open(2)
    sent.outlet.emit(parcel(1, first=1))
    assert sent.take() == [(1, [0]), (1, "FlowEnded"), (2, [1])]
    assert sent.kept() == [[0], [1]]


def test_nothing_is_expected_where_nothing_is_kept(sent: Sent) -> None:
    """It resumes where it was never known: the flow ends at once, for those that wait for it."""
    sent.open(1, resumes=True)
    (_, end), *_ = sent.items
    assert isinstance(end, FlowEnded)
    sent.outlet.settle("late", {}, ended=True)
    assert sent.outlet.takers == {} and sent.outlet.flows == {}


def test_who_resumes_at_an_outlet_that_has_ended_gets_the_rest_and_the_end(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(parcel(0))
    sent.outlet.end_stream("A")
    sent.outlet.end()
    sent.take()
    assert not sent.outlet.drained
    sent.open(2, resumes=True)
    assert sent.take() == [(2, [0]), (2, "StreamEnded"), (2, "FlowEnded")]
    assert not sent.outlet.drained, "it may be lost once more"
    sent.outlet.settle("late", {"A": (1, 2)}, ended=True)
    assert sent.outlet.drained


def test_who_resumes_at_an_outlet_that_serves_it_no_more_gets_the_rest_and_the_end(
    sent: Sent,
) -> None:
    sent.open(1)
    sent.outlet.emit(parcel(0))
    sent.outlet.end_flow(1)
    sent.outlet.emit(parcel(1, first=1))
    sent.take()
    sent.open(2, resumes=True)
    sent.outlet.emit(parcel(2, first=2))
    assert sent.take() == [(2, [0]), (2, "FlowEnded")]


# --- going --------------------------------------------------------------------------------------


def test_a_lost_flow_leaves_its_taker_if_it_recovers(sent: Sent) -> None:
    sent.open(1)
    sent.open(2, taker="port 52", keeps=False)
    for flow in (1, 2):
        sent.outlet.close(flow)
    assert list(sent.outlet.takers) == ["late"] and sent.outlet.flows == {}


def test_a_taker_that_another_outlet_serves_lingers_until_it_has_settled(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(parcel(0))
    sent.outlet.end_flow(1)
    sent.outlet.emit(parcel(1, first=1))
    sent.outlet.end_stream("A")
    assert sent.kept() == [[0]], "the rest is not for it"
    sent.outlet.settle("late", {"A": (1, 1)}, ended=True)
    assert sent.outlet.takers == {}


def test_a_taker_that_has_settled_lingers_until_the_end_has_come(sent: Sent) -> None:
    """Were the end lost with the outlet, what follows it would wait in vain."""
    sent.open(1)
    sent.outlet.emit(parcel(0))
    sent.outlet.settle("late", {"A": (1, 1)}, ended=True)  # of a flow before
    sent.outlet.end_flow(1)
    sent.outlet.settle("late", {"A": (1, 1)})
    assert sent.outlet.unsettled
    sent.outlet.settle("late", {}, ended=True)
    assert sent.outlet.takers == {} and not sent.outlet.unsettled


def test_the_end_of_a_lost_flow_closes_its_taker(sent: Sent) -> None:
    """It was to be served from elsewhere, and its place was lost before that."""
    sent.open(1)
    sent.outlet.emit(parcel(0))
    sent.outlet.close(1)
    sent.outlet.end_flow(1)
    sent.outlet.emit(parcel(1, first=1))
    assert sent.kept() == [[0]]


def test_who_is_gone_for_good_leaves_nothing(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(parcel(0))
    sent.outlet.drop("late")
    sent.outlet.drop("late")
    assert sent.outlet.takers == {} and sent.outlet.flows == {}


@pytest.mark.parametrize("ended", [False, True])
def test_who_is_gone_with_its_flow_leaves_nothing_also_where_that_has_ended(
    ended: bool, made: Sent
) -> None:
    """Its port is gone while the end of its flow is on its way: it will not settle it."""
    made.open(1, keeps=False)
    made.open(2, taker="other")
    made.outlet.emit(parcel(0))
    if ended:
        made.outlet.end(finished=True, keeps=True)
        assert made.outlet.takers["late"].closed
    made.outlet.drop_served(1)
    made.outlet.drop_served(3)
    assert list(made.outlet.takers) == ["other"] and 1 not in made.outlet.flows


def test_who_comes_back_to_an_outlet_that_was_stopped_hears_why(made: Sent) -> None:
    made.open(1)
    made.outlet.emit(parcel(0))
    made.outlet.end(finished=True, error=("FilterStopped", "no"), keeps=True)
    made.items.clear()
    made.open(2, resumes=True)
    (_, kept), (_, end) = made.items
    assert groups(kept) == [0] and end.finished and end.error == ("FilterStopped", "no")


def test_let_go_keeps_nothing_and_still_serves(sent: Sent) -> None:
    """The channel is being closed: nobody will come back."""
    sent.open(1)
    sent.open(2, taker="gone")
    sent.outlet.emit(parcel(0))
    sent.outlet.close(2)
    sent.outlet.let_go()
    assert list(sent.outlet.takers) == ["late"] and sent.kept() == []
    sent.take()
    sent.outlet.emit(parcel(1, first=1))
    sent.outlet.end(finished=True)
    assert sent.take() == [(1, [1]), (1, "FlowEnded")]
    assert sent.outlet.drained


def test_an_outlet_that_ends_for_all_keeps_nothing(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(parcel(0))
    sent.outlet.end(finished=True)
    assert sent.outlet.takers == {} and sent.outlet.drained


def test_for_a_filter_that_is_lost_with_its_supplier_nothing_is_kept(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(parcel(0))
    sent.outlet.forget("late")
    sent.outlet.emit(parcel(1, first=1))
    assert sent.kept() == [] and sent.take() == [(1, [0]), (1, [1])]


def test_a_flow_names_the_taker_that_it_serves_now(sent: Sent) -> None:
    sent.open(1)
    assert sent.outlet.served_by(1) == "late"
    for number in range(3):
        sent.outlet.emit(parcel(number, first=number, size=WINDOW))
    sent.outlet.end_flow(1)  # its end waits for credit
    sent.open(2)
    assert sent.outlet.served_by(1) is None and sent.outlet.served_by(2) == "late"
    assert sent.outlet.served_by(3) is None
    sent.outlet.close(1)
    assert sent.outlet.served_by(2) == "late"


def test_a_kept_end_of_a_stream_is_told_to_the_port_of_the_new_flow(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.end_stream("A")
    sent.outlet.close(1)
    sent.items.clear()
    sent.open(2, resumes=True)
    assert [item for _, item in sent.items] == [StreamEnded(2, 52, "A", (1, 1))]


def test_without_credit_what_is_kept_waits(sent: Sent) -> None:
    sent.open(1)
    for number in range(3):
        sent.outlet.emit(parcel(number, first=number, size=WINDOW // 2 + 1))
    sent.outlet.close(1)
    assert sent.outlet.takers["late"].kept_bytes > WINDOW
    sent.take()
    sent.open(2, resumes=True)
    assert sent.take() == [(2, [0]), (2, [1])] and not sent.outlet.ready
    sent.outlet.return_credit(2, WINDOW)
    assert sent.take() == [(2, [2])]
    assert all(isinstance(item, Parcel) for _, _, item in sent.outlet.takers["late"].kept)


# --- relays -------------------------------------------------------------------------------------


@pytest.fixture
def relayed() -> Sent:
    """That of a relay: what it emits bears positions, and it knows how far takers have settled."""
    return Sent(supplier=None)


def test_a_relay_knows_how_far_its_subscriptions_have_settled(relayed: Sent) -> None:
    relayed.open(1, taker="port 51", keeps=False)
    relayed.outlet.emit(parcel(1, 2))
    assert relayed.kept("port 51") == []
    assert not relayed.outlet.settled({"A": (1, 2)})
    relayed.outlet.settle("port 51", {"A": (1, 2)})
    assert relayed.outlet.settled({"A": (1, 2)})


def test_a_relay_that_ends_keeps_what_is_not_settled(relayed: Sent) -> None:
    relayed.open(1)
    relayed.outlet.emit(parcel(1))
    relayed.outlet.end(finished=True, keeps=True)
    (_, end) = relayed.items[-1]
    assert isinstance(end, FlowEnded) and end.finished
    assert not relayed.outlet.drained
    relayed.open(2, resumes=True)
    assert relayed.take()[2:] == [(2, [1]), (2, "FlowEnded")]
    relayed.outlet.settle("late", {"A": (1, 1)}, ended=True)
    assert relayed.outlet.drained


def test_what_is_settled_is_not_kept_when_it_comes_again(relayed: Sent) -> None:
    """Its taker has it from the relay before this one, and would not settle it once more."""
    relayed.open(1, since={"A": (1, 3)}, resumes=True, keeps=True)
    relayed.open(2, since={"A": (1, 3)})
    relayed.outlet.settle("late", {"A": (1, 2)})
    for first in range(4):
        relayed.outlet.emit(parcel(first, first=first))
    assert relayed.kept() == [[2], [3]]
    assert [item for item in relayed.take() if item[0] == 2] == [(2, [3])]


def test_where_a_taker_begins_holds_for_the_flow_that_it_moves_to(relayed: Sent) -> None:
    relayed.open(1, since={"A": (1, 2)})
    relayed.open(2)
    relayed.outlet.emit(parcel(0, 1, first=0))
    relayed.outlet.emit(parcel(2, first=2))
    assert relayed.take() == [(2, [2])]


def test_what_a_taker_wants_may_change_while_no_flow_leads_to_it(sent: Sent) -> None:
    sent.open(1, HIGH)
    sent.outlet.close(1)
    sent.outlet.set_predicate("late", None)
    sent.outlet.emit(parcel(1))
    sent.open(2, HIGH, resumes=True)
    assert sent.take() == [(2, [1])]


def test_who_comes_when_a_relay_has_ended_is_told_so(relayed: Sent) -> None:
    relayed.open(1)
    relayed.outlet.emit(parcel(1))
    relayed.outlet.end(finished=True, keeps=True)
    relayed.take()
    relayed.open(2, taker="port 52", keeps=False)
    ((flow, end),) = relayed.items
    assert flow == 2 and isinstance(end, FlowEnded) and end.finished
    relayed.outlet.settle("port 52", {}, ended=True)
    assert list(relayed.outlet.takers) == ["late"]


def test_what_is_made_of_a_later_stream_of_a_supplier_is_further_on(made: Sent) -> None:
    """Though another place has made more of the one before, and this one nothing."""
    made.open(1)
    made.outlet.emit(parcel(1, 2))
    later = parcel(3)
    later.upto = (7, 1)
    made.outlet.emit(later)
    made.outlet.end_stream("A", (7, 2))
    assert [item.upto for _, item in made.items] == [(1, 2), (7, 1), (7, 2)]

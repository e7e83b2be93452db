"""The outlet's subscribers: what is retained for them, and what they get when they come back."""

from __future__ import annotations

from typing import Any

import pytest
from chunks_for_tests import chunk, groups

from activebroker.matching import Chunk
from activebroker.node.dataplane.outlet import RETAINED, WINDOW, OutFlow, Outlet
from activebroker.protocol.flows import FlowEnded, StreamEnded
from activebroker.protocol.specs import FlowSpec, Offsets
from predicate_extract import extract

HIGH = extract(lambda note: note.group > 5).predicate.to_json()


class Sent:
    """An outlet with what it has handed on; flow n leads to subscriber "late" unless it is
    named."""

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
        since: Offsets | None = None,
        subscriber: str = "late",
        retains: bool = True,
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
            subscriber=subscriber,
            recovers=retains,
            resumes=resumes,
        )
        self.outlet.open(spec, retains)

    def retained(self, subscriber: str = "late") -> list[Any]:
        return [groups(item) for _, _, item in self.outlet.subscribers[subscriber].retained]


@pytest.fixture
def sent() -> Sent:
    """That of a supplier: what it emits bears its offsets."""
    return Sent()


@pytest.fixture
def made() -> Sent:
    """That of a filter: it numbers what it emits."""
    return Sent(supplier=None, numbers=True)


# --- keeping and acknowledging
# -----------------------------------------------------------------------


def test_what_was_sent_is_retained_until_it_is_acknowledged(sent: Sent) -> None:
    sent.open(1)
    for first in (0, 2, 4):
        sent.outlet.emit(chunk(first, first + 1, first=first))
    assert sent.take() == [(1, [0, 1]), (1, [2, 3]), (1, [4, 5])]
    assert sent.retained() == [[0, 1], [2, 3], [4, 5]]
    sent.outlet.acknowledge("late", {"A": (1, 2)})
    assert sent.retained() == [[2, 3], [4, 5]]
    sent.outlet.acknowledge("late", {"A": (1, 5)})  # amid a batch: all of it is retained
    assert sent.retained() == [[4, 5]]
    sent.outlet.acknowledge("late", {"A": (1, 6)})
    assert sent.retained() == [] and sent.outlet.subscribers["late"].retained_bytes == 0
    assert sent.outlet.ready and not sent.outlet.unacknowledged


def test_nothing_is_retained_for_who_does_not_recover(sent: Sent) -> None:
    sent.open(1, retains=False)
    sent.outlet.emit(chunk(1))
    assert sent.retained() == [] and not sent.outlet.unacknowledged


def test_only_what_a_subscriber_wants_is_retained_for_it(sent: Sent) -> None:
    sent.open(1, HIGH)
    sent.outlet.emit(chunk(7, 1))
    sent.outlet.emit(chunk(2, first=2))
    sent.outlet.end_stream("A")
    assert sent.retained() == [[7], "StreamEnded"]


def test_each_supplier_is_acknowledged_by_itself(made: Sent) -> None:
    made.open(1)
    for supplier in ("A", "B"):
        made.outlet.emit(chunk(1, supplier=supplier))
    made.outlet.acknowledge("late", {"B": (1, 1)})
    assert [supplier for supplier, _, _ in made.outlet.subscribers["late"].retained] == ["A"]


def test_a_later_stream_is_further_on_than_all_of_an_earlier_one(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(chunk(*range(9)))
    sent.outlet.acknowledge("late", {"A": (2, 1)})
    assert sent.retained() == []


def test_too_much_that_is_retained_holds_up_the_producer(sent: Sent) -> None:
    """Also where the flow has credit."""
    sent.open(1)
    first = 0
    while sent.outlet.subscribers["late"].retained_bytes < RETAINED:
        assert sent.outlet.ready
        sent.outlet.emit(chunk(0, first=first, size=WINDOW // 2))
        sent.outlet.return_credit(1, WINDOW // 2 + 1024)
        first += 1
    assert not any(flow.waiting for flow in sent.outlet.flows.values())
    assert not sent.outlet.ready
    sent.outlet.acknowledge("late", {"A": (1, 1)})
    assert sent.outlet.ready


def test_what_is_numbered_here_is_acknowledged_though_it_is_not_retained(made: Sent) -> None:
    """A checkpoint waits for subscriptions, too."""
    made.open(1, retains=False)
    made.outlet.emit(chunk(1, 2))
    made.outlet.emit(chunk(3, supplier="B"))
    assert not made.outlet.all_acknowledged({"A": (1, 2)})
    assert made.outlet.all_acknowledged({"C": (1, 9)}), "of this it was given nothing"
    made.outlet.acknowledge("late", {"A": (1, 1)})
    assert made.outlet.all_acknowledged({"A": (1, 1)}) and not made.outlet.all_acknowledged(
        {"A": (1, 2)}
    )
    made.outlet.acknowledge("late", {"A": (1, 2)})
    assert made.outlet.all_acknowledged({"A": (1, 2)}) and made.outlet.unacknowledged
    made.outlet.acknowledge("late", {"B": (1, 1)})
    assert not made.outlet.unacknowledged


def test_what_all_subscribers_have_acknowledged_is_acknowledged(made: Sent) -> None:
    made.open(1, subscriber="late")
    made.open(2, subscriber="inlet 52", retains=False)
    made.outlet.emit(chunk(1))
    for subscriber in ("late", "inlet 52"):
        assert not made.outlet.all_acknowledged({"A": (1, 1)})
        made.outlet.acknowledge(subscriber, {"A": (1, 1)})
    assert made.outlet.all_acknowledged({"A": (1, 1)})


def test_who_wanted_none_of_it_has_acknowledged_it(made: Sent) -> None:
    made.open(1, HIGH)
    made.outlet.emit(chunk(1))
    assert made.outlet.all_acknowledged({"A": (1, 1)})


# --- numbering ----------------------------------------------------------------------------------


def test_a_filter_s_events_are_numbered_and_its_ends_with_them(made: Sent) -> None:
    made.open(1)
    made.outlet.emit(chunk(1, 2, first=40))
    made.outlet.end_stream("A")
    made.outlet.emit(chunk(3, first=0))
    assert [item.upto for _, item in made.items] == [(1, 2), (1, 3), (1, 4)]
    assert made.outlet.offsets == {"A": (1, 4)}


def test_a_supplier_s_events_keep_their_offsets(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(chunk(1, 2, first=40))
    sent.outlet.end_stream("A")
    assert [item.upto for _, item in sent.items] == [(1, 42), (1, 43)]


# --- resuming -----------------------------------------------------------------------------------


def test_who_resumes_gets_what_is_retained_and_then_what_comes(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(chunk(0, 1))
    sent.outlet.emit(chunk(2, first=2))
    sent.outlet.close(1)
    sent.outlet.emit(chunk(3, first=3))  # when nobody is there
    sent.take()
    sent.open(2, resumes=True)
    sent.outlet.emit(chunk(4, first=4))
    assert sent.take() == [(2, [0, 1]), (2, [2]), (2, [3]), (2, [4])]
    assert sent.retained() == [[0, 1], [2], [3], [4]]


def test_who_resumes_amid_a_batch_gets_the_rest_of_it(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(chunk(0, 1, 2, 3))
    sent.outlet.emit(chunk(4, first=4))
    sent.outlet.close(1)
    sent.take()
    sent.open(2, since={"A": (1, 2)}, resumes=True)
    (_, part), _ = sent.items
    assert part.upto == (1, 4)
    assert sent.take() == [(2, [2, 3]), (2, [4])]
    assert sent.retained() == [[0, 1], [2, 3], [4]], "what it has is not acknowledged by that"


def test_who_resumes_amid_a_selection_of_a_filter_s_batch(made: Sent) -> None:
    """The rows of a selection have the numbers of the whole."""
    made.open(1, HIGH)
    made.outlet.emit(chunk(7, 1, 8, 2, 9))
    made.outlet.close(1)
    made.take()
    made.open(2, since={"A": (1, 3)}, resumes=True)
    assert made.take() == [(2, [9])]
    assert made.outlet.subscribers["late"].predicate is not None
    made.outlet.emit(chunk(1, 6))
    assert made.take() == [(2, [6])], "its predicate is the one it had"


def test_what_who_resumes_has_already_is_not_sent_when_it_comes(made: Sent) -> None:
    """The filter has gone on from a checkpoint, and makes again what its subscriber had got."""
    made.open(1, since={"A": (1, 3), "B": (1, 1)})
    made.outlet.emit(chunk(0, 1))
    made.outlet.emit(chunk(2, 3))
    made.outlet.emit(chunk(5, supplier="B"))
    made.outlet.emit(chunk(4))
    assert made.take() == [(1, [3]), (1, [4])]
    assert made.retained() == [[0, 1], [2], [3], [5], [4]]


def test_an_end_that_who_resumes_has_heard_is_not_sent_again(made: Sent) -> None:
    made.open(1, since={"A": (1, 2)})
    made.outlet.emit(chunk(0))
    made.outlet.end_stream("A")
    made.outlet.emit(chunk(1))
    made.outlet.end_stream("A")
    assert made.take() == [(1, [1]), (1, "StreamEnded")]


def test_what_is_retained_stays_with_a_subscriber_that_is_served_by_another_flow(
    sent: Sent,
) -> None:
    """A switch-over: what went the old way is acknowledged no more by that."""
    sent.open(1)
    sent.outlet.emit(chunk(0))
    sent.outlet.end_flow(1)
    sent.open(2)
    sent.outlet.emit(chunk(1, first=1))
    assert sent.take() == [(1, [0]), (1, "FlowEnded"), (2, [1])]
    assert sent.retained() == [[0], [1]]


def test_nothing_is_expected_where_nothing_is_retained(sent: Sent) -> None:
    """It resumes where it was never known: the flow ends at once, for those that wait for it."""
    sent.open(1, resumes=True)
    (_, end), *_ = sent.items
    assert isinstance(end, FlowEnded)
    sent.outlet.acknowledge("late", {}, ended=True)
    assert sent.outlet.subscribers == {} and sent.outlet.flows == {}


def test_who_resumes_at_an_outlet_that_has_ended_gets_the_rest_and_the_end(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(chunk(0))
    sent.outlet.end_stream("A")
    sent.outlet.end()
    sent.take()
    assert not sent.outlet.drained
    sent.open(2, resumes=True)
    assert sent.take() == [(2, [0]), (2, "StreamEnded"), (2, "FlowEnded")]
    assert not sent.outlet.drained, "it may be lost once more"
    sent.outlet.acknowledge("late", {"A": (1, 2)}, ended=True)
    assert sent.outlet.drained


def test_who_resumes_at_an_outlet_that_serves_it_no_more_gets_the_rest_and_the_end(
    sent: Sent,
) -> None:
    sent.open(1)
    sent.outlet.emit(chunk(0))
    sent.outlet.end_flow(1)
    sent.outlet.emit(chunk(1, first=1))
    sent.take()
    sent.open(2, resumes=True)
    sent.outlet.emit(chunk(2, first=2))
    assert sent.take() == [(2, [0]), (2, "FlowEnded")]


# --- going --------------------------------------------------------------------------------------


def test_a_lost_flow_leaves_its_subscriber_if_it_recovers(sent: Sent) -> None:
    sent.open(1)
    sent.open(2, subscriber="inlet 52", retains=False)
    for flow in (1, 2):
        sent.outlet.close(flow)
    assert list(sent.outlet.subscribers) == ["late"] and sent.outlet.flows == {}


def test_a_subscriber_that_another_outlet_serves_lingers_until_it_has_acknowledged(
    sent: Sent,
) -> None:
    sent.open(1)
    sent.outlet.emit(chunk(0))
    sent.outlet.end_flow(1)
    sent.outlet.emit(chunk(1, first=1))
    sent.outlet.end_stream("A")
    assert sent.retained() == [[0]], "the rest is not for it"
    sent.outlet.acknowledge("late", {"A": (1, 1)}, ended=True)
    assert sent.outlet.subscribers == {}


def test_a_subscriber_that_has_acknowledged_lingers_until_the_end_has_come(sent: Sent) -> None:
    """Were the end lost with the outlet, what follows it would wait in vain."""
    sent.open(1)
    sent.outlet.emit(chunk(0))
    sent.outlet.acknowledge("late", {"A": (1, 1)}, ended=True)  # of a flow before
    sent.outlet.end_flow(1)
    sent.outlet.acknowledge("late", {"A": (1, 1)})
    assert sent.outlet.unacknowledged
    sent.outlet.acknowledge("late", {}, ended=True)
    assert sent.outlet.subscribers == {} and not sent.outlet.unacknowledged


def test_the_end_of_a_lost_flow_closes_its_subscriber(sent: Sent) -> None:
    """It was to be served from elsewhere, and its place was lost before that."""
    sent.open(1)
    sent.outlet.emit(chunk(0))
    sent.outlet.close(1)
    sent.outlet.end_flow(1)
    sent.outlet.emit(chunk(1, first=1))
    assert sent.retained() == [[0]]


def test_who_is_gone_for_good_leaves_nothing(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(chunk(0))
    sent.outlet.drop("late")
    sent.outlet.drop("late")
    assert sent.outlet.subscribers == {} and sent.outlet.flows == {}


@pytest.mark.parametrize("ended", [False, True])
def test_who_is_gone_with_its_flow_leaves_nothing_also_where_that_has_ended(
    ended: bool, made: Sent
) -> None:
    """Its inlet is gone while the end of its flow is on its way: it will not acknowledge it."""
    made.open(1, retains=False)
    made.open(2, subscriber="other")
    made.outlet.emit(chunk(0))
    if ended:
        made.outlet.end(finished=True, retains=True)
        assert made.outlet.subscribers["late"].closed
    made.outlet.drop_served(1)
    made.outlet.drop_served(3)
    assert list(made.outlet.subscribers) == ["other"] and 1 not in made.outlet.flows


def test_who_comes_back_to_an_outlet_that_was_stopped_hears_why(made: Sent) -> None:
    made.open(1)
    made.outlet.emit(chunk(0))
    made.outlet.end(finished=True, error=("FilterStopped", "no"), retains=True)
    made.items.clear()
    made.open(2, resumes=True)
    (_, retained), (_, end) = made.items
    assert groups(retained) == [0] and end.finished and end.error == ("FilterStopped", "no")


def test_let_go_retains_nothing_and_still_serves(sent: Sent) -> None:
    """The channel is being closed: nobody will come back."""
    sent.open(1)
    sent.open(2, subscriber="gone")
    sent.outlet.emit(chunk(0))
    sent.outlet.close(2)
    sent.outlet.let_go()
    assert list(sent.outlet.subscribers) == ["late"] and sent.retained() == []
    sent.take()
    sent.outlet.emit(chunk(1, first=1))
    sent.outlet.end(finished=True)
    assert sent.take() == [(1, [1]), (1, "FlowEnded")]
    assert sent.outlet.drained


def test_an_outlet_that_ends_for_all_retains_nothing(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(chunk(0))
    sent.outlet.end(finished=True)
    assert sent.outlet.subscribers == {} and sent.outlet.drained


def test_for_a_filter_that_is_lost_with_its_supplier_nothing_is_retained(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.emit(chunk(0))
    sent.outlet.forget("late")
    sent.outlet.emit(chunk(1, first=1))
    assert sent.retained() == [] and sent.take() == [(1, [0]), (1, [1])]


def test_a_flow_names_the_subscriber_that_it_serves_now(sent: Sent) -> None:
    sent.open(1)
    assert sent.outlet.served_by(1) == "late"
    for number in range(3):
        sent.outlet.emit(chunk(number, first=number, size=WINDOW))
    sent.outlet.end_flow(1)  # its end waits for credit
    sent.open(2)
    assert sent.outlet.served_by(1) is None and sent.outlet.served_by(2) == "late"
    assert sent.outlet.served_by(3) is None
    sent.outlet.close(1)
    assert sent.outlet.served_by(2) == "late"


def test_a_retained_end_of_a_stream_is_told_to_the_inlet_of_the_new_flow(sent: Sent) -> None:
    sent.open(1)
    sent.outlet.end_stream("A")
    sent.outlet.close(1)
    sent.items.clear()
    sent.open(2, resumes=True)
    assert [item for _, item in sent.items] == [StreamEnded(2, 52, "A", (1, 1))]


def test_without_credit_what_is_retained_waits(sent: Sent) -> None:
    sent.open(1)
    for number in range(3):
        sent.outlet.emit(chunk(number, first=number, size=WINDOW // 2 + 1))
    sent.outlet.close(1)
    assert sent.outlet.subscribers["late"].retained_bytes > WINDOW
    sent.take()
    sent.open(2, resumes=True)
    assert sent.take() == [(2, [0]), (2, [1])] and not sent.outlet.ready
    sent.outlet.return_credit(2, WINDOW)
    assert sent.take() == [(2, [2])]
    assert all(isinstance(item, Chunk) for _, _, item in sent.outlet.subscribers["late"].retained)


# --- relays -------------------------------------------------------------------------------------


@pytest.fixture
def relayed() -> Sent:
    """That of a relay: what it emits bears offsets, and it knows how far subscribers have
    acknowledged."""
    return Sent(supplier=None)


def test_a_relay_knows_how_far_its_subscriptions_have_acknowledged(relayed: Sent) -> None:
    relayed.open(1, subscriber="inlet 51", retains=False)
    relayed.outlet.emit(chunk(1, 2))
    assert relayed.retained("inlet 51") == []
    assert not relayed.outlet.all_acknowledged({"A": (1, 2)})
    relayed.outlet.acknowledge("inlet 51", {"A": (1, 2)})
    assert relayed.outlet.all_acknowledged({"A": (1, 2)})


def test_a_relay_that_ends_retains_what_is_not_acknowledged(relayed: Sent) -> None:
    relayed.open(1)
    relayed.outlet.emit(chunk(1))
    relayed.outlet.end(finished=True, retains=True)
    (_, end) = relayed.items[-1]
    assert isinstance(end, FlowEnded) and end.finished
    assert not relayed.outlet.drained
    relayed.open(2, resumes=True)
    assert relayed.take()[2:] == [(2, [1]), (2, "FlowEnded")]
    relayed.outlet.acknowledge("late", {"A": (1, 1)}, ended=True)
    assert relayed.outlet.drained


def test_what_is_acknowledged_is_not_retained_when_it_comes_again(relayed: Sent) -> None:
    """Its subscriber has it from the relay before this one, and would not acknowledge it once
    more."""
    relayed.open(1, since={"A": (1, 3)}, resumes=True, retains=True)
    relayed.open(2, since={"A": (1, 3)})
    relayed.outlet.acknowledge("late", {"A": (1, 2)})
    for first in range(4):
        relayed.outlet.emit(chunk(first, first=first))
    assert relayed.retained() == [[2], [3]]
    assert [item for item in relayed.take() if item[0] == 2] == [(2, [3])]


def test_where_a_subscriber_begins_holds_for_the_flow_that_it_moves_to(relayed: Sent) -> None:
    relayed.open(1, since={"A": (1, 2)})
    relayed.open(2)
    relayed.outlet.emit(chunk(0, 1, first=0))
    relayed.outlet.emit(chunk(2, first=2))
    assert relayed.take() == [(2, [2])]


def test_what_a_subscriber_wants_may_change_while_no_flow_leads_to_it(sent: Sent) -> None:
    sent.open(1, HIGH)
    sent.outlet.close(1)
    sent.outlet.set_predicate("late", None)
    sent.outlet.emit(chunk(1))
    sent.open(2, HIGH, resumes=True)
    assert sent.take() == [(2, [1])]


def test_who_comes_when_a_relay_has_ended_is_told_so(relayed: Sent) -> None:
    relayed.open(1)
    relayed.outlet.emit(chunk(1))
    relayed.outlet.end(finished=True, retains=True)
    relayed.take()
    relayed.open(2, subscriber="inlet 52", retains=False)
    ((flow, end),) = relayed.items
    assert flow == 2 and isinstance(end, FlowEnded) and end.finished
    relayed.outlet.acknowledge("inlet 52", {}, ended=True)
    assert list(relayed.outlet.subscribers) == ["late"]


def test_what_is_made_of_a_later_stream_of_a_supplier_is_further_on(made: Sent) -> None:
    """Though another place has made more of the one before, and this one nothing."""
    made.open(1)
    made.outlet.emit(chunk(1, 2))
    later = chunk(3)
    later.upto = (7, 1)
    made.outlet.emit(later)
    made.outlet.end_stream("A", (7, 2))
    assert [item.upto for _, item in made.items] == [(1, 2), (7, 1), (7, 2)]

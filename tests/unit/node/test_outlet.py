"""The outlet: who gets what, and how much before it has consumed."""

from __future__ import annotations

from typing import Any

import pytest
from chunks_for_tests import chunk, groups

from activebroker.matching import Chunk
from activebroker.node.dataplane.outlet import WINDOW, OutFlow, Outlet
from activebroker.protocol.flows import FlowEnded
from activebroker.protocol.specs import FlowSpec
from predicate_extract import extract


class Sent:
    """An outlet with what it has handed on."""

    def __init__(self) -> None:
        self.items: list[tuple[int, Any]] = []
        self.outlet = Outlet(1, "late", "A", self._carry)

    def _carry(self, flow: OutFlow, item: Any) -> None:
        self.items.append((flow.spec.id, item))

    @property
    def shown(self) -> list[tuple[int, Any]]:
        return [(flow, groups(item)) for flow, item in self.items]

    def open(self, flow: int, predicate: str | None = None, since: int = 0) -> None:
        offsets = {"A": (1, since)} if since else {}
        subscriber = f"inlet {50 + flow}"
        spec = FlowSpec(
            flow, 1, "here", 50 + flow, "there", predicate, since=offsets, subscriber=subscriber
        )
        self.outlet.open(spec)


@pytest.fixture
def sent() -> Sent:
    return Sent()


BIG = WINDOW // 2 + 1
HIGH = extract(lambda note: note.group > 5).predicate.to_json()
LOW = extract(lambda note: note.group < 3).predicate.to_json()


def test_each_flow_gets_what_its_predicate_wants(sent: Sent) -> None:
    for flow, predicate in ((1, None), (2, HIGH), (3, LOW)):
        sent.open(flow, predicate)
    sent.outlet.emit(chunk(1, 7, 2, 4))
    sent.outlet.emit(chunk(4, 4))
    assert sent.shown == [(1, [1, 7, 2, 4]), (2, [7]), (3, [1, 2]), (1, [4, 4])]
    counts = [(f.offered_events, f.sent_events) for f in sent.outlet.flows.values()]
    assert counts == [(6, 6), (6, 1), (6, 2)]


def test_flows_that_want_the_same_share_one_selection(sent: Sent) -> None:
    for flow in (1, 2):
        sent.open(flow, HIGH)
    sent.outlet.emit(chunk(1, 7))
    (_, first), (_, second) = sent.items
    assert isinstance(first, Chunk) and first is second


def test_a_flow_may_start_amid_the_stream(sent: Sent) -> None:
    sent.open(1, since=4)
    sent.outlet.emit(chunk(0, 1, first=0))
    sent.outlet.emit(chunk(2, 3, 4, 5, first=2))
    sent.outlet.emit(chunk(6, first=6))
    assert sent.shown == [(1, [4, 5]), (1, [6])]
    assert sent.outlet.offsets == {"A": (1, 7)}


def test_a_changed_predicate_holds_for_what_comes_next(sent: Sent) -> None:
    sent.open(1, HIGH)
    sent.outlet.emit(chunk(1))
    sent.outlet.set_predicate("inlet 51", None)
    sent.outlet.emit(chunk(1))
    assert sent.shown == [(1, [1])]


def test_without_credit_events_wait_and_the_outlet_is_not_ready(sent: Sent) -> None:
    sent.open(1)
    sent.open(2)
    for number in range(3):
        sent.outlet.emit(chunk(number, size=BIG))
    assert [item for item in sent.shown if item[0] == 1] == [(1, [0]), (1, [1])]
    assert not sent.outlet.ready
    for flow in (1, 2):
        sent.outlet.return_credit(flow, BIG)
    assert sent.shown[-2:] == [(1, [2]), (2, [2])]
    assert sent.outlet.ready


def test_a_flow_that_is_closed_holds_up_nobody(sent: Sent) -> None:
    sent.open(1)
    for _ in range(3):
        sent.outlet.emit(chunk(0, size=BIG))
    sent.outlet.close(1)
    assert sent.outlet.ready
    sent.outlet.return_credit(1, BIG)


def test_the_end_waits_behind_the_events_and_comes_once(sent: Sent) -> None:
    sent.open(1)
    for number in range(3):
        sent.outlet.emit(chunk(number, size=BIG))
    sent.outlet.end_stream("A")
    sent.outlet.end_flow(1)
    sent.outlet.emit(chunk(9))  # belongs to the flow that follows
    sent.outlet.end_stream("B")
    sent.outlet.end(finished=True)
    assert not sent.outlet.drained
    sent.outlet.return_credit(1, 3 * BIG)
    assert sent.shown == [(1, [0]), (1, [1]), (1, [2]), (1, "StreamEnded"), (1, "FlowEnded")]
    assert sent.outlet.drained


def test_an_outlet_without_flows_is_drained_at_its_end(sent: Sent) -> None:
    assert not sent.outlet.drained
    sent.outlet.end(finished=True)
    assert sent.outlet.drained


def test_a_flow_is_finished_behind_what_is_still_on_its_way(sent: Sent) -> None:
    """At a relay, whose supplier has published more when a channel is closed."""
    sent.open(1)
    sent.open(2)
    sent.outlet.emit(chunk(0))
    sent.outlet.finish(1, {"A": (1, 2)})
    sent.outlet.finish(2, {})
    assert sent.shown == [(1, [0]), (2, [0]), (2, "FlowEnded")]
    for number in (1, 2):
        sent.outlet.emit(chunk(number, first=number))
    assert sent.shown[3:] == [(1, [1]), (1, "FlowEnded")]
    assert sent.items[-1][1].finished


def test_a_subscriber_that_resumes_before_the_outlet_has_begun_is_served(sent: Sent) -> None:
    """Its other place was lost amid a move, before the new place took over."""
    spec = FlowSpec(1, 1, "here", 51, "there", None, subscriber="late.Few", resumes=True)
    sent.outlet.begun = False
    sent.outlet.open(spec, retains=True)
    sent.outlet.begun = True
    sent.outlet.emit(chunk(1, 7))
    assert sent.shown == [(1, [1, 7])]


def test_a_subscriber_that_resumes_where_it_is_unknown_has_nothing_to_expect(sent: Sent) -> None:
    sent.outlet.open(FlowSpec(1, 1, "here", 51, "there", None, subscriber="late.Few", resumes=True))
    ((flow, end),) = sent.items
    assert flow == 1 and isinstance(end, FlowEnded) and not end.finished

"""The sending ends of a node's flows, by themselves."""

from __future__ import annotations

import pytest
from chunks_for_tests import chunk, groups
from plane_for_tests import Parts, flow

from activebroker.core.errors import ProtocolError
from activebroker.node.dataplane.outlet import WINDOW
from activebroker.node.dataplane.outlets import Succession
from activebroker.node.dataplane.plane import Arrival
from activebroker.node.effects import EndSupplier, ResumeOutlet
from activebroker.protocol.flows import (
    Acknowledged,
    CreditReturned,
    Events,
    FlowDropped,
    FlowEnded,
    FlowOpened,
    StreamEnded,
)


@pytest.fixture
def parts() -> Parts:
    parts = Parts()
    parts.supplier()
    return parts


def names(parts: Parts) -> list[tuple[str, str]]:
    return [(peer, type(body).__name__) for peer, body in parts.take()]


def test_a_number_is_given_once(parts: Parts) -> None:
    with pytest.raises(ProtocolError, match="has an outlet 1 already"):
        parts.outlets.open(1, "notes", "B")


def test_a_batch_for_several_flows_goes_to_a_node_once(parts: Parts) -> None:
    for id, target in ((2, "east"), (3, "west"), (4, "east")):
        parts.outlets.open_flow(flow(id, target, inlet=id + 10))
    parts.take()
    parts.publish(1, 2, first=0)
    (east, first), (west, second) = parts.take()
    assert isinstance(first, Events) and isinstance(second, Events)
    assert (east, first.to) == ("east", ((2, 12), (4, 14)))
    assert (west, second.to) == ("west", ((3, 13),))
    assert parts.announced == [("east", "Note"), ("west", "Note")]


def test_what_stays_at_the_node_takes_no_link(parts: Parts) -> None:
    parts.outlets.open_flow(flow(2, "here"))
    parts.publish(1, first=0)
    assert parts.sent == []
    begin, arrival = parts.plane.under_way
    assert isinstance(begin, FlowOpened) and isinstance(arrival, Arrival)
    assert (arrival.inlet, arrival.flow, groups(arrival.item)) == (9, 2, [1])


def test_a_flow_from_an_outlet_that_is_gone_ends_at_once() -> None:
    parts = Parts()
    assert parts.outlets.open_flow(flow(2, "east", supplier="A")) == {}
    (_, begin), (_, end) = parts.take()
    assert isinstance(begin, FlowOpened) and begin.subscriber == ""
    assert end == FlowEnded(2, 9, finished=True)


def test_a_supplier_goes_on_once_there_is_credit(parts: Parts) -> None:
    parts.outlets.open_flow(flow(2, "east"))
    for first in range(3):
        parts.publish(1, first=first, size=WINDOW)
    assert parts.outlets.blocked == {1: None}
    parts.outlets.receive(CreditReturned(2, 1, WINDOW))
    parts.stages.go_on()
    assert parts.context.effects == [], "the second one used it up"
    parts.outlets.receive(CreditReturned(2, 1, 2 * WINDOW + 1000))
    parts.stages.go_on()
    assert parts.context.effects == [ResumeOutlet(1)]
    assert parts.outlets.blocked == {}


def test_no_event_overtakes_another_where_flows_share_batches(parts: Parts) -> None:
    """One that was behind: of two batches that wait for it, another flow has had the first."""
    for id in (2, 3):
        parts.outlets.open_flow(flow(id, "east", inlet=id + 10))
    parts.publish(0, first=0, size=WINDOW + 1000)
    parts.outlets.receive(CreditReturned(2, 1, WINDOW + 2000))
    parts.publish(1, first=1, size=WINDOW + 1000)
    parts.publish(2, first=2)
    parts.take()
    parts.outlets.receive(CreditReturned(2, 1, 2 * WINDOW))
    parts.outlets.receive(CreditReturned(3, 1, 4 * WINDOW))
    parts.outlets.send_events()
    order: dict[int, list[int]] = {2: [], 3: []}
    for _, body in parts.take():
        assert isinstance(body, Events)
        for id, _ in body.to:
            order[id].append(body.upto[1])
    assert order == {2: [3], 3: [2, 3]}


def test_what_is_retained_goes_when_it_is_acknowledged(parts: Parts) -> None:
    parts.outlets.open_flow(flow(2, "east", recovers=True))
    parts.publish(1, first=0)
    parts.outlets.close(1, finished=False)
    assert parts.context.effects == [EndSupplier(1, False)]
    parts.stages.go_on()
    assert 1 in parts.plane.outlets, "its last events are not acknowledged"
    parts.take()
    parts.outlets.receive(Acknowledged(1, "inlet 9 at east", {"A": (1, 2)}, ended=True))
    parts.stages.go_on()
    assert names(parts) == [("hub", "OutletDrained")] and parts.plane.outlets == {}


def test_who_says_that_it_is_gone_is_sent_nothing_more(parts: Parts) -> None:
    parts.outlets.open_flow(flow(2, "east"))
    parts.take()
    parts.outlets.receive(FlowDropped(2, 1, subscriber=True))
    parts.publish(1, first=0)
    assert parts.take() == [] and parts.plane.outlets[1].subscribers == {}


def test_the_flows_to_a_node_that_is_lost_end(parts: Parts) -> None:
    for id, target in ((2, "east"), (3, "west")):
        parts.outlets.open_flow(flow(id, target))
    parts.outlets.lost("east")
    assert list(parts.plane.outlets[1].flows) == [3] and parts.plane.touched == {1: None}


def test_a_supplier_that_goes_on_waits_for_those_who_were_served() -> None:
    parts = Parts()
    parts.outlets.succeed(
        Succession({"notes": {"inlet 9": {"A": (5, 0)}}}, {("notes", "A"): (5, 8)})
    )
    parts.supplier()
    outlet = parts.plane.outlets[1]
    assert (outlet.stream, outlet.offsets) == (5, {"A": (5, 8)})
    assert not outlet.ready and parts.outlets.blocked == {1: None}
    parts.outlets.await_no_more()
    parts.stages.go_on()
    assert outlet.ready and parts.context.effects == [ResumeOutlet(1)]


def test_the_end_of_a_stream_is_behind_what_was_published(parts: Parts) -> None:
    parts.outlets.open_flow(flow(2, "east"))
    parts.take()
    parts.outlets.publish(1, chunk(1))
    parts.outlets.close(1, finished=True)
    assert [type(body) for _, body in parts.take()] == [StreamEnded, FlowEnded]

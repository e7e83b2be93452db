"""The receiving ends of a node's flows, by themselves."""

from __future__ import annotations

from typing import Any

import pytest
from chunks_for_tests import NOTE, chunk, groups
from plane_for_tests import Parts

from activebroker.core.errors import FilterStopped, ProtocolError, Unreachable
from activebroker.node.dataplane.inlets import ACKNOWLEDGE_EVERY, CREDIT_STEP
from activebroker.node.dataplane.plane import Arrival, InputBegan, InputEnded
from activebroker.node.effects import Deliver, EndSubscription, InletOpened
from activebroker.protocol.flows import (
    Acknowledged,
    CreditReturned,
    Events,
    FlowDropped,
    FlowEnded,
    FlowOpened,
)


def opened(flow: int, inlet: int, after: tuple[int, ...] = (), **more: Any) -> FlowOpened:
    return FlowOpened(flow, inlet, outlet=flow + 100, after=after, **more)


def events(*flows: tuple[int, int], fingerprint: str = NOTE.fingerprint) -> Events:
    return Events(flows, "A", fingerprint, True, (1, 1))


def delivered(parts: Parts) -> list[tuple[int, list[Any]]]:
    effects = parts.context.effects
    return [
        (each.inlet, [content.group for content in each.batch.contents()])
        for each in effects
        if isinstance(each, Deliver)
    ]


@pytest.fixture
def parts() -> Parts:
    parts = Parts()
    parts.inlets.open(InletOpened(9))
    return parts


def test_a_batch_for_two_subscriptions_is_read_once(parts: Parts) -> None:
    parts.inlets.open(InletOpened(10))
    for flow, inlet in ((2, 9), (3, 10)):
        parts.inlets.receive("east", opened(flow, inlet), ())
    parts.inlets.receive("east", events((2, 9), (3, 10)), chunk(5).buffers)
    assert delivered(parts) == [(9, [5]), (10, [5])]


def test_who_opens_a_flow_to_a_inlet_that_is_gone_is_told(parts: Parts) -> None:
    parts.inlets.receive("east", opened(2, 4), ())
    assert parts.take() == [("east", FlowDropped(2, 102, subscriber=True))]
    # What is kept for a filter is the directory's to tell.
    parts.inlets.receive("east", opened(3, 4, subscriber="notes.Late"), ())
    assert parts.take() == [("east", FlowDropped(3, 103, subscriber=False))]


@pytest.mark.parametrize("what", ["no batch", "no type"])
def test_what_cannot_be_read_ends_the_subscription(parts: Parts, what: str) -> None:
    parts.inlets.receive("east", opened(2, 9), ())
    buffers = chunk(5).buffers
    if what == "no type":
        parts.inlets.receive("east", events((2, 9), fingerprint="?"), buffers)
    else:
        parts.inlets.receive("east", events((2, 9)), [b"no batch"])
    (end,) = parts.context.effects
    assert isinstance(end, EndSubscription) and isinstance(end.error, ProtocolError)
    assert "'here' cannot read the events of supplier 'A'" in str(end.error)
    assert parts.take() == [("east", FlowDropped(2, 102, subscriber=True))]
    assert parts.plane.inlets == {}


def test_credit_goes_back_in_steps(parts: Parts) -> None:
    parts.inlets.receive("east", opened(2, 9), ())
    parts.inlets.consumed(9, 2, CREDIT_STEP - 1)
    assert parts.take() == []
    parts.inlets.consumed(9, 2, 5)
    assert parts.take() == [("east", CreditReturned(2, 102, CREDIT_STEP + 4))]


def test_what_a_subscription_has_it_tells_now_and_then(parts: Parts) -> None:
    parts.context.now = 1.0
    parts.inlets.receive("east", opened(2, 9, subscriber="inlet 9"), ())
    parts.inlets.receive("east", events((2, 9)), chunk(5).buffers)
    told = Acknowledged(102, "inlet 9", {"A": (1, 1)}, ended=False)
    assert parts.take() == [("east", told)]
    parts.context.now += ACKNOWLEDGE_EVERY / 2
    parts.inlets.receive("east", events((2, 9)), chunk(6).buffers)
    assert parts.take() == [] and list(parts.inlets.acknowledging) == [9]
    parts.inlets.tick()
    assert parts.take() == [("east", told)] and parts.inlets.acknowledging == {}


@pytest.mark.parametrize("error", [None, ("FilterStopped", "planted")], ids=["finished", "stopped"])
def test_a_channel_that_is_closed_ends_behind_its_last_flow(
    parts: Parts, error: tuple[str, str] | None
) -> None:
    parts.inlets.receive("east", opened(2, 9), ())
    parts.inlets.complete(9, (2,))
    assert parts.context.effects == []
    parts.inlets.receive("east", FlowEnded(2, 9, finished=True, error=error), ())
    (end,) = parts.context.effects
    assert isinstance(end, EndSubscription)
    assert end.error is None if error is None else isinstance(end.error, FilterStopped)


def test_what_fed_a_subscription_may_be_gone(parts: Parts) -> None:
    parts.inlets.abandon(9, "planted")
    (end,) = parts.context.effects
    assert isinstance(end, EndSubscription) and isinstance(end.error, Unreachable)


def test_a_stage_hears_of_its_flows_by_facts() -> None:
    parts = Parts()
    stage = parts.stage()
    parts.plane.touched.clear()
    parts.inlets.receive("east", opened(2, 7), ())
    parts.inlets.receive("east", events((2, 7)), chunk(5).buffers)
    parts.inlets.receive("east", FlowEnded(2, 7), ())
    assert list(parts.plane.facts) == [InputBegan(7, 2), InputEnded(7, 2, lost=False)]
    assert [groups(item) for item in stage.waiting()] == [[5]]
    assert parts.plane.touched == {7: None} and parts.context.effects == []


def test_the_flows_from_a_node_that_is_lost_are_lost() -> None:
    parts = Parts()
    parts.stage()
    parts.inlets.receive("east", opened(2, 7), ())
    parts.inlets.receive("west", opened(3, 7, after=(2,)), ())
    parts.plane.facts.clear()
    parts.inlets.lost("east")
    assert list(parts.plane.facts) == [InputEnded(7, 2, lost=True), InputEnded(7, 3, lost=True)]
    assert parts.take() == [("west", FlowDropped(3, 103, subscriber=False))], "it follows a gap"
    parts.inlets.arrived(Arrival(7, 3, chunk(5)))
    assert parts.plane.stages[7].waiting() == []

"""A node by itself: what it does with what comes."""

from __future__ import annotations

import pytest

from activebroker.events import TypeRegistry
from activebroker.node.effects import (
    FrameArrived,
    LeaveFabric,
    RequestMade,
    TimerFired,
    Transmit,
)
from activebroker.node.links.peers import LOST_AFTER, Peers
from activebroker.node.node import Node
from activebroker.protocol.frame import decode
from activebroker.protocol.messages import (
    Answer,
    Call,
    Expelled,
    FailuresReported,
    Greet,
    PeerSuspected,
    PrepareMove,
)
from activebroker.protocol.orders import StepDown
from activebroker.protocol.requests import Join
from activebroker.protocol.specs import FlowSpec, Member, StageSpec
from derivation.protocol import Plan, Prepare


def test_who_gave_up_for_it_never_heard_the_directory_takes_no_orders() -> None:
    """The directory learns at once that nobody is there, and its next process begins afresh."""
    me = Member("late", None, True, 1)
    late, hub = Node(me, "hub", TypeRegistry()), Peers(Member("hub", "hub", True, 1))
    late.peers.members["hub"] = Member("hub", "hub", True, 0)
    hub.members["late"] = me
    late.handle(RequestMade(1, Join(me), patience=10.0), 0.0)
    late.handle(TimerFired("tick"), 1.1 * LOST_AFTER)
    assert late.orphaned
    hub.send("late", Greet("anyone"), 0.0)
    ((head, buffers),) = hub.flush(0.0)[0].frames
    effects = late.handle(FrameArrived(head, buffers, "hub"), 1.2 * LOST_AFTER)
    (answer,) = [each for each in effects if isinstance(each, Transmit)]
    assert [decode(head).body for head, _ in answer.frames] == [Expelled()]
    assert late.peers.links == {}


@pytest.mark.parametrize("address", [None, "tcp://late:1"])
@pytest.mark.parametrize("waits", ["for a flow", "for nothing of ours", "for nothing"])
def test_who_never_dials_for_what_is_given_up_has_to_go(address: str | None, waits: str) -> None:
    """It would wait for that for good: it cannot know. Others are accused as long as they are
    silent."""
    here = Node(Member("here", "here", True, 1), "hub", TypeRegistry())
    late = Member("late", address, False, 3)
    here.peers.members |= {"hub": Member("hub", "hub", True, 0), "late": late}
    if waits == "for a flow":
        here.outlets.open_flow(FlowSpec(5, 7, "here", 9, "late"))
    elif waits == "for nothing of ours":
        here.peers.send("late", FailuresReported("x", 1, ()), 0.0)
    else:
        here.peers.greet("late", 0.0)
    hub = Peers(Member("hub", "hub", True, 1))
    hub.members["here"] = here.peers.me
    hub.send("here", Greet("nobody"), 0.9 * LOST_AFTER)
    ((head, buffers),) = hub.flush(0.0)[0].frames
    here.handle(FrameArrived(head, buffers, "hub"), 0.9 * LOST_AFTER)
    effects = here.handle(TimerFired("tick"), 1.1 * LOST_AFTER)
    sent = [each for each in effects if isinstance(each, Transmit) and each.peer == "hub"]
    told = [decode(head).body for each in sent for head, _ in each.frames]
    accused = PeerSuspected("late", 3, heard=False)
    assert (accused in told) is (waits == "for a flow" or address is not None)
    assert ("late" in here.peers.links) is (address is not None)


def test_who_is_asked_to_leave_lets_its_process_do_so() -> None:
    here = Node(Member("here", "here", True, 1), "hub", TypeRegistry())
    here.peers.members["hub"] = Member("hub", "hub", True, 0)
    hub = Peers(Member("hub", "hub", True, 1))
    hub.members["here"] = here.peers.me
    hub.send("here", Call(1, StepDown()), 0.0)
    ((head, buffers),) = hub.flush(0.0)[0].frames
    effects = here.handle(FrameArrived(head, buffers, "hub"), 0.0)
    assert LeaveFabric() in effects
    sent = [head for each in effects if isinstance(each, Transmit) for head, _ in each.frames]
    assert Answer(1) in [decode(head).body for head in sent]


def test_only_a_derivation_that_waits_for_it_hears_that_a_filter_is_saved() -> None:
    """A bad peer may prepare two of one stage, of which one saves the filter first."""
    node = Node(Member("here", "here", True, 1), "here", TypeRegistry())
    node.stages.start(node.stages.open(StageSpec(7, "x", "python", None, "bad")))
    for move, saves in ((1, True), (2, False)):
        plan = Plan(move, "x", "bad", ("here",), ("bad",), (), saves=saves)
        node.moves.receive(PrepareMove(Prepare(plan), 7, None, ()), ())
    node.moves.saved(7, None)
    node.moves.captured(7, {})
    assert [each.phase for each in node.moves.under_way()] == ["awaiting end markers"] * 2

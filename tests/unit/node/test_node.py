"""A node by itself: what it does with what comes."""

from __future__ import annotations

from activebroker.events import TypeRegistry
from activebroker.node.effects import FrameArrived, RequestMade, TimerFired, Transmit
from activebroker.node.links.peers import LOST_AFTER, Peers
from activebroker.node.node import Node
from activebroker.protocol.frame import decode
from activebroker.protocol.messages import Expelled, Greet, Join, PrepareMove
from activebroker.protocol.specs import Member, StageSpec
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


def test_only_a_derivation_that_waits_for_it_hears_that_a_filter_is_saved() -> None:
    """A bad peer may prepare two of one stage, of which one saves the filter first."""
    node = Node(Member("here", "here", True, 1), "here", TypeRegistry())
    node.stages.start(node.stages.open(StageSpec(7, "x", "python", None, "bad")))
    for derivation, saves in ((1, True), (2, False)):
        plan = Plan(derivation, "x", "bad", ("here",), ("bad",), (), saves=saves)
        node.moves.receive(PrepareMove(Prepare(plan), 7, None, ()), ())
    node.moves.saved(7)
    node.moves.captured(7, {})
    assert [each["phase"] for each in node.moves.under_way()] == ["awaiting acks"] * 2

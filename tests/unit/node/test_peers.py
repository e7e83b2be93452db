"""Who a link is for, where processes come and go under one name."""

from __future__ import annotations

import pytest

from activebroker.node.links.peers import LOST_AFTER, Peers
from activebroker.protocol.frame import Frame, decode
from activebroker.protocol.messages import Greet
from activebroker.protocol.specs import Member


def peers(name: str, incarnation: int = 1) -> Peers:
    """`a` is the directory of `b`, which does not know yet which process that is."""
    them = Peers(Member(name, None, False, incarnation))
    if name != "a":
        them.members["a"] = Member("a", "a", True, 0)
    return them


def frames_of(sender: Peers, now: float = 0.0) -> list[Frame]:
    return [decode(head) for sent in sender.flush(now) for head, _ in sent.frames]


def test_a_new_process_of_a_peer_is_recognised() -> None:
    here, first, second = peers("a"), peers("b", 1), peers("b", 2)
    first.send("a", Greet("one"), 0.0)
    (frame,) = frames_of(first)
    assert not here.restarted(frame) and here.receive(frame, (), 0.0)
    second.send("a", Greet("two"), 0.0)
    (frame,) = frames_of(second)
    assert here.restarted(frame)
    here.drop("b")
    assert here.receive(frame, (), 0.0)


def test_what_is_meant_for_a_predecessor_is_stale() -> None:
    """Its acknowledgements are too: they would drop frames that never arrived."""
    here, successor = peers("a"), peers("b", 2)
    predecessor = peers("b", 1)
    predecessor.send("a", Greet("one"), 0.0)
    (frame,) = frames_of(predecessor)
    here.receive(frame, (), 0.0)
    here.greet("b", 0.0)
    (heard,) = frames_of(here)
    assert heard.ack == 1
    assert successor.is_stale(heard)
    assert not predecessor.is_stale(heard)


def test_silence_is_loss_and_the_lost_are_not_listened_to_again() -> None:
    here, there = peers("a"), peers("b")
    there.send("a", Greet("one"), 0.0)
    (frame,) = frames_of(there)
    here.receive(frame, (), 1.0)
    assert here.silent(1.0 + LOST_AFTER) == []
    assert here.silent(1.1 + LOST_AFTER) == ["b"]
    here.heard("b", 2.0)  # a part of a frame
    here.heard("unknown", 2.0)
    assert here.silent(1.1 + LOST_AFTER) == []
    assert here.silent(2.1 + LOST_AFTER) == ["b"]
    here.drop("b")
    assert here.is_gone(frame)
    assert here.links == {}


def test_what_is_sent_to_a_member_is_for_it_and_not_for_its_successor() -> None:
    """Before it was ever heard; else its successor would take it for the begin of a link."""
    here, successor = peers("a"), peers("b", 2)
    here.members["b"] = Member("b", "b", False, 1)
    here.send("b", Greet("one"), 0.0)
    (frame,) = frames_of(here)
    assert frame.to == 1 and successor.is_stale(frame) and not peers("b", 1).is_stale(frame)


@pytest.mark.parametrize(("address", "reached"), [("b", 1), (None, 0)])
def test_who_is_lost_unheard_is_gone_if_it_may_have_heard_us(
    address: str | None, reached: int
) -> None:
    """A second link with it would begin where it is already; one that has to dial us first can
    have heard nothing."""
    here, there = peers("a"), peers("b")
    here.members["b"] = Member("b", address, False, 1)
    here.send("b", Greet("one"), 0.0)
    there.send("a", Greet("two"), 0.0)
    (frame,) = frames_of(there)
    assert here.reached("b") == reached
    here.drop("b")
    assert here.is_gone(frame) is bool(reached)


def test_a_greeting_of_a_stranger_makes_no_link() -> None:
    here, there = peers("a"), peers("b")
    there.greet("a", 0.0)
    (heard,) = frames_of(there)
    assert here.is_greeting(heard)
    here.members["b"] = Member("b", "b", False, 2)
    assert here.is_greeting(heard), "its successor is a member"
    here.members["b"] = Member("b", "b", False, 1)
    assert not here.is_greeting(heard)
    del here.members["b"]
    here.send("b", Greet("one"), 0.0)
    assert not here.is_greeting(heard), "it is awaited"


def test_who_was_lost_is_sent_nothing_more() -> None:
    """It may still be a member, and alive, and would take a second link for the first."""
    here = peers("a")
    here.members["b"] = Member("b", "b", False, 1)
    here.send("b", Greet("one"), 0.0)
    here.drop("b")
    here.send("b", Greet("two"), 0.0)
    assert frames_of(here) == [] and here.links == {}
    successor = peers("b", 2)
    successor.send("a", Greet("three"), 0.0)
    (frame,) = frames_of(successor)
    assert here.receive(frame, (), 0.0)
    here.send("b", Greet("four"), 0.0)
    assert len(frames_of(here)) == 1


@pytest.mark.parametrize("known", [True, False])
def test_what_is_sent_to_a_name_is_not_for_its_next_process(known: bool) -> None:
    """The directory tells of a process before it tells of anything that concerns it."""
    here = peers("a")
    if known:
        here.members["b"] = Member("b", "b", False, 1)
    assert not here.is_successor(Member("b", "b", False, 2))
    here.send("b", Greet("one"), 0.0)
    assert here.is_successor(Member("b", "b", False, 2))
    assert here.is_successor(Member("b", "b", False, 1)) is not known


def test_who_is_heard_before_it_is_a_member_is_that_member() -> None:
    here, there = peers("a"), peers("b", 2)
    there.send("a", Greet("one"), 0.0)
    (frame,) = frames_of(there)
    here.receive(frame, (), 0.0)
    assert not here.is_successor(Member("b", "b", False, 2))


def test_what_waits_for_one_whom_nobody_has_told_of_is_not_for_who_is_heard_first() -> None:
    """But for the directory, of which a process knows no more than the address when it joins."""
    here, next_one = peers("a"), peers("b", 2)
    next_one.send("a", Greet("me"), 0.0)
    (frame,) = frames_of(next_one)
    here.greet("b", 0.0)  # which is for anybody
    assert not here.restarted(frame)
    here.send("b", Greet("one"), 0.0)
    assert here.restarted(frame)
    here.members["b"] = Member("b", "tcp://b:1", True, 0)
    assert not here.restarted(frame)


def test_what_is_sent_to_one_whom_nobody_has_told_of_stays_here() -> None:
    """The next process of that name would take it for the begin of a link, which begins again when
    that one is heard."""
    here, next_one = peers("a"), peers("b", 2)
    here.send("b", Greet("to who was lost"), 0.0)
    assert frames_of(here) == []
    next_one.send("a", Greet("me"), 0.0)
    (frame,) = frames_of(next_one)
    assert here.restarted(frame)
    here.drop("b")
    assert here.receive(frame, (), 0.0)
    here.send("b", Greet("to you"), 0.0)
    (frame,) = frames_of(here)
    assert next_one.receive(frame, (), 0.0) == [(Greet("to you"), ())]


def test_the_directory_is_spoken_to_before_it_is_known_which_process_it_is() -> None:
    here, there = peers("b"), peers("a", 7)
    here.send("a", Greet("one"), 0.0)
    (frame,) = frames_of(here)
    assert not there.is_stale(frame) and there.receive(frame, (), 0.0)
    there.send("b", Greet("two"), 0.0)
    (frame,) = frames_of(there)
    assert not here.restarted(frame) and here.receive(frame, (), 0.0)
    here.send("a", Greet("three"), 0.0)
    (frame,) = frames_of(here)
    assert frame.to == 7 and frame.seq == 2


def test_who_is_no_member_and_is_never_heard_is_silent_like_others() -> None:
    """What this process has for it is given up with it."""
    here = peers("a")
    here.send("b", Greet("one"), 0.0)
    assert here.silent(0.1 + LOST_AFTER) == ["b"]

"""The link: in sequence and exactly once, whatever the transport does."""

from __future__ import annotations

import random

import pytest

from activebroker.broker.link import ACK_EVERY, ASK_EVERY, HEARTBEAT_EVERY, Link
from activebroker.broker.messages import Frame, Greet, Heard, decode
from activebroker.broker.peers import LOST_AFTER, Peers
from activebroker.routing import Member


class End:
    """One end, and what it has taken."""

    def __init__(self, here: str, peer: str) -> None:
        self.link = Link(here, 1, peer, now=0.0)
        self.taken: list[str] = []

    def say(self, *words: str) -> None:
        for word in words:
            self.link.send(Greet(word))  # any message will do

    def frames(self, now: float = 0.0) -> list[Frame]:
        return [decode(head) for head, _ in self.link.take_outgoing(now)]

    def hear(self, frames: list[Frame], now: float = 0.0) -> None:
        for frame in frames:
            for body, _ in self.link.receive(frame, (), now):
                assert isinstance(body, Greet)
                self.taken.append(body.peer)


@pytest.fixture
def ends() -> tuple[End, End]:
    return End("a", "b"), End("b", "a")


def test_frames_are_taken_in_order_and_acknowledged_late(ends: tuple[End, End]) -> None:
    a, b = ends
    a.say("one", "two")
    b.hear(a.frames())
    assert b.taken == ["one", "two"]
    assert b.frames() == []
    assert a.link.unacknowledged == 2
    b.link.tick(0.1)
    a.hear(b.frames())
    assert a.link.unacknowledged == 0


def test_an_acknowledgement_travels_with_what_is_sent_anyway(ends: tuple[End, End]) -> None:
    a, b = ends
    a.say("question")
    b.hear(a.frames())
    b.say("answer")
    a.hear(b.frames())
    assert a.link.unacknowledged == 0
    b.link.tick(0.1)
    assert b.frames() == []


def test_a_flood_is_acknowledged_without_waiting(ends: tuple[End, End]) -> None:
    a, b = ends
    a.say(*map(str, range(ACK_EVERY)))
    b.hear(a.frames())
    (heard,) = b.frames()
    assert isinstance(heard.body, Heard) and heard.ack == ACK_EVERY


def test_duplicates_are_taken_once_and_acknowledged_again(ends: tuple[End, End]) -> None:
    a, b = ends
    a.say("one", "two")
    frames = a.frames()
    b.hear(frames)
    b.link.tick(0.1)
    b.frames()  # lost
    b.hear(frames)
    assert b.taken == ["one", "two"]
    b.link.tick(0.2)
    a.hear(b.frames())
    assert a.link.unacknowledged == 0


def test_a_gap_is_asked_for_once_and_filled(ends: tuple[End, End]) -> None:
    a, b = ends
    a.say("one", "two", "three", "four")
    _, *rest = a.frames()
    b.hear(rest)
    assert b.taken == []
    (asked,) = b.frames()
    assert asked.resend and asked.ack == 0
    a.hear([asked])
    b.hear(a.frames())
    assert b.taken == ["one", "two", "three", "four"]


def test_a_lost_tail_is_found_by_the_heartbeat(ends: tuple[End, End]) -> None:
    a, b = ends
    a.say("one")
    a.frames(now=0.0)  # lost
    a.link.tick(HEARTBEAT_EVERY / 2)
    assert a.frames() == []
    a.link.tick(HEARTBEAT_EVERY)
    b.hear(a.frames(HEARTBEAT_EVERY))
    a.hear(b.frames())
    b.hear(a.frames())
    assert b.taken == ["one"]


def test_a_lost_request_is_made_again_by_the_heartbeat(ends: tuple[End, End]) -> None:
    a, b = ends
    a.say("one", "two")
    b.hear(a.frames()[1:])
    b.frames()  # the request is lost
    b.link.tick(HEARTBEAT_EVERY)
    (again,) = b.frames()
    assert again.resend
    a.hear([again])
    b.hear(a.frames())
    assert b.taken == ["one", "two"]


def test_what_comes_early_is_held(ends: tuple[End, End]) -> None:
    a, b = ends
    a.say("one", "two", "three")
    one, two, three = a.frames()
    b.hear([three, two])
    assert b.taken == []
    b.hear([one])
    assert b.taken == ["one", "two", "three"]


def test_what_is_missing_is_asked_for_once(ends: tuple[End, End]) -> None:
    a, b = ends
    a.say("one", "two", "three", "four", "five", "six")
    one, two, three, four, five, six = a.frames()
    b.hear([four])
    assert [(frame.resend, frame.ack) for frame in b.frames()] == [(True, 0)]
    b.hear([two, six, one])
    assert b.taken == ["one", "two"] and b.frames() == [], "three has been asked for"
    b.hear([three])
    assert [(frame.resend, frame.ack) for frame in b.frames()] == [(True, 4)]
    b.hear([five])
    assert b.taken == ["one", "two", "three", "four", "five", "six"]


def test_a_lost_request_is_made_again_though_there_is_much_to_say(ends: tuple[End, End]) -> None:
    a, b = ends
    a.say("one", "two")
    b.hear(a.frames()[1:])
    b.frames()  # the request is lost
    b.say("what")
    b.frames(ASK_EVERY)
    b.link.tick(ASK_EVERY)
    (again,) = b.frames(ASK_EVERY)
    assert again.resend


@pytest.mark.parametrize("seed", range(20))
def test_a_slow_process_is_not_buried_in_what_is_sent_again(seed: int) -> None:
    """Frames are lost and reordered; of what waits, it takes ten in the time of a tick."""
    dice = random.Random(seed)
    a, b = End("a", "b"), End("b", "a")
    words = list(map(str, range(100)))
    a.say(*words)
    now, sent = 0.0, 0
    queue: list[tuple[float, Frame]] = []
    while b.taken != words:
        now += 0.1
        assert now < 30, len(b.taken)
        a.link.tick(now)
        frames = a.frames(now)
        sent += len(frames)
        queue += [
            (now + dice.choice((0.0, 0.0, 0.3)), frame) for frame in frames if dice.random() > 0.05
        ]
        queue.sort(key=lambda each: each[0])
        b.hear([frame for _, frame in queue[:10]], now)
        del queue[:10]
        b.link.tick(now)
        a.hear(b.frames(now), now)
    assert sent < 8 * len(words)


@pytest.mark.parametrize("seed", range(20))
def test_everything_arrives_once_over_a_bad_transport(seed: int) -> None:
    dice = random.Random(seed)
    a, b = End("a", "b"), End("b", "a")
    now = 0.0
    for word in map(str, range(100)):
        a.say(word)
        b.say(word)
        now += 0.1
        for source, target in ((a, b), (b, a)):
            source.link.tick(now)
            frames = [frame for frame in source.frames(now) if dice.random() > 0.3]
            frames += [frame for frame in frames if dice.random() < 0.2]
            target.hear(frames, now)
    for _ in range(60):  # a better day
        now += 0.1
        for source, target in ((a, b), (b, a)):
            source.link.tick(now)
            target.hear(source.frames(now), now)
    assert a.taken == b.taken == list(map(str, range(100)))
    assert a.link.unacknowledged == b.link.unacknowledged == 0


# --- peers --------------------------------------------------------------------------------------


def peers(name: str, incarnation: int = 1) -> Peers:
    return Peers(Member(name, None, False, incarnation))


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

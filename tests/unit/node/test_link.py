"""The link: in sequence and exactly once, whatever the transport does."""

from __future__ import annotations

import random

import pytest

from activebroker.node.links.link import ACK_EVERY, ASK_EVERY, HEARTBEAT_EVERY, MOST_GAPS, Link
from activebroker.protocol.frame import Frame, decode
from activebroker.protocol.messages import Greet, Heard


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
    assert asked.missing == ((1, 1),) and asked.ack == 0
    a.hear([asked])
    b.hear(a.frames())
    assert b.taken == ["one", "two", "three", "four"]


def test_only_the_gaps_are_sent_again(ends: tuple[End, End]) -> None:
    a, b = ends
    a.say(*map(str, range(1, 11)))
    frames = a.frames()
    b.hear([frames[1], frames[2], frames[5], frames[8]])
    (asked, *_) = b.frames()
    assert asked.missing == ((1, 1),)
    b.link.tick(ASK_EVERY)
    (asked,) = b.frames()
    assert asked.missing == ((1, 1), (4, 5), (7, 8))
    a.hear([asked])
    again = a.frames()
    assert [frame.seq for frame in again] == [1, 4, 5, 7, 8]
    b.hear(again)
    assert b.taken == list(map(str, range(1, 10)))


def test_what_has_come_meanwhile_is_not_sent_again(ends: tuple[End, End]) -> None:
    a, b = ends
    a.say("one", "two", "three", "four")
    frames = a.frames()
    b.hear(frames[2:])
    (asked,) = b.frames()
    b.hear(frames[:1])
    b.link.tick(0.1)
    a.hear(b.frames())
    a.hear([asked])
    assert [frame.seq for frame in a.frames()] == [2]


def test_very_many_gaps_are_asked_for_one_part_after_the_other(ends: tuple[End, End]) -> None:
    a, b = ends
    words = list(map(str, range(4 * MOST_GAPS)))
    a.say(*words)
    b.hear(a.frames()[1::2])
    b.frames()  # the first request is lost
    b.link.tick(ASK_EVERY)
    for _ in range(2):
        (asked,) = [frame for frame in b.frames() if frame.missing]
        assert len(asked.missing) == MOST_GAPS
        a.hear([asked])
        b.hear(a.frames())
    assert b.taken == words


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
    assert again.missing == ((1, 1),)
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
    assert [frame.missing for frame in b.frames()] == [((1, 3),)]
    b.hear([two, six, one])
    assert b.taken == ["one", "two"] and b.frames() == [], "three has been asked for"
    b.hear([three])
    assert [frame.missing for frame in b.frames()] == [((5, 5),)]
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
    assert again.missing == ((1, 1),)


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
    assert sent < 3 * len(words)


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

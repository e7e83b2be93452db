"""Who a link is for, where processes come and go under one name."""

from __future__ import annotations

import pytest

from activebroker.broker.messages import PROTOCOL_VERSION, Frame, Heard
from activebroker.broker.peers import Peers
from activebroker.routing import Member


def member(incarnation: int) -> Member:
    return Member("denver", "tcp://denver:1", True, incarnation)


@pytest.fixture
def peers() -> Peers:
    return Peers(Member("east", "tcp://east:1", False, 1))


def test_what_was_sent_to_nobody_known_is_not_for_the_next_of_that_name(peers: Peers) -> None:
    assert not peers.is_successor(member(2))
    peers.send("denver", Heard(), now=0.0)
    assert peers.is_successor(member(2))


def test_what_was_sent_to_a_process_that_was_never_heard_is_not_for_the_next(peers: Peers) -> None:
    peers.members["denver"] = member(1)
    peers.send("denver", Heard(), now=0.0)
    assert peers.is_successor(member(2)) and not peers.is_successor(member(1))


def test_who_is_heard_before_it_is_known_as_a_member_is_that_member(peers: Peers) -> None:
    frame = Frame(PROTOCOL_VERSION, "denver", 2, 1, 1, 0, False, Heard())
    peers.receive(frame, (), now=0.0)
    assert not peers.is_successor(member(2))

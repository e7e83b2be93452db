"""What several flows bring to one node crosses the link once, in order with all else."""

from __future__ import annotations

import pytest
from chunks_for_tests import NOTE, chunk, groups
from peer_for_tests import Peer

from activebroker.events import TypeRegistry, describe, dump
from activebroker.node.effects import (
    BatchPublished,
    Deliver,
    Effect,
    InletClosed,
    InletOpened,
    SupplierDrained,
)
from activebroker.node.node import Node
from activebroker.protocol.flows import MOST_TO, Events, FlowEnded, FlowOpened, TypeAnnounced
from activebroker.protocol.specs import FlowSpec, Member
from predicate_extract import Predicate


@pytest.fixture
def node() -> Node:
    return Node(Member("here", "here", True, 1), "here", TypeRegistry())


def flow(id: int, target: str, predicate: str | None = None) -> FlowSpec:
    text = None if predicate is None else Predicate.parse(predicate).to_json()
    return FlowSpec(
        id, 5, "here", 10 * id, target, text, supplier="A", subscriber=f"inlet {10 * id}"
    )


def sent(peer: Peer, effects: list[Effect]) -> list[tuple[tuple[int, int], ...] | str]:
    return [
        each.to if isinstance(each, Events) else type(each).__name__
        for each in peer.heard(effects)
        if isinstance(each, Events | FlowEnded)
    ]


def test_a_batch_goes_once_to_each_node_and_an_end_after_it(node: Node) -> None:
    user, other = Peer(node, "user"), Peer(node, "other")
    node.outlets.open(5, "notes", "A")
    for spec in (flow(1, "user"), flow(2, "other"), flow(3, "user"), flow(4, "user", "group > 1")):
        node.outlets.open_flow(spec)
    effects = node.handle(BatchPublished(5, chunk(1, 2).batch), 0.0)
    assert sent(user, effects) == [((1, 10), (3, 30)), ((4, 40),)]
    assert sent(other, effects) == [((2, 20),)]
    node.outlets.publish(5, chunk(2, 3, first=2))
    node.outlets.close(5, finished=True)
    effects = node.handle(SupplierDrained(5, True), 0.0)
    assert sent(user, effects) == [((1, 10), (3, 30)), ((4, 40),), *["FlowEnded"] * 3]


def test_more_flows_than_a_message_may_name_share_a_few(node: Node) -> None:
    user = Peer(node, "user")
    node.outlets.open(5, "notes", "A")
    for id in range(2 * MOST_TO + 1):
        node.outlets.open_flow(flow(id, "user"))
    said = user.heard(node.handle(BatchPublished(5, chunk(1, 2).batch), 0.0))
    to = [each.to for each in said if isinstance(each, Events)]
    assert [len(each) for each in to] == [MOST_TO, MOST_TO, 1]
    assert [id for each in to for id, _ in each] == [*range(2 * MOST_TO + 1)]


def test_it_is_read_once_for_all_inlets_and_those_that_are_gone_are_passed_over(node: Node) -> None:
    peer = Peer(node, "peer")
    for inlet in (7, 8, 9):
        node.handle(InletOpened(inlet), 0.0)
    peer.say(
        TypeAnnounced(describe(NOTE)), *(FlowOpened(inlet, inlet, 91, ()) for inlet in (7, 8, 9))
    )
    node.handle(InletClosed(8), 0.0)
    given = chunk(1, 2, 3)
    head = Events(((7, 7), (8, 8), (9, 9), (1, 10)), "A", NOTE.fingerprint, True, given.upto)
    effects = peer.say((head, dump(given.batch)))
    delivered = [each for each in effects if isinstance(each, Deliver)]
    assert [each.inlet for each in delivered] == [7, 9]
    assert delivered[0].batch is delivered[1].batch
    assert len(delivered[0].batch) == len(groups(given))

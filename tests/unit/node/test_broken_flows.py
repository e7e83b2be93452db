"""What has come and is no batch breaks its flow, for all to see, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from chunks_for_tests import NOTE, chunk, groups
from peer_for_tests import Peer

from activebroker.core.errors import ProtocolError
from activebroker.events import TypeDescription, TypeRegistry, describe, dump
from activebroker.matching import Chunk
from activebroker.node.effects import Deliver, EndSubscription, FrameArrived, InletOpened
from activebroker.node.node import Node
from activebroker.protocol.flows import Events, FlowDropped, FlowEnded, FlowOpened, TypeAnnounced
from activebroker.protocol.messages import ChunkHead
from activebroker.protocol.specs import FlowSpec, Member, StageSpec
from derivation.protocol import HandOver

ARROW = chunk(*range(20))
FEW = chunk(1, 2, 3)


@pytest.fixture
def node() -> Node:
    return Node(Member("here", "here", True, 1), "here", TypeRegistry())


@pytest.fixture
def bad(node: Node) -> Peer:
    peer = Peer(node, "bad")
    peer.say(TypeAnnounced(describe(NOTE)))
    return peer


def events(flow: int, inlet: int, given: Chunk, buffers: Sequence[Any] | None = None) -> Any:
    head = Events(((flow, inlet),), given.batch.supplier, NOTE.fingerprint, True, given.upto)
    return head, dump(given.batch) if buffers is None else buffers


def cut(given: Chunk) -> list[bytes]:
    return [bytes(dump(given.batch)[0])[:-9]]


BAD: dict[str, tuple[Events, Sequence[Any]]] = {
    "Arrow that is cut off": events(1, 7, ARROW, cut(ARROW)),
    "lists that are cut off": events(1, 7, FEW, cut(FEW)),
    "no buffer": events(1, 7, FEW, []),
    "two buffers": events(1, 7, FEW, dump(FEW.batch) * 2),
    "a type nobody knows": (Events(((1, 7),), "A", "unknown", True, (1, 3)), dump(FEW.batch)),
}


@pytest.mark.parametrize("name", BAD)
def test_a_subscription_ends_with_the_reason(node: Node, bad: Peer, name: str) -> None:
    good = Peer(node, "good")
    node.handle(InletOpened(7), 0.0)
    node.handle(InletOpened(8), 0.0)
    good.say(TypeAnnounced(describe(NOTE)), FlowOpened(2, 8, 92, ()))
    bad.say(FlowOpened(1, 7, 91, ()))
    effects = bad.say(events(1, 7, FEW), BAD[name], events(1, 7, FEW))
    assert [each.inlet for each in effects if isinstance(each, Deliver)] == [7]
    (end,) = [each for each in effects if isinstance(each, EndSubscription)]
    assert isinstance(end.error, ProtocolError)
    text = str(end.error)
    for part in ("supplier 'A'", "offset", "'bad' has sent", "same activebroker release"):
        assert part in text
    assert FlowDropped(1, 91, True) in bad.heard(effects)
    # The link and the others live on.
    effects = bad.say(events(1, 7, FEW), FlowOpened(3, 8, 93, ()), events(3, 8, FEW))
    effects += good.say(events(2, 8, ARROW))
    delivered = [each.batch for each in effects if isinstance(each, Deliver)]
    assert [len(batch) for batch in delivered] == [3, 20]


@pytest.mark.parametrize("name", BAD)
def test_a_filter_that_gets_it_ends_its_channel_with_the_reason(
    node: Node, bad: Peer, name: str
) -> None:
    user = Peer(node, "user")
    stage = node.stages.open(StageSpec(7, "x", "python", None, "user"))
    node.stages.start(stage)
    node.outlets.open_flow(FlowSpec(5, 7, "here", 9, "user", subscriber="inlet 9"))
    bad.say(FlowOpened(1, 7, 91, ()))
    effects = bad.say(events(1, 7, FEW), BAD[name], events(1, 7, FEW))
    # Its subscriber is not gone yet: if this node is lost now, the filter may go on elsewhere.
    assert FlowDropped(1, 91, False) in bad.heard(effects)
    kinds = [each for each in user.heard(effects) if isinstance(each, Events | FlowEnded)]
    assert [type(each) for each in kinds] == [Events, FlowEnded]
    assert isinstance(kinds[1], FlowEnded) and kinds[1].finished
    assert "supplier 'A'" in str(kinds[1].error)


def test_what_is_held_back_breaks_once(node: Node, bad: Peer) -> None:
    """More of it may be under way when it has broken."""
    stage = node.stages.open(StageSpec(7, "x", "python", None, "user"))
    bad.say(FlowOpened(1, 7, 91, ()), FlowOpened(2, 7, 92, (1,)))
    nonsense = events(2, 7, FEW, cut(ARROW))
    bad.say(events(2, 7, FEW), nonsense, nonsense, events(2, 7, FEW))
    bad.say(FlowEnded(1, 7))
    assert "cannot read" in str(stage.inlet.error)
    assert stage.queue_length == 3


def test_what_follows_a_message_that_nobody_expects_is_not_lost_with_it(
    node: Node, bad: Peer
) -> None:
    node.handle(InletOpened(7), 0.0)
    bad.say(FlowOpened(1, 7, 91, ()))
    unknown = TypeDescription("Note", b"nonsense", None, "?")
    bad.link.send(TypeAnnounced(unknown))
    bad.link.send(*events(1, 7, FEW))
    first, second = bad.link.take_outgoing(0.0)
    early = node.handle(FrameArrived(*second, "bad"), 0.0)
    assert not any(isinstance(each, Deliver) for each in early)
    with pytest.raises(ProtocolError, match="Note"):
        node.handle(FrameArrived(*first, "bad"), 0.0)
    effects = bad.say(TypeAnnounced(describe(NOTE)))
    assert [groups(Chunk(each.batch)) for each in effects if isinstance(each, Deliver)] == [
        [1, 2, 3]
    ]


@pytest.mark.parametrize("buffers", [[], cut(ARROW)])
def test_a_hand_over_that_cannot_be_read_ends_the_channel(
    node: Node, bad: Peer, buffers: Sequence[Any]
) -> None:
    """Its old place has nothing of it any more."""
    taken = []
    node.moves._at_destination = lambda move, input: taken.append(input)  # type: ignore[method-assign]
    head = ChunkHead("A", describe(NOTE), True, 1, (1, 20))
    bad.say((HandOver(4, "bad", {}, (head,), ()), buffers))
    (input,) = taken
    kind, text = input.error
    assert kind == "FilterStopped" and "'here' cannot read what 'bad' has handed over" in text
    assert input.buffer == ()

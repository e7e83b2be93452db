"""A node's peer, as far as its link goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from activebroker.node.effects import Effect, FrameArrived, Transmit
from activebroker.node.links.link import Link
from activebroker.node.node import Node
from activebroker.protocol.frame import decode
from activebroker.protocol.messages import Body
from activebroker.protocol.specs import Member


class Peer:
    """Another node, as far as its link goes."""

    def __init__(self, node: Node, name: str) -> None:
        self.node, self.link = node, Link(name, 1, node.name, 0.0)
        self.node.peers.members[name] = Member(name, None, False, 1)

    def say(self, *said: Body | tuple[Body, Sequence[Any]]) -> list[Effect]:
        effects: list[Effect] = []
        for each in said:
            self.link.send(*each if isinstance(each, tuple) else (each, ()))
        for head, buffers in self.link.take_outgoing(0.0):
            effects += self.node.handle(FrameArrived(head, buffers, self.link.here), 0.0)
        return effects

    def heard(self, effects: list[Effect]) -> list[Body]:
        """What the node has said to it."""
        mine = [
            each for each in effects if isinstance(each, Transmit) and each.peer == self.link.here
        ]
        return [decode(head).body for each in mine for head, _ in each.frames]

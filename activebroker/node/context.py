"""What the parts of a node share: its name, the time, and the ways out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from activebroker.events import EventType, TypeRegistry
from activebroker.node.effects import Effect
from activebroker.protocol.frame import Buffers
from activebroker.protocol.messages import Body


@dataclass(slots=True)
class Context:
    """What the parts of a node share."""

    here: str  # this node
    directory: str  # the node with the directory
    registry: TypeRegistry
    send: Callable[[str, Body, Buffers], None]  # (peer, body, buffers): put a message in sequence
    announce: Callable[[str, EventType], None]  # (peer, type): make sure that the peer knows it
    effects: list[Effect] = field(default_factory=list)  # of the present input so far
    now: float = 0.0  # the time of the present input

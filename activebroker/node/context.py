"""What the parts of a node have in common: who they are, the time, and the ways out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from activebroker.events import EventType, TypeRegistry
from activebroker.node.effects import Effect
from activebroker.protocol.frame import Buffers
from activebroker.protocol.messages import Body


@dataclass(slots=True)
class Context:
    """`now` is the time of the input in hand; `effects` are those that it has so far.

    `send(peer, body, buffers)` puts a message in sequence, `announce(peer, type)` makes sure that
    the peer knows a type.
    """

    here: str
    directory: str
    registry: TypeRegistry
    send: Callable[[str, Body, Buffers], None]
    announce: Callable[[str, EventType], None]
    effects: list[Effect] = field(default_factory=list)
    now: float = 0.0

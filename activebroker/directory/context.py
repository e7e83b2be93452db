"""What the parts of the directory have in common: the picture, the time, and the ways out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from activebroker.core.errors import ActiveBrokerError, Unreachable
from activebroker.directory.graph import Graph
from activebroker.protocol.messages import Body, CallBody
from activebroker.protocol.specs import Member

PATIENCE = 10.0  # seconds that a node may take to carry out a call
Done = Callable[[Any, ActiveBrokerError | None], None]


@dataclass(frozen=True, slots=True)
class Outside:
    """What the directory needs of the node that it is part of.

    `call(node, body, patience, done)` asks a node for something, `tell(node, body)` tells it;
    `expel(node)` takes a member for lost; `incarnation(node)` is that of the process heard last,
    0 if none is. `set_timer(key, after)` lets the directory's `timer_fired` be called, None takes
    it back.
    """

    call: Callable[[str, CallBody, float, Done], None]
    tell: Callable[[str, Body], None]
    expel: Callable[[str], None]
    incarnation: Callable[[str], int]
    set_timer: Callable[[str, float | None], None]
    now: Callable[[], float]


class Context:
    """`me` keeps the directory. `graph` and `members` are the picture that it has of the fabric."""

    def __init__(self, me: Member, outside: Outside) -> None:
        self.me = me.name
        self.outside = outside
        self.graph = Graph()
        self.members: dict[str, Member] = {me.name: me}

    @property
    def now(self) -> float:
        return self.outside.now()

    def set_timer(self, kind: str, name: object, after: float | None) -> None:
        """Let `timer_fired` be called with the kind and the name; None takes that back."""
        self.outside.set_timer(f"{kind} {name}", after)

    def tell(self, node: str, body: Body) -> None:
        self.outside.tell(node, body)

    def call(self, node: str, body: CallBody, patience: float, done: Done) -> None:
        """Ask a member; whoever is none has not answered."""
        if node in self.members:
            self.outside.call(node, body, patience, done)
        else:
            done(None, Unreachable(f"{node!r} is not in the fabric any more."))

    def ask(self, node: str, body: CallBody) -> None:
        """Ask for something that nobody waits for."""
        if node in self.members:
            self.call(node, body, PATIENCE, lambda result, error: None)

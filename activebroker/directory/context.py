"""What the parts of the directory share: the picture, the time, and the calls to its node."""

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
    """What the directory needs of the node that it is part of."""

    call: Callable[[str, CallBody, float, Done], None]  # (node, body, patience, done)
    tell: Callable[[str, Body], None]  # (node, body)
    expel: Callable[[str], None]  # take a member for lost
    incarnation: Callable[[str], int]  # of the process of that name heard last; 0: none
    # (key, after): have the directory's `timer_fired` called; None: do not, after all.
    set_timer: Callable[[str, float | None], None]
    now: Callable[[], float]
    era: int = 0  # higher than the numbers of all streams of earlier fabrics


class Context:
    """The directory's own node, its picture of the fabric, and the ways to other nodes."""

    def __init__(self, me: Member, outside: Outside) -> None:
        self.me = me.name  # the node with the directory
        self.outside = outside
        self.graph = Graph(outside.era)
        self.members: dict[str, Member] = {me.name: me}

    @property
    def now(self) -> float:
        return self.outside.now()

    def set_timer(self, kind: str, name: object, after: float | None) -> None:
        """Have `timer_fired` called with the kind and the name; None takes that back."""
        self.outside.set_timer(f"{kind} {name}", after)

    def tell(self, node: str, body: Body) -> None:
        self.outside.tell(node, body)

    def call(self, node: str, body: CallBody, patience: float, done: Done) -> None:
        """Ask a member; `done` gets an error if the node is not a member."""
        if node in self.members:
            self.outside.call(node, body, patience, done)
        else:
            done(None, Unreachable(f"{node!r} is not in the fabric any more."))

    def ask(self, node: str, body: CallBody) -> None:
        """Ask a member for something without waiting for the answer."""
        if node in self.members:
            self.call(node, body, PATIENCE, lambda result, error: None)

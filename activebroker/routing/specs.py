"""What nodes are told of each other, of flows and of stages."""

from __future__ import annotations

import msgspec

from activebroker.filters import Envelope


class Member(msgspec.Struct, frozen=True):
    """A node of the fabric. `address` is None where it cannot be dialled."""

    name: str
    address: str | None
    is_broker: bool
    incarnation: int


class FlowSpec(msgspec.Struct, frozen=True):
    """A FIFO stream of events from an outlet of one node to a port of another.

    `predicate` is the JSON of what the port wants, None for everything. Events of this flow are
    held at the port until every flow in `after` has ended there. `since`: the first sequence
    number, of a flow from one supplier's relay. `supplier` is None where it comes from a filter.
    """

    id: int
    outlet: int
    source: str
    port: int
    target: str
    predicate: str | None = None
    after: tuple[int, ...] = ()
    since: int = 0
    supplier: str | None = None


class StageSpec(msgspec.Struct, frozen=True):
    """A filter at a place. Its port and its outlet bear the stage's id.

    Without an envelope it is a relay: it forwards what it gets.
    """

    id: int
    channel: str
    engine: str  # "python" or "spark"
    envelope: Envelope | None
    owner: str  # the node that derived it, where failures are reported

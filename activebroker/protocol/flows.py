"""What the two ends of a flow say to each other.

Downstream, *in band*: in order with the events. Upstream: credit, acknowledgements, and what is to
be sent no more, or once more.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from activebroker.events import TypeDescription
from activebroker.protocol.specs import (
    Offset,
    Offsets,
)
from derivation.protocol import (
    Error,
    Message,
)


class FlowOpened(Message, frozen=True):
    """A flow begins here."""

    flow: int
    inlet: int
    outlet: int
    after: tuple[int, ...]  # the flows that it follows
    supplier: str | None = None  # None if the flow comes from a filter
    subscriber: str = ""  # for which the outlet retains the flow's events; empty if it does not
    recovers: bool = False  # the outlet's stage is recovered elsewhere if its node is lost
    follows: bool = False  # the flow also follows what the inlet has of the supplier now
    # Set if the supplier lost its fabric and joined it again: events before this offset may be
    # repetitions, those after it are new to all.
    begins: Offset | None = None
    so_far: Offset | None = None  # where the supplier's stream is now
    began: Offset | None = None  # where it was when the subscriber came, if that is known


MOST_TO = 64  # flows that share a message


class Events(Message, frozen=True):
    """One batch for one or more flows; its buffers follow."""

    to: Annotated[tuple[tuple[int, int], ...], msgspec.Meta(max_length=MOST_TO)]  # (flow, inlet)
    supplier: str
    type: str  # fingerprint
    certain: bool  # the predicate raises on none of the rows
    upto: Offset  # after the batch


class StreamEnded(Message, frozen=True):
    """A supplier's stream is complete."""

    flow: int
    inlet: int
    supplier: str
    upto: Offset


class FlowEnded(Message, frozen=True):
    """A flow ends here."""

    flow: int
    inlet: int
    finished: bool = False  # because the channel was closed
    error: Error | None = None  # why the filter was stopped, if it was


class TypeAnnounced(Message, frozen=True):
    """Describes a type, before its first events on a link."""

    type: TypeDescription


class CreditReturned(Message, frozen=True):
    """Inlet to outlet: `nbytes` of the flow were consumed."""

    flow: int
    outlet: int
    nbytes: int


class Acknowledged(Message, frozen=True):
    """Subscriber to outlet: events up to these offsets will never be asked for again, whichever
    node is lost."""

    outlet: int
    subscriber: str
    upto: Offsets
    ended: bool = False  # the end of the flow has arrived, too


class FlowDropped(Message, frozen=True):
    """Inlet to outlet: the inlet is gone, send nothing more."""

    flow: int
    outlet: int
    subscriber: bool = True  # its subscriber is gone, too: retain nothing either


class FlowRewound(Message, frozen=True):
    """Inlet to outlet: the flow followed a gap; begin it once more, after what the inlet has."""

    flow: int
    outlet: int
    since: Offsets  # what the inlet has

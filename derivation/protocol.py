"""The vocabulary of third-party derivation: the plan, the messages, the effects.

A derivation, also called a *move*, takes a channel's filter from its *origins*, where it runs now,
to its *destinations*. Each *source* feeds an origin through a flow: a FIFO stream from one outlet
to one inlet. Phase one swaps the flows at the sources, phase two hands over state and buffer. A
flow that *follows* others is held at its inlet until those have ended there.

A source ends its old flow with an *end marker* (the paper's ACK) and begins the new one with a
*begin marker* (the paper's mark). Both travel *in band*: one after the last event of the old flow,
the other before the first event of the new one.

    initiator                source                 origin               destination
        |------- Prepare ----------------------------->|                      |
        |------- Prepare -------------------------------------------------->  |
        |<------ Prepared --------------------------------------------------- |
        |------- RequestSwap ----->|                   |                      |
        |------- Proceed ----------------------------->|                      |
        |                          |=== end marker ===>|                      |
        |                          |=== begin marker ========================>|
        |                          |                   |---- HandOver ------->|
        |<------ Started ---------------------------------------------------- |
        |------- End ------------> | ----------------> | -------------------> |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Generic, TypeVar

import msgspec

Party = str  # the name of a node
FlowId = int
Error = tuple[str, str]  # its class, and its text
Item = TypeVar("Item")  # of a buffer: events of a supplier, or its end; opaque to machines
Count = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]  # numpy can go on from there
# How far a supplier's stream has come on a channel: (stream, count). The count goes up by one with
# each event and with the end. The stream is the id of the supplier's outlet, so that the offsets of
# a later supplier of the same name are always higher. A filter's events are counted in the stream
# from which it makes them.
Offset = tuple[Count, Count]
Offsets = dict[str, Offset]  # by supplier


@dataclass(frozen=True, slots=True)
class Swap:
    """One outlet's part: between two events, end the `old` flows and open the `new` one."""

    source: Party
    old: tuple[FlowId, ...]  # in an offload, those to all consumers that are handed over
    new: FlowId
    destination: Party
    origin: Party | None = None  # where the old flow leads; None in an offload


@dataclass(frozen=True, slots=True)
class Output:
    """A flow from an origin to a consumer of the channel; it ends when the origin hands over."""

    origin: Party
    flow: FlowId


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a move or an offload will change, drawn up before it begins."""

    move: int  # a number for this move or offload
    channel: str
    initiator: Party
    origins: tuple[Party, ...]
    destinations: tuple[Party, ...]
    swaps: tuple[Swap, ...]
    outputs: tuple[Output, ...] = ()
    # At which destination each supplier's stream goes on, with its state; by default at the first.
    suppliers: tuple[tuple[str, Party], ...] = ()
    # The filter would be lost with its origins: they have to save it before they are prepared.
    saves: bool = False

    @property
    def involved(self) -> tuple[Party, ...]:
        """All parties but the initiator, each once."""
        sources = (swap.source for swap in self.swaps)
        return tuple(dict.fromkeys((*self.origins, *self.destinations, *sources)))


# --- what parties tell each other -------------------------------------------------------------


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="$"):
    """The base of all messages that go over the wire, where the tag is the class name."""


class Prepare(Message, frozen=True):
    """Initiator to origins and destinations: load what you need, change nothing yet."""

    plan: Plan


class Prepared(Message, frozen=True):
    """To the initiator: `party` can take its part."""

    move: int
    party: Party


class Refused(Message, frozen=True):
    """To the initiator: `party` cannot take its part."""

    move: int
    party: Party
    reason: str


class Cancel(Message, frozen=True):
    """Initiator to origins and destinations: forget the move; nothing was swapped."""

    move: int


class RequestSwap(Message, frozen=True):
    """Initiator to a source: phase one."""

    move: int
    swap: Swap


class Proceed(Message, frozen=True):
    """Initiator to an origin: all are prepared; hand over when all end markers have arrived."""

    move: int


class Ties(msgspec.Struct, frozen=True, array_like=True):
    """What binds a filter to the nodes around it. Machines only pass it on."""

    # By outlet, (node, subscriber): outlets whose flows it has taken to the end, and which retain
    # events for it until it acknowledges these.
    outlets: dict[int, tuple[Party, str]] = {}
    came: Offsets = {}  # how far these flows had come
    have: dict[str, Offsets] = {}  # by subscriber: what it has already and the filter makes again
    since: Offsets = {}  # where suppliers' streams began for the filter


class HandOver(Message, Generic[Item], frozen=True):
    """Origin to destination: phase two. It has only what concerns this destination's suppliers."""

    move: int
    origin: Party
    state: dict[str, bytes]  # of the filter, by supplier
    buffer: tuple[Item, ...]  # the events that reached the origin but not its filter, in order
    ended: tuple[FlowId, ...]  # the origin's input flows, which the new flows follow
    error: Error | None = None  # why the filter was stopped before, if it was
    # Input flows whose source was lost before the end marker: what follows them follows a gap.
    lost: tuple[FlowId, ...] = ()
    inputs: Offsets = {}  # what the filter has taken
    outputs: Offsets = {}  # what it has made
    ties: Ties = Ties()


class Started(Message, frozen=True):
    """To the initiator: the filter runs at `party`, and all its sources feed it there."""

    move: int
    party: Party


class End(Message, frozen=True):
    """Initiator to all parties: the move has ended, forget it."""

    move: int


@dataclass(frozen=True, slots=True)
class PartyLost:
    """A node is gone, and what it has not sent will not come. Not a message of any party."""

    party: Party


# --- effects on the party's own node ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send `message` to a party, which may be this one."""

    to: Party
    message: Message


@dataclass(frozen=True, slots=True)
class EndFlow:
    """End a flow, with an end marker."""

    flow: FlowId


@dataclass(frozen=True, slots=True)
class OpenFlow:
    """Begin a flow, with a begin marker."""

    flow: FlowId


@dataclass(frozen=True, slots=True)
class SaveFilter:
    """Let the filter be recovered elsewhere from now on, from a checkpoint and what is retained
    since then."""


@dataclass(frozen=True, slots=True)
class ForgetSaved:
    """Let the filter be lost with its node again: it stays here."""


@dataclass(frozen=True, slots=True)
class CaptureState:
    """Let the running batch end, start no other, and report the state and the buffer."""


@dataclass(frozen=True, slots=True)
class RestoreState:
    state: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class MergeBuffer:
    """Put the events of the hand-over before all that the new flows brought; drop flows that follow
    a gap."""

    hand_over: HandOver[Any]


@dataclass(frozen=True, slots=True)
class StartFilter:
    """Open the output flows, and run the filter."""


@dataclass(frozen=True, slots=True)
class StopFilter:
    """Open the output flows and end them with this error: no filter can go on."""

    error: Error


@dataclass(frozen=True, slots=True)
class RemoveFilter:
    """Drop the filter and its inlet."""


@dataclass(frozen=True, slots=True)
class SetDeadline:
    at: float


@dataclass(frozen=True, slots=True)
class CancelDeadline:
    pass


class Outcome(Enum):
    COMPLETED = "completed"
    ROLLED_BACK = "rolled back"
    FAILED = "failed"  # the filter has to be recovered
    OVERDUE = "overdue"  # still under way, past its time


@dataclass(frozen=True, slots=True)
class Finish:
    """Tell the user the outcome."""

    outcome: Outcome
    reason: str = ""


Effect = (
    Send
    | EndFlow
    | OpenFlow
    | SaveFilter
    | ForgetSaved
    | CaptureState
    | RestoreState
    | MergeBuffer
    | StartFilter
    | StopFilter
    | RemoveFilter
    | SetDeadline
    | CancelDeadline
    | Finish
)

"""The vocabulary of third-party derivation: the plan, the messages, the effects.

A derivation moves the production of a channel from its *origins* (the places that run the filter
now) to its *destinations*. Each *source* feeds an origin through a flow: a FIFO stream from one
outlet to one inlet. Phase one swaps the flows at the sources, phase two hands over state and
buffer. Flows order themselves: a flow that *follows* others is held at its inlet until those
have ended there.

    initiator                source                 origin               destination
        |------- Prepare ----------------------------->|                      |
        |------- Prepare -------------------------------------------------->  |
        |<------ Prepared --------------------------------------------------- |
        |------- RequestSwap ----->|                   |                      |
        |------- Proceed ----------------------------->|                      |
        |                          |== Ack (in band) =>|                      |
        |                          |== Mark (in band) =======================>|
        |                          |                   |---- HandOver ------->|
        |<------ Started ---------------------------------------------------- |
        |------- End ------------> | ----------------> | -------------------> |

Messages in band travel inside the flow, behind its last event and before its first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Generic, TypeVar

import msgspec

Party = str  # the name of a node
FlowId = int
Error = tuple[str, str]  # its class, and its text
Item = TypeVar("Item")  # of a buffer: one of a supplier's events, of which a machine knows nothing
Count = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]  # numpy can go on from there
# How far a supplier's stream has come on a channel: (stream, count). The count goes up by one with
# each event and with the end. The stream of a supplier is its outlet's id, so that a later supplier
# of the same name is always further on; what a filter makes is counted in the stream it is made of.
Offset = tuple[Count, Count]
Offsets = dict[str, Offset]  # by supplier


@dataclass(frozen=True, slots=True)
class Swap:
    """One outlet's part: end the `old` flows and open the `new` one in the same instant.

    `origin` is where the old flow leads when a filter moves; when a source offloads its fan-out
    there are as many old flows as consumers, and no origin.
    """

    source: Party
    old: tuple[FlowId, ...]
    new: FlowId
    destination: Party
    origin: Party | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """A flow from an origin to a consumer of the channel; it ends when the origin hands over."""

    origin: Party
    flow: FlowId


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a derivation will change, drawn up before it begins.

    `suppliers` says at which destination each supplier's stream, and so its state, goes on;
    one that is not named goes to the first destination. `saves`: the filter would be lost with
    its origins, so that they have to save it before they are prepared.
    """

    move: int
    channel: str
    initiator: Party
    origins: tuple[Party, ...]
    destinations: tuple[Party, ...]
    swaps: tuple[Swap, ...]
    outputs: tuple[Output, ...] = ()
    suppliers: tuple[tuple[str, Party], ...] = ()
    saves: bool = False

    @property
    def involved(self) -> tuple[Party, ...]:
        """All that have a part in it beside the initiator, each once."""
        sources = (swap.source for swap in self.swaps)
        return tuple(dict.fromkeys((*self.origins, *self.destinations, *sources)))


# --- what parties tell each other -------------------------------------------------------------


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="$"):
    """Base of all that goes over the wire; the tag there is the class name."""


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
    """Initiator to origins and destinations: forget the derivation; nothing was swapped."""

    move: int


class RequestSwap(Message, frozen=True):
    """Initiator to a source: phase one."""

    move: int
    swap: Swap


class Proceed(Message, frozen=True):
    """Initiator to an origin: all are prepared, hand over when the ACKs are in."""

    move: int


class Ties(msgspec.Struct, frozen=True, array_like=True):
    """What binds a filter to those around it; a machine only passes it on.

    `outlets` (outlet -> node, subscriber): it has taken their flows to the end, up to `came`, and
    they retain events for it until they hear that these are acknowledged. `have`: how far
    subscribers have already what it makes, where it is making that again. `since`: where suppliers'
    streams began for it.
    """

    outlets: dict[int, tuple[Party, str]] = {}
    came: Offsets = {}
    have: dict[str, Offsets] = {}
    since: Offsets = {}


class HandOver(Message, Generic[Item], frozen=True):
    """Origin to destination: phase two, the actual request.

    `state` is the filter's state by supplier and `buffer` the events that reached the origin
    but not its filter, in order; both hold only what concerns this destination's suppliers.
    `ended` are the origin's flows that its successor's flows follow; `lost` are those whose source
    was lost before the ACK, so that what follows them follows a gap. `error`: the filter was
    stopped before it could be handed over, and why. `inputs` and `outputs`: how far the filter has
    come, by supplier, with what it took and with what it made.
    """

    move: int
    origin: Party
    state: dict[str, bytes]
    buffer: tuple[Item, ...]
    ended: tuple[FlowId, ...]
    error: Error | None = None
    lost: tuple[FlowId, ...] = ()
    inputs: Offsets = {}
    outputs: Offsets = {}
    ties: Ties = Ties()


class Started(Message, frozen=True):
    """To the initiator: the filter runs at `party`, and all that feeds it goes there."""

    move: int
    party: Party


class End(Message, frozen=True):
    """Initiator to all parties: it has come to its end, forget it."""

    move: int


@dataclass(frozen=True, slots=True)
class PartyLost:
    """Told by nobody: a node is gone, and what it has not sent will not come."""

    party: Party


# --- effects on the party's own node ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send `message` to another party (or to oneself)."""

    to: Party
    message: Message


@dataclass(frozen=True, slots=True)
class EndFlow:
    """Send the in-band end of a flow: to an origin this is the ACK."""

    flow: FlowId


@dataclass(frozen=True, slots=True)
class OpenFlow:
    """Send the in-band begin of a flow: to a destination this is the mark."""

    flow: FlowId


@dataclass(frozen=True, slots=True)
class SaveFilter:
    """From now on the filter can go on elsewhere: from a checkpoint, and what was retained
    since."""


@dataclass(frozen=True, slots=True)
class ForgetSaved:
    """It stays, and is lost with its node again."""


@dataclass(frozen=True, slots=True)
class CaptureState:
    """Let the running batch end, start no other, and report state and buffer."""


@dataclass(frozen=True, slots=True)
class RestoreState:
    state: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class MergeBuffer:
    """Put the handed-over events before all that the new flows brought; drop what follows a gap."""

    hand_over: HandOver[Any]


@dataclass(frozen=True, slots=True)
class StartFilter:
    """Open the outputs and run."""


@dataclass(frozen=True, slots=True)
class StopFilter:
    """Open the outputs and end them with this error: there is no filter to go on with."""

    error: Error


@dataclass(frozen=True, slots=True)
class RemoveFilter:
    """Drop the filter and its inlet; all it had is at the destinations."""


@dataclass(frozen=True, slots=True)
class SetDeadline:
    at: float


@dataclass(frozen=True, slots=True)
class CancelDeadline:
    pass


class Outcome(Enum):
    COMPLETED = "completed"
    ROLLED_BACK = "rolled back"
    FAILED = "failed"  # the filter has to be put together again
    OVERDUE = "overdue"  # still under way, past its time


@dataclass(frozen=True, slots=True)
class Finish:
    """Tell the user."""

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

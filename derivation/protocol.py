"""The vocabulary of third-party derivation: the plan, the messages, the effects.

A derivation moves the production of a channel from its *origins* (the places that run the filter
now) to its *destinations*. Each *source* feeds an origin through a flow: a FIFO stream from one
outlet to one port. Phase one swaps the flows at the sources, phase two hands over state and
buffer. Flows order themselves: a flow that *follows* others is held at its port until those
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

Messages in band travel inside the flow, behind its last event and before its first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

Party = str  # the name of a node
FlowId = int
Positions = dict[str, tuple[int, int]]  # by supplier: a stream, and how far it has come


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

    derivation: int
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


@dataclass(frozen=True, slots=True)
class Prepare:
    """Initiator to origins and destinations: load what you need, change nothing yet."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Prepared:
    derivation: int
    party: Party


@dataclass(frozen=True, slots=True)
class Refused:
    """To the initiator: `party` cannot take its part."""

    derivation: int
    party: Party
    reason: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Initiator to origins and destinations: forget the derivation; nothing was swapped."""

    derivation: int


@dataclass(frozen=True, slots=True)
class RequestSwap:
    """Initiator to a source: phase one."""

    derivation: int
    swap: Swap


@dataclass(frozen=True, slots=True)
class Proceed:
    """Initiator to an origin: all are prepared, hand over when the ACKs are in."""

    derivation: int


@dataclass(frozen=True, slots=True)
class HandOver:
    """Origin to destination: phase two, the actual request.

    `state` is the filter's state by supplier and `buffer` the events that reached the origin
    but not its filter, in order; both hold only what concerns this destination's suppliers.
    `ended` are the origin's flows that its successor's flows follow; `lost` are those whose source
    was lost before the ACK, so that what follows them follows a gap. `error`: the filter was
    stopped before it could be handed over, and why. `inputs` and `outputs`: how far the filter has
    come, by supplier, with what it took and with what it made. `ties`: what binds it to those
    around it, of which a machine knows nothing.
    """

    derivation: int
    origin: Party
    state: dict[str, bytes]
    buffer: tuple[Any, ...]
    ended: tuple[FlowId, ...]
    error: str | None = None
    lost: tuple[FlowId, ...] = ()
    inputs: Positions = field(default_factory=dict)
    outputs: Positions = field(default_factory=dict)
    ties: Any = None


@dataclass(frozen=True, slots=True)
class Started:
    derivation: int
    party: Party


# --- effects on the party's own node ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send `message` to another party (or to oneself)."""

    to: Party
    message: Any


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
    """From now on the filter can go on elsewhere: from a checkpoint, and what was kept since."""


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

    buffer: tuple[Any, ...]
    ended: tuple[FlowId, ...]
    lost: tuple[FlowId, ...] = ()
    inputs: Positions = field(default_factory=dict)
    outputs: Positions = field(default_factory=dict)
    ties: Any = None


@dataclass(frozen=True, slots=True)
class StartFilter:
    """Open the outputs and run."""


@dataclass(frozen=True, slots=True)
class StopFilter:
    """Open the outputs and end them with this error: there is no filter to go on with."""

    error: str


@dataclass(frozen=True, slots=True)
class RemoveFilter:
    """Drop the filter and its port; all it had is at the destinations."""


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

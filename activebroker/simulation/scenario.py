"""A scenario: what users do and what fails, as plain data that a seed determines.

Every number that picks an object (a host, a channel, a supplier) counts modulo what there is at
that moment, so that a scenario from which something was taken out is a scenario still.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from derivation.destination import DestinationState
from derivation.initiator import InitiatorState
from derivation.origin import OriginState
from derivation.source import SourceState

HUB = "hub"  # keeps the directory
BROKER_NAMES = ("atlanta", "dallas", "denver")
SOURCE_NAMES = ("east", "north", "south")
SINK_NAMES = ("west", "home")

MACHINES: dict[str, type[Enum]] = {
    "initiator": InitiatorState,
    "source": SourceState,
    "origin": OriginState,
    "destination": DestinationState,
}

Do = Literal[
    "open supplier",
    "publish",
    "subscribe",
    "unsubscribe",
    "derive",
    "move",
    "offload",
    "split",
    "reconfigure",
    "close supplier",
    "close derived",
    "close root",
]
FaultKind = Literal["crash", "pause", "cut", "slow", "claim", "garble", "fail", "leave"]
FRAME_FAULTS = ("drop", "repeat", "delay", "overtake")  # what happens to single frames
HOST_FAULTS = ("crash", "restart", "pause", "cut", "slow")
FAULT_KINDS = (*FRAME_FAULTS, *HOST_FAULTS)


@dataclass(frozen=True, slots=True)
class Options:
    """The setting. Probabilities are for each frame; times in seconds, sizes in bytes."""

    brokers: int = 2  # hosts beside the hub
    sources: int = 1  # hosts for suppliers
    sinks: int = 1  # hosts for consumers
    roots: int = 1  # channels with suppliers
    undialable: bool = False  # the last of the sinks cannot be dialled
    refusing: bool = False  # the last of the brokers can load no filter
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0  # a frame is overtaken by those behind it
    straggling: float = 0.0  # a frame comes late, and those behind it
    slowest: float = 0.01  # the longest base delay of a pair of hosts
    jitter: float = 0.5  # part of the base delay by which each frame differs
    bandwidth: float = 0.0  # bytes a second of a route, 0 for any
    blob: int = 0  # bytes in each event
    pace: float = 0.0  # a slow consumer's time for a batch
    work: float = 0.001  # the longest time of a piece of a filter's work
    patience: float = 20.0  # of moves
    lease: float = 0.0  # seconds, of derived channels; 0: they are kept
    rejoining: bool = False  # processes that are no brokers join again when they are lost
    supervised: float = 0.0  # seconds until a broker that a filter has killed starts again
    noticed: float = 0.0  # seconds until the directory hears of a death; 0: of none


@dataclass(frozen=True, slots=True)
class Step:
    """What a user does at `at`.

    `host`: where. `object`: the channel, supplier, consumer or (of a split) broker concerned.
    `choice`: events a batch, from `TOUCHY` on so many more of which some cannot be decoded; the
    filter, from `RECONFIGURED` on one that can be reconfigured, from `RAISING` on one whose
    predicate raises, from `LOGGED` on a log, from `KEYED` on one whose state is by key; its new
    parameter; 1 for a slow consumer, with the bit `FROM_ITS_BEGIN` for one that takes all that a
    log has; 1 for a supplier that ended before, to open again; how many processes an offload is
    for, 0 for all.
    `place`: of a derivation. `times`: batches published, in `over` seconds.
    """

    at: float
    do: Do
    host: int = 0
    object: int = 0
    choice: int = 0
    place: int = 0
    times: int = 1
    over: float = 0.0


@dataclass(frozen=True, slots=True)
class Fault:
    """What fails, at `at` or when a machine first enters a state after that.

    `when` is (machine, state); `host` counts from the machine's host then. `seconds`: how long; a
    crashed host starts anew after them, or never if they are 0. `other`: the other end of a cut,
    counted from `host`; `both`: no frame passes in either direction. `again`: who is taken for lost
    because of it starts anew when it hears so.

    A "garble" makes nonsense of all events that leave the host in those seconds. A "fail" lets the
    driver fail that is the next to carry out an effect of a kind, which `other` picks.

    A "leave" lets a broker without users leave the fabric in good order; it starts anew as one that
    has crashed does.

    A "claim" is of another process for the host's name: for as long as that answers, in vain.

    The hub is not crashed, and stands still for no longer than `SHORT`. One that is cut off from
    others for longer takes them for lost, and they it.
    """

    at: float
    do: FaultKind
    host: int = 0
    other: int = 0
    seconds: float = 0.0
    both: bool = True
    when: tuple[str, str] | None = None
    again: bool = False


RECONFIGURED = 1000
RAISING = 2000
DEADLY = 3000
LOGGED = 4000
FROM_ITS_BEGIN = 2  # as a bit
KEYED = 5000
TOUCHY = 100
HEAVY = 100_000  # bytes of events with which flows use up their credit
SHORT = 6.0  # seconds of silence after which nobody is taken for lost


@dataclass(frozen=True, slots=True)
class Scenario:
    seed: int
    options: Options = field(default_factory=Options)
    steps: tuple[Step, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def length(self) -> float:
        """Seconds in which users do things and faults strike."""
        steps = (step.at + step.over for step in self.steps)
        faults = (fault.at for fault in self.faults)
        return 0.3 + max((*steps, *faults), default=0.0)

"""The parts of the picture of a fabric: channels and relays, the outlets that produce their events,
the inlets that want them, and the flows between outlets and inlets.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from activebroker.events import TypeDescription
from activebroker.filters import Envelope
from activebroker.protocol.specs import (
    ChannelInfo,
    Checkpoint,
    FlowSpec,
    LogSpec,
    Offsets,
    Since,
    StageSpec,
)

SUPPLIER, CONSUMER, SPARK = "supplier", "consumer", "spark"
FIXED_PLACES = (SUPPLIER, CONSUMER, SPARK)


@dataclass(slots=True)
class Outlet:
    """Where a channel's events leave a node."""

    id: int
    node: str
    supplier: str | None = None  # None at a filter
    drained: bool = False  # it has ended, and retains nothing


@dataclass(slots=True)
class Inlet:
    """Where a channel's events arrive at a node.

    The inlet of a relay is fed by its own supplier's outlet only.
    """

    id: int
    node: str
    predicate: str | None = None  # which events it wants; None: all
    makes: Made | None = None  # the channel whose filter it feeds, or the relay; None: subscription
    # It feeds a filter at its suppliers: it is fed by outlets of its own node only, and by none
    # that feeds another inlet of the filter.
    beside: bool = False
    recovers: bool = False  # if its node is lost, what it feeds goes on elsewhere
    certain: bool = True  # False: the predicate is wider than the filter's
    log: Since | None = None  # where in the channel's log it begins

    @property
    def subscribers(self) -> int | str:
        """A key for the inlets that share a channel's streams between them: this one alone, or all
        inlets of a filter at its suppliers."""
        return self.subscriber if self.beside else self.id

    @property
    def subscriber(self) -> str:
        """The name of the subscriber that the inlet belongs to, at whichever node."""
        return f"inlet {self.id}" if self.makes is None else self.makes.name

    @property
    def relays(self) -> bool:
        """Whether this is the inlet of a relay."""
        return isinstance(self.makes, Relay)


@dataclass(slots=True)
class Stage:
    """A filter at a node; its inlet is on the parent channel, its outlet on its own channel."""

    id: int
    node: str
    engine: str = "python"
    stream: int = 0  # higher than the numbers of all streams that began before it


@dataclass(slots=True)
class Flow:
    id: int
    channel: Channel | Relay
    outlet: Outlet
    inlet: Inlet

    @property
    def crosses(self) -> bool:
        """Whether the flow leads from one node to another."""
        return self.outlet.node != self.inlet.node

    def spec(
        self,
        after: tuple[int, ...] = (),
        since: Offsets | None = None,
        resumes: bool = False,
        follows: bool = False,
        began: Offsets | None = None,
        log: Since | None = None,
    ) -> FlowSpec:
        return FlowSpec(
            self.id,
            self.outlet.id,
            self.outlet.node,
            self.inlet.id,
            self.inlet.node,
            self.inlet.predicate,
            after,
            since or {},
            self.outlet.supplier,
            self.inlet.subscriber,
            self.inlet.recovers,
            resumes,
            follows,
            began or {},
            self.inlet.certain,
            self.inlet.log or log,
        )


@dataclass(slots=True)
class Next:
    """A change of a filter to another envelope, while it is under way."""

    id: int  # tells this change from others
    envelope: Envelope
    late: bool = False  # it is still under way after its request was answered


@dataclass(slots=True, eq=False)
class _Channel:
    """What root and derived channels have in common."""

    name: str
    type: TypeDescription
    closed: bool = False
    ended: str = ""  # why
    outlets: dict[int, Outlet] = field(default_factory=dict)
    inlets: dict[int, Inlet] = field(default_factory=dict)
    # Outlets that have ended, and may still retain events for subscribers.
    left: dict[int, Outlet] = field(default_factory=dict)
    # By name, the offsets after which each has had the channel's events.
    subscribers: dict[str, Offsets] = field(default_factory=dict)
    # The versions of the event class that processes have opened it with. Derived channels with
    # events of the same class share this list.
    versions: list[TypeDescription] = field(default_factory=list)

    def outlet(self, supplier: str) -> Outlet | None:
        """The outlet of a supplier, in the supplier's own process."""
        outlets = self.outlets.values()
        return next((each for each in outlets if each.supplier == supplier), None)


@dataclass(slots=True, eq=False)
class Root(_Channel):
    """A channel with suppliers; each has an outlet in its own process."""

    recovers: ClassVar[bool] = False

    @property
    def root(self) -> Root:
        return self

    @property
    def info(self) -> ChannelInfo:
        return ChannelInfo(self.name, self.type, None)


@dataclass(slots=True, eq=False)
class Derived(_Channel):
    """A channel with the events that a filter makes of another channel; each of the filter's stages
    has an outlet."""

    supplier: ClassVar[None] = None  # its outlets are not one supplier's
    _: KW_ONLY
    parent: Channel
    envelope: Envelope
    at: str  # the filter's place
    owner: str  # the process that derived the channel
    asked: str  # the place where the filter was asked to run
    instead: str = ""  # why the filter is not there
    owned: bool = True  # the owner is still a member
    lease: float | None = None  # seconds that it lives without owner and consumer; None: for ever
    runs_out: float | None = None  # when that time is over
    stages: dict[int, Stage] = field(default_factory=dict)
    next: Next | None = None  # the change under way
    # From where the filter goes on if its node is lost. Without one, it begins anew if it is
    # `fresh`, and cannot go on if not.
    checkpoint: Checkpoint | None = None
    fresh: bool = True
    # The filter is at its suppliers again, but what it made at an earlier place may still be lost:
    # until then it can go on elsewhere.
    returning: bool = False
    stopped: bool = False  # by an error, so that it does not go on anywhere
    log: LogSpec | None = None  # it is the log of its parent's events
    home: str = ""  # then: the broker on whose disk it is

    @property
    def root(self) -> Root:
        return self.parent.root

    @property
    def info(self) -> ChannelInfo:
        return ChannelInfo(self.name, self.type, self.parent.name)

    @property
    def recovers(self) -> bool:
        """Whether the filter goes on elsewhere if its node is lost. One at its suppliers does not:
        they are lost with it."""
        return self.at != SUPPLIER or self.returning or self.beside

    @property
    def beside(self) -> bool:
        """Whether the filter is beside its parent's filter, which goes on elsewhere if it is
        lost."""
        return self.at == SUPPLIER and self.parent.recovers

    @property
    def predicate(self) -> str | None:
        return self.envelope.predicate

    @property
    def wanting(self) -> list[Inlet]:
        """The inlets that want the channel's events."""
        return list(self.inlets.values())

    @property
    def places(self) -> list[tuple[str, int]]:
        """(node, stage) of the filter, now and at earlier places that may retain events."""
        now = [(stage.node, stage.id) for stage in self.stages.values()]
        return now + [(outlet.node, outlet.id) for outlet in self.left.values()]

    def stage_spec(
        self, stage: Stage, recovers: bool, checkpoint: Checkpoint | None = None
    ) -> StageSpec:
        return StageSpec(
            stage.id,
            self.name,
            stage.engine,
            self.envelope,
            self.owner,
            recovers,
            checkpoint,
            stream=stage.stream,
            log=self.log,
        )


@dataclass(slots=True, eq=False)
class Relay:
    """Passes on the events of one supplier. It has one stage, which is placed, saved and recovered
    as a filter's is."""

    recovers: ClassVar[bool] = True
    home: ClassVar[str] = ""
    name: str
    parent: Root  # the supplier's channel
    supplier: str
    own: Outlet  # the supplier's, which feeds the relay
    at: str
    wanted: str | None  # the predicate of its feed: what its subscribers want together
    newcomers: bool = False  # subscribers that come later are served by it, too
    since: Offsets = field(default_factory=dict)  # from where on the feed has that predicate
    outlets: dict[int, Outlet] = field(default_factory=dict)
    # By name, the offsets after which each is served; none: from the relay's begin.
    subscribers: dict[str, Offsets] = field(default_factory=dict)
    stages: dict[int, Stage] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    stopped: bool = False

    @property
    def owner(self) -> str:
        return self.own.node

    @property
    def root(self) -> Root:
        return self.parent

    @property
    def predicate(self) -> str | None:
        return self.wanted

    @property
    def places(self) -> list[tuple[str, int]]:
        """(node, stage) of the relay."""
        return [(each.node, each.id) for each in self.stages.values()]

    @property
    def outlet(self) -> Outlet | None:
        """The relay's outlet, None while it has no place."""
        return next(iter(self.outlets.values()), None)

    @property
    def wanting(self) -> list[Inlet]:
        """The inlets that the relay serves."""
        return [
            inlet for inlet in self.parent.inlets.values() if inlet.subscriber in self.subscribers
        ]

    @property
    def fed(self) -> bool:
        """Whether its supplier is still there, or retained events of it."""
        return self.own.id in self.parent.outlets or self.own.id in self.parent.left

    def stage_spec(
        self, stage: Stage, recovers: bool, checkpoint: Checkpoint | None = None
    ) -> StageSpec:
        return StageSpec(
            stage.id,
            self.parent.name,
            stage.engine,
            None,
            self.owner,
            recovers,
            checkpoint,
            self.name,
        )


Channel = Root | Derived
Made = Derived | Relay  # made by stages: those of a filter, or that of a relay


def inputs_of(made: Made) -> Offsets:
    """How far a filter or relay has come with its inputs, by its last checkpoint."""
    return made.checkpoint.inputs if made.checkpoint is not None else {}

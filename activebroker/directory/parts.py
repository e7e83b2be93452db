"""What the picture of a fabric is made of: channels and relays, the outlets that produce their
events, the inlets that want them, and the flows between.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from activebroker.events import TypeDescription
from activebroker.filters import Envelope
from activebroker.protocol.specs import ChannelInfo, Checkpoint, FlowSpec, Offsets, StageSpec

SUPPLIER, CONSUMER, SPARK = "supplier", "consumer", "spark"
FIXED_PLACES = (SUPPLIER, CONSUMER, SPARK)


@dataclass(slots=True)
class Outlet:
    """Produces a channel's events at `node`. `supplier` is None at a stage.

    `drained`: it has ended, and nothing is retained there for anybody.
    """

    id: int
    node: str
    supplier: str | None = None
    drained: bool = False


@dataclass(slots=True)
class Inlet:
    """Wants a channel's events at `node`: what `predicate` says, which may be wider than what the
    filter there forwards (not `certain`).

    `makes` is the derived channel whose filter it feeds, or the relay, None for a subscription;
    `recovers`: if its node is lost, what it feeds goes on elsewhere. A relay's inlet wants its own
    supplier's outlet only. `beside`: it is that of a filter at the supplier, and wants only streams
    that begin beside it, and only those that feed no other inlet of that filter.
    """

    id: int
    node: str
    predicate: str | None = None
    makes: Made | None = None
    beside: bool = False
    recovers: bool = False
    certain: bool = True

    @property
    def subscribers(self) -> int | str:
        """Names the inlets that share the streams between them: this one alone, or all of a filter
        at its suppliers."""
        return self.subscriber if self.beside else self.id

    @property
    def subscriber(self) -> str:
        """Who takes the events in the end, wherever the inlet is."""
        return f"inlet {self.id}" if self.makes is None else self.makes.name

    @property
    def relays(self) -> bool:
        """Whether it is a relay's."""
        return isinstance(self.makes, Relay)


@dataclass(slots=True)
class Stage:
    """A filter at a node; its inlet is on the parent channel, its outlet on its own channel."""

    id: int
    node: str
    engine: str = "python"


@dataclass(slots=True)
class Flow:
    id: int
    channel: Channel | Relay
    outlet: Outlet
    inlet: Inlet

    @property
    def crosses(self) -> bool:
        """Whether it leads from one node to another."""
        return self.outlet.node != self.inlet.node

    def spec(
        self,
        after: tuple[int, ...] = (),
        since: Offsets | None = None,
        resumes: bool = False,
        behind: bool = False,
        began: Offsets | None = None,
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
            behind,
            began or {},
            self.inlet.certain,
        )


@dataclass(slots=True)
class Next:
    """The envelope with which a filter is to go on; `id` tells this change from others. `late`: it
    goes on behind the request that began it."""

    id: int
    envelope: Envelope
    late: bool = False


@dataclass(slots=True, eq=False)
class _Channel:
    """`left` are outlets that have ended, and where something may still be retained for who takes
    the channel. `subscribers` are those who take it, each with the offsets behind which it began
    to.

    `versions` are those of its events' class that it was opened with; what is derived from it and
    has events of that class shares them. `ended` tells why it has.
    """

    name: str
    type: TypeDescription
    closed: bool = False
    ended: str = ""
    outlets: dict[int, Outlet] = field(default_factory=dict)
    inlets: dict[int, Inlet] = field(default_factory=dict)
    left: dict[int, Outlet] = field(default_factory=dict)
    subscribers: dict[str, Offsets] = field(default_factory=dict)
    versions: list[TypeDescription] = field(default_factory=list)

    def outlet(self, supplier: str) -> Outlet | None:
        """A supplier's, in its own process."""
        outlets = self.outlets.values()
        return next((each for each in outlets if each.supplier == supplier), None)


@dataclass(slots=True, eq=False)
class Root(_Channel):
    """Has suppliers, with an outlet for each, in its own process."""

    recovers: ClassVar[bool] = False

    @property
    def root(self) -> Root:
        return self

    @property
    def info(self) -> ChannelInfo:
        return ChannelInfo(self.name, self.type, None)


@dataclass(slots=True, eq=False)
class Derived(_Channel):
    """Has what the filter in `envelope` makes of `parent`; an outlet for each of its stages. `at`
    is its place, `asked` the one where it was asked to run, and `instead` why it is not there;
    empty where nothing kept it from there.

    `owned`: the process that derived it, `owner`, is there still. If not, and nobody takes it for
    `lease` seconds (None: for ever), it ends, at `runs_out`.

    `next` is what the filter changes to, while it does. `checkpoint` is where the filter could go
    on if its node were lost; None and `fresh`: at the very beginning. None and not `fresh`: it
    could not. `returning`: it is at its suppliers again, but what it made at an earlier place may
    be lost still, so that it can go on elsewhere yet. `stopped`: it was, by an error, and does not
    go on anywhere.
    """

    supplier: ClassVar[None] = None  # its outlets are not one supplier's
    _: KW_ONLY
    parent: Channel
    envelope: Envelope
    at: str
    owner: str
    asked: str
    instead: str = ""
    owned: bool = True
    lease: float | None = None
    runs_out: float | None = None
    stages: dict[int, Stage] = field(default_factory=dict)
    next: Next | None = None
    checkpoint: Checkpoint | None = None
    fresh: bool = True
    returning: bool = False
    stopped: bool = False

    @property
    def root(self) -> Root:
        return self.parent.root

    @property
    def info(self) -> ChannelInfo:
        return ChannelInfo(self.name, self.type, self.parent.name)

    @property
    def recovers(self) -> bool:
        """Whether its filter goes on elsewhere if its node is lost. One at its suppliers does not:
        they are lost with it."""
        return self.at != SUPPLIER or self.returning or self.beside

    @property
    def beside(self) -> bool:
        """Whether it is at its supplier, which is a filter that goes on elsewhere."""
        return self.at == SUPPLIER and self.parent.recovers

    @property
    def predicate(self) -> str | None:
        return self.envelope.predicate

    @property
    def wanting(self) -> list[Inlet]:
        """The inlets of those who take it."""
        return list(self.inlets.values())

    @property
    def places(self) -> list[tuple[str, int]]:
        """(node, stage) where it is, and where it was and may have something still."""
        now = [(stage.node, stage.id) for stage in self.stages.values()]
        return now + [(outlet.node, outlet.id) for outlet in self.left.values()]

    def stage_spec(
        self, stage: Stage, recovers: bool, checkpoint: Checkpoint | None = None
    ) -> StageSpec:
        return StageSpec(
            stage.id, self.name, stage.engine, self.envelope, self.owner, recovers, checkpoint
        )


@dataclass(slots=True, eq=False)
class Relay:
    """What a broker passes on of one supplier of the channel `parent`: `own` is the supplier's
    outlet, which feeds it. It is placed, saved and recovered as a filter is, at one stage.

    `subscribers` are those it serves, wherever they are (with no offsets: from the relay's begin).
    `newcomers`: it serves those who come later, too. `wanted` is the predicate of its feed, `since`
    the offsets from which on the feed carries that.
    """

    recovers: ClassVar[bool] = True
    name: str
    parent: Root
    supplier: str
    own: Outlet
    at: str
    wanted: str | None
    newcomers: bool = False
    since: Offsets = field(default_factory=dict)
    outlets: dict[int, Outlet] = field(default_factory=dict)
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
        """(node, stage) where it is."""
        return [(each.node, each.id) for each in self.stages.values()]

    @property
    def outlet(self) -> Outlet | None:
        """Where it is served, None while it has no place."""
        return next(iter(self.outlets.values()), None)

    @property
    def wanting(self) -> list[Inlet]:
        """The inlets of those whom it serves."""
        return [
            inlet for inlet in self.parent.inlets.values() if inlet.subscriber in self.subscribers
        ]

    @property
    def fed(self) -> bool:
        """Whether its supplier, or what is retained of it, is there still."""
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
Made = Derived | Relay  # by a stage: of a filter, or of a relay


def inputs_of(made: Made) -> Offsets:
    """How far it has come with what feeds it, by its last checkpoint."""
    return made.checkpoint.inputs if made.checkpoint is not None else {}

"""What the picture of a fabric is made of: channels, the outlets that produce them, the ports that
want them, and the flows between.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from activebroker.events import TypeDescription
from activebroker.filters import Envelope
from activebroker.protocol.specs import Checkpoint, FlowSpec, Positions, StageSpec

SUPPLIER, CONSUMER, SPARK = "supplier", "consumer", "spark"
FIXED_PLACES = (SUPPLIER, CONSUMER, SPARK)


@dataclass(slots=True)
class Outlet:
    """Produces a channel's events at `node`. `supplier` is None at a stage.

    `drained`: it has ended, and nothing is kept there for anybody.
    """

    id: int
    node: str
    supplier: str | None = None
    drained: bool = False


@dataclass(slots=True)
class Port:
    """Wants a channel's events at `node`: what `predicate` says, which may be wider than what the
    filter there forwards (not `certain`).

    `makes` is the derived channel whose filter it feeds, or the relay, None for a subscription;
    `recovers`: if its node is lost, what it feeds goes on elsewhere. `relays` is the supplier of
    a relay's port, which wants that one's own outlet only.
    `runs` is set for a filter at the supplier: the channel that it makes. Such a port wants only
    streams that begin beside it, and only those that feed no other port of the same `runs`.
    """

    id: int
    node: str
    predicate: str | None = None
    runs: str | None = None
    makes: str | None = None
    recovers: bool = False
    relays: str | None = None
    certain: bool = True

    @property
    def takers(self) -> int | str:
        """Names the ports that share the streams between them: this one alone, or all of `runs`."""
        return self.id if self.runs is None else self.runs

    @property
    def taker(self) -> str:
        """Who takes the events in the end, wherever the port is."""
        return f"port {self.id}" if self.makes is None else self.makes


@dataclass(slots=True)
class Stage:
    """A filter at a node; its port is on the parent channel, its outlet on its own channel."""

    id: int
    node: str
    engine: str = "python"


@dataclass(slots=True)
class Flow:
    id: int
    channel: str
    outlet: Outlet
    port: Port

    @property
    def crosses(self) -> bool:
        """Whether it leads from one node to another."""
        return self.outlet.node != self.port.node

    def spec(
        self,
        after: tuple[int, ...] = (),
        since: Positions | None = None,
        resumes: bool = False,
        behind: bool = False,
        began: Positions | None = None,
    ) -> FlowSpec:
        return FlowSpec(
            self.id,
            self.outlet.id,
            self.outlet.node,
            self.port.id,
            self.port.node,
            self.port.predicate,
            after,
            since or {},
            self.outlet.supplier,
            self.port.taker,
            self.port.recovers,
            resumes,
            behind,
            began or {},
            self.port.certain,
        )


@dataclass(slots=True)
class Next:
    """The envelope with which a filter is to go on; `id` tells this change from others. `late`: it
    goes on behind the request that began it."""

    id: int
    envelope: Envelope
    late: bool = False


@dataclass(slots=True)
class Channel:
    """`parent`, `envelope`, `at`, `owner` and `stages` are those of a derived channel.

    `left` are outlets that have ended, and where something may still be kept for who takes the
    channel. `takers` are those who take it, each with the positions behind which it began to.

    `owned`: the process that derived it, `owner`, is there still. If not, and nobody takes it for
    `lease` seconds (None: for ever), it ends, at `runs_out`. `ended` tells why it has.

    `versions` are those of its events' class that it was opened with; what is derived from it and
    has events of that class shares them.

    `next` is what the filter changes to, while it does. `asked` is the place where it was asked to
    run, and `instead` why it is not there; empty where nothing kept it from there.

    `checkpoint` is where the filter could go on if its node were lost; None and `fresh`: at the
    very beginning. None and not `fresh`: it could not. `returning`: it is at its suppliers again,
    but what it made at an earlier place may be lost still, so that it can go on elsewhere yet.
    `stopped`: it was, by an error, and does not go on anywhere.
    """

    name: str
    type: TypeDescription
    parent: str | None = None
    envelope: Envelope | None = None
    at: str = ""
    owner: str = ""
    closed: bool = False
    outlets: dict[int, Outlet] = field(default_factory=dict)
    ports: dict[int, Port] = field(default_factory=dict)
    stages: dict[int, Stage] = field(default_factory=dict)
    left: dict[int, Outlet] = field(default_factory=dict)
    takers: dict[str, Positions] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    fresh: bool = True
    returning: bool = False
    stopped: bool = False
    next: Next | None = None
    owned: bool = True
    lease: float | None = None
    runs_out: float | None = None
    ended: str = ""
    asked: str = ""
    instead: str = ""
    versions: list[TypeDescription] = field(default_factory=list)

    def stage_spec(
        self, stage: Stage, recovers: bool, checkpoint: Checkpoint | None = None
    ) -> StageSpec:
        return StageSpec(
            stage.id, self.name, stage.engine, self.envelope, self.owner, recovers, checkpoint
        )

    @property
    def predicate(self) -> str | None:
        return None if self.envelope is None else self.envelope.predicate


@dataclass(slots=True)
class Relay(Channel):
    """What a broker passes on of one supplier of the channel `parent`: `own` is the supplier's
    outlet, which feeds it. It is placed, saved and recovered as a filter is, at one stage.

    `takers` are those it serves, wherever they are (with no positions: from the relay's begin).
    `newcomers`: it serves those who come later, too. `wanted` is
    the predicate of its feed, `since` the positions from which on the feed carries that.
    """

    own: Outlet = field(kw_only=True)
    newcomers: bool = False
    wanted: str | None = None
    since: Positions = field(default_factory=dict)

    @property
    def supplier(self) -> str:
        assert self.own.supplier is not None
        return self.own.supplier

    @property
    def predicate(self) -> str | None:
        return self.wanted

    @property
    def outlet(self) -> Outlet | None:
        """Where it is served, None while it has no place."""
        return next(iter(self.outlets.values()), None)

    def stage_spec(
        self, stage: Stage, recovers: bool, checkpoint: Checkpoint | None = None
    ) -> StageSpec:
        assert self.parent is not None
        return StageSpec(
            stage.id, self.parent, stage.engine, None, self.owner, recovers, checkpoint, self.name
        )

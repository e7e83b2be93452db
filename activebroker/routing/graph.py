"""Channels, the outlets that produce them, the ports that want them, and the flows between.

A root channel has an outlet for each supplier (or for the relay that a supplier has handed its
fan-out to); a derived channel has one for each stage that runs its filter. Every port of a
channel is fed by a flow from every outlet of it that is meant for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from activebroker.events import TypeDescription
from activebroker.filters import Envelope
from activebroker.routing.specs import Checkpoint, FlowSpec, Positions, StageSpec

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
    """Wants a channel's events at `node`.

    `makes` is the derived channel whose filter it feeds, None for a subscription or a relay;
    `recovers`: if its node is lost, that filter goes on elsewhere.
    `runs` is set for a filter at the supplier: the channel that it makes. Such a port wants only
    streams that begin beside it, and only those that feed no other port of the same `runs`.
    """

    id: int
    node: str
    predicate: str | None = None
    runs: str | None = None
    makes: str | None = None
    recovers: bool = False

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
        followers: int = 0,
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
            followers,
        )


@dataclass(slots=True)
class Channel:
    """`parent`, `envelope`, `at`, `owner` and `stages` are those of a derived channel.

    `relayed` maps a supplier to its own outlet while a relay serves its consumers. `left` are
    outlets that have ended, and where something may still be kept for who takes the channel.

    `checkpoint` is where the filter could go on if its node were lost; None and `fresh`: at the
    very beginning. None and not `fresh`: it could not. `returning`: it is at its suppliers again,
    but what it made at an earlier place may be lost still, so that it can go on elsewhere yet.
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
    relayed: dict[str, Outlet] = field(default_factory=dict)
    left: dict[int, Outlet] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    fresh: bool = True
    returning: bool = False

    def stage_spec(
        self, stage: Stage, recovers: bool, checkpoint: Checkpoint | None = None
    ) -> StageSpec:
        return StageSpec(
            stage.id, self.name, stage.engine, self.envelope, self.owner, recovers, checkpoint
        )

    def sources(self) -> list[Outlet]:
        """The outlets where the events come from, behind any relay."""
        return [
            self.relayed.get(each.supplier, each) if each.supplier is not None else each
            for each in self.outlets.values()
        ]

    @property
    def predicate(self) -> str | None:
        return None if self.envelope is None else self.envelope.predicate


class Graph:
    """The whole picture. Ids are given here, for outlets, ports, stages and flows alike."""

    def __init__(self) -> None:
        self.channels: dict[str, Channel] = {}
        self.flows: dict[int, Flow] = {}
        self._last_id = 0

    def new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def children(self, channel: str) -> Iterator[Channel]:
        """The channels derived from `channel`."""
        return (each for each in list(self.channels.values()) if each.parent == channel)

    def subtree(self, channel: str) -> Iterator[Channel]:
        """`channel` and all that is derived from it, parents first."""
        yield self.channels[channel]
        for child in self.children(channel):
            yield from self.subtree(child.name)

    def root(self, channel: Channel) -> Channel:
        """The channel of suppliers that a channel comes from in the end."""
        while channel.parent is not None:
            channel = self.channels[channel.parent]
        return channel

    def recovers(self, channel: Channel) -> bool:
        """Whether a channel's filter goes on elsewhere if its node is lost.

        One at its suppliers does not: they are lost with it.
        """
        if channel.parent is None:
            return False
        return channel.at != SUPPLIER or channel.returning or self.beside(channel)

    def beside(self, channel: Channel) -> bool:
        """Whether a filter at its supplier is one beside another that goes on elsewhere."""
        assert channel.parent is not None
        return channel.at == SUPPLIER and self.recovers(self.channels[channel.parent])

    def place(self, channel: Channel, node: str, engine: str = "python") -> Stage:
        """Put a stage of a derived channel on a node: a port on its parent, an outlet here."""
        stage = Stage(self.new_id(), node, engine)
        channel.stages[stage.id] = stage
        channel.outlets[stage.id] = Outlet(stage.id, node)
        self.input(channel, stage)
        return stage

    def input(self, channel: Channel, stage: Stage) -> Port:
        """The port of a stage on the parent channel, as the channel's place wants it."""
        assert channel.parent is not None
        runs = channel.name if channel.at == SUPPLIER else None
        port = Port(
            stage.id, stage.node, channel.predicate, runs, channel.name, self.recovers(channel)
        )
        self.channels[channel.parent].ports[stage.id] = port
        return port

    def relocate(self, channel: Channel, at: str) -> None:
        """Change what the channel's place is called, and with it what its stages' ports want."""
        assert channel.parent is not None
        channel.at = at
        for stage_id in channel.stages:
            port = self.channels[channel.parent].ports[stage_id]
            port.runs = channel.name if at == SUPPLIER else None
            port.recovers = self.recovers(channel)

    def displace(self, channel: Channel, stage_id: int) -> None:
        """Take a stage out again, with all flows into and out of it."""
        assert channel.parent is not None
        channel.stages.pop(stage_id, None)
        self.remove_outlet(channel, stage_id)
        self.remove_port(self.channels[channel.parent], stage_id)

    def connect(self, channel: Channel, outlet: Outlet, port: Port) -> Flow:
        flow = Flow(self.new_id(), channel.name, outlet, port)
        self.flows[flow.id] = flow
        return flow

    def missing(self, channel: Channel) -> Iterator[tuple[Outlet, Port]]:
        """Pairs that should be connected and are not."""
        linked = self._linked()
        for port in channel.ports.values():
            for outlet in channel.outlets.values() if port.runs is None else channel.sources():
                here = outlet.node == port.node
                if (_stream(outlet), port.takers) not in linked and (here or port.runs is None):
                    yield outlet, port

    def unserved(self, channel: Channel, child: Channel) -> list[str]:
        """The nodes where streams of a channel begin that feed no stage of `child` yet."""
        linked = self._linked()
        return list(
            dict.fromkeys(
                outlet.node
                for outlet in channel.sources()
                if (_stream(outlet), child.name) not in linked
            )
        )

    def feeds(self, child: Channel) -> list[tuple[Outlet, list[Flow]]]:
        """For each stream of the parent, the outlet it comes from for `child`, and its flows.

        That is the outlet which feeds `child` now: behind an offload this need not be the one that
        serves new consumers.
        """
        assert child.parent is not None
        into = [flow for stage_id in child.stages for flow in self.into(stage_id)]
        feeds: list[tuple[Outlet, list[Flow]]] = []
        for outlet in self.channels[child.parent].outlets.values():
            flows = [flow for flow in into if _stream(flow.outlet) == _stream(outlet)]
            feeds.append((flows[0].outlet if flows else outlet, flows))
        return feeds

    def _linked(self) -> set[tuple[int | str, int | str]]:
        # By supplier, not by outlet: consumers beside a supplier keep its own outlet when the
        # others are served by its relay.
        return {(_stream(flow.outlet), flow.port.takers) for flow in self.flows.values()}

    def into(self, port_id: int) -> list[Flow]:
        return [flow for flow in self.flows.values() if flow.port.id == port_id]

    def out_of(self, outlet_id: int) -> list[Flow]:
        return [flow for flow in self.flows.values() if flow.outlet.id == outlet_id]

    def suppliers(self, outlet: Outlet) -> list[str]:
        """Whose streams leave by an outlet: at a stage, by way of all that feeds it."""
        if outlet.supplier is not None:
            return [outlet.supplier]
        return [name for flow in self.into(outlet.id) for name in self.suppliers(flow.outlet)]

    def remove_outlet(self, channel: Channel, outlet_id: int) -> list[Flow]:
        channel.outlets.pop(outlet_id, None)
        return self._drop(self.out_of(outlet_id))

    def remove_port(self, channel: Channel, port_id: int) -> list[Flow]:
        channel.ports.pop(port_id, None)
        return self._drop(self.into(port_id))

    def _drop(self, flows: list[Flow]) -> list[Flow]:
        for flow in flows:
            del self.flows[flow.id]
        return flows


def _stream(outlet: Outlet) -> int | str:
    return outlet.id if outlet.supplier is None else outlet.supplier

"""The picture of a fabric: how its parts belong together, and what follows from that.

A root channel has an outlet for each supplier; a derived channel has one for each stage that runs
its filter. Every port of a channel is fed by a flow from every outlet of it that is meant for it,
or from the relay to which that outlet's supplier has handed it over.
"""

from __future__ import annotations

from collections.abc import Iterator

from activebroker.directory.parts import SUPPLIER, Channel, Flow, Outlet, Port, Relay, Stage
from activebroker.matching import union
from activebroker.protocol.specs import UNPLACED


class Graph:
    """The whole picture. Ids are given here, for outlets, ports, stages and flows alike."""

    def __init__(self) -> None:
        self.channels: dict[str, Channel] = {}
        self.relays: dict[str, Relay] = {}
        self.flows: dict[int, Flow] = {}
        self._last_id = 0

    def new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def at(self, node: str) -> str:
        """In words, what there is at a node."""
        suppliers, filters, subscriptions = [], [], 0
        for channel in self.channels.values():
            for outlet in channel.outlets.values():
                if outlet.node == node and outlet.supplier is not None:
                    suppliers.append(f"{outlet.supplier} of {channel.name}")
            filters += [channel.name for stage in channel.stages.values() if stage.node == node]
            subscriptions += sum(p.node == node and p.makes is None for p in channel.ports.values())
        filters += [
            f"{relay.supplier} of {relay.parent} (relay)"
            for relay in self.relays.values()
            if any(stage.node == node for stage in relay.stages.values())
        ]
        return (
            f"it has the suppliers {suppliers}, the filters {filters}, "
            f"{subscriptions} subscriptions"
        )

    def children(self, channel: str) -> Iterator[Channel]:
        """The channels derived from `channel`."""
        return (each for each in list(self.channels.values()) if each.parent == channel)

    def subtree(self, channel: str) -> Iterator[Channel]:
        """`channel` and all that is derived from it, parents first."""
        yield self.channels[channel]
        for child in self.children(channel):
            yield from self.subtree(child.name)

    def bury(self, closed: str, kept: int) -> None:
        """Put a closed channel, with all below it, behind those that were closed before it; forget
        the first of these if there are more than `kept`."""
        for channel in list(self.subtree(closed)):
            self.channels[channel.name] = self.channels.pop(channel.name)
        names = [each.name for each in self.channels.values() if each.closed]
        for name in names[: max(0, len(names) - kept)]:
            if name in self.channels:  # else it went with the one above it
                for channel in list(self.subtree(name)):
                    del self.channels[channel.name]

    def relays_of(self, channel: Channel, supplier: str | None = None) -> list[Relay]:
        """The relays of a channel's suppliers, or of one, in the order in which they came."""
        return [
            each
            for each in self.relays.values()
            if each.parent == channel.name and supplier in (None, each.supplier)
        ]

    def relay_at(self, outlet: Outlet) -> Relay | None:
        """The relay whose outlet this is."""
        return next((each for each in self.relays.values() if outlet.id in each.outlets), None)

    def wanting(self, channel: Channel) -> list[Port]:
        """The ports of those who take a channel, or what a relay passes on."""
        if not isinstance(channel, Relay):
            return list(channel.ports.values())
        assert channel.parent is not None
        ports = self.channels[channel.parent].ports.values()
        return [port for port in ports if port.taker in channel.takers]

    def serving(self, channel: Channel, own: Outlet, port: Port) -> Outlet:
        """The outlet that serves a port with what leaves by a channel's outlet `own`: a relay's,
        if it has been handed over to one."""
        if own.supplier is None or port.relays is not None or port.runs is not None:
            return own
        relays = self.relays_of(channel, own.supplier)
        for relay in relays:
            if port.taker in relay.takers:
                return relay.outlet or own
        newcomers = (relay.outlet for relay in relays if relay.newcomers)
        return next(newcomers, None) or own

    def keepers(self, channel: Channel, taker: str) -> list[Outlet]:
        """The outlets that may keep something of a channel for a taker that others serve, or that
        is gone: those that have left, and those of suppliers with relays, before the relays."""
        relays = self.relays_of(channel)
        handed_over = {relay.own.id: None for relay in relays}
        return [
            *channel.left.values(),
            *(each for each in channel.outlets.values() if each.id in handed_over),
            *(
                outlet
                for relay in relays
                if taker in relay.takers
                for outlet in relay.outlets.values()
            ),
        ]

    def want(self, channel: Channel, predicate: str | None, certain: bool = True) -> None:
        """Change what the ports of a channel's stages want."""
        assert channel.parent is not None
        for stage_id in channel.stages:
            port = self.channels[channel.parent].ports[stage_id]
            port.predicate, port.certain = predicate, certain

    def fed(self, relay: Relay) -> bool:
        """Whether a relay's supplier, or what is kept of it, is there still."""
        assert relay.parent is not None
        parent = self.channels[relay.parent]
        return relay.own.id in parent.outlets or relay.own.id in parent.left

    def rewant(self, relay: Relay) -> bool:
        """Let a relay's feed carry what its takers want together; False if it does already.

        Takers that are gone are forgotten.
        """
        ports = self.wanting(relay)
        present = {port.taker: None for port in ports}
        relay.takers = {name: since for name, since in relay.takers.items() if name in present}
        wanted = union(port.predicate for port in ports)
        if wanted == relay.wanted:
            return False
        assert relay.parent is not None
        relay.wanted = wanted
        for stage_id in relay.stages:
            self.channels[relay.parent].ports[stage_id].predicate = wanted
        return True

    def remove_relay(self, relay: Relay) -> None:
        """Take a relay out, with all flows into and out of it."""
        for stage_id in list(relay.stages):
            self.displace(relay, stage_id)
        self.relays.pop(relay.name, None)

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
        """Put a stage of a derived channel, or a relay, on a node: a port on its parent, an outlet
        here."""
        stage = Stage(self.new_id(), node, engine)
        supplier = channel.supplier if isinstance(channel, Relay) else None
        channel.stages[stage.id] = stage
        channel.outlets[stage.id] = Outlet(stage.id, node, supplier)
        self.input(channel, stage)
        return stage

    def input(self, channel: Channel, stage: Stage) -> Port:
        """The port of a stage on the parent channel, as the channel's place wants it."""
        assert channel.parent is not None
        port = Port(
            stage.id,
            stage.node,
            channel.predicate,
            channel.name if channel.at == SUPPLIER else None,
            channel.name,
            self.recovers(channel),
            channel.supplier if isinstance(channel, Relay) else None,
        )
        self.channels[channel.parent].ports[stage.id] = port
        return port

    def relocate(self, channel: Channel, at: str) -> None:
        """Change what the channel's place is called, and with it what its stages' ports want."""
        assert channel.parent is not None
        channel.at, channel.instead = at, ""
        for stage_id in channel.stages:
            port = self.channels[channel.parent].ports[stage_id]
            port.runs = channel.name if at == SUPPLIER else None
            port.recovers = self.recovers(channel)

    def unplace(self, channel: Channel) -> None:
        """Let a channel's stages be nowhere, with the flows that they have to have again."""
        assert channel.parent is not None
        for stage in channel.stages.values():
            port = self.channels[channel.parent].ports[stage.id]
            stage.node = channel.outlets[stage.id].node = port.node = UNPLACED

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
            if port.relays is not None:
                continue  # a relay is connected where it is placed
            for own in channel.outlets.values():
                here = own.node == port.node
                if (_stream(own), port.takers) not in linked and (here or port.runs is None):
                    yield self.serving(channel, own, port), port

    def through(self, channel: Channel) -> list[tuple[str, str]]:
        """The nodes of the flows that are missing into and out of a derived channel's filter."""
        assert channel.parent is not None
        parent = self.channels[channel.parent]
        into = [pair for pair in self.missing(parent) if pair[1].makes == channel.name]
        return [(outlet.node, port.node) for outlet, port in [*into, *self.missing(channel)]]

    def unserved(self, channel: Channel, child: Channel) -> list[str]:
        """The nodes where streams of a channel begin that feed no stage of `child` yet."""
        linked = self._linked()
        return list(
            dict.fromkeys(
                outlet.node
                for outlet in channel.outlets.values()
                if (_stream(outlet), child.name) not in linked
            )
        )

    def feeds(self, child: Channel) -> list[tuple[Outlet, list[Flow]]]:
        """For each stream of the parent, the outlet it comes from for `child`, and its flows.

        That is the outlet which feeds `child` now, its own or a relay's.
        """
        assert child.parent is not None
        into = [flow for stage_id in child.stages for flow in self.into(stage_id)]
        feeds: list[tuple[Outlet, list[Flow]]] = []
        for outlet in self.channels[child.parent].outlets.values():
            flows = [flow for flow in into if _stream(flow.outlet) == _stream(outlet)]
            feeds.append((flows[0].outlet if flows else outlet, flows))
        return feeds

    def _linked(self) -> set[tuple[int | str, int | str]]:
        # By supplier, not by outlet: some are served by a supplier's own, some by its relays.
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

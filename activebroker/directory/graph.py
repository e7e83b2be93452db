"""The picture of a fabric: how its parts belong together, and what follows from that.

Every inlet of a channel is fed by flows from the channel's outlets. Where a supplier has handed the
inlet over to a relay, the flow comes from the relay's outlet instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from activebroker.directory.parts import (
    SUPPLIER,
    Channel,
    Derived,
    Flow,
    Inlet,
    Made,
    Outlet,
    Relay,
    Root,
    Stage,
)
from activebroker.matching import union
from activebroker.protocol.specs import UNPLACED


class Graph:
    """The whole picture. Outlets, inlets, stages and flows get their ids here."""

    def __init__(self, era: int = 0) -> None:
        self.channels: dict[str, Channel] = {}
        self.relays: dict[str, Relay] = {}
        self.flows: dict[int, Flow] = {}
        self._era = era
        self._last_id = 0

    def new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def stream(self, id: int) -> int:
        """The number of the stream that begins with an outlet or a stage: higher than those of all
        streams that began earlier."""
        return self._era + id

    def at(self, node: str) -> str:
        """What a node has, in words."""
        suppliers, filters, subscriptions = [], [], 0
        for channel in self.channels.values():
            for outlet in channel.outlets.values():
                if outlet.node == node and outlet.supplier is not None:
                    suppliers.append(f"{outlet.supplier} of {channel.name}")
            subscriptions += sum(
                p.node == node and p.makes is None for p in channel.inlets.values()
            )
        for each in self.derived:
            filters += [each.name for stage in each.stages.values() if stage.node == node]
        filters += [
            f"{relay.supplier} of {relay.parent.name} (relay)"
            for relay in self.relays.values()
            if any(stage.node == node for stage in relay.stages.values())
        ]
        return (
            f"it has the suppliers {suppliers}, the filters {filters}, "
            f"{subscriptions} subscriptions"
        )

    @property
    def roots(self) -> list[Root]:
        return [each for each in self.channels.values() if isinstance(each, Root)]

    @property
    def derived(self) -> list[Derived]:
        return [each for each in self.channels.values() if isinstance(each, Derived)]

    def made(self, name: str) -> Made | None:
        """The derived channel, or the relay, of this name."""
        channel = self.channels.get(name)
        return channel if isinstance(channel, Derived) else self.relays.get(name)

    def children(self, channel: Channel) -> list[Derived]:
        """The channels derived from `channel`."""
        return [each for each in self.derived if each.parent is channel]

    def below(self, channel: Channel) -> Iterator[Derived]:
        """The channels derived from `channel`, directly or not, parents first."""
        for child in self.children(channel):
            yield child
            yield from self.below(child)

    def subtree(self, channel: Channel) -> list[Channel]:
        """`channel` and all below it, parents first."""
        return [channel, *self.below(channel)]

    def all_made(self) -> list[Made]:
        """All relays, and all derived channels, parents first."""
        return [*self.relays.values(), *self.derived_downwards()]

    def derived_downwards(self) -> list[Derived]:
        """All derived channels, parents first."""
        return [each for root in self.roots for each in self.below(root)]

    def bury(self, closed: Channel, kept: int) -> None:
        """Put a closed channel, with all below it, after those that were closed before; forget the
        oldest of them if there are more than `kept`."""
        for channel in self.subtree(closed):
            if self.channels.get(channel.name) is channel:  # else a new channel has the name
                self.channels[channel.name] = self.channels.pop(channel.name)
        buried = [each for each in self.channels.values() if each.closed]
        for top in buried[: max(0, len(buried) - kept)]:
            if top.name in self.channels:  # else it was deleted with its parent
                for channel in self.subtree(top):
                    del self.channels[channel.name]

    def relays_of(self, channel: Channel, supplier: str | None = None) -> list[Relay]:
        """The relays of all suppliers of a channel, or of one, in the order in which they were
        made."""
        return [
            each
            for each in self.relays.values()
            if each.parent is channel and supplier in (None, each.supplier)
        ]

    def relay_at(self, outlet: Outlet) -> Relay | None:
        """The relay whose outlet this is."""
        return next((each for each in self.relays.values() if outlet.id in each.outlets), None)

    def serving(self, channel: Channel, own: Outlet, inlet: Inlet) -> Outlet:
        """The outlet that sends an inlet the events of a channel's outlet `own`: `own` itself, or
        that of the relay to which the inlet has been handed over."""
        if own.supplier is None or inlet.relays or inlet.beside:
            return own
        relays = self.relays_of(channel, own.supplier)
        for relay in relays:
            if inlet.subscriber in relay.subscribers:
                return relay.outlet or own
        newcomers = (relay.outlet for relay in relays if relay.newcomers)
        return next(newcomers, None) or own

    def retaining(self, channel: Channel, subscriber: str) -> list[Outlet]:
        """The outlets that may retain events for a subscriber that others serve by now, or that is
        gone. They are those that have ended, then those of suppliers with relays, then those of
        the relays."""
        relays = self.relays_of(channel)
        handed_over = {relay.own.id: None for relay in relays}
        return [
            *channel.left.values(),
            *(each for each in channel.outlets.values() if each.id in handed_over),
            *(
                outlet
                for relay in relays
                if subscriber in relay.subscribers
                for outlet in relay.outlets.values()
            ),
        ]

    def feeding_inlets(self, made: Made) -> list[Inlet]:
        """The inlets of the stages of a channel, or of a relay."""
        return [made.parent.inlets[stage_id] for stage_id in made.stages]

    def rewant(self, relay: Relay) -> bool:
        """Set the predicate of a relay's feed to the union of what its subscribers want. Returns
        whether it changed.

        Subscribers that are gone are forgotten.
        """
        inlets = relay.wanting
        present = {inlet.subscriber: None for inlet in inlets}
        relay.subscribers = {
            name: since for name, since in relay.subscribers.items() if name in present
        }
        wanted = union(inlet.predicate for inlet in inlets)
        if wanted == relay.wanted:
            return False
        relay.wanted = wanted
        for inlet in self.feeding_inlets(relay):
            inlet.predicate = wanted
        return True

    def remove_relay(self, relay: Relay) -> None:
        """Take a relay out, with all flows into and out of it."""
        for stage_id in list(relay.stages):
            self.displace(relay, stage_id)
        self.relays.pop(relay.name, None)

    def place(self, made: Made, node: str, engine: str = "python") -> Stage:
        """Put a stage of a derived channel, or of a relay, on a node: with an inlet on the parent
        channel and an outlet on its own."""
        id = self.new_id()
        stage = Stage(id, node, engine, self.stream(id))
        made.stages[stage.id] = stage
        made.outlets[stage.id] = Outlet(stage.id, node, made.supplier)
        self.input(made, stage)
        return stage

    def input(self, made: Made, stage: Stage) -> Inlet:
        """Make the inlet of a stage, on the parent channel."""
        beside = made.at == SUPPLIER
        inlet = Inlet(stage.id, stage.node, made.predicate, made, beside, made.recovers)
        made.parent.inlets[stage.id] = inlet
        return inlet

    def relocate(self, channel: Derived, at: str) -> None:
        """Change the name of the channel's place, and what follows from it for its inlets."""
        channel.at, channel.instead = at, ""
        for inlet in self.feeding_inlets(channel):
            inlet.beside, inlet.recovers = at == SUPPLIER, channel.recovers

    def unplace(self, made: Made) -> None:
        """Let the stages be at no node; their flows stay, since they will be needed again."""
        for stage in made.stages.values():
            inlet = made.parent.inlets[stage.id]
            stage.node = made.outlets[stage.id].node = inlet.node = UNPLACED

    def displace(self, made: Made, stage_id: int) -> None:
        """Take a stage out again, with all flows into and out of it."""
        made.stages.pop(stage_id, None)
        self.remove_outlet(made, stage_id)
        self.remove_inlet(made.parent, stage_id)

    def connect(self, channel: Channel | Relay, outlet: Outlet, inlet: Inlet) -> Flow:
        flow = Flow(self.new_id(), channel, outlet, inlet)
        self.flows[flow.id] = flow
        return flow

    def missing(self, channel: Channel) -> Iterator[tuple[Outlet, Inlet]]:
        """The pairs of outlet and inlet that should be connected and are not."""
        linked = self._linked()
        for inlet in channel.inlets.values():
            if inlet.relays:
                continue  # a relay is connected where it is placed
            for own in channel.outlets.values():
                here = own.node == inlet.node
                if (_stream(own), inlet.subscribers) not in linked and (here or not inlet.beside):
                    yield self.serving(channel, own, inlet), inlet

    def through(self, channel: Derived) -> list[tuple[str, str]]:
        """The flows that are missing into and out of a derived channel's filter, as (from, to)
        nodes."""
        into = [pair for pair in self.missing(channel.parent) if pair[1].makes is channel]
        return [(outlet.node, inlet.node) for outlet, inlet in [*into, *self.missing(channel)]]

    def unserved(self, child: Derived) -> list[str]:
        """The nodes with outlets of the parent that feed no stage of `child` yet."""
        linked = self._linked()
        return list(
            dict.fromkeys(
                outlet.node
                for outlet in child.parent.outlets.values()
                if (_stream(outlet), child.name) not in linked
            )
        )

    def feeds(self, child: Derived) -> list[tuple[Outlet, list[Flow]]]:
        """For each stream of the parent, the outlet that feeds `child` with it, and the flows.

        The outlet is the channel's own, or that of a relay.
        """
        into = [flow for stage_id in child.stages for flow in self.into(stage_id)]
        feeds: list[tuple[Outlet, list[Flow]]] = []
        for outlet in child.parent.outlets.values():
            flows = [flow for flow in into if _stream(flow.outlet) == _stream(outlet)]
            feeds.append((flows[0].outlet if flows else outlet, flows))
        return feeds

    def _linked(self) -> set[tuple[int | str, int | str]]:
        # By supplier, not by outlet: a supplier's own outlet serves some inlets, relays the others.
        return {(_stream(flow.outlet), flow.inlet.subscribers) for flow in self.flows.values()}

    def into(self, inlet_id: int) -> list[Flow]:
        return [flow for flow in self.flows.values() if flow.inlet.id == inlet_id]

    def out_of(self, outlet_id: int) -> list[Flow]:
        return [flow for flow in self.flows.values() if flow.outlet.id == outlet_id]

    def suppliers(self, outlet: Outlet) -> list[str]:
        """The suppliers whose streams leave by an outlet. Those of a stage are found through the
        flows that feed it."""
        if outlet.supplier is not None:
            return [outlet.supplier]
        return [name for flow in self.into(outlet.id) for name in self.suppliers(flow.outlet)]

    def remove_outlet(self, source: Channel | Relay, outlet_id: int) -> list[Flow]:
        source.outlets.pop(outlet_id, None)
        return self._drop(self.out_of(outlet_id))

    def remove_inlet(self, channel: Channel, inlet_id: int) -> list[Flow]:
        channel.inlets.pop(inlet_id, None)
        return self._drop(self.into(inlet_id))

    def _drop(self, flows: list[Flow]) -> list[Flow]:
        for flow in flows:
            del self.flows[flow.id]
        return flows


def _stream(outlet: Outlet) -> int | str:
    return outlet.id if outlet.supplier is None else outlet.supplier

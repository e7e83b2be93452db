"""The directory: the one node that knows the whole fabric and changes it, one change at a time.

Each request is a method that is a change (see `changes.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from activebroker.broker.changes import PATIENCE, Attempt, Calls, Change, Changes, Done, Obstacle
from activebroker.broker.messages import (
    AbandonPort,
    Body,
    CallBody,
    CheckpointKept,
    CheckpointTaken,
    CloseChannel,
    CloseFlow,
    CloseOutlet,
    ClosePort,
    CloseSupplier,
    Deploy,
    Derive,
    ExpectFlow,
    FinishFlow,
    ForgetSaved,
    ForgetTaker,
    Greet,
    Join,
    Leave,
    MembersChanged,
    Move,
    Offload,
    OpenChannel,
    OpenFlow,
    OpenOutlet,
    OpenSupplier,
    OutletDrained,
    PeerSuspected,
    ReleasePort,
    ReportNode,
    ReportSent,
    ReportStatus,
    SetPredicate,
    Subscribe,
    Undeploy,
    Unsubscribe,
)
from activebroker.broker.migration import Migration, plan_move, plan_offload
from activebroker.broker.recovery import Recovery
from activebroker.broker.status import report
from activebroker.core.errors import (
    ActiveBrokerError,
    ChannelTypeConflict,
    Closed,
    InvalidFilter,
    MoveFailed,
    NameTaken,
    UnknownChannel,
    UnknownPlace,
    Unreachable,
    suggestion,
)
from activebroker.routing import (
    Channel,
    Flow,
    Graph,
    Member,
    Outlet,
    Port,
    Positions,
    Relay,
    Stage,
    later,
    merged,
)
from activebroker.routing.graph import CONSUMER, FIXED_PLACES, SPARK, SUPPLIER


class Directory:
    """`call(node, body, done)` asks a node for something, `tell(node, body)` tells it;
    `incarnation(node)` is that of the process heard last, 0 if none is."""

    def __init__(
        self,
        me: Member,
        call: Callable[[str, CallBody, float, Done], None],
        tell: Callable[[str, Body], None],
        set_deadline: Callable[[int, float | None], None],
        now: Callable[[], float],
        expel: Callable[[str], None],
        incarnation: Callable[[str], int],
    ) -> None:
        self._expel = expel
        self._incarnation = incarnation
        self.members: dict[str, Member] = {me.name: me}
        self.graph = Graph()
        self._me = me
        self._call = call
        self._tell = tell
        # Checkpoints that wait: by channel and stage, for amid a move there are two that take some.
        self._unaccepted: dict[str, dict[int, CheckpointTaken]] = {}
        self._recovery = Recovery(
            self.graph, self.members, self._tidy, self._expect, self._greet, expel
        )
        self._changes = Changes(call, tell, set_deadline, now, self._ended_late)

    def request(self, body: CallBody, done: Done) -> None:
        """Queue a change; `done` gets its result or its error.

        What only looks does not wait for changes under way: they are what one looks for.
        """
        if isinstance(body, ReportStatus):
            report(self.members, self.graph, self._call, done)
            return
        change = getattr(self, f"_{type(body).__name__}")(body)
        node = getattr(body, "node", None)
        if node is not None:
            change = self._for(node, change)
        # What is given up is taken down sooner or later, whether or not anybody still waits for it.
        gives_up = isinstance(body, Unsubscribe | CloseSupplier | CloseChannel)
        patience = math.inf if gives_up else PATIENCE
        self._changes.submit(change, done, self._obstacle(body), patience)

    def tick(self) -> None:
        """Called several times a second."""
        self._changes.expire()

    def _obstacle(self, body: CallBody) -> Obstacle:
        """What a request has to wait for: a channel is changed when nothing of it moves."""

        def obstacle() -> str | None:
            name = getattr(body, "channel", None)
            if isinstance(body, CloseChannel):
                name = body.name
            if name is None or (channel := self.graph.channels.get(name)) is None:
                return None
            root = self.graph.root(channel)
            for migration in self._changes.overdue():
                if self.graph.root(migration.channel) is root:
                    return f"Channel {migration.plan.channel!r} is still moving"
            if isinstance(body, Derive) and body.at == SUPPLIER and channel.returning:
                return f"Channel {name!r} is still on its way to its suppliers"
            if isinstance(body, OpenSupplier):
                relayed = [each.own for each in self.graph.relays_of(channel)]
                for outlet in (*channel.left.values(), *relayed):
                    if outlet.supplier == body.supplier and outlet.id not in channel.outlets:
                        return f"Events of the supplier {outlet.supplier!r} before are on their way"
            return None

        return obstacle

    def _for(self, node: str, change: Change) -> Change:
        """A change that a node asked for, unless it is lost by then; not for its successor."""
        asked = self.members.get(node)

        def carry_out() -> Change:
            if self.members.get(node) is not asked:
                raise Unreachable(f"{node!r} was lost before its turn came.")
            return (yield from change)

        return carry_out()

    def told(self, source: str, body: CheckpointTaken | OutletDrained | PeerSuspected) -> None:
        """Take news from a node."""
        match body:
            case CheckpointTaken(makes, stage):
                known = self.graph.channels.get(makes) or self.graph.relays.get(makes)
                if self._changes.migration_of(makes) or (known and not known.closed):
                    self._unaccepted.setdefault(makes, {})[stage] = body
                    self._accept(makes)
            case OutletDrained(outlet_id):
                for each in self.graph.channels.values():
                    if (outlet := each.outlets.get(outlet_id)) is not None:
                        outlet.drained = True
                    if each.left.pop(outlet_id, None) is not None:
                        self._accept(each.name)
                        self._changes.go_on()
                for relay in self.graph.relays.values():
                    if (outlet := relay.outlets.get(outlet_id)) is not None:
                        outlet.drained = True
                self._retire()
            case PeerSuspected(peer, incarnation):
                change = self._judge(source, peer, incarnation)
                self._changes.submit(change, lambda result, error: None)

    def _accept(self, name: str) -> None:
        """Keep a checkpoint, unless what its filter made at an earlier place may still be lost."""
        channel = self.graph.channels.get(name) or self.graph.relays.get(name)
        if channel is None:
            return
        moving = self._changes.migration_of(name)
        places = {stage.id: stage.node for stage in channel.stages.values()}
        earlier = {outlet.id for outlet in channel.left.values() if outlet.supplier is None}
        if moving is not None and earlier:  # the old place may still have much to do
            places = {stage: node for node, stage in moving.old_stages.items()}
            earlier -= places.keys()
        if earlier:
            return
        if channel.returning and moving is None:
            self._changes.submit(self._stay(channel), lambda result, error: None)
            return
        waiting = self._unaccepted.get(name, {})
        if moving is None and not self.graph.recovers(channel):
            waiting.clear()  # sent before the filter came to stay where it is
        for stage, node in places.items():
            if (taken := waiting.pop(stage, None)) is not None:
                # Of a filter at its suppliers each has a part.
                parts = [channel.checkpoint] if channel.checkpoint and len(places) > 1 else []
                channel.checkpoint = merged([*parts, taken.checkpoint])
                channel.fresh = False
                self._tell(node, CheckpointKept(stage))
        if moving is None:
            self._unaccepted.pop(name, None)  # what is left is of earlier places

    def _stay(self, channel: Channel) -> Change:
        """What a filter made before it came to its suppliers is safe: from now on it is theirs."""
        if channel.closed or not channel.returning or self._changes.migration_of(channel.name):
            return
        assert channel.parent is not None
        channel.returning, channel.checkpoint = False, None
        self._unaccepted.pop(channel.name, None)
        self.graph.relocate(channel, SUPPLIER)
        parent = self.graph.channels[channel.parent]
        kept_at = [*parent.outlets.values(), *self.graph.keepers(parent, channel.name)]
        yield from self._tidy(
            [
                *((stage.node, ForgetSaved(stage.id)) for stage in channel.stages.values()),
                *((each.node, ForgetTaker(each.id, channel.name)) for each in kept_at),
            ]
        )

    def _retire(self) -> None:
        """Relays that have passed on all of a supplier that has left are over.

        One that has merely lost sight of a living supplier is not: of the two, one has to go.
        """
        for relay in list(self.graph.relays.values()):
            assert relay.parent is not None
            left = relay.own.id not in self.graph.channels[relay.parent].outlets
            if left and all(outlet.drained for outlet in relay.outlets.values()):
                self._remove_relay(relay)
                self._changes.go_on()

    def _remove_relay(self, relay: Relay) -> None:
        self.graph.remove_relay(relay)
        self._unaccepted.pop(relay.name, None)

    def _judge(self, accuser: str, accused: str, incarnation: int) -> Change:
        """Two members that cannot hear each other: one has to go.

        An accuser that does not answer cannot hear anybody, and will be found lost.
        """
        one, other = self.members.get(accuser), self.members.get(accused)
        if one is None or other is None or other.incarnation != incarnation:
            return
        answers = yield from self._tidy([(accuser, ReportNode()), (accused, ReportNode())])
        still = self.members.get(accuser) is one and self.members.get(accused) is other
        if still and answers[0] is not None:
            self._expel(accused if answers[1] is None else self._worse(accuser, accused))

    def _worse(self, accuser: str, accused: str) -> str:
        """Whom to do without: a broker can be replaced."""
        if self.members[accuser].is_broker and not self.members[accused].is_broker:
            return accuser
        return accused

    def lost(self, node: str) -> None:
        """A member fell silent: what it had is gone."""
        self._see_off(node)
        self._forget_subscriptions(node)
        self._changes.submit_first(self._Leave(Leave(node)))
        self._changes.lost(node)

    def _forget_subscriptions(self, node: str) -> None:
        """Wait for nobody there to settle: what is under way may depend on it."""
        for channel in self.graph.channels.values():
            for port in channel.ports.values():
                if port.node == node and port.makes is None:
                    serving = [flow.outlet for flow in self.graph.into(port.id)]
                    for outlet in (*serving, *self.graph.keepers(channel, port.taker)):
                        self._ask(outlet.node, ForgetTaker(outlet.id, port.taker))

    def _ask(self, node: str, body: CallBody) -> None:
        """Ask for something that nobody waits for."""
        if node in self.members:
            self._call(node, body, PATIENCE, lambda result, error: None)

    def migration(self, derivation: int) -> Migration | None:
        """A third-party derivation that is under way."""
        return self._changes.migration(derivation)

    # --- members ------------------------------------------------------------------------------

    def _Join(self, body: Join) -> Change:
        member = body.member
        known = self.members.get(member.name)
        if known is not None and known.incarnation != member.incarnation:
            raise NameTaken(
                f"A node named {member.name!r} is in the fabric already: choose another name, or "
                "wait until the old one is found lost."
            )
        if self._incarnation(member.name) != member.incarnation:
            raise Unreachable(f"{member.name!r} was lost before its turn came.")
        self.members[member.name] = member
        self._tell_members()
        return tuple(self.members.values())
        yield []  # a change is a generator, this one without a call

    def _Leave(self, body: Leave) -> Change:
        name = body.name
        self._see_off(name)
        for channel in list(self.graph.channels.values()):
            for outlet in list(channel.outlets.values()):
                if outlet.node == name and outlet.supplier is not None:
                    yield from self._remove_supplier(channel, outlet.supplier)
            for port in list(channel.ports.values()):
                if port.node == name and port.makes is None:
                    yield from self._remove_port(channel, port.id)
        # What is derived from a lost filter's channel goes on before it does.
        for channel in reversed(self._downwards()):
            lost = [each for each in channel.stages.values() if each.node == name]
            lost_with = [each for each in channel.left.values() if each.node == name]
            made_before = any(outlet.supplier is None for outlet in lost_with)
            if made_before or (lost and not self._stays_with_suppliers(channel)):
                yield from self._lose_filter(channel, name)
            elif lost:
                yield from self._lose_stages(channel, lost)
            for outlet in lost_with:
                channel.left.pop(outlet.id, None)
        for relay in list(self.graph.relays.values()):
            if any(stage.node == name for stage in relay.stages.values()):
                yield from self._lose_relay(relay)
            elif relay.own.node == name and not self.graph.fed(relay):
                # What is on its way arrives; who is lost now cannot go on with it.
                yield from self._tidy(
                    (outlet.node, ForgetTaker(outlet.id, taker))
                    for outlet in relay.outlets.values()
                    for taker in relay.takers
                )
        return None

    def _downwards(self) -> list[Channel]:
        """All channels, each behind the one it is derived from."""
        roots = [each.name for each in self.graph.channels.values() if each.parent is None]
        return [channel for root in roots for channel in self.graph.subtree(root)]

    def _see_off(self, name: str) -> None:
        if self.members.pop(name, None) is not None:
            self._tell_members()

    def _tell_members(self) -> None:
        changed = MembersChanged(tuple(self.members.values()))
        for name in self.members:
            self._tell(name, changed)

    def _tidy(self, calls: Iterable[tuple[str, CallBody]]) -> Change:
        """Take things down. Where a node is gone, or goes meanwhile, they are down already.

        Returns the answers of those calls whose nodes are members; None from who gave none.
        """
        return (yield Attempt([(node, body) for node, body in calls if node in self.members]))

    # --- channels -----------------------------------------------------------------------------

    def _OpenChannel(self, body: OpenChannel) -> Change:
        channel = self.graph.channels.get(body.name)
        if channel is None or (channel.closed and body.type is not None):
            if body.type is None:
                raise UnknownChannel(
                    f"There is no channel {body.name!r}."
                    + suggestion(body.name, self._open_names())
                    + " Give an event type to create it: channel(name, YourDataclass), or "
                    "channel(name, object) for any picklable object."
                )
            channel = self.graph.channels[body.name] = Channel(body.name, body.type)
        elif channel.closed:
            raise Closed(f"Channel {body.name!r} was closed.")
        elif body.type is not None and body.type.fingerprint != channel.type.fingerprint:
            raise ChannelTypeConflict(
                f"Channel {body.name!r} exists with events of type {channel.type.name}; it cannot "
                f"be opened with {body.type.name}"
                + (" (same name, other fields)" if body.type.name == channel.type.name else "")
                + ". Use that type, or another channel name."
            )
        return self._info(channel)
        yield []

    def _CloseChannel(self, body: CloseChannel) -> Change:
        top = self._channel(body.name)
        on_its_way = yield from self._on_its_way(top)
        calls: Calls = []
        subtree = list(self.graph.subtree(top.name))
        for channel in subtree:
            channel.closed = True
            for outlet in channel.outlets.values():
                for flow in self.graph.out_of(outlet.id):
                    calls.append(self._complete(flow.port))
            calls += [(each.node, CloseOutlet(each.id, True)) for each in channel.left.values()]
            # Consumers of a channel that never had a supplier, and relays.
            calls += [self._complete(port) for port in channel.ports.values()]
        calls = list(dict.fromkeys(calls))
        if top.parent is None:
            calls += [
                (outlet.node, CloseOutlet(outlet.id, finished=True))
                for outlet in top.outlets.values()
            ]
        else:
            for stage in top.stages.values():
                calls.append(self._complete(self.graph.channels[top.parent].ports[stage.id]))
                for flow in self.graph.into(stage.id):
                    behind = on_its_way.get(flow.outlet.id, {})
                    calls.append((flow.outlet.node, FinishFlow(flow.outlet.id, flow.id, behind)))
            calls += self._close_flows(self.graph.channels[top.parent], [], top.name)
        yield from self._tidy(calls)
        yield from self._forget(top)
        return None

    def _on_its_way(self, top: Channel) -> Change:
        """How far suppliers have come with what relays have still to give a filter, by outlet of
        the relay."""
        flows = [flow for stage_id in top.stages for flow in self.graph.into(stage_id)]
        by = {flow.outlet.id: self.graph.relay_at(flow.outlet) for flow in flows}
        relays = [(outlet, relay) for outlet, relay in by.items() if relay is not None]
        sent = yield Attempt(
            [(relay.own.node, ReportSent(relay.own.id, relay.name)) for _, relay in relays]
        )
        return {
            outlet: msgspec.convert(at or {}, Positions)
            for (outlet, _), at in zip(relays, sent, strict=True)
        }

    def _forget(self, top: Channel) -> Change:
        """Take a closed channel and all below it out of the picture."""
        for channel in list(self.graph.subtree(top.name)):
            channel.closed = True
            for relay in self.graph.relays_of(channel):
                self._remove_relay(relay)
            for outlet in list(channel.outlets.values()):
                self.graph.remove_outlet(channel, outlet.id)
            for stage_id in list(channel.stages):
                self.graph.displace(channel, stage_id)
            channel.ports.clear()
            channel.takers.clear()
            channel.left.clear()
            channel.checkpoint = None
            self._unaccepted.pop(channel.name, None)
        if top.parent is not None:
            yield from self._feed_relays(self.graph.channels[top.parent])

    def _complete(self, port: Port) -> tuple[str, CallBody]:
        flows = tuple(flow.id for flow in self.graph.into(port.id))
        return port.node, ClosePort(port.id, flows)

    # --- suppliers and consumers --------------------------------------------------------------

    def _OpenSupplier(self, body: OpenSupplier) -> Change:
        channel = self._channel(body.channel)
        if channel.parent is not None:
            raise InvalidFilter(
                f"Channel {channel.name!r} is derived from {channel.parent!r}: its events come "
                "from its filter, it takes no suppliers."
            )
        if self._own(channel, body.supplier) is not None:
            raise NameTaken(
                f"Channel {channel.name!r} has a supplier {body.supplier!r} already: close it "
                "first, or choose another name."
            )
        outlet = Outlet(self.graph.new_id(), body.node, body.supplier)
        try:
            yield [(body.node, OpenOutlet(outlet.id, channel.name, body.supplier))]
        except ActiveBrokerError:
            self._ask(body.node, CloseOutlet(outlet.id, finished=False))  # should it come yet
            raise
        channel.outlets[outlet.id] = outlet
        try:
            yield from self._connect(channel)
        except ActiveBrokerError:
            yield from self._remove_supplier(channel, body.supplier)
            raise
        return outlet.id

    def _CloseSupplier(self, body: CloseSupplier) -> Change:
        channel = self.graph.channels.get(body.channel)
        if channel is not None and not channel.closed:
            yield from self._remove_supplier(channel, body.supplier)
        return None

    def _remove_supplier(self, channel: Channel, supplier: str) -> Change:
        """End a supplier's outlet. Its relays stay until they have passed on what it gave them."""
        if (own := self._own(channel, supplier)) is None:
            return
        yield from self._tidy([(own.node, CloseOutlet(own.id, finished=False))])
        self.graph.remove_outlet(channel, own.id)
        if own.node in self.members and not own.drained:
            channel.left[own.id] = own
        self._retire()

    def _own(self, channel: Channel, supplier: str) -> Outlet | None:
        """A supplier's outlet in its own process."""
        outlets = channel.outlets.values()
        return next((each for each in outlets if each.supplier == supplier), None)

    def _Subscribe(self, body: Subscribe) -> Change:
        channel = self._channel(body.channel)
        channel.ports[body.port] = Port(body.port, body.node)
        try:
            yield from self._connect(channel)
        except ActiveBrokerError:
            yield from self._remove_port(channel, body.port)
            raise
        return None

    def _Unsubscribe(self, body: Unsubscribe) -> Change:
        channel = self.graph.channels.get(body.channel)
        if channel is not None:
            yield from self._remove_port(channel, body.port)
        return None

    def _remove_port(self, channel: Channel, port: int) -> Change:
        taker = channel.ports[port].taker if port in channel.ports else ""
        flows = self.graph.remove_port(channel, port)
        yield from self._tidy(self._close_flows(channel, flows, taker))
        yield from self._feed_relays(channel)

    def _close_flows(self, channel: Channel, flows: list[Flow], taker: str) -> Calls:
        """Stop the flows of a taker that is gone for good, also where something is only kept."""
        calls: Calls = [
            (flow.outlet.node, CloseFlow(flow.outlet.id, flow.id, taker)) for flow in flows
        ]
        kept_at = self.graph.keepers(channel, taker)
        channel.takers.pop(taker, None)
        return [*calls, *((each.node, ForgetTaker(each.id, taker)) for each in kept_at)]

    def _feed_relays(self, channel: Channel) -> Change:
        """A relay is sent what its takers want together."""
        for relay in self.graph.relays_of(channel):
            if self.graph.rewant(relay) and relay.own.id in channel.outlets:
                call = relay.own.node, SetPredicate(relay.own.id, relay.name, relay.wanted)
                answers = yield from self._tidy([call])
                if answers and answers[0] is not None:
                    relay.since = msgspec.convert(answers[0], Positions)

    # --- derived channels ---------------------------------------------------------------------

    def _Derive(self, body: Derive) -> Change:
        parent = self._channel(body.channel)
        nodes, engine = self._place(parent, body.at, body.node)
        if body.envelope.shared and body.at == SUPPLIER:
            raise InvalidFilter(
                f"Filter {body.envelope.name} is shared (one instance for all suppliers) and so "
                "cannot run at 'supplier': choose 'consumer', 'spark' or a broker."
            )
        name = body.name or self._free_name(f"{parent.name}.{body.envelope.name}")
        if name in self.graph.channels and not self.graph.channels[name].closed:
            raise NameTaken(f"A channel {name!r} exists already: choose another name.")
        child = Channel(name, body.envelope.output, parent.name, body.envelope, body.at, body.node)
        self.graph.channels[name] = child
        try:
            if body.at != SUPPLIER:
                yield from self._deploy(child, nodes, engine)
            yield from self._connect(parent)
        except ActiveBrokerError:
            yield from self._remove_stages(child)
            del self.graph.channels[name]
            yield from self._feed_relays(parent)
            raise
        return self._info(child)

    def _deploy(self, channel: Channel, nodes: list[str], engine: str) -> Change:
        stages = [self.graph.place(channel, node, engine) for node in nodes]
        try:
            self._greet([(node, channel.owner) for node in nodes])  # to report failures
            recovers = self.graph.recovers(channel)
            yield [(stage.node, Deploy(channel.stage_spec(stage, recovers))) for stage in stages]
        except ActiveBrokerError:
            for stage in stages:
                self.graph.displace(channel, stage.id)
            yield from self._tidy((stage.node, Undeploy(stage.id)) for stage in stages)
            raise

    def _remove_stages(self, channel: Channel) -> Change:
        for stage in list(channel.stages.values()):
            calls = self._stop_feeding(channel, stage)
            self.graph.displace(channel, stage.id)
            yield from self._tidy([*calls, (stage.node, Undeploy(stage.id, True))])

    def _stop_feeding(self, channel: Channel, stage: Stage) -> Calls:
        assert channel.parent is not None
        parent = self.graph.channels[channel.parent]
        return self._close_flows(parent, self.graph.into(stage.id), channel.name)

    def _stays_with_suppliers(self, channel: Channel) -> bool:
        return channel.at == SUPPLIER and not self.graph.beside(channel)

    def _lose_stages(self, channel: Channel, lost: list[Stage]) -> Change:
        """Suppliers are gone, and with them their filters: the channel goes on with the others."""
        outlets = tuple(stage.id for stage in lost)
        for stage in lost:
            self.graph.displace(channel, stage.id)
        yield from self._tidy(
            (port.node, ReleasePort(port.id, outlets)) for port in channel.ports.values()
        )

    def _lose_filter(self, channel: Channel, node: str) -> Change:
        """A node is gone, and with it the place of a derived channel's filter, or what it had made
        at an earlier place."""
        if (moving := self._changes.migration_of(channel.name)) is not None:
            moving.give_up(f"{node!r} was lost")  # it is recovered when that has failed
            return
        if self._recovery.possible(channel):
            self._unaccepted.pop(channel.name, None)
            if (yield from self._recovery.recover(channel)):
                return
        yield from self._abandon(
            channel,
            f"{node!r}, which ran the filter of channel {channel.name!r}, is gone, and it could "
            "not go on elsewhere. Derive the channel again.",
        )

    def _lose_relay(self, relay: Relay) -> Change:
        """The place of a relay is gone. If there is no other, its supplier is closed."""
        if relay.name not in self.graph.relays:
            return  # its channel was closed meanwhile
        self._unaccepted.pop(relay.name, None)
        if not (yield from self._recovery.recover(relay)):
            assert relay.parent is not None
            channel = self.graph.channels[relay.parent]
            yield from self._remove_supplier(channel, relay.supplier)
            self._remove_relay(relay)
            yield from self._tidy(self._close_flows(channel, [], relay.name))
            self._changes.go_on()

    def _abandon(self, top: Channel, reason: str) -> Change:
        """What made a channel's events is gone: end it for its consumers, with all below it."""
        calls: Calls = []
        for channel in self.graph.subtree(top.name):
            stages = channel.stages.values()
            calls += [(stage.node, Undeploy(stage.id, True)) for stage in stages]
            calls += [(each.node, CloseOutlet(each.id, True)) for each in channel.left.values()]
            consumers = [each for each in channel.ports.values() if each.makes is None]
            if channel is top:
                for stage in stages:
                    calls += self._stop_feeding(channel, stage)
            calls += [(port.node, AbandonPort(port.id, reason)) for port in consumers]
        yield from self._tidy(calls)
        yield from self._forget(top)

    def _connect(self, channel: Channel) -> Change:
        """Give every port of a channel, and of what is derived from it at the supplier, a flow
        from every outlet."""
        for child in self.graph.children(channel.name):
            if child.at == SUPPLIER and not child.closed:
                nodes = self.graph.unserved(channel, child)
                placed = {stage.node for stage in child.stages.values()}
                yield from self._deploy(child, [n for n in nodes if n not in placed], "python")
                yield from self._connect(child)
        flows = [
            self.graph.connect(channel, outlet, port)
            for outlet, port in self.graph.missing(channel)
        ]
        joined = [(self.graph.relay_at(flow.outlet), flow.port.taker) for flow in flows]
        for relay, taker in joined:
            if relay is not None:
                relay.takers[taker] = {}
        yield from self._feed_relays(channel)
        calls: Calls = []
        for flow, (relay, taker) in zip(flows, joined, strict=True):
            since: Positions = {}
            if relay is not None:
                # Who is new there must not see the holes in what was sent there before.
                since = relay.takers[taker] = dict(relay.since)
            calls.append((flow.outlet.node, OpenFlow(flow.spec(since=since))))
        self._expect(flows)
        # A source that is lost meanwhile is no fault of the consumer.
        begun = yield Attempt(calls)
        for (relay, taker), at in zip(joined, begun, strict=True):
            takers = channel.takers if relay is None else relay.takers
            takers[taker] = later(takers.get(taker, {}), msgspec.convert(at or {}, Positions))

    def _expect(self, flows: Iterable[Flow]) -> None:
        """Give the ports' nodes notice of new flows, before anything else that concerns them."""
        for flow in flows:
            both = flow.outlet.node in self.members and flow.port.node in self.members
            if flow.crosses and both:
                channel = self.graph.relay_at(flow.outlet) or self.graph.channels[flow.channel]
                recovers = self.graph.recovers(channel)
                self._tell(flow.port.node, ExpectFlow(flow.spec(), recovers))

    def _greet(self, pairs: list[tuple[str, str]]) -> None:
        """Let those that cannot be dialled dial those that will send to them."""
        for source, target in pairs:
            member = self.members.get(target)
            if source != target and member is not None and member.address is None:
                self._tell(target, Greet(source))

    # --- third-party derivation ---------------------------------------------------------------

    def _Move(self, body: Move) -> Change:
        channel = self._channel(body.channel)
        if channel.parent is None:
            raise InvalidFilter(
                f"Channel {channel.name!r} is not derived, there is no filter to move. To hand a "
                "supplier's fan-out to a broker use supplier.offload(to=...)."
            )
        parent = self._channel(channel.parent)
        nodes, engine = self._place(parent, body.to, body.node)
        if channel.envelope is not None and channel.envelope.shared and body.to == SUPPLIER:
            raise InvalidFilter(
                f"Filter {channel.envelope.name} is shared and cannot run at 'supplier'."
            )
        if body.to == SUPPLIER:
            feeds = [outlet for outlet, _ in self.graph.feeds(channel)]
            nodes = list({outlet.node: None for outlet in feeds})
            relays = [relay for each in feeds if (relay := self.graph.relay_at(each)) is not None]
            if relays:
                raise MoveFailed(
                    f"Channel {channel.name!r} stays where it was: supplier {relays[0].supplier!r} "
                    f"has handed it over to {relays[0].at!r} and cannot take it back."
                )
            if not nodes:
                raise UnknownPlace(
                    f"Channel {parent.name!r} has no supplier now, so there is no place "
                    "'supplier' to move to."
                )
        bound = [each for each in self.graph.children(channel.name) if each.at == SUPPLIER]
        if bound:
            raise MoveFailed(
                f"Channel {bound[0].name!r} is derived from {channel.name!r} at 'supplier', in the "
                f"process that runs {channel.name!r}: move {bound[0].name!r} first."
            )
        now = [(stage.node, stage.engine) for stage in channel.stages.values()]
        recovers = body.to != SUPPLIER or self.graph.recovers(parent)
        stays = now == [(node, engine) for node in nodes]
        if stays and (body.to == channel.at or recovers == self.graph.recovers(channel)):
            self.graph.relocate(channel, body.to)
            return None
        migration = plan_move(self.graph, self._me.name, channel, nodes, engine, body)
        self._greet(migration.pairs())
        yield from self._migrate(migration)
        return None

    def _Offload(self, body: Offload) -> Change:
        channel = self._channel(body.channel)
        own = self._own(channel, body.supplier)
        if own is None:
            raise UnknownPlace(
                f"Channel {channel.name!r} has no supplier {body.supplier!r}."
                + suggestion(
                    body.supplier, (o.supplier for o in channel.outlets.values() if o.supplier)
                )
            )
        nodes, _ = self._place(channel, body.to, own.node)
        moved = self._handed_over(channel, own, body.consumers)
        if nodes == [own.node]:
            return None
        migration = plan_offload(self.graph, self._me.name, channel, own, moved, nodes[0], body)
        self._greet(migration.pairs())
        yield from self._migrate(migration)
        return None

    def _handed_over(
        self, channel: Channel, own: Outlet, consumers: tuple[str, ...] | None
    ) -> list[Flow]:
        """The flows of a supplier that an offload is for. What runs beside it stays: it costs no
        link."""
        flows = [
            flow
            for flow in self.graph.out_of(own.id)
            if flow.port.relays is None and flow.port.node != own.node
        ]
        by = [each for each in self.graph.relays_of(channel, own.supplier) if each.newcomers]
        if by and not flows:
            raise MoveFailed(
                f"Supplier {own.supplier!r} has handed its fan-out to {by[0].at!r} already."
            )
        if consumers is None:
            return flows
        served = list(dict.fromkeys(flow.port.node for flow in flows))
        unknown = [name for name in consumers if name not in served]
        if unknown or not consumers:
            what = f"{unknown[0]!r} is none of them" if unknown else "none was named"
            known = ", ".join(map(repr, served)) or "none now"
            raise UnknownPlace(
                f"An offload of some consumers needs the names of processes that supplier "
                f"{own.supplier!r} serves itself, and {what}. It serves: {known}."
            )
        return [flow for flow in flows if flow.port.node in consumers]

    def _migrate(self, migration: Migration) -> Change:
        name = migration.plan.channel
        outcome, reason = yield migration
        if outcome == "rolled back":
            if isinstance(migration.channel, Relay):
                self._unaccepted.pop(migration.channel.name, None)
            raise MoveFailed(f"Channel {name!r} stays where it was: {reason}.")
        # Overdue or not: the swaps are under way and will arrive, so the new picture holds.
        channel = migration.channel
        migration.commit(self.graph)
        self._accept(channel.name)
        self._expect(migration.new_flows)
        if outcome == "overdue":
            raise MoveFailed(f"Channel {name!r} is still moving: {reason}.")
        if outcome == "failed":
            yield from self._end_failed(migration, reason)
            raise MoveFailed(
                f"Channel {name!r} could not complete the switch-over: {reason}{_now(channel)}."
            )
        self._accept(name)

    def _end_failed(self, migration: Migration, reason: str) -> Change:
        """Let the filter or the relay go on from its last checkpoint, or end the channel."""
        channel = migration.channel
        if isinstance(channel, Relay):
            yield from self._lose_relay(channel)
            return
        if self._recovery.possible(channel):
            self._unaccepted.pop(channel.name, None)
            if (yield from self._recovery.recover(channel, tuple(migration.old_stages.items()))):
                return
        yield from self._tidy(
            (node, Undeploy(stage, True)) for node, stage in migration.old_stages.items()
        )
        yield from self._abandon(
            channel, f"Channel {channel.name!r} has ended amid its switch-over: {reason}."
        )

    def _ended_late(self, migration: Migration, outcome: str, reason: str) -> None:
        if outcome == "failed":
            self._changes.submit_first(self._end_failed(migration, reason))
        else:
            self._accept(migration.channel.name)

    # --- looking things up --------------------------------------------------------------------

    def _place(self, channel: Channel, at: str, node: str) -> tuple[list[str], str]:
        """The nodes and the engine that a place means for a filter on `channel`."""
        if at == SUPPLIER:
            return list({outlet.node: None for outlet in channel.outlets.values()}), "python"
        if at == CONSUMER:
            return [node], "python"
        if at == SPARK:
            return [node], "spark"
        member = self.members.get(at)
        if member is None or not member.is_broker:
            brokers = [m.name for m in self.members.values() if m.is_broker]
            raise UnknownPlace(
                f"There is no broker {at!r} in the fabric."
                + suggestion(at, [*brokers, *FIXED_PLACES])
            )
        return [at], "python"

    def _channel(self, name: str) -> Channel:
        channel = self.graph.channels.get(name)
        if channel is None:
            raise UnknownChannel(
                f"There is no channel {name!r}." + suggestion(name, self._open_names())
            )
        if channel.closed:
            raise Closed(f"Channel {name!r} was closed.")
        return channel

    def _open_names(self) -> list[str]:
        return [each.name for each in self.graph.channels.values() if not each.closed]

    def _free_name(self, name: str) -> str:
        taken, number, free = set(self._open_names()), 1, name
        while free in taken:
            number += 1
            free = f"{name}-{number}"
        return free

    def _info(self, channel: Channel) -> dict[str, Any]:
        return {"name": channel.name, "type": channel.type, "parent": channel.parent}


def _now(channel: Channel) -> str:
    """What has become of a channel whose filter could not move, or of a relay."""
    if isinstance(channel, Relay):
        return f"; the relay goes on at {channel.at!r}" if channel.stages else "; it has ended"
    return "; it has ended" if channel.closed else f"; its filter goes on at {channel.at!r}"

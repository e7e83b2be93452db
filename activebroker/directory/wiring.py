"""Makes the nodes do what the picture of the fabric says, and takes it down again."""

from __future__ import annotations

from collections.abc import Iterable

from activebroker.core.errors import ActiveBrokerError, Unreachable
from activebroker.directory.context import Context
from activebroker.directory.parts import Channel, Derived, Flow, Stage
from activebroker.directory.requests import Attempt, Calls, Change
from activebroker.protocol.messages import CallBody, ExpectFlow, Greet
from activebroker.protocol.orders import (
    CloseFlow,
    Deploy,
    ForgetSubscriber,
    OpenFlow,
    SetPredicate,
    Undeploy,
)
from activebroker.protocol.specs import Offsets, later


class Wiring:
    """Brings the nodes to what the picture says. Methods are changes, or return calls for one."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.graph = context.graph
        self.members = context.members

    def tidy(self, calls: Iterable[tuple[str, CallBody]]) -> Change:
        """Take things down. On a node that is gone, or goes meanwhile, they are down already.

        Returns the answers of the calls to members, None for a node that gave none.
        """
        return (yield Attempt([(node, body) for node, body in calls if node in self.members]))

    def greet(self, pairs: list[tuple[str, str]]) -> None:
        """Let nodes that cannot be dialled connect to the nodes that will send to them."""
        for source, target in pairs:
            member = self.members.get(target)
            if source != target and member is not None and member.address is None:
                self._context.tell(target, Greet(source))

    def expect(self, flows: Iterable[Flow]) -> None:
        """Tell the inlets' nodes of new flows, before anything else about these."""
        for flow in flows:
            both = flow.outlet.node in self.members and flow.inlet.node in self.members
            if flow.crosses and both:
                source = self.graph.relay_at(flow.outlet) or flow.channel
                self._context.tell(flow.inlet.node, ExpectFlow(flow.spec(), source.recovers))

    def check(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Raise Unreachable if neither node of a pair can be dialled."""
        for one, other in pairs:
            both = [self.members[each] for each in (one, other) if each in self.members]
            if one != other and len(both) == 2 and not any(each.address for each in both):
                raise Unreachable(
                    f"{one!r} and {other!r} dial out only, so that neither reaches the other. "
                    "Connect one of them without listen=False, or put a filter at a broker between."
                )

    # --- flows --------------------------------------------------------------------------------

    def connect(self, channel: Channel) -> Change:
        """Give every inlet of a channel a flow from every outlet."""
        missing = list(self.graph.missing(channel))
        self.check((outlet.node, inlet.node) for outlet, inlet in missing)
        flows = [self.graph.connect(channel, outlet, inlet) for outlet, inlet in missing]
        joined = [(self.graph.relay_at(flow.outlet), flow.inlet.subscriber) for flow in flows]
        for relay, subscriber in joined:
            if relay is not None:
                relay.subscribers[subscriber] = {}
        yield from self.feed_relays(channel)
        calls: Calls = []
        for flow, (relay, subscriber) in zip(flows, joined, strict=True):
            since: Offsets = {}
            if relay is not None:
                # What the relay was sent before has holes for a new subscriber.
                since = relay.subscribers[subscriber] = dict(relay.since)
            calls.append((flow.outlet.node, OpenFlow(flow.spec(since=since))))
        self.expect(flows)
        # A source may be lost meanwhile: the consumer's request does not fail for that.
        begun = yield Attempt(calls)
        for (relay, subscriber), at in zip(joined, begun, strict=True):
            subscribers = channel.subscribers if relay is None else relay.subscribers
            subscribers[subscriber] = later(subscribers.get(subscriber, {}), at or {})

    def feed_relays(self, channel: Channel) -> Change:
        """Let the relays of a channel be sent what their subscribers want together."""
        for relay in self.graph.relays_of(channel):
            if self.graph.rewant(relay) and relay.own.id in channel.outlets:
                call = relay.own.node, SetPredicate(relay.own.id, relay.name, relay.wanted)
                answers = yield from self.tidy([call])
                if answers and answers[0] is not None:
                    relay.since = answers[0]

    def narrow(self, channel: Derived) -> Change:
        """Let a channel's filter be sent exactly what its envelope wants."""
        if not channel.closed and channel.next is None:
            yield from self.want(channel, channel.predicate)

    def want(self, channel: Derived, predicate: str | None, certain: bool = True) -> Change:
        """Change what a channel's filter is sent; not `certain`: that is wider than its predicate.

        Returns the offsets from which on each outlet that feeds it does so, None if one of them has
        not answered.
        """
        for inlet in self.graph.feeding_inlets(channel):
            inlet.predicate, inlet.certain = predicate, certain
        feeds = [outlet for outlet, flows in self.graph.feeds(channel) if flows]
        answers = yield from self.tidy(
            (outlet.node, SetPredicate(outlet.id, channel.name, predicate, certain))
            for outlet in feeds
        )
        if len(answers) < len(feeds) or None in answers:
            return None
        return {outlet.id: at for outlet, at in zip(feeds, answers, strict=True)}

    def remove_inlet(self, channel: Channel, inlet: int) -> Change:
        """Take an inlet that is gone for good out of the picture, and stop what flows into it."""
        subscriber = channel.inlets[inlet].subscriber if inlet in channel.inlets else ""
        flows = self.graph.remove_inlet(channel, inlet)
        yield from self.tidy(self.close_flows(channel, flows, subscriber))
        yield from self.feed_relays(channel)

    def close_flows(self, channel: Channel, flows: list[Flow], subscriber: str) -> Calls:
        """The calls that stop the flows of a subscriber that is gone for good, and forget it where
        events are only retained for it."""
        calls: Calls = [
            (flow.outlet.node, CloseFlow(flow.outlet.id, flow.id, subscriber)) for flow in flows
        ]
        retained_at = self.graph.retaining(channel, subscriber)
        channel.subscribers.pop(subscriber, None)
        return [
            *calls,
            *((each.node, ForgetSubscriber(each.id, subscriber)) for each in retained_at),
        ]

    # --- places of filters --------------------------------------------------------------------

    def deploy(self, channel: Derived, nodes: list[str], engine: str) -> Change:
        """Start a derived channel's filter at all of these nodes, or at none if one of them cannot
        load it."""
        stages = [self.graph.place(channel, node, engine) for node in nodes]
        try:
            self.greet([(node, channel.owner) for node in nodes])  # to report failures
            spec, recovers = channel.stage_spec, channel.recovers
            yield [(stage.node, Deploy(spec(stage, recovers))) for stage in stages]
        except ActiveBrokerError:
            for stage in stages:
                self.graph.displace(channel, stage.id)
            yield from self.tidy((stage.node, Undeploy(stage.id)) for stage in stages)
            raise

    def remove_stages(self, channel: Derived) -> Change:
        """Take a derived channel's filter away from all its places."""
        for stage in list(channel.stages.values()):
            calls = self.stop_feeding(channel, stage)
            self.graph.displace(channel, stage.id)
            yield from self.tidy([*calls, (stage.node, Undeploy(stage.id, True))])

    def stop_feeding(self, channel: Derived, stage: Stage) -> Calls:
        """The calls that stop what flows into a stage of a derived channel."""
        return self.close_flows(channel.parent, self.graph.into(stage.id), channel.name)

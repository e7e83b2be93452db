"""Makes the nodes do what the picture of the fabric says, and takes it down again."""

from __future__ import annotations

from collections.abc import Iterable

from activebroker.core.errors import ActiveBrokerError, Unreachable
from activebroker.directory.context import Context
from activebroker.directory.parts import Channel, Derived, Flow, Stage
from activebroker.directory.requests import Attempt, Calls, Change
from activebroker.protocol.messages import (
    CallBody,
    CloseFlow,
    Deploy,
    ExpectFlow,
    ForgetTaker,
    Greet,
    OpenFlow,
    SetPredicate,
    Undeploy,
)
from activebroker.protocol.specs import Positions, later


class Wiring:
    """The picture and the nodes: changes, or calls for changes to make."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.graph = context.graph
        self.members = context.members

    def tidy(self, calls: Iterable[tuple[str, CallBody]]) -> Change:
        """Take things down. Where a node is gone, or goes meanwhile, they are down already.

        Returns the answers of those calls whose nodes are members; None from who gave none.
        """
        return (yield Attempt([(node, body) for node, body in calls if node in self.members]))

    def greet(self, pairs: list[tuple[str, str]]) -> None:
        """Let those that cannot be dialled dial those that will send to them."""
        for source, target in pairs:
            member = self.members.get(target)
            if source != target and member is not None and member.address is None:
                self._context.tell(target, Greet(source))

    def expect(self, flows: Iterable[Flow]) -> None:
        """Give the ports' nodes notice of new flows, before anything else that concerns them."""
        for flow in flows:
            both = flow.outlet.node in self.members and flow.port.node in self.members
            if flow.crosses and both:
                source = self.graph.relay_at(flow.outlet) or flow.channel
                self._context.tell(flow.port.node, ExpectFlow(flow.spec(), source.recovers))

    def check(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Raise Unreachable where of two nodes neither can be dialled."""
        for one, other in pairs:
            both = [self.members[each] for each in (one, other) if each in self.members]
            if one != other and len(both) == 2 and not any(each.address for each in both):
                raise Unreachable(
                    f"{one!r} and {other!r} dial out only, so that neither reaches the other. "
                    "Connect one of them without listen=False, or put a filter at a broker between."
                )

    # --- flows --------------------------------------------------------------------------------

    def connect(self, channel: Channel) -> Change:
        """Give every port of a channel a flow from every outlet."""
        missing = list(self.graph.missing(channel))
        self.check((outlet.node, port.node) for outlet, port in missing)
        flows = [self.graph.connect(channel, outlet, port) for outlet, port in missing]
        joined = [(self.graph.relay_at(flow.outlet), flow.port.taker) for flow in flows]
        for relay, taker in joined:
            if relay is not None:
                relay.takers[taker] = {}
        yield from self.feed_relays(channel)
        calls: Calls = []
        for flow, (relay, taker) in zip(flows, joined, strict=True):
            since: Positions = {}
            if relay is not None:
                # Who is new there must not see the holes in what was sent there before.
                since = relay.takers[taker] = dict(relay.since)
            calls.append((flow.outlet.node, OpenFlow(flow.spec(since=since))))
        self.expect(flows)
        # A source that is lost meanwhile is no fault of the consumer.
        begun = yield Attempt(calls)
        for (relay, taker), at in zip(joined, begun, strict=True):
            takers = channel.takers if relay is None else relay.takers
            takers[taker] = later(takers.get(taker, {}), at or {})

    def feed_relays(self, channel: Channel) -> Change:
        """A relay is sent what its takers want together."""
        for relay in self.graph.relays_of(channel):
            if self.graph.rewant(relay) and relay.own.id in channel.outlets:
                call = relay.own.node, SetPredicate(relay.own.id, relay.name, relay.wanted)
                answers = yield from self.tidy([call])
                if answers and answers[0] is not None:
                    relay.since = answers[0]

    def narrow(self, channel: Derived) -> Change:
        """Let a channel's filter be sent what its envelope wants, no more and no less."""
        if not channel.closed and channel.next is None:
            yield from self.want(channel, channel.predicate)

    def want(self, channel: Derived, predicate: str | None, certain: bool = True) -> Change:
        """Change what a channel's filter is sent; not `certain`: it is more than it forwards.

        Returns from which positions on each outlet that feeds it does so; None if one has not
        answered.
        """
        for port in self.graph.inlets(channel):
            port.predicate, port.certain = predicate, certain
        feeds = [outlet for outlet, flows in self.graph.feeds(channel) if flows]
        answers = yield from self.tidy(
            (outlet.node, SetPredicate(outlet.id, channel.name, predicate, certain))
            for outlet in feeds
        )
        if len(answers) < len(feeds) or None in answers:
            return None
        return {outlet.id: at for outlet, at in zip(feeds, answers, strict=True)}

    def remove_port(self, channel: Channel, port: int) -> Change:
        """Take a port that is gone for good out of the picture, and stop what flows into it."""
        taker = channel.ports[port].taker if port in channel.ports else ""
        flows = self.graph.remove_port(channel, port)
        yield from self.tidy(self.close_flows(channel, flows, taker))
        yield from self.feed_relays(channel)

    def close_flows(self, channel: Channel, flows: list[Flow], taker: str) -> Calls:
        """Stop the flows of a taker that is gone for good, also where something is only kept."""
        calls: Calls = [
            (flow.outlet.node, CloseFlow(flow.outlet.id, flow.id, taker)) for flow in flows
        ]
        kept_at = self.graph.keepers(channel, taker)
        channel.takers.pop(taker, None)
        return [*calls, *((each.node, ForgetTaker(each.id, taker)) for each in kept_at)]

    # --- places of filters --------------------------------------------------------------------

    def deploy(self, channel: Derived, nodes: list[str], engine: str) -> Change:
        """Start a derived channel's filter at nodes, or nowhere if one of them cannot load it."""
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

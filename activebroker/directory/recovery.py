"""Recovery: a derived channel's filter, or a relay, whose node was lost goes on at another place.

It starts from its last checkpoint. The outlets that feed it send again what came after the
checkpoint, which they have retained for it. Its consumers say what they have already, and are not
sent that again. So consumers miss nothing and see nothing twice, as long as the filter's output is
a function of its input.

Filters are recovered from the consumers upwards: when a filter starts, those that its events are
for are there. A relay is a filter that forwards everything.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from activebroker.core.errors import ActiveBrokerError, DeadlineExceeded, Unreachable
from activebroker.directory.context import Context
from activebroker.directory.parts import (
    SUPPLIER,
    Derived,
    Flow,
    Made,
    Outlet,
    Relay,
    Stage,
    inputs_of,
)
from activebroker.directory.requests import Attempt, Change
from activebroker.directory.wiring import Wiring
from activebroker.protocol.orders import Deploy, OpenFlow, ReleaseInlet, ReportNode, Undeploy
from activebroker.protocol.specs import Member, Offsets, Since, later

log = logging.getLogger(__name__)

Stages = tuple[tuple[str, int], ...]  # (node, stage)
PROOF = 3.0  # seconds in which a node has to answer before it is given a filter


@dataclass(slots=True)
class Refusals:
    """Why processes did not take a filter; each error names its process."""

    errors: dict[Member, ActiveBrokerError] = field(default_factory=dict)

    def final(self, member: Member | None) -> bool:
        """Whether a process cannot run the filter, however often it is asked."""
        error = self.errors.get(member) if member is not None else None
        return error is not None and not isinstance(error, Unreachable | DeadlineExceeded)

    def story(self) -> str:
        return "; ".join(str(error).removesuffix(".") for error in self.errors.values())


class Recovery:
    """Changes that let lost filters and relays go on."""

    def __init__(self, context: Context, wiring: Wiring) -> None:
        self._context = context
        self._me = context.me
        self._graph = context.graph
        self._members = context.members
        self._wiring = wiring

    def impossible(self, made: Made) -> str:
        """Why a filter or relay cannot go on at any place; empty if it can."""
        match made:
            case Relay():
                return "" if self._feeds(made) else "its supplier is gone"
            case Derived() if made.stopped or made.closed:
                return "it has been stopped"
            case Derived() if not made.recovers:
                return "it has been lost with its supplier"
            case Derived():
                known = made.checkpoint is not None or made.fresh
                return "" if known else "there is no checkpoint of it"

    def candidates(
        self,
        made: Made,
        died: bool = False,
        suspect: bool = False,
        avoid: Iterable[str] = (),
    ) -> list[str]:
        """The nodes where a filter can go on, the best first.

        That is the broker where it was to be; the other brokers, the least loaded first and the
        directory's last; the process that derived it; and its consumers.

        It goes to none of `avoid`. If its host `died`, perhaps by the filter, it does not go to the
        directory's node, unless that has derived it. A `suspect` goes only to other brokers.

        A log goes on where its disk is, and nowhere else.
        """
        if made.home:
            return [made.home] if made.home in self._members else []
        load = dict.fromkeys((m.name for m in self._members.values() if m.is_broker), 0)
        for each in self._graph.all_made():
            for stage in each.stages.values():
                if stage.node in load:
                    load[stage.node] += 1
        brokers = sorted(load, key=lambda at: (at != made.at, at == self._me, load[at]))
        consumers = [inlet.node for inlet in made.wanting]
        match made:
            case Derived():
                beside = [
                    stage.node
                    for child in self._graph.children(made)
                    if child.at == SUPPLIER
                    for stage in child.stages.values()
                ]
                places = dict.fromkeys([*beside, *brokers, made.owner, *consumers])
            case Relay():  # its supplier comes last: the fan-out was to be taken off it
                places = dict.fromkeys([*brokers, *reversed(consumers), made.owner])
        found = [name for name in places if name in self._members and name not in avoid]
        if died:
            last = [self._me] if made.owner == self._me else []
            found = [name for name in found if name != self._me] + last
        if suspect:
            found = [name for name in found if self.is_spare(name)]
        return found

    def is_spare(self, node: str) -> bool:
        """Whether a node is a broker that the fabric can do without."""
        return self._members[node].is_broker and node != self._me

    def recover(
        self, made: Made, places: list[str], refusals: Refusals, also: Stages = ()
    ) -> Change:
        """Let a filter or relay go on at the first of `places` that takes it. Returns that node, or
        None if no place did; then the picture is as it was.

        `also` are the stages of a move that was under way; they are taken down, too.
        """
        graph = self._graph
        old = list(dict.fromkeys([*made.places, *also]))
        yield from self._wiring.tidy((node, Undeploy(stage, discard=True)) for node, stage in old)
        if made.stopped:  # the nodes have told so by now; it would be stopped again
            return None
        outlets = tuple(stage for _, stage in old)
        inlets = made.wanting
        asked = [inlet for inlet in inlets if inlet.node in self._members]
        came = yield from self._wiring.tidy(
            (inlet.node, ReleaseInlet(inlet.id, outlets)) for inlet in asked
        )
        received: dict[int, Offsets] = {}
        for inlet in inlets:
            if inlet.makes is not None:  # if that filter is lost, too, it will go on from there
                received[inlet.id] = inputs_of(inlet.makes)
        for inlet, got in zip(asked, came, strict=True):
            if got is not None:
                received[inlet.id] = got
            elif inlet.node in self._members:
                self._context.outside.expel(inlet.node)
        for inlet in inlets:  # what was before a subscriber began is not for it, or has holes
            if inlet.id in received:
                began = made.subscribers.get(inlet.subscriber, {})
                received[inlet.id] = later(received[inlet.id], began)
        feeds = self._feeds(made)
        if isinstance(made, Relay) and not feeds:
            return None
        engine = next((stage.engine for stage in made.stages.values()), "python")
        stage: Stage | None = yield from self._start(made, places, engine, refusals)
        if stage is None:
            return None
        if isinstance(made, Relay) and not self._lives(made.own):
            yield from self._take_back(made, stage)
            return None  # its supplier was lost meanwhile
        for stage_id in outlets:
            graph.displace(made, stage_id)
        match made:
            case Derived():
                self._relocate(made, stage.node)
            case Relay():
                made.at = stage.node
        if stage.node in self._members:
            yield from self._connect(made, stage, feeds, received)
        else:
            self._serve(made, stage, feeds)  # the node is lost by now, and recovery begins again
        return stage.node

    def _relocate(self, channel: Derived, node: str) -> None:
        """Note in the picture that a filter goes on at a node."""
        channel.left.clear()
        channel.returning = False
        if not channel.beside and not channel.home:
            gone = f"The process at {channel.at!r}, where it ran, is gone."
            self._graph.relocate(channel, node)
            channel.instead = gone
        if node not in self._members:
            return
        for child in self._graph.children(channel):
            for each in child.stages.values():
                if child.at == SUPPLIER and each.node != node:  # the filter could not run there
                    self._graph.relocate(child, each.node)
                    child.instead = (
                        f"Channel {channel.name!r}, whose filter was beside it, goes on at "
                        f"{node!r}."
                    )

    def _start(self, made: Made, places: list[str], engine: str, refusals: Refusals) -> Change:
        """Start a filter from its checkpoint at the first of `places` that takes it, or is lost
        while it does. Returns the stage, None if there was none."""
        graph = self._graph
        for node in places:
            if (member := self._members.get(node)) is None:
                continue
            (heard,) = yield Attempt([(node, ReportNode())], PROOF)
            if heard is None:  # the node may be dead already, and that is not the filter's fault
                refusals.errors[member] = Unreachable(f"{node!r} did not answer")
                continue
            stage = graph.place(made, node, engine)
            try:
                yield [(node, Deploy(made.stage_spec(stage, True, made.checkpoint)))]
            except ActiveBrokerError as error:
                log.warning("channel %r cannot go on at %r: %s", made.name, node, error)
                if node in self._members:
                    refusals.errors[member] = error
                    yield from self._take_back(made, stage)
                    continue
            return stage
        return None

    def _take_back(self, made: Made, stage: Stage) -> Change:
        self._graph.displace(made, stage.id)
        yield from self._wiring.tidy([(stage.node, Undeploy(stage.id, discard=True))])

    def _feeds(self, made: Made) -> list[tuple[Outlet, bool]]:
        """The outlets of the parent that retain events for the filter, or will make some.

        Those that no longer serve the filter come first, in the order in which they did. With each
        comes whether it still serves the filter, or will again.
        """
        graph, parent = self._graph, made.parent
        if isinstance(made, Relay):
            own = made.own
            lives = own.node in self._members and made.fed
            return [(own, own.id in parent.outlets)] if lives else []
        earlier_places = [each for each in parent.left.values() if each.supplier is None]
        if any(each.node not in self._members for each in earlier_places):
            return []  # the parent's filter is recovered as well, and will feed this one then
        serving = [outlet for outlet, flows in graph.feeds(made) if flows]
        earlier = [each for each in graph.retaining(parent, made.name) if each not in serving]
        feeds = [(outlet, False) for outlet in earlier] + [(outlet, True) for outlet in serving]
        return [(outlet, serves) for outlet, serves in feeds if self._lives(outlet)]

    def _lives(self, outlet: Outlet) -> bool:
        """Whether what an outlet retains can still come. A lost relay goes on if its supplier is
        alive; otherwise it has nothing to go on with."""
        if (relay := self._graph.relay_at(outlet)) is None:
            return outlet.node in self._members
        return relay.own.node in self._members and relay.fed

    def _connect(
        self,
        made: Made,
        stage: Stage,
        feeds: list[tuple[Outlet, bool]],
        received: dict[int, Offsets],
    ) -> Change:
        graph = self._graph
        outlet = made.outlets[stage.id]
        down = [
            (graph.connect(made, outlet, each), received[each.id])
            for each in made.wanting
            if each.id in received
        ]
        up = self._serve(made, stage, feeds)
        flows = [flow for flow, _ in (*down, *up)]
        pairs = [(flow.outlet.node, flow.inlet.node) for flow in flows]
        self._wiring.greet([*pairs, (stage.node, made.owner)])
        self._wiring.expect(flows)
        # The supplier's own outlet may not have sent yet all that it gave the relay's subscribers
        # before the offload.
        follows = isinstance(made, Relay)
        # A log may have more than its last process could send, also to a subscriber with nothing.
        log = Since() if made.home else None
        yield from self._wiring.tidy(
            (stage.node, OpenFlow(flow.spec(since=at, follows=follows, began=began, log=log)))
            for flow, at in down
            for began in [made.subscribers.get(flow.inlet.subscriber, {})]
        )
        yield from self._wiring.tidy(
            (
                flow.outlet.node,
                OpenFlow(
                    flow.spec(after, later(inputs_of(made), began), resumes=True, began=began)
                ),
            )
            for flow, after in up
            for began in [
                (graph.relay_at(flow.outlet) or made.parent).subscribers.get(made.name, {})
            ]
        )

    def _serve(
        self, made: Made, stage: Stage, feeds: list[tuple[Outlet, bool]]
    ) -> list[tuple[Flow, tuple[int, ...]]]:
        """Add the flows into a stage to the picture. Returns those to open, each with the flows
        that it follows."""
        graph = self._graph
        inlet = made.parent.inlets[stage.id]
        up: list[tuple[Flow, tuple[int, ...]]] = []
        earlier: list[Flow] = []
        for source, serves in feeds:
            if not self._lives(source):
                continue  # lost meanwhile
            flow = Flow(graph.new_id(), made.parent, source, inlet)
            before = tuple(
                each.id
                for each in earlier
                if each.outlet.supplier == source.supplier
                or (serves and each.outlet.supplier is None)
            )
            if serves:
                graph.flows[flow.id] = flow
            else:
                earlier.append(flow)
            if source.node in self._members:
                up.append((flow, before))
        return up

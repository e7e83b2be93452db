"""When the node of a derived channel's filter is lost: the filter goes on at another place.

It starts from its last checkpoint. Who fed it sends again what the checkpoint has not seen, which
was kept for it; who takes its events tells how far it has come, and gets no event again. So
consumers miss nothing and see nothing twice, as long as what the filter makes is a function of what
it gets.

A filter is put together again from its consumers upwards: when it starts, those whom its events are
for are there.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from activebroker.broker.changes import Change
from activebroker.broker.messages import CallBody, Deploy, OpenFlow, ReleasePort, Undeploy
from activebroker.core.errors import ActiveBrokerError
from activebroker.routing import Channel, Checkpoint, Flow, Graph, Member, Outlet, Positions, Stage
from activebroker.routing.graph import SUPPLIER

log = logging.getLogger(__name__)


class Recovery:
    """Changes of the directory that put lost filters together again.

    `tidy(calls)` makes calls and does not mind nodes that are gone; `expect(flows)` gives notice of
    new flows; `greet(pairs)` lets (source, target) nodes meet; `expel(node)` takes a member for
    lost.
    """

    def __init__(
        self,
        graph: Graph,
        members: dict[str, Member],
        tidy: Callable[[Iterable[tuple[str, CallBody]]], Change],
        expect: Callable[[Iterable[Flow]], None],
        greet: Callable[[list[tuple[str, str]]], None],
        expel: Callable[[str], None],
    ) -> None:
        self._graph = graph
        self._members = members
        self._tidy = tidy
        self._expect = expect
        self._greet = greet
        self._expel = expel

    def possible(self, channel: Channel) -> bool:
        """Whether there is something to go on from."""
        known = channel.checkpoint is not None or channel.fresh
        return not channel.closed and self._graph.recovers(channel) and known

    def candidates(self, channel: Channel) -> list[str]:
        """Where the filter can go on: brokers, the least laden first, then its consumers."""
        load = dict.fromkeys((m.name for m in self._members.values() if m.is_broker), 0)
        for each in self._graph.channels.values():
            for stage in each.stages.values():
                if stage.node in load:
                    load[stage.node] += 1
        brokers = sorted(load, key=lambda name: load[name])
        beside = [
            stage.node
            for child in self._graph.children(channel.name)
            if child.at == SUPPLIER
            for stage in child.stages.values()
        ]
        consumers = [port.node for port in channel.ports.values()]
        places = dict.fromkeys([*beside, *brokers, *consumers, channel.owner])
        return [name for name in places if name in self._members]

    def recover(self, channel: Channel, also: tuple[tuple[str, int], ...] = ()) -> Change:
        """Put a channel's filter together again. Returns whether there was a place for it.

        `also` are (node, stage) of a derivation that was under way; what is left of them goes.
        """
        graph = self._graph
        old = [(stage.node, stage.id) for stage in channel.stages.values()]
        old += [(outlet.node, outlet.id) for outlet in channel.left.values()]
        old = list(dict.fromkeys([*old, *also]))
        yield from self._tidy((node, Undeploy(stage, discard=True)) for node, stage in old)
        outlets = tuple(stage for _, stage in old)
        asked = [port for port in channel.ports.values() if port.node in self._members]
        came = yield from self._tidy((port.node, ReleasePort(port.id, outlets)) for port in asked)
        received: dict[int, Positions] = {}
        for port in channel.ports.values():
            if port.makes is not None:  # should it be lost as well, it will go on from there
                child = graph.channels[port.makes]
                received[port.id] = child.checkpoint.inputs if child.checkpoint else {}
        for port, got in zip(asked, came, strict=True):
            if got is not None:
                received[port.id] = msgspec.convert(got, Positions)
            elif port.node in self._members:
                self._expel(port.node)
        feeds = self._feeds(channel)
        engine = next((stage.engine for stage in channel.stages.values()), "python")
        for stage_id in outlets:
            graph.displace(channel, stage_id)
        channel.left.clear()
        follows, channel.returning = graph.beside(channel), False
        for node in self.candidates(channel):
            if not follows:
                channel.at = node
            stage = graph.place(channel, node, engine)
            try:
                yield [(node, Deploy(channel.stage_spec(stage, True, channel.checkpoint)))]
            except ActiveBrokerError as error:
                log.warning("channel %r cannot go on at %r: %s", channel.name, node, error)
                graph.displace(channel, stage.id)
                yield from self._tidy([(node, Undeploy(stage.id, discard=True))])
                continue
            yield from self._connect(channel, stage, feeds, received)
            return True
        return False

    def _feeds(self, channel: Channel) -> list[tuple[Outlet, bool]]:
        """The outlets of the parent that keep events for the filter, or will make them: those that
        have left, or handed over to a relay, first. True: it is still served from there."""
        assert channel.parent is not None
        parent = self._graph.channels[channel.parent]
        linked = self._graph.feeds(channel)
        earlier = [*parent.left.values(), *parent.relayed.values()]
        serving = [outlet for outlet, flows in linked if flows]
        feeds = [(outlet, False) for outlet in earlier if outlet not in serving]
        feeds += [(outlet, True) for outlet in serving]
        return [(outlet, serves) for outlet, serves in feeds if outlet.node in self._members]

    def _connect(
        self,
        channel: Channel,
        stage: Stage,
        feeds: list[tuple[Outlet, bool]],
        received: dict[int, Positions],
    ) -> Change:
        graph = self._graph
        assert channel.parent is not None
        parent = graph.channels[channel.parent]
        outlet, port = channel.outlets[stage.id], parent.ports[stage.id]
        checkpoint = channel.checkpoint or Checkpoint({}, {}, {})
        down = [
            (graph.connect(channel, outlet, each), received[each.id])
            for each in channel.ports.values()
            if each.id in received
        ]
        up: list[tuple[Flow, tuple[int, ...]]] = []
        earlier: list[Flow] = []
        for source, serves in feeds:
            flow = Flow(graph.new_id(), parent.name, source, port)
            if not serves:
                up.append((flow, ()))
                earlier.append(flow)
                continue
            graph.flows[flow.id] = flow
            before = (
                each.id for each in earlier if each.outlet.supplier in (None, source.supplier)
            )
            up.append((flow, tuple(before)))
        flows = [flow for flow, _ in (*down, *up)]
        waiting = Counter(before for _, after in up for before in after)
        pairs = [(flow.outlet.node, flow.port.node) for flow in flows]
        self._greet([*pairs, (stage.node, channel.owner)])
        self._expect(flows)
        yield from self._tidy((stage.node, OpenFlow(flow.spec(since=at))) for flow, at in down)
        yield from self._tidy(
            (
                flow.outlet.node,
                OpenFlow(flow.spec(after, checkpoint.inputs, True, waiting[flow.id])),
            )
            for flow, after in up
        )

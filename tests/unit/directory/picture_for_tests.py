"""Small pictures of a fabric, as they are when all that was asked for has been done."""

from __future__ import annotations

from activebroker.directory.graph import Graph
from activebroker.directory.parts import Channel, Derived, Flow, Inlet, Outlet, Relay, Root, Stage
from activebroker.directory.planning import plan_offload
from activebroker.events import ANY, describe
from activebroker.filters import Envelope
from activebroker.protocol.requests import Offload
from predicate_extract import extract

ANY_TYPE = describe(ANY)
HIGH = extract(lambda item: item.price > 5).predicate.to_json()
LOW = extract(lambda item: item.price < 3).predicate.to_json()


def envelope(predicate: str = HIGH, shared: bool = False) -> Envelope:
    return Envelope(
        name="Late",
        source=None,
        code_hash="",
        predicate=predicate,
        exact=True,
        only_looks=False,
        reads=None,
        stateful=False,
        shared=shared,
        on_error="skip",
        idle_after=None,
        output=ANY_TYPE,
        body=b"",
    )


def offload(graph: Graph, own: Outlet, channel: Root, to: str, *consumers: str) -> Relay:
    """Hand what a supplier serves, or these consumers of it, to a relay."""
    supplier = own.supplier or ""
    request = Offload(channel.name, supplier, to, 1.0, consumers or None)
    moved = [
        flow
        for flow in graph.out_of(own.id)
        if not flow.inlet.relays and (not consumers or flow.inlet.node in consumers)
    ]
    planned = plan_offload(graph, "hub", channel, own, moved, to, request)
    planned.commit(graph)
    assert isinstance(planned.channel, Relay)
    return planned.channel


class Trade:
    """Channel x has the supplier A at `a`. The filter of x.Late, which `c` has derived from it, is
    at `b1`; a subscription at `c` takes what it makes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.x = graph.channels["x"] = Root("x", ANY_TYPE)
        self.own = Outlet(graph.new_id(), "a", "A")
        self.x.outlets[self.own.id] = self.own
        self.late = self.derive("x.Late", "b1")
        self.stage = self.put(self.late, "b1")
        self.inlet = self.subscribe(901, "c", self.late)
        self.connect()

    @property
    def into(self) -> Flow:
        """The filter's one input."""
        (flow,) = self.graph.into(self.stage.id)
        return flow

    @property
    def out(self) -> Flow:
        """The subscription's one input."""
        (flow,) = self.graph.into(self.inlet.id)
        return flow

    def supplier(self, name: str, node: str, channel: Root | None = None) -> Outlet:
        outlet = Outlet(self.graph.new_id(), node, name)
        (channel or self.x).outlets[outlet.id] = outlet
        return outlet

    def derive(self, name: str, at: str, parent: Channel | None = None) -> Derived:
        """A derived channel that has no place yet."""
        channel = Derived(
            name,
            ANY_TYPE,
            parent=parent or self.x,
            envelope=envelope(),
            at=at,
            asked=at,
            owner="c",
        )
        self.graph.channels[name] = channel
        return channel

    def put(self, channel: Derived, node: str) -> Stage:
        return self.graph.place(channel, node)

    def subscribe(
        self, id: int, node: str, channel: Channel, predicate: str | None = None
    ) -> Inlet:
        """A subscription, not connected yet."""
        inlet = channel.inlets[id] = Inlet(id, node, predicate)
        return inlet

    def connect(self) -> None:
        """Let all flow that should."""
        for channel in self.graph.channels.values():
            for outlet, inlet in list(self.graph.missing(channel)):
                self.graph.connect(channel, outlet, inlet)

    def offload(self, to: str, *consumers: str) -> Relay:
        return offload(self.graph, self.own, self.x, to, *consumers)

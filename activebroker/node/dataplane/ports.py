"""Where events come to at a node: its ports, each of a subscription or of a stage."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from activebroker.core.errors import (
    ActiveBrokerError,
    FilterStopped,
    ProtocolError,
    Unreachable,
    flatten,
    revive,
)
from activebroker.events import load
from activebroker.matching import Parcel
from activebroker.node.dataplane.outlet import WINDOW, Item
from activebroker.node.dataplane.plane import Arrival, InputBegan, InputEnded, Plane
from activebroker.node.dataplane.port import InFlow, Port, supplier_of
from activebroker.node.effects import Deliver, EndSubscription
from activebroker.protocol.messages import (
    CreditReturned,
    Events,
    FlowDropped,
    FlowEnded,
    FlowOpened,
    FlowRewound,
    Settled,
    StreamEnded,
)
from activebroker.protocol.specs import FlowSpec, Positions

log = logging.getLogger(__name__)
CREDIT_STEP = WINDOW // 4  # bytes consumed before credit goes back
SETTLE_EVERY = 0.01  # seconds between a subscription's news for what feeds it, if any


class Ports:
    """The receiving ends of a node's flows."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._context = plane.context
        self.settling: dict[int, Positions] = {}  # subscriptions' news for what feeds them
        self._settled_at = 0.0

    # --- for users and the directory ----------------------------------------------------------

    def open(self, id: int, received: Positions) -> None:
        """`received`: how far a subscription has come at the node before."""
        port = self._plane.ports[id] = Port(id)
        port.received.update(received)
        port.had.update(received)
        port.direct = bool(received)

    def close(self, id: int) -> None:
        """The user closed the subscription."""
        if id in self.settling:  # who has ended waits for it
            self._settle(id)
        if (port := self._plane.ports.pop(id, None)) is not None:
            self.drop(port)

    def complete(self, id: int, flows: Sequence[int]) -> None:
        """The channel was closed: the port ends when `flows` have finished."""
        self._plane.stopped.pop(id, None)
        if (port := self._plane.ports.get(id)) is not None:
            port.close(flows)
            if (stage := self._plane.stages.get(id)) is not None:
                stage.outlet.let_go()  # none of its filters will go on elsewhere
            self._after(port)

    def abandon(self, id: int, reason: str) -> None:
        """What fed a subscription is gone."""
        if id in self._plane.ports and id not in self._plane.stages:
            self.close(id)
            self._context.effects.append(EndSubscription(id, Unreachable(reason)))

    def release(self, id: int, outlets: Sequence[int]) -> Positions:
        """What fed a port will be replaced; return how far it has come, by supplier."""
        if (port := self._plane.ports.get(id)) is None:
            return {}
        return port.release(outlets)

    def expect(self, spec: FlowSpec, recovers: bool) -> None:
        if (port := self._plane.ports.get(spec.port)) is not None:
            port.expect(spec.id, spec.source, spec.outlet, spec.supplier, recovers)

    def consumed(self, port_id: int, flow_id: int, nbytes: int) -> None:
        """The user took a batch from a subscription."""
        port = self._plane.ports.get(port_id)
        if port is not None and (flow := port.flows.get(flow_id)) is not None:
            flow.consumed += nbytes
            self.give_back(flow)

    def lost(self, peer: str, unopened: bool = False) -> None:
        """A node is gone: end what came from it. `unopened`: it has a successor already, and only
        what was still to come from it does not."""
        for port in list(self._plane.ports.values()):
            self._pass(port, port.lost(peer, unopened))

    def tick(self) -> None:
        """Called several times a second."""
        for port_id in list(self.settling):
            self._settle(port_id)

    # --- events on their way ------------------------------------------------------------------

    def receive(
        self,
        source: str,
        body: Events | StreamEnded | FlowEnded | FlowOpened,
        buffers: Sequence[Any],
    ) -> None:
        """What comes in a flow."""
        match body:
            case Events():
                self._events_arrived(source, body, buffers)
            case StreamEnded(flow, port) | FlowEnded(flow, port):
                self.arrived(Arrival(port, flow, body))
            case FlowOpened(flow, port_id, outlet):
                if (port_ := self._plane.ports.get(port_id)) is not None:
                    self._opened(port_, body, source)
                else:
                    # The directory tells what is kept for a filter that is elsewhere by now.
                    taker = body.taker in ("", f"port {port_id}")
                    gone = taker or port_id in self._plane.stopped
                    self._plane.tell(source, FlowDropped(flow, outlet, gone))

    def arrived(self, arrival: Arrival) -> None:
        if (port := self._plane.ports.get(arrival.port)) is not None:
            self._pass(port, port.arrived(arrival.flow, arrival.item))

    def drop(self, port: Port, goes_on: bool = False) -> None:
        """A port is gone; `goes_on`: what it was for will be elsewhere."""
        for flow in port.flows.values():
            self._drop_flow(flow, goes_on)
        port.flows.clear()

    def rewind(self, flow: InFlow, since: Positions) -> None:
        """Let a flow begin once more."""
        self._plane.tell(flow.source, FlowRewound(flow.id, flow.outlet, dict(since)))

    def give_back(self, flow: InFlow) -> None:
        """Something of a flow was consumed: its source may send more, if it was enough."""
        if flow.consumed < CREDIT_STEP:
            return
        nbytes, flow.consumed = flow.consumed, 0
        self._plane.tell(flow.source, CreditReturned(flow.id, flow.outlet, nbytes))

    # --- inside -------------------------------------------------------------------------------

    def _events_arrived(self, source: str, head: Events, buffers: Sequence[Any]) -> None:
        parcel: Parcel | None = None
        for flow, port_id in head.to:
            # An earlier one may have closed it.
            if (port := self._plane.ports.get(port_id)) is not None and flow in port.flows:
                try:
                    parcel = parcel or self._read(head, buffers)
                except ProtocolError as error:
                    self._break(port, flow, source, head, error)
                else:
                    self._pass(port, port.arrived(flow, parcel))

    def _read(self, head: Events, buffers: Sequence[Any]) -> Parcel:
        if (type_ := self._context.registry.get(head.type)) is None:
            raise ProtocolError("events of a type that was not announced.")
        return Parcel(load(type_, head.supplier, buffers), head.certain, head.upto)

    def _break(
        self, port: Port, flow: int, source: str, head: Events, error: ProtocolError
    ) -> None:
        """What has come is no batch: nobody can take it, now or later, and nobody else has it."""
        reason = (
            f"{self._context.here!r} cannot read the events of supplier {head.supplier!r} before "
            f"position {head.upto[1]} that {source!r} has sent, and takes no more: {error} Are "
            "both of the same activebroker release? Then subscribe, or derive, again."
        )
        log.error("%s", reason)
        if port.id in self._plane.stages:
            # If it is lost before it has stopped, it may go on elsewhere.
            self._drop_flow(port.flows[flow], goes_on=True)
            end = FlowEnded(flow, port.id, True, flatten(FilterStopped(reason)))
            self.arrived(Arrival(port.id, flow, end))
        else:
            self.close(port.id)
            self._context.effects.append(EndSubscription(port.id, ProtocolError(reason)))

    def _opened(self, port: Port, opened: FlowOpened, source: str) -> None:
        if opened.so_far is not None and opened.supplier is not None:
            served = opened.begins is not None and opened.began is not None
            missed = port.missed(opened.supplier, opened.so_far, served)
            if missed:
                log.warning(
                    "%d events of supplier %r did not come: they were published while %r was cut "
                    "off from its fabric",
                    missed,
                    opened.supplier,
                    self._context.here,
                )
        port.opened(
            opened.flow,
            source,
            opened.outlet,
            opened.after,
            opened.supplier,
            opened.taker,
            opened.recovers,
            opened.behind,
            opened.begins,
            opened.began,
        )
        if (stage := self._plane.stages.get(port.id)) is not None:
            if opened.taker:
                stage.saving.urge()  # its source may keep what is covered already
            self._plane.facts.append(InputBegan(port.id, opened.flow))
        self._drop_broken(port)

    def _drop_broken(self, port: Port) -> None:
        """Take nothing of what follows a gap: the directory lets a filter go on before it."""
        for flow in port.take_broken():
            self._drop_flow(flow, goes_on=True)
            if port.id in self._plane.stages:
                self._plane.facts.append(InputEnded(port.id, flow.id, lost=True))

    def _pass(self, port: Port, free: list[tuple[InFlow, Item]]) -> None:
        for flow, nbytes in port.take_repeated():
            flow.consumed += nbytes
            self.give_back(flow)
        stage = self._plane.stages.get(port.id)
        if stage is not None:
            stage.put(free)
            for flow, item in free:
                if isinstance(item, FlowEnded):
                    stage.saving.urge()  # so that who has ended hears that
                    self._plane.facts.append(InputEnded(port.id, flow.id, flow.lost))
            if stage.spec.envelope is None and free and isinstance(free[-1][1], FlowEnded):
                # The supplier that this relay serves has left.
                stage.leave_when_empty()
        else:
            for flow, item in free:
                if isinstance(item, Parcel):
                    batch = self._context.registry.renew(item.batch)
                    self._context.effects.append(Deliver(port.id, flow.id, batch, item.nbytes))
            if port.sources:
                news = self.settling.setdefault(port.id, {})
                for _, item in free:
                    if not isinstance(item, FlowEnded):
                        news[supplier_of(item)] = item.upto
                if self._context.now - self._settled_at >= SETTLE_EVERY or self._all_here(port):
                    self._settled_at = self._context.now
                    self._settle(port.id)
        self._drop_broken(port)
        self._after(port)

    def _after(self, port: Port) -> None:
        if port.id in self._plane.stages:
            self._plane.touch(port.id)
        elif port.id not in self._plane.ports:
            return
        elif port.error is not None or port.complete:
            self.close(port.id)
            self._context.effects.append(EndSubscription(port.id, _why(port)))

    def _drop_flow(self, flow: InFlow, goes_on: bool = False) -> None:
        self._plane.tell(flow.source, FlowDropped(flow.id, flow.outlet, not goes_on))

    def _settle(self, port_id: int) -> None:
        """What a subscription has, it has for good."""
        upto = self.settling.pop(port_id)
        if (port := self._plane.ports.get(port_id)) is not None:
            for outlet, (node, taker) in list(port.sources.items()):
                self._plane.tell(node, Settled(outlet, taker, upto, outlet in port.leaving))
            port.leave(port.received)

    def _all_here(self, port: Port) -> bool:
        return all(node == self._context.here for node, _ in port.sources.values())


def _why(port: Port) -> ActiveBrokerError | None:
    """The error with which a subscription ends, if it does."""
    return None if (failure := port.failure) is None else revive(failure)

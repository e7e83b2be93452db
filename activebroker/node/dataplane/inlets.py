"""Where events arrive at a node: its inlets, each of a subscription or of a stage."""

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
from activebroker.matching import Chunk
from activebroker.node.dataplane.inlet import InFlow, Inlet, supplier_of
from activebroker.node.dataplane.outlet import WINDOW, Item
from activebroker.node.dataplane.plane import Arrival, InputBegan, InputEnded, Plane
from activebroker.node.effects import Deliver, EndSubscription, InletOpened
from activebroker.protocol.flows import (
    Acknowledged,
    CreditReturned,
    Events,
    FlowDropped,
    FlowEnded,
    FlowOpened,
    FlowRewound,
    StreamEnded,
)
from activebroker.protocol.specs import FlowSpec, Offsets

log = logging.getLogger(__name__)
CREDIT_STEP = WINDOW // 4  # bytes consumed before credit goes back
ACKNOWLEDGE_EVERY = 0.01  # seconds between a subscription's acknowledgements


class Inlets:
    """The receiving ends of a node's flows."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._context = plane.context
        self.acknowledging: dict[int, Offsets] = {}  # by subscription: not sent yet
        self._acknowledged_at = 0.0

    # --- for users and the directory ----------------------------------------------------------

    def open(self, opened: InletOpened) -> None:
        """Open a subscription's inlet."""
        inlet = self._plane.inlets[opened.inlet] = Inlet(opened.inlet)
        inlet.received.update(opened.received)
        inlet.had.update(opened.received)
        inlet.direct = bool(opened.received) or opened.logged
        inlet.ends = opened.ends

    def close(self, id: int) -> None:
        """The user closed the subscription."""
        if id in self.acknowledging:  # an outlet that has ended waits for it
            self._acknowledge(id)
        if (inlet := self._plane.inlets.pop(id, None)) is not None:
            self.drop(inlet)

    def complete(self, id: int, flows: Sequence[int]) -> None:
        """The channel was closed: the inlet ends when `flows` have finished."""
        self._plane.stopped.pop(id, None)
        if (inlet := self._plane.inlets.get(id)) is not None:
            inlet.close(flows)
            if (stage := self._plane.stages.get(id)) is not None:
                stage.outlet.let_go()  # no filter of the channel will go on elsewhere
            self._after(inlet)

    def abandon(self, id: int, reason: str) -> None:
        """What fed a subscription is gone: end it."""
        if id in self._plane.inlets and id not in self._plane.stages:
            self.close(id)
            self._context.effects.append(EndSubscription(id, Unreachable(reason)))

    def release(self, id: int, outlets: Sequence[int]) -> Offsets:
        """These outlets, which fed an inlet, will be replaced; return how far it has come, by
        supplier."""
        if (inlet := self._plane.inlets.get(id)) is None:
            return {}
        return inlet.release(outlets)

    def expect(self, spec: FlowSpec, recovers: bool) -> None:
        if (inlet := self._plane.inlets.get(spec.inlet)) is not None:
            inlet.expect(spec.id, spec.source, spec.outlet, spec.supplier, recovers)

    def consumed(self, inlet_id: int, flow_id: int, nbytes: int) -> None:
        """The user took a batch from a subscription."""
        inlet = self._plane.inlets.get(inlet_id)
        if inlet is not None and (flow := inlet.flows.get(flow_id)) is not None:
            flow.consumed += nbytes
            self.give_back(flow)

    def lost(self, peer: str, unopened: bool = False) -> None:
        """A node is gone: end its flows. `unopened`: it has a successor already, so end only those
        that have not begun."""
        for inlet in list(self._plane.inlets.values()):
            self._pass(inlet, inlet.lost(peer, unopened))

    def tick(self) -> None:
        """Called several times a second."""
        for inlet_id in list(self.acknowledging):
            self._acknowledge(inlet_id)

    # --- events on their way ------------------------------------------------------------------

    def receive(
        self,
        source: str,
        body: Events | StreamEnded | FlowEnded | FlowOpened,
        buffers: Sequence[Any],
    ) -> None:
        """Take what comes in a flow."""
        match body:
            case Events():
                self._events_arrived(source, body, buffers)
            case StreamEnded(flow, inlet) | FlowEnded(flow, inlet):
                self.arrived(Arrival(inlet, flow, body))
            case FlowOpened(flow, inlet_id, outlet):
                if (inlet_ := self._plane.inlets.get(inlet_id)) is not None:
                    self._opened(inlet_, body, source)
                else:
                    # A filter may be elsewhere by now: the directory sees to what is retained.
                    subscriber = body.subscriber in ("", f"inlet {inlet_id}")
                    gone = subscriber or inlet_id in self._plane.stopped
                    self._plane.tell(source, FlowDropped(flow, outlet, gone))

    def arrived(self, arrival: Arrival) -> None:
        if (inlet := self._plane.inlets.get(arrival.inlet)) is not None:
            self._pass(inlet, inlet.arrived(arrival.flow, arrival.item))

    def drop(self, inlet: Inlet, goes_on: bool = False) -> None:
        """An inlet is gone. `goes_on`: its subscriber goes on elsewhere."""
        for flow in inlet.flows.values():
            self._drop_flow(flow, goes_on)
        inlet.flows.clear()

    def rewind(self, flow: InFlow, since: Offsets) -> None:
        """Let a flow begin once more."""
        self._plane.tell(flow.source, FlowRewound(flow.id, flow.outlet, dict(since)))

    def give_back(self, flow: InFlow) -> None:
        """Give credit back to a flow's source, if enough of the flow was consumed."""
        if flow.consumed < CREDIT_STEP:
            return
        nbytes, flow.consumed = flow.consumed, 0
        self._plane.tell(flow.source, CreditReturned(flow.id, flow.outlet, nbytes))

    # --- inside -------------------------------------------------------------------------------

    def _events_arrived(self, source: str, head: Events, buffers: Sequence[Any]) -> None:
        chunk: Chunk | None = None
        for flow, inlet_id in head.to:
            # What an earlier flow brought may have closed this inlet.
            if (inlet := self._plane.inlets.get(inlet_id)) is not None and flow in inlet.flows:
                try:
                    chunk = chunk or self._read(head, buffers)
                except ProtocolError as error:
                    self._break(inlet, flow, source, head, error)
                else:
                    self._pass(inlet, inlet.arrived(flow, chunk))

    def _read(self, head: Events, buffers: Sequence[Any]) -> Chunk:
        if (type_ := self._context.registry.get(head.type)) is None:
            raise ProtocolError("events of a type that was not announced.")
        return Chunk(load(type_, head.supplier, buffers), head.certain, head.upto)

    def _break(
        self, inlet: Inlet, flow: int, source: str, head: Events, error: ProtocolError
    ) -> None:
        """What has come is not a valid batch, and nobody else has it: end the inlet with an
        error."""
        reason = (
            f"{self._context.here!r} cannot read the events of supplier {head.supplier!r} before "
            f"offset {head.upto[1]} that {source!r} has sent, and takes no more: {error} Are "
            "both of the same activebroker release? Then subscribe, or derive, again."
        )
        log.error("%s", reason)
        if inlet.id in self._plane.stages:
            # If the filter is lost before it has stopped, it may go on elsewhere.
            self._drop_flow(inlet.flows[flow], goes_on=True)
            end = FlowEnded(flow, inlet.id, True, flatten(FilterStopped(reason)))
            self.arrived(Arrival(inlet.id, flow, end))
        else:
            self.close(inlet.id)
            self._context.effects.append(EndSubscription(inlet.id, ProtocolError(reason)))

    def _opened(self, inlet: Inlet, opened: FlowOpened, source: str) -> None:
        if opened.so_far is not None and opened.supplier is not None:
            served = opened.begins is not None and opened.began is not None
            missed = inlet.missed(opened.supplier, opened.so_far, served)
            if missed:
                log.warning(
                    "%d events of supplier %r did not come: they were published while %r was cut "
                    "off from its fabric",
                    missed,
                    opened.supplier,
                    self._context.here,
                )
        inlet.opened(
            opened.flow,
            source,
            opened.outlet,
            opened.after,
            opened.supplier,
            opened.subscriber,
            opened.recovers,
            opened.follows,
            opened.begins,
            opened.began,
        )
        if (stage := self._plane.stages.get(inlet.id)) is not None:
            if opened.subscriber:
                stage.saving.urge()  # the source may retain events that were filtered before
            self._plane.facts.append(InputBegan(inlet.id, opened.flow))
        self._drop_broken(inlet)

    def _drop_broken(self, inlet: Inlet) -> None:
        """Drop the flows that follow a gap: the directory lets the filter go on from before the
        gap."""
        for flow in inlet.take_broken():
            self._drop_flow(flow, goes_on=True)
            if inlet.id in self._plane.stages:
                self._plane.facts.append(InputEnded(inlet.id, flow.id, lost=True))

    def _pass(self, inlet: Inlet, free: list[tuple[InFlow, Item]]) -> None:
        for flow, nbytes in inlet.take_repeated():
            flow.consumed += nbytes
            self.give_back(flow)
        stage = self._plane.stages.get(inlet.id)
        if stage is not None:
            stage.put(free)
            for flow, item in free:
                if isinstance(item, FlowEnded):
                    stage.saving.urge()  # its outlet waits for the acknowledgement
                    self._plane.facts.append(InputEnded(inlet.id, flow.id, flow.lost))
            if stage.spec.envelope is None and free and isinstance(free[-1][1], FlowEnded):
                # The supplier that this relay serves has left.
                stage.leave_when_empty()
        else:
            for flow, item in free:
                if isinstance(item, Chunk):
                    batch = self._context.registry.renew(item.batch)
                    self._context.effects.append(Deliver(inlet.id, flow.id, batch, item.nbytes))
            if inlet.sources:
                news = self.acknowledging.setdefault(inlet.id, {})
                for _, item in free:
                    if not isinstance(item, FlowEnded):
                        news[supplier_of(item)] = item.upto
                if self._context.now - self._acknowledged_at >= ACKNOWLEDGE_EVERY or self._all_here(
                    inlet
                ):
                    self._acknowledged_at = self._context.now
                    self._acknowledge(inlet.id)
        self._drop_broken(inlet)
        self._after(inlet)

    def _after(self, inlet: Inlet) -> None:
        if inlet.id in self._plane.stages:
            self._plane.touch(inlet.id)
        elif inlet.id not in self._plane.inlets:
            return
        elif inlet.error is not None or inlet.complete:
            self.close(inlet.id)
            self._context.effects.append(EndSubscription(inlet.id, _why(inlet)))

    def _drop_flow(self, flow: InFlow, goes_on: bool = False) -> None:
        self._plane.tell(flow.source, FlowDropped(flow.id, flow.outlet, not goes_on))

    def _acknowledge(self, inlet_id: int) -> None:
        """Acknowledge what a subscription has."""
        upto = self.acknowledging.pop(inlet_id)
        if (inlet := self._plane.inlets.get(inlet_id)) is not None:
            for outlet, (node, subscriber) in list(inlet.sources.items()):
                self._plane.tell(
                    node, Acknowledged(outlet, subscriber, upto, outlet in inlet.leaving)
                )
            inlet.leave(inlet.received)

    def _all_here(self, inlet: Inlet) -> bool:
        return all(node == self._context.here for node, _ in inlet.sources.values())


def _why(inlet: Inlet) -> ActiveBrokerError | None:
    """The error with which a subscription ends, if it ends with one."""
    return None if (failure := inlet.failure) is None else revive(failure)

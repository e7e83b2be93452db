"""Where events leave a node: its outlets, and the flows from them, with credit.

Flows between two parts of the same node take the same way as those between nodes, except that
their items wait here instead of being put on a link.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import structs

from activebroker.core.errors import ProtocolError
from activebroker.matching import Parcel
from activebroker.node.dataplane.outlet import Item, OutFlow, Outlet
from activebroker.node.dataplane.plane import Arrival, Plane
from activebroker.node.effects import OutletClosed, ResumeOutlet
from activebroker.protocol.messages import (
    MOST_TO,
    CreditReturned,
    Events,
    FlowDropped,
    FlowEnded,
    FlowOpened,
    FlowRewound,
    Settled,
)
from activebroker.protocol.specs import UNPLACED, FlowSpec, Position, Positions


@dataclass(frozen=True, slots=True)
class Succession:
    """What outlets go on with that a program's node before has left: by channel, who was served
    there, and since when; how far its suppliers had come, by channel and name."""

    takers: Mapping[str, Mapping[str, Positions]]
    streams: Mapping[tuple[str, str], Position]


class Outlets:
    """The sending ends of a node's flows."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._context = plane.context
        # By peer, in order: the batches, each with the flows and ports that it goes to.
        self._leaving: dict[str, list[tuple[Parcel, list[tuple[int, int]]]]] = {}
        self._before = Succession({}, {})
        self.awaited: Mapping[str, Mapping[str, Positions]] = {}  # of those before: who may be back
        self.blocked: dict[int, None] = {}  # supplier outlets that were not ready

    def succeed(self, before: Succession) -> None:
        """Let outlets that are opened wait until those who were served there before are back, and
        go on with the streams of their suppliers."""
        self._before, self.awaited = before, before.takers

    def await_no_more(self) -> None:
        self.awaited = {}
        for outlet in self._plane.outlets.values():
            outlet.awaited.clear()
            self._plane.touch(outlet.id)

    # --- for the directory --------------------------------------------------------------------

    def open(self, id: int, channel: str, supplier: str | None, numbers: bool = False) -> Outlet:
        """Raises ProtocolError where its number is taken."""
        if id in self._plane.outlets:
            raise ProtocolError(f"{self._context.here!r} has an outlet {id} already.")
        outlet = self._plane.outlets[id] = Outlet(id, channel, supplier, self._carry, numbers)
        outlet.awaited.update(dict.fromkeys(self.awaited.get(channel, ())))
        at = None if supplier is None else self._before.streams.get((channel, supplier))
        if at is not None:
            outlet.go_on(at, self._before.takers.get(channel, {}))
        self._wait_if_blocked(outlet)
        return outlet

    def close(self, id: int, finished: bool) -> None:
        """End a supplier's outlet behind all it has published."""
        outlet = self._plane.outlets.get(id)
        if outlet is None:
            return
        if outlet.ended:
            if finished:
                self.let_go(outlet)
            return
        if outlet.supplier is not None:
            outlet.end_stream(outlet.supplier)
        outlet.end(finished)
        self._context.effects.append(OutletClosed(id, finished))
        self._plane.touch(id)

    def let_go(self, outlet: Outlet) -> None:
        """The channel is being closed: none of its filters will go on elsewhere."""
        outlet.let_go()
        self._plane.touch(outlet.id)

    def open_flow(self, spec: FlowSpec, keeps: bool = False) -> Positions:
        """Begin a flow; return how far its outlet had come before it.

        `keeps`: what its taker has not settled, whether or not it recovers.
        """
        outlet = self._plane.outlets.get(spec.outlet)
        if outlet is not None and outlet.spared.pop(spec.id, 0) is None:
            return {}
        before = {} if outlet is None else dict(outlet.positions)
        keeps = keeps or spec.recovers
        tracks = outlet is not None and (keeps or outlet.tracks)
        opened = FlowOpened(
            spec.id,
            spec.port,
            spec.outlet,
            spec.after,
            spec.supplier,
            spec.taker if tracks else "",
            (stage := self._plane.stages.get(spec.outlet)) is not None and stage.saving.recovers,
            spec.behind,
            None if outlet is None else outlet.begins,
            before.get(spec.supplier) if spec.supplier is not None else None,
            self._began(spec, before),
        )
        self._plane.tell(spec.target, opened)
        if outlet is not None:
            outlet.open(spec, keeps, self._only_looks(spec))
            if spec.target == UNPLACED:  # what is for a filter that waits is kept until it has one
                outlet.lost(UNPLACED)
            self._wait_if_blocked(outlet)  # by what was kept
            self._plane.touch(outlet.id)  # by who was awaited
        else:
            # It ended by itself in the meantime, and whoever waits for this flow has to know.
            error = self._plane.stopped.get(spec.outlet)
            finished = error is not None or spec.supplier is not None
            end = FlowEnded(spec.id, spec.port, finished, error)
            self._carry(OutFlow(spec), end)
        return before

    def _began(self, spec: FlowSpec, before: Positions) -> Position | None:
        """Where a supplier's stream was when a taker came, if that is known."""
        outlet = self._plane.outlets.get(spec.outlet)
        if outlet is None or spec.supplier is None:
            return None
        if outlet.supplier is not None:
            return outlet.began(spec.taker)
        relay = self._plane.stages.get(spec.outlet)  # where nothing has come to it, it began itself
        since = relay.port.since if relay is not None else {}
        return before.get(spec.supplier, since.get(spec.supplier))

    def _only_looks(self, spec: FlowSpec) -> bool:
        """Whether a flow leads to a filter at this node that only looks at events."""
        stage = self._plane.stages.get(spec.port) if spec.target == self._context.here else None
        envelope = stage.spec.envelope if stage is not None else None
        return envelope is not None and envelope.only_looks

    def close_flow(self, outlet_id: int, flow_id: int, taker: str | None = None) -> None:
        """The flow's port is gone; with `taker`, for good."""
        if (outlet := self._touched(outlet_id)) is not None:
            if taker is not None and not outlet.ended and flow_id not in outlet.flows:
                outlet.spared[flow_id] = None
            outlet.close(flow_id)
            if taker is not None:
                outlet.drop(taker)

    def end_flow(self, outlet_id: int, flow_id: int) -> None:
        """End a flow behind what it was given."""
        if (outlet := self._touched(outlet_id)) is not None:
            outlet.end_flow(flow_id)

    def finish_flow(self, outlet_id: int, flow_id: int, behind: Positions) -> None:
        """End a flow for good, when its outlet has come so far."""
        if (outlet := self._touched(outlet_id)) is not None:
            outlet.finish(flow_id, behind)

    def sent_to(self, outlet_id: int, taker: str) -> Positions:
        """How far an outlet has given a taker events."""
        outlet = self._plane.outlets.get(outlet_id)
        known = outlet.takers.get(taker) if outlet is not None else None
        return dict(known.sent) if known is not None else {}

    def set_predicate(
        self, outlet_id: int, taker: str, predicate: str | None, certain: bool = True
    ) -> Positions:
        """Change what a taker is given; return the position from which on it is."""
        if (outlet := self._plane.outlets.get(outlet_id)) is None:
            return {}
        outlet.set_predicate(taker, predicate, certain)
        return dict(outlet.positions)

    def forget_taker(self, outlet_id: int, taker: str) -> None:
        """A taker will not resume: keep nothing for it."""
        if (outlet := self._touched(outlet_id)) is not None:
            outlet.forget(taker)

    def lost(self, peer: str) -> None:
        """A node is gone: end what led to it."""
        for outlet in self._plane.outlets.values():
            outlet.lost(peer)
            self._plane.touch(outlet.id)

    # --- events on their way ------------------------------------------------------------------

    def receive(self, body: FlowDropped | FlowRewound | Settled | CreditReturned) -> None:
        """What the receiving end of a flow says."""
        if isinstance(body, FlowRewound):
            self._rewind(body.outlet, body.flow, body.since)
        elif (outlet := self._touched(body.outlet)) is not None:
            match body:
                case CreditReturned(flow, _, nbytes):
                    outlet.return_credit(flow, nbytes)
                case Settled(_, taker, upto, ended):
                    outlet.settle(taker, upto, ended)
                case FlowDropped(flow, _, taker_too):
                    outlet.close(flow)
                    if taker_too:
                        outlet.drop_served(flow)

    def publish(self, outlet_id: int, parcel: Parcel) -> None:
        outlet = self._plane.outlets[outlet_id]
        parcel.upto = (outlet.stream, parcel.batch.last_seq + 1)
        outlet.emit(parcel)
        self._wait_if_blocked(outlet)

    def send_events(self) -> None:
        """Send each batch that flows to a node share, once. To be called before anything else is
        sent, so that all is in order."""
        while self._leaving:
            leaving, self._leaving = self._leaving, {}
            for target, parcels in leaving.items():
                for parcel, to in parcels:
                    batch = parcel.batch
                    self._context.announce(target, batch.type)
                    type_, certain = batch.type.fingerprint, parcel.certain
                    for first in range(0, len(to), MOST_TO):
                        some = tuple(to[first : first + MOST_TO])
                        head = Events(some, batch.supplier, type_, certain, parcel.upto)
                        self._context.send(target, head, parcel.buffers)

    def _carry(self, flow: OutFlow, item: Item) -> None:
        spec = flow.spec
        if spec.target == self._context.here:
            self._plane.under_way.append(Arrival(spec.port, spec.id, item))
            return
        if not isinstance(item, Parcel):
            self._context.send(spec.target, item, ())
            return
        parcels = self._leaving.setdefault(spec.target, [])
        # It shares a batch with the last one only: one before may be before what this flow has.
        if not parcels or parcels[-1][0] is not item:
            parcels.append((item, []))
        parcels[-1][1].append((spec.id, spec.port))

    def _rewind(self, outlet_id: int, flow_id: int, since: Positions) -> None:
        """Begin a flow once more, with what is kept of what its taker has not got."""
        outlet = self._plane.outlets.get(outlet_id)
        if outlet is not None and outlet.served_by(flow_id) is not None:
            spec = outlet.flows[flow_id].spec
            self.open_flow(structs.replace(spec, after=(), since=since, resumes=True), keeps=True)

    def _wait_if_blocked(self, outlet: Outlet) -> None:
        """The user of a supplier's outlet that is not ready has to hear when it is."""
        if outlet.supplier is not None and not outlet.ready:
            self.blocked[outlet.id] = None

    def go_on(self, outlet: Outlet) -> None:
        """Let a supplier that had to wait publish again, if its outlet is ready."""
        if outlet.id in self.blocked and outlet.ready:
            del self.blocked[outlet.id]
            self._context.effects.append(ResumeOutlet(outlet.id))

    def remove(self, id: int) -> None:
        """An outlet has ended, and nothing more will leave."""
        self.blocked.pop(id, None)
        del self._plane.outlets[id]

    def _touched(self, id: int) -> Outlet | None:
        self._plane.touch(id)
        return self._plane.outlets.get(id)

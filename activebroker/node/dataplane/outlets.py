"""Where events leave a node: its outlets, and the flows from them, with credit.

Flows inside a node work like those between nodes, but their items are queued here instead of being
put on a link.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import structs

from activebroker.core.errors import ActiveBrokerError, ProtocolError
from activebroker.matching import Chunk
from activebroker.node.dataplane.logged import LogOutlet
from activebroker.node.dataplane.outlet import Item, OutFlow, Outlet
from activebroker.node.dataplane.plane import Arrival, Plane
from activebroker.node.effects import EndSupplier, Reply, ResumeOutlet
from activebroker.protocol.flows import (
    MOST_TO,
    Acknowledged,
    CreditReturned,
    Events,
    FlowDropped,
    FlowEnded,
    FlowOpened,
    FlowRewound,
)
from activebroker.protocol.specs import (
    LOG,
    NOWHERE,
    UNPLACED,
    FlowSpec,
    Offset,
    Offsets,
    StageSpec,
)


@dataclass(frozen=True, slots=True)
class Succession:
    """What the program's node before has left for the outlets; see `Legacy`."""

    subscribers: Mapping[str, Mapping[str, Offsets]]
    streams: Mapping[tuple[str, str], Offset]


class Outlets:
    """The sending ends of a node's flows."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._context = plane.context
        # By peer: the batches in order, each with the (flow, inlet) pairs that it goes to.
        self._leaving: dict[str, list[tuple[Chunk, list[tuple[int, int]]]]] = {}
        self._before = Succession({}, {})
        self.awaited: Mapping[str, Mapping[str, Offsets]] = {}  # subscribers that may come back
        self.blocked: dict[int, None] = {}  # supplier outlets that were not ready
        # By outlet, the syncs that wait: (id, all before this number is to be acknowledged).
        self._syncs: dict[int, list[tuple[int, int]]] = {}

    def succeed(self, before: Succession) -> None:
        """Let outlets wait, when they are opened, until the subscribers of before are back, and
        continue the streams of before."""
        self._before, self.awaited = before, before.subscribers

    def await_no_more(self) -> None:
        self.awaited = {}
        for outlet in self._plane.outlets.values():
            outlet.awaited.clear()
            self._plane.touch(outlet.id)

    # --- for the directory --------------------------------------------------------------------

    def open(self, id: int, channel: str, supplier: str, stream: int | None = None) -> Outlet:
        """Open a supplier's outlet. Raises ProtocolError if the id is taken."""
        return self._add(Outlet(id, channel, supplier, self._carry, stream=stream))

    def open_for(self, stage: StageSpec) -> Outlet:
        """Open a stage's outlet. Raises ProtocolError if the id is taken."""
        if stage.engine == LOG:
            return self._add(LogOutlet(stage.id, stage.channel, self._carry))
        numbers = stage.envelope is not None
        return self._add(Outlet(stage.id, stage.channel, None, self._carry, numbers))

    def _add(self, outlet: Outlet) -> Outlet:
        id, channel, supplier = outlet.id, outlet.channel, outlet.supplier
        if id in self._plane.outlets:
            raise ProtocolError(f"{self._context.here!r} has an outlet {id} already.")
        self._plane.outlets[id] = outlet
        outlet.awaited.update(dict.fromkeys(self.awaited.get(channel, ())))
        at = None if supplier is None else self._before.streams.get((channel, supplier))
        if at is not None:
            outlet.go_on(at, self._before.subscribers.get(channel, {}))
        self._wait_if_blocked(outlet)
        return outlet

    def close(self, id: int, finished: bool) -> None:
        """End a supplier's outlet after all that it has published."""
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
        self._context.effects.append(EndSupplier(id, finished))
        self._plane.touch(id)

    def let_go(self, outlet: Outlet) -> None:
        """The channel is being closed: no subscriber of the outlet will resume."""
        outlet.let_go()
        self._plane.touch(outlet.id)

    def open_flow(self, spec: FlowSpec, retains: bool = False) -> Offsets:
        """Begin a flow; return how far its outlet had come before it.

        `retains`: retain what the subscriber has not acknowledged, even if it does not recover.
        """
        outlet = self._plane.outlets.get(spec.outlet)
        if outlet is not None and outlet.spared.pop(spec.id, 0) is None:
            return {}
        before = {} if outlet is None else dict(outlet.offsets)
        retains = retains or spec.recovers
        tracks = outlet is not None and (retains or outlet.tracks)
        opened = FlowOpened(
            spec.id,
            spec.inlet,
            spec.outlet,
            spec.after,
            spec.supplier,
            spec.subscriber if tracks else "",
            (stage := self._plane.stages.get(spec.outlet)) is not None and stage.saving.recovers,
            spec.follows,
            None if outlet is None else outlet.begins,
            before.get(spec.supplier) if spec.supplier is not None else None,
            self._began(spec, before),
        )
        self._plane.tell(spec.target, opened)
        if outlet is not None:
            outlet.open(spec, retains, self._only_looks(spec))
            if spec.target == UNPLACED:  # it is retained until the filter has a place
                outlet.lost(UNPLACED)
            self._wait_if_blocked(outlet)  # too much may be retained now
            self._plane.touch(outlet.id)  # it may be ready, since one awaited subscriber is back
        else:
            # The outlet has ended meanwhile, and an inlet that waits for this flow has to know.
            error = self._plane.stopped.get(spec.outlet)
            finished = error is not None or spec.supplier is not None
            end = FlowEnded(spec.id, spec.inlet, finished, error)
            self._carry(OutFlow(spec), end)
        return before if spec.log is None else {}  # else the subscriber begins before

    def _began(self, spec: FlowSpec, before: Offsets) -> Offset | None:
        """Where a supplier's stream was when a subscriber came, if that is known."""
        outlet = self._plane.outlets.get(spec.outlet)
        if outlet is None or spec.supplier is None:
            return None
        if outlet.supplier is not None:
            return outlet.began(spec.subscriber)
        relay = self._plane.stages.get(spec.outlet)  # if nothing has come yet: where it began
        since = relay.inlet.since if relay is not None else {}
        return before.get(spec.supplier, since.get(spec.supplier))

    def _only_looks(self, spec: FlowSpec) -> bool:
        """Whether a flow leads to a filter at this node that only looks at events."""
        stage = self._plane.stages.get(spec.inlet) if spec.target == self._context.here else None
        envelope = stage.spec.envelope if stage is not None else None
        return envelope is not None and envelope.only_looks

    def close_flow(self, outlet_id: int, flow_id: int, subscriber: str | None = None) -> None:
        """A flow's inlet is gone; with `subscriber`, that is gone for good, too."""
        if (outlet := self._touched(outlet_id)) is not None:
            if subscriber is not None and not outlet.ended and flow_id not in outlet.flows:
                outlet.spared[flow_id] = None
            outlet.close(flow_id)
            if subscriber is not None:
                outlet.drop(subscriber)

    def end_flow(self, outlet_id: int, flow_id: int) -> None:
        """End a flow after what it was given."""
        if (outlet := self._touched(outlet_id)) is not None:
            outlet.end_flow(flow_id)

    def finish_flow(self, outlet_id: int, flow_id: int, after: Offsets) -> None:
        """End a flow for good when its outlet has come to these offsets."""
        if (outlet := self._touched(outlet_id)) is not None:
            outlet.finish(flow_id, after)

    def sent_to(self, outlet_id: int, subscriber: str) -> Offsets:
        """How far an outlet has given a subscriber events."""
        outlet = self._plane.outlets.get(outlet_id)
        known = outlet.subscribers.get(subscriber) if outlet is not None else None
        return dict(known.sent) if known is not None else {}

    def set_predicate(
        self, outlet_id: int, subscriber: str, predicate: str | None, certain: bool = True
    ) -> Offsets:
        """Change a subscriber's predicate; return the offsets from which on it applies."""
        if (outlet := self._plane.outlets.get(outlet_id)) is None:
            return {}
        outlet.set_predicate(subscriber, predicate, certain)
        return dict(outlet.offsets)

    def forget_subscriber(self, outlet_id: int, subscriber: str) -> None:
        """A subscriber will not resume: retain nothing for it."""
        if (outlet := self._touched(outlet_id)) is not None:
            outlet.forget(subscriber)

    def lost(self, peer: str) -> None:
        """A node is gone: close the flows to it."""
        for outlet in self._plane.outlets.values():
            outlet.lost(peer)
            self._plane.touch(outlet.id)

    # --- events on their way ------------------------------------------------------------------

    def receive(self, body: FlowDropped | FlowRewound | Acknowledged | CreditReturned) -> None:
        """Take a message from the receiving end of a flow."""
        if isinstance(body, FlowRewound):
            self._rewind(body.outlet, body.flow, body.since)
        elif (outlet := self._touched(body.outlet)) is not None:
            match body:
                case CreditReturned(flow, _, nbytes):
                    outlet.return_credit(flow, nbytes)
                case Acknowledged(_, subscriber, upto, ended):
                    outlet.acknowledge(subscriber, upto, ended)
                case FlowDropped(flow, _, subscriber_too):
                    outlet.close(flow)
                    if subscriber_too:
                        outlet.drop_served(flow)

    def publish(self, outlet_id: int, chunk: Chunk) -> None:
        outlet = self._plane.outlets[outlet_id]
        chunk.upto = (outlet.stream, chunk.batch.last_seq + 1)
        outlet.emit(chunk)
        self._wait_if_blocked(outlet)

    def sync(self, id: int, outlet_id: int) -> None:
        """Reply when all that an outlet has been given so far is acknowledged."""
        outlet = self._plane.outlets.get(outlet_id)
        if outlet is None or outlet.supplier is None:
            self._context.effects.append(Reply(id))  # it has ended, which it does after that
            return
        upto = outlet.offsets.get(outlet.supplier, NOWHERE)[1]
        self._syncs.setdefault(outlet_id, []).append((id, upto))
        self._plane.touch(outlet_id)

    def abandon(self, outlet: Outlet, error: ActiveBrokerError) -> None:
        """End an outlet at once: what it was given may be lost."""
        for id, _ in self._syncs.pop(outlet.id, ()):
            self._context.effects.append(Reply(id, error=error))
        outlet.abandon()
        self._plane.touch(outlet.id)

    def send_events(self) -> None:
        """Send the batches that wait, each once for all flows to a node. Called before anything
        else is sent, so that order is preserved."""
        while self._leaving:
            leaving, self._leaving = self._leaving, {}
            for target, chunks in leaving.items():
                for chunk, to in chunks:
                    batch = chunk.batch
                    self._context.announce(target, batch.type)
                    type_, certain = batch.type.fingerprint, chunk.certain
                    for first in range(0, len(to), MOST_TO):
                        some = tuple(to[first : first + MOST_TO])
                        head = Events(some, batch.supplier, type_, certain, chunk.upto)
                        self._context.send(target, head, chunk.buffers)

    def _carry(self, flow: OutFlow, item: Item) -> None:
        spec = flow.spec
        if spec.target == self._context.here:
            self._plane.under_way.append(Arrival(spec.inlet, spec.id, item))
            return
        if not isinstance(item, Chunk):
            self._context.send(spec.target, item, ())
            return
        chunks = self._leaving.setdefault(spec.target, [])
        # Share only the last batch: to join an earlier one could overtake what this flow has sent.
        if not chunks or chunks[-1][0] is not item:
            chunks.append((item, []))
        chunks[-1][1].append((spec.id, spec.inlet))

    def _rewind(self, outlet_id: int, flow_id: int, since: Offsets) -> None:
        """Begin a flow once more, with what is retained for its subscriber after `since`."""
        outlet = self._plane.outlets.get(outlet_id)
        if outlet is not None and outlet.served_by(flow_id) is not None:
            spec = outlet.flows[flow_id].spec
            self.open_flow(structs.replace(spec, after=(), since=since, resumes=True), retains=True)

    def _wait_if_blocked(self, outlet: Outlet) -> None:
        """If a supplier's outlet is not ready, remember to tell its user when it is."""
        if outlet.supplier is not None and not outlet.ready:
            self.blocked[outlet.id] = None

    def go_on(self, outlet: Outlet) -> None:
        """Let a supplier that had to wait publish again, if its outlet is ready; tell who wants to
        know what is acknowledged; read what the subscribers of a log lack."""
        if isinstance(outlet, LogOutlet):
            self._context.effects += outlet.reads()
        if (syncs := self._syncs.get(outlet.id)) is not None:
            acknowledged = outlet.acknowledged
            self._syncs[outlet.id] = [each for each in syncs if each[1] > acknowledged]
            self._context.effects += [Reply(id) for id, upto in syncs if upto <= acknowledged]
        if outlet.id in self.blocked and outlet.ready:
            del self.blocked[outlet.id]
            self._context.effects.append(ResumeOutlet(outlet.id))

    def remove(self, id: int) -> None:
        """Remove an outlet that has ended and has nothing more to send."""
        self.blocked.pop(id, None)
        self._context.effects += [Reply(sync) for sync, _ in self._syncs.pop(id, ())]
        del self._plane.outlets[id]

    def _touched(self, id: int) -> Outlet | None:
        self._plane.touch(id)
        return self._plane.outlets.get(id)

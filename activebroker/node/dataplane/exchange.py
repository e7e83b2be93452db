"""The data plane of a node: its outlets, ports and stages, and the flows between them.

Flows between two parts of the same node take the same way as those between nodes, except that
their items are queued here instead of put on a link.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import structs

from activebroker.core.errors import (
    ActiveBrokerError,
    FilterStopped,
    ProtocolError,
    Unreachable,
)
from activebroker.events import Batch, EventType, TypeRegistry, load
from activebroker.matching import Parcel
from activebroker.node.dataplane.outlet import WINDOW, OutFlow, Outlet
from activebroker.node.dataplane.port import LOST, InFlow, Port, supplier_of
from activebroker.node.dataplane.stage import Stage
from activebroker.node.effects import (
    CancelTimer,
    Deliver,
    Departed,
    Effect,
    EndSubscription,
    OutletClosed,
    ResumeOutlet,
    RunStage,
    SetTimer,
    UnloadStage,
)
from activebroker.protocol.frame import Buffers
from activebroker.protocol.messages import (
    ENDED,
    MOST_TO,
    Body,
    CheckpointKept,
    CheckpointTaken,
    CreditReturned,
    Events,
    FlowDropped,
    FlowEnded,
    FlowOpened,
    FlowRewound,
    OutletDrained,
    Settled,
    StreamEnded,
    Ties,
    TypeAnnounced,
)
from activebroker.protocol.specs import (
    UNPLACED,
    FlowSpec,
    Position,
    Positions,
    StageSpec,
    later,
)

log = logging.getLogger(__name__)
CREDIT_STEP = WINDOW // 4  # bytes consumed before credit goes back
SETTLE_EVERY = 0.01  # seconds between a subscription's news for what feeds it, if any

Send = Callable[[str, Body, Buffers], None]
Item = Parcel | StreamEnded | FlowEnded


class Exchange:
    """`send(peer, body, buffers)` puts a message on a link, `announce(peer, type)` makes sure that
    the peer knows a type; effects collect in `effects`.

    `on_flow_ended(stage, flow, lost)` and `on_flow_opened(stage, flow)` are the ACK and the mark of
    a third-party derivation, told after everything that came before them in the flow.
    `on_saved(stage)`: `save` is done. `on_changed(stage, failure)`: the filter has other
    parameters, or could not get them.
    """

    def __init__(
        self,
        here: str,
        directory: str,
        send: Send,
        announce: Callable[[str, EventType], None],
        registry: TypeRegistry,
        effects: list[Effect],
        on_flow_opened: Callable[[int, int], None],
        on_flow_ended: Callable[[int, int, bool], None],
        on_saved: Callable[[int], None],
        on_changed: Callable[[int, str], None],
    ) -> None:
        self.outlets: dict[int, Outlet] = {}
        self.ports: dict[int, Port] = {}
        self.stages: dict[int, Stage] = {}
        self.cpu_seconds = 0.0  # used by filters, also by those that are gone
        self._here = here
        self._directory = directory
        self._send = send
        self._announce = announce
        self._registry = registry
        self._effects = effects
        self._on_flow_opened = on_flow_opened
        self._on_flow_ended = on_flow_ended
        self._on_saved = on_saved
        self._on_changed = on_changed
        self._local: deque[Callable[[], object]] = deque()
        # By peer and batch, the batch, and the flows and ports that it goes to.
        self._leaving: dict[tuple[str, int], tuple[Parcel, list[tuple[int, int]]]] = {}
        # By channel, who was served by the node before, and since when; those who are waited for.
        self._before: Mapping[str, Mapping[str, Positions]] = {}
        self._awaited: Mapping[str, Mapping[str, Positions]] = {}
        self._streams: Mapping[tuple[str, str], Position] = {}  # of suppliers who go on
        self._filtered: Mapping[str, Positions] = {}  # how far filters had come there
        self._blocked: dict[int, None] = {}  # supplier outlets that were not ready
        self._stopped: dict[int, str] = {}  # outlets whose filter was stopped, and why
        self.settling: dict[int, Positions] = {}  # subscriptions' news for what feeds them
        self._settled_at = 0.0
        self.now = 0.0  # the time of the input in hand

    # --- what the directory sets up -----------------------------------------------------------

    def open_outlet(
        self, id: int, channel: str, supplier: str | None, numbers: bool = False
    ) -> Outlet:
        """Raises ProtocolError where its number is taken."""
        if id in self.outlets:
            raise ProtocolError(f"{self._here!r} has an outlet {id} already.")
        outlet = self.outlets[id] = Outlet(id, channel, supplier, self._carry, numbers)
        outlet.awaited.update(dict.fromkeys(self._awaited.get(channel, ())))
        if supplier is not None and (at := self._streams.get((channel, supplier))) is not None:
            outlet.go_on(at, self._before.get(channel, {}))
        self._wait_if_blocked(outlet)
        return outlet

    def close_outlet(self, id: int, finished: bool) -> None:
        """End a supplier's outlet behind all it has published."""
        outlet = self.outlets.get(id)
        if outlet is None:
            return
        if outlet.ended:
            if finished:
                self.let_go(outlet)
            return
        if outlet.supplier is not None:
            outlet.end_stream(outlet.supplier)
        outlet.end(finished)
        self._effects.append(OutletClosed(id, finished))
        self._sweep(outlet)

    def let_go(self, outlet: Outlet) -> None:
        """The channel is being closed: none of its filters will go on elsewhere."""
        outlet.let_go()
        self._unblocked(outlet)

    def open_flow(self, spec: FlowSpec, keeps: bool = False) -> Positions:
        """Begin a flow; return how far its outlet had come before it.

        `keeps`: what its taker has not settled, whether or not it recovers.
        """
        outlet = self.outlets.get(spec.outlet)
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
            (stage := self.stages.get(spec.outlet)) is not None and stage.saving.recovers,
            spec.behind,
            None if outlet is None else outlet.begins,
            before.get(spec.supplier) if spec.supplier is not None else None,
            self._began(spec, before),
        )
        self._tell(spec.target, opened)
        if outlet is not None:
            outlet.open(spec, keeps, self._only_looks(spec))
            if spec.target == UNPLACED:  # what is for a filter that waits is kept until it has one
                outlet.lost(UNPLACED)
            self._wait_if_blocked(outlet)  # by what was kept
            self._unblocked(outlet)  # by who was awaited
        else:
            # It ended by itself in the meantime, and whoever waits for this flow has to know.
            error = self._stopped.get(spec.outlet)
            finished = error is not None or spec.supplier is not None
            end = FlowEnded(spec.id, spec.port, finished, error)
            self._carry(OutFlow(spec), end)
        return before

    def _began(self, spec: FlowSpec, before: Positions) -> Position | None:
        """Where a supplier's stream was when a taker came, if that is known."""
        outlet = self.outlets.get(spec.outlet)
        if outlet is None or spec.supplier is None:
            return None
        if outlet.supplier is not None:
            return outlet.began(spec.taker)
        relay = self.stages.get(spec.outlet)  # where nothing has come to it, it began itself
        since = relay.port.since if relay is not None else {}
        return before.get(spec.supplier, since.get(spec.supplier))

    def _only_looks(self, spec: FlowSpec) -> bool:
        """Whether a flow leads to a filter at this node that only looks at events."""
        stage = self.stages.get(spec.port) if spec.target == self._here else None
        envelope = stage.spec.envelope if stage is not None else None
        return envelope is not None and envelope.only_looks

    def expect_flow(self, spec: FlowSpec, recovers: bool) -> None:
        if (port := self.ports.get(spec.port)) is not None:
            port.expect(spec.id, spec.source, spec.outlet, spec.supplier, recovers)

    def close_flow(self, outlet_id: int, flow_id: int, taker: str | None = None) -> None:
        """The flow's port is gone; with `taker`, for good."""
        if (outlet := self.outlets.get(outlet_id)) is not None:
            if taker is not None and not outlet.ended and flow_id not in outlet.flows:
                outlet.spared[flow_id] = None
            outlet.close(flow_id)
            if taker is not None:
                outlet.drop(taker)
            self._unblocked(outlet)

    def drop_flow(self, outlet_id: int, flow_id: int, taker_too: bool) -> None:
        """A port says that it is gone, and perhaps the one it was for as well."""
        if (outlet := self.outlets.get(outlet_id)) is not None:
            outlet.close(flow_id)
            if taker_too:
                outlet.drop_served(flow_id)
            self._unblocked(outlet)

    def rewind_flow(self, outlet_id: int, flow_id: int, since: Positions) -> None:
        """Begin a flow once more, with what is kept of what its taker has not got."""
        outlet = self.outlets.get(outlet_id)
        if outlet is not None and outlet.served_by(flow_id) is not None:
            spec = outlet.flows[flow_id].spec
            self.open_flow(structs.replace(spec, after=(), since=since, resumes=True), keeps=True)

    def end_flow(self, outlet_id: int, flow_id: int) -> None:
        """End a flow behind what it was given."""
        if (outlet := self.outlets.get(outlet_id)) is not None:
            outlet.end_flow(flow_id)
            self._unblocked(outlet)

    def finish_flow(self, outlet_id: int, flow_id: int, behind: Positions) -> None:
        """End a flow for good, when its outlet has come so far."""
        if (outlet := self.outlets.get(outlet_id)) is not None:
            outlet.finish(flow_id, behind)
            self._unblocked(outlet)

    def sent_to(self, outlet_id: int, taker: str) -> Positions:
        """How far an outlet has given a taker events."""
        outlet = self.outlets.get(outlet_id)
        known = outlet.takers.get(taker) if outlet is not None else None
        return dict(known.sent) if known is not None else {}

    def set_predicate(
        self, outlet_id: int, taker: str, predicate: str | None, certain: bool = True
    ) -> Positions:
        """Change what a taker is given; return the position from which on it is."""
        if (outlet := self.outlets.get(outlet_id)) is None:
            return {}
        outlet.set_predicate(taker, predicate, certain)
        return dict(outlet.positions)

    def open_stage(self, spec: StageSpec) -> Stage:
        """Raises ProtocolError where its number is taken."""
        if spec.id in self.ports:
            raise ProtocolError(f"{self._here!r} has a port {spec.id} already.")
        port = Port(spec.id)
        if spec.checkpoint is None:
            port.came = dict(self._filtered.get(spec.channel, {}))
        outlet = self.open_outlet(spec.id, spec.channel, None, numbers=spec.envelope is not None)
        self.ports[spec.id] = port
        stage = Stage(spec, port, outlet, self._consumed, self._suppliers)
        self.stages[spec.id] = stage
        return stage

    def _suppliers(self) -> set[str]:
        """The suppliers at this node."""
        return {each.supplier for each in self.outlets.values() if each.supplier is not None}

    def start_stage(self, stage: Stage) -> None:
        stage.started = True
        self._set_idle_timer(stage)
        self.pump(stage)

    def discard_stage(self, id: int) -> None:
        """Drop a stage with all that its outlet still has: another place makes it again."""
        if (outlet := self.outlets.pop(id, None)) is not None:
            outlet.abandon()
        self.remove_stage(id, goes_on=True)

    def remove_stage(self, id: int, goes_on: bool = False) -> None:
        """Drop a stage; what its outlet still has for its flows goes out. `goes_on`: its filter
        will be elsewhere."""
        self._stopped.pop(id, None)
        if (stage := self.stages.pop(id, None)) is None:
            return
        if stage.changing is not None:
            self._on_changed(id, ENDED)
        # One that was stopped goes on elsewhere if this node is lost before the directory knows.
        self._drop_port(self.ports.pop(id), goes_on or stage.outlet.error is not None)
        if (outlet := self.outlets.get(id)) is not None:
            if not outlet.ended:
                outlet.end()
            self._sweep(outlet)
        self._effects += [UnloadStage(id), CancelTimer(f"idle {id}")]

    def open_port(self, id: int, received: Positions) -> None:
        """`received`: how far a subscription has come at the node before."""
        port = self.ports[id] = Port(id)
        port.received.update(received)
        port.had.update(received)
        port.direct = bool(received)

    def close_port(self, id: int) -> None:
        """The user closed the subscription."""
        if id in self.settling:  # who has ended waits for it
            self._settle_port(id)
        if (port := self.ports.pop(id, None)) is not None:
            self._drop_port(port)

    def complete_port(self, id: int, flows: Sequence[int]) -> None:
        """The channel was closed: the port ends when `flows` have finished."""
        self._stopped.pop(id, None)
        if (port := self.ports.get(id)) is not None:
            port.close(flows)
            if (stage := self.stages.get(id)) is not None:
                self.let_go(stage.outlet)
            self._after(port)

    def abandon_port(self, id: int, reason: str) -> None:
        """What fed a subscription is gone."""
        if id in self.ports and id not in self.stages:
            self.close_port(id)
            self._effects.append(EndSubscription(id, Unreachable(reason)))

    def release_port(self, id: int, outlets: Sequence[int]) -> Positions:
        """What fed a port will be replaced; return how far it has come, by supplier."""
        if (port := self.ports.get(id)) is None:
            return {}
        return port.release(outlets)

    def owe(self, stage: Stage, ties: Ties) -> None:
        """A filter came here: it still has to tell some outlets what it has settled."""
        stage.port.since.update(ties.since)
        for outlet, (node, taker) in ties.outlets.items():
            if outlet not in stage.port.sources:
                stage.port.sources[outlet] = node, taker
                stage.port.leaving[outlet] = ties.came

    def forget_taker(self, outlet_id: int, taker: str) -> None:
        """A taker will not resume: keep nothing for it."""
        if (outlet := self.outlets.get(outlet_id)) is not None:
            outlet.forget(taker)
            self._unblocked(outlet)

    def save(self, stage: Stage) -> None:
        """A filter beside its sources is lost with them: from now on let it go on elsewhere."""
        sent: Positions = {}
        for flow in stage.port.flows.values():
            if (outlet := self.outlets.get(flow.outlet)) is not None:
                sent.update(outlet.keep(stage.spec.channel))
                stage.port.sources[outlet.id] = self._here, stage.spec.channel
        stage.begin_to_recover(sent)
        self.pump(stage)

    def forget_saved(self, stage: Stage) -> None:
        """Let a filter beside its sources be lost with them."""
        stage.saving.recover_no_more()
        for outlet, (node, taker) in stage.port.sources.items():
            if node == self._here:
                self.forget_taker(outlet, taker)
        stage.port.sources.clear()
        stage.port.leaving.clear()
        self.pump(stage)

    def checkpoint_kept(self, stage_id: int) -> None:
        """The directory has a stage's checkpoint: what led up to it need not be kept."""
        if (stage := self.stages.get(stage_id)) is not None:
            waited = stage.saving.wanted
            for node, outlet, taker, upto, ended in stage.saving.kept():
                self._tell(node, Settled(outlet, taker, upto, ended))
            if waited and not stage.saving.wanted:
                self._on_saved(stage_id)
            self.pump(stage)

    @property
    def active(self) -> bool:
        """Whether time brings something about."""
        return bool(self.settling) or any(stage.saving.active for stage in self.stages.values())

    def tick(self) -> None:
        """Called several times a second."""
        for stage in list(self.stages.values()):
            stage.saving.tick()
            self.pump(stage)
        for port_id in list(self.settling):
            self._settle_port(port_id)

    def acknowledged(self, under_way: Iterable[tuple[Body, Buffers]]) -> dict[int, int]:
        """By supplier's outlet: all events before this number were taken over by all who want
        them. `under_way`: what links have sent, and peers have not acknowledged."""
        upto = {each.id: each.acknowledged for each in self.outlets.values() if each.supplier}
        for stream, batch in self.events_of(under_way):
            for outlet in upto:
                if self.outlets[outlet].stream == stream:
                    upto[outlet] = min(upto[outlet], batch.first_seq)
        return upto

    def events_of(self, bodies: Iterable[tuple[Body, Buffers]]) -> Iterator[tuple[int, Batch]]:
        """The events in messages from here, each with its stream."""
        for body, buffers in bodies:
            if isinstance(body, Events):
                type_ = self._registry.get(body.type)
                assert type_ is not None  # it was sent from here
                yield body.upto[0], load(type_, body.supplier, buffers)

    def waiting_for(self, target: str) -> Iterator[tuple[int, Batch]]:
        """The events of suppliers here that wait for credit of a node, each with its stream."""
        for outlet in self.outlets.values():
            for flow in outlet.flows.values():
                if outlet.supplier is not None and flow.spec.target == target:
                    for item in flow.waiting:
                        if isinstance(item, Parcel):
                            yield outlet.stream, item.batch

    def unsettled(self) -> Iterator[tuple[int, Batch]]:
        """The events of suppliers here that are kept for their takers, or wait for filters here,
        each with its stream."""
        streams = set()
        for outlet in self.outlets.values():
            if outlet.supplier is not None:
                streams.add(outlet.stream)
                for taker in outlet.takers.values():
                    for _, _, item in taker.kept:
                        if isinstance(item, Parcel):
                            yield outlet.stream, item.batch
        for stage in self.stages.values():
            for parcel in stage.waiting():
                if (stream := parcel.upto[0]) in streams:
                    yield stream, parcel.batch

    # --- a fabric that cannot be reached ------------------------------------------------------

    @property
    def served(self) -> dict[str, dict[str, Positions]]:
        """By channel, who is served by outlets here, or awaited; and where streams of suppliers
        here began for them."""
        served = {
            channel: {name: dict(began) for name, began in takers.items()}
            for channel, takers in self._awaited.items()
        }
        for outlet in self.outlets.values():
            there = served.setdefault(outlet.channel, {})
            for name, taker in outlet.takers.items():
                if not taker.closed:
                    began = there.setdefault(name, {})
                    if outlet.supplier is not None and taker.began is not None:
                        began[outlet.supplier] = taker.began
        return served

    @property
    def targets(self) -> tuple[str, ...]:
        """The nodes that are sent events from here."""
        flows = [flow for outlet in self.outlets.values() for flow in outlet.flows.values()]
        return tuple(dict.fromkeys(flow.spec.target for flow in flows))

    def wind_up(self) -> None:
        """Bring what was published to those who take it, and end all flows."""
        for stage in self.stages.values():
            stage.wind_up()
        for outlet in list(self.outlets.values()):
            outlet.lift_credit()
            if outlet.supplier is not None and not outlet.ended:
                outlet.end(keeps=True)
        for stage in list(self.stages.values()):
            self.pump(stage)

    @property
    def wound_up(self) -> bool:
        """Whether all has come and gone."""
        return all(port.quiet for port in self.ports.values()) and not any(
            outlet.flows for outlet in self.outlets.values()
        )

    def departure(self, reason: str) -> Departed:
        """What this node leaves behind, when nothing is under way."""
        return Departed(reason, self.served, streams=self.streams)

    @property
    def streams(self) -> dict[tuple[str, str], Position]:
        """How far suppliers here have come, by channel and supplier."""
        return {
            (each.channel, each.supplier): max(at, each.begins or at)
            for each in self.outlets.values()
            if each.supplier is not None and (at := each.positions.get(each.supplier))
        }

    @property
    def received(self) -> dict[int, Positions]:
        """How far ports here have come that are fed by suppliers themselves."""
        return {port.id: dict(port.received) for port in self.ports.values() if port.direct}

    @property
    def filtered(self) -> dict[str, Positions]:
        """By derived channel, how far filters here have come that are fed by suppliers
        themselves."""
        return {
            stage.spec.channel: later(stage.port.since, stage.saving.inputs)
            for stage in self.stages.values()
            if stage.port.direct
        }

    def succeed(self, before: Departed) -> None:
        """Let outlets that are opened wait until those who were served there before are back, and
        go on with the streams of their suppliers; and filters go on where those before were."""
        self._before = self._awaited = before.takers
        self._streams, self._filtered = before.streams, before.filtered

    def await_no_more(self) -> None:
        self._awaited = {}
        for outlet in list(self.outlets.values()):
            outlet.awaited.clear()
            self._unblocked(outlet)

    def abandon_all(self, reason: str, acknowledged: Mapping[int, int]) -> None:
        """Nothing here is of use without the directory, and nobody listens to us any more.

        Flows get no end from us: to those whom they lead to they are lost, as those of the dead.
        """
        for stage_id in list(self.stages):
            self.discard_stage(stage_id)  # for others, who still have it
        for port_id in list(self.ports):
            self.abandon_port(port_id, reason)
        for outlet in list(self.outlets.values()):
            if not outlet.ended:
                upto = acknowledged.get(outlet.id)
                self._effects.append(OutletClosed(outlet.id, False, Unreachable(reason), upto))
            outlet.abandon()
            self._unblocked(outlet)

    # --- events on their way ------------------------------------------------------------------

    def publish(self, outlet_id: int, parcel: Parcel) -> None:
        outlet = self.outlets[outlet_id]
        parcel.upto = (outlet.stream, parcel.batch.last_seq + 1)
        outlet.emit(parcel)
        self._wait_if_blocked(outlet)

    def consumed(self, port_id: int, flow_id: int, nbytes: int) -> None:
        """The user took a batch from a subscription."""
        port = self.ports.get(port_id)
        if port is not None and (flow := port.flows.get(flow_id)) is not None:
            self._consumed(flow, nbytes)

    def receive(self, source: str, body: Body, buffers: Sequence[Any]) -> bool:
        """Handle an in-band message or credit from a peer; False if it is neither."""
        match body:
            case Events():
                self._events_arrived(source, body, buffers)
            case StreamEnded(flow, port_id) | FlowEnded(flow, port_id):
                if (port := self.ports.get(port_id)) is not None:
                    self._arrived(port, flow, body)
            case FlowOpened(flow, port_id, outlet_id):
                if (port := self.ports.get(port_id)) is not None:
                    self._opened(port, body, source)
                else:
                    # The directory tells what is kept for a filter that is elsewhere by now.
                    gone = body.taker in ("", f"port {port_id}") or port_id in self._stopped
                    self._tell(source, FlowDropped(flow, outlet_id, gone))
            case FlowDropped(flow, outlet_id, taker_too):
                self.drop_flow(outlet_id, flow, taker_too)
            case FlowRewound(flow, outlet_id, since):
                self.rewind_flow(outlet_id, flow, since)
            case Settled(outlet_id, taker, upto, ended):
                self._settled(outlet_id, taker, upto, ended)
            case CheckpointKept(stage_id):
                self.checkpoint_kept(stage_id)
            case TypeAnnounced(description):
                self._registry.resolve(description)
            case CreditReturned(flow, outlet_id, nbytes):
                self._credit(outlet_id, flow, nbytes)
            case _:
                return False
        return True

    def _events_arrived(self, source: str, head: Events, buffers: Sequence[Any]) -> None:
        parcel: Parcel | None = None
        for flow, port_id in head.to:
            # An earlier one may have closed it.
            if (port := self.ports.get(port_id)) is not None and flow in port.flows:
                try:
                    parcel = parcel or self._read(head, buffers)
                except ProtocolError as error:
                    self._break(port, flow, source, head, error)
                else:
                    self._arrived(port, flow, parcel)

    def _read(self, head: Events, buffers: Sequence[Any]) -> Parcel:
        if (type_ := self._registry.get(head.type)) is None:
            raise ProtocolError("events of a type that was not announced.")
        return Parcel(load(type_, head.supplier, buffers), head.certain, head.upto)

    def _break(
        self, port: Port, flow: int, source: str, head: Events, error: ProtocolError
    ) -> None:
        """What has come is no batch: nobody can take it, now or later, and nobody else has it."""
        reason = (
            f"{self._here!r} cannot read the events of supplier {head.supplier!r} before position "
            f"{head.upto[1]} that {source!r} has sent, and takes no more: {error} Are both of the "
            "same activebroker release? Then subscribe, or derive, again."
        )
        log.error("%s", reason)
        if port.id in self.stages:  # if it is lost before it has stopped, it may go on elsewhere
            self._drop_flow(port.flows[flow], goes_on=True)
            self._arrived(port, flow, FlowEnded(flow, port.id, True, reason))
        else:
            self.close_port(port.id)
            self._effects.append(EndSubscription(port.id, ProtocolError(reason)))

    def merge(
        self,
        stage: Stage,
        items: list[Parcel | StreamEnded],
        ended: Sequence[int],
        lost: Sequence[int],
    ) -> None:
        """Take over from an origin: its buffer first, then the flows that follow its own."""
        free = stage.port.ended_elsewhere(ended, lost)
        stage.put(free)
        stage.put_first(items)
        for flow in stage.port.take_broken():
            # Who was lost at the old place may be alive: let it begin where that has come to.
            self._rewind_flow(flow, stage.port.received)
        for flow, item in free:
            if isinstance(item, FlowEnded):
                self._on_flow_ended(stage.spec.id, flow.id, flow.lost)

    def pump(self, stage: Stage) -> None:
        if (work := stage.pump()) is not None:
            self._ask_driver(work)
        if (checkpoint := stage.saving.to_send()) is not None:
            change = stage.saving.change
            taken = CheckpointTaken(stage.spec.makes, stage.spec.id, checkpoint, change)
            self._send(self._directory, taken, ())
        if (failure := stage.take_change()) is not None:
            self._on_changed(stage.spec.id, failure)
            self._local.append(partial(self.pump, stage))
        if stage.outlet.ended and stage.saving.wanted:  # by an error: there is nothing to save
            stage.saving.recover_no_more()
            self._on_saved(stage.spec.id)
        self._sweep(stage.outlet)

    def _ask_driver(self, work: Effect) -> None:
        if isinstance(work, RunStage):
            renew = self._registry.renew
            items = [each if isinstance(each, str) else renew(each) for each in work.items]
            work = replace(work, items=tuple(items))
        self._effects.append(work)

    def idle(self, stage_id: int) -> None:
        """No event came to a stage for the time its filter named."""
        if (stage := self.stages.get(stage_id)) is not None:
            if (work := stage.idle()) is not None:
                self._ask_driver(work)
            self._set_idle_timer(stage)

    def lost(self, peer: str) -> None:
        """A node is gone: end what led to it and what came from it."""
        for outlet in list(self.outlets.values()):
            outlet.lost(peer)
            self._unblocked(outlet)
        for port in list(self.ports.values()):
            self._pass(port, port.lost(peer))

    def lost_before(self, peer: str) -> None:
        """A node is gone that has a successor already: what was to come from it does not."""
        for port in list(self.ports.values()):
            self._pass(port, port.lost(peer, unopened=True))

    def settle(self) -> None:
        """Deliver what parts of this node sent each other, until nothing is under way."""
        while self._local:
            self._local.popleft()()

    # --- inside -------------------------------------------------------------------------------

    def _tell(self, node: str, body: Body) -> None:
        """Say something about a flow to the node of its other end, which may be this one."""
        if node == self._here:
            self._local.append(partial(self.receive, node, body, ()))
        else:
            self._send(node, body, ())

    def _carry(self, flow: OutFlow, item: Item) -> None:
        spec = flow.spec
        if spec.target == self._here:
            self._local.append(partial(self._arrived_here, spec, item))
            return
        if not isinstance(item, Parcel):
            self._send(spec.target, item, ())
            return
        _, to = self._leaving.setdefault((spec.target, id(item)), (item, []))
        to.append((spec.id, spec.port))

    def send_events(self) -> None:
        """Send each batch that flows to a node share, once. To be called before anything else is
        sent, so that all is in order."""
        while self._leaving:
            leaving, self._leaving = self._leaving, {}
            for (target, _), (item, to) in leaving.items():
                batch = item.batch
                self._announce(target, batch.type)
                type_, certain = batch.type.fingerprint, item.certain
                for first in range(0, len(to), MOST_TO):
                    some = tuple(to[first : first + MOST_TO])
                    head = Events(some, batch.supplier, type_, certain, item.upto)
                    self._send(target, head, item.buffers)

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
                    self._here,
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
        if (stage := self.stages.get(port.id)) is not None:
            if opened.taker:
                stage.saving.urge()  # its source may keep what is covered already
            self._on_flow_opened(port.id, opened.flow)
        self._drop_broken(port)

    def _drop_broken(self, port: Port) -> None:
        """Take nothing of what follows a gap: the directory lets a filter go on before it."""
        for flow in port.take_broken():
            self._drop_flow(flow, goes_on=True)
            if port.id in self.stages:
                self._on_flow_ended(port.id, flow.id, True)

    def _arrived_here(self, spec: FlowSpec, item: Item) -> None:
        if (port := self.ports.get(spec.port)) is not None:
            self._arrived(port, spec.id, item)

    def _arrived(self, port: Port, flow: int, item: Item) -> None:
        self._pass(port, port.arrived(flow, item))

    def _pass(self, port: Port, free: list[tuple[InFlow, Item]]) -> None:
        for flow, nbytes in port.take_repeated():
            self._consumed(flow, nbytes)
        stage = self.stages.get(port.id)
        if stage is not None:
            stage.put(free)
            for flow, item in free:
                if isinstance(item, FlowEnded):
                    stage.saving.urge()  # so that who has ended hears that
                    self._on_flow_ended(port.id, flow.id, flow.lost)
            if stage.spec.envelope is None and free and isinstance(free[-1][1], FlowEnded):
                # The supplier that this relay serves has left.
                stage.leave_when_empty()
        else:
            for flow, item in free:
                if isinstance(item, Parcel):
                    batch = self._registry.renew(item.batch)
                    self._effects.append(Deliver(port.id, flow.id, batch, item.nbytes))
            if port.sources:
                news = self.settling.setdefault(port.id, {})
                for _, item in free:
                    if not isinstance(item, FlowEnded):
                        news[supplier_of(item)] = item.upto
                if self.now - self._settled_at >= SETTLE_EVERY or self._all_here(port):
                    self._settled_at = self.now
                    self._settle_port(port.id)
        self._drop_broken(port)
        self._after(port)

    def _after(self, port: Port) -> None:
        if (stage := self.stages.get(port.id)) is not None:
            self.pump(stage)
        elif port.id not in self.ports:
            return
        elif port.error is not None or port.complete:
            self.close_port(port.id)
            self._effects.append(EndSubscription(port.id, _why(port)))

    def _drop_port(self, port: Port, goes_on: bool = False) -> None:
        for flow in port.flows.values():
            self._drop_flow(flow, goes_on)
        port.flows.clear()

    def _drop_flow(self, flow: InFlow, goes_on: bool = False) -> None:
        self._tell(flow.source, FlowDropped(flow.id, flow.outlet, not goes_on))

    def _rewind_flow(self, flow: InFlow, since: Positions) -> None:
        self._tell(flow.source, FlowRewound(flow.id, flow.outlet, dict(since)))

    def _consumed(self, flow: InFlow, nbytes: int) -> None:
        flow.consumed += nbytes
        if flow.consumed < CREDIT_STEP:
            return
        nbytes, flow.consumed = flow.consumed, 0
        self._tell(flow.source, CreditReturned(flow.id, flow.outlet, nbytes))

    def _settle_port(self, port_id: int) -> None:
        """What a subscription has, it has for good."""
        upto = self.settling.pop(port_id)
        if (port := self.ports.get(port_id)) is not None:
            for outlet, (node, taker) in list(port.sources.items()):
                self._tell(node, Settled(outlet, taker, upto, outlet in port.leaving))
            port.leave(port.received)

    def _all_here(self, port: Port) -> bool:
        return all(node == self._here for node, _ in port.sources.values())

    def _settled(self, outlet_id: int, taker: str, upto: Positions, ended: bool) -> None:
        if (outlet := self.outlets.get(outlet_id)) is not None:
            outlet.settle(taker, upto, ended)
            self._unblocked(outlet)

    def _credit(self, outlet_id: int, flow_id: int, nbytes: int) -> None:
        if (outlet := self.outlets.get(outlet_id)) is not None:
            outlet.return_credit(flow_id, nbytes)
            self._unblocked(outlet)

    def _wait_if_blocked(self, outlet: Outlet) -> None:
        """The user of a supplier's outlet that is not ready has to hear when it is."""
        if outlet.supplier is not None and not outlet.ready:
            self._blocked[outlet.id] = None

    def _unblocked(self, outlet: Outlet) -> None:
        """The outlet may have become ready: let its producer go on."""
        if outlet.ready:
            if (stage := self.stages.get(outlet.id)) is not None:
                self.pump(stage)
            elif outlet.id in self._blocked:
                del self._blocked[outlet.id]
                self._effects.append(ResumeOutlet(outlet.id))
        self._sweep(outlet)

    def _sweep(self, outlet: Outlet) -> None:
        stage = self.stages.get(outlet.id)
        here = outlet.id in self.outlets
        if here and outlet.drained and (stage is None or not stage.moving):
            if stage is not None and stage.spec.envelope is None:
                # All that this relay has passed on is settled, there will be no checkpoint for it.
                for source, (node, taker) in stage.port.sources.items():
                    ended = source in stage.port.leaving
                    self._tell(node, Settled(source, taker, stage.saving.inputs, ended))
            self._blocked.pop(outlet.id, None)
            del self.outlets[outlet.id]
            stopped = stage is not None and outlet.error is not None
            self._send(self._directory, OutletDrained(outlet.id, stopped), ())
            self.remove_stage(outlet.id)
            if stage is not None and outlet.error is not None and not stage.port.closing:
                self._stopped[outlet.id] = outlet.error

    def _set_idle_timer(self, stage: Stage) -> None:
        envelope = stage.spec.envelope
        if envelope is not None and envelope.idle_after is not None and stage.started:
            self._effects.append(SetTimer(f"idle {stage.spec.id}", envelope.idle_after))


def _why(port: Port) -> ActiveBrokerError | None:
    """The error with which a subscription ends, if it does."""
    if port.failure is None:
        return None
    return Unreachable(LOST) if port.failure == LOST else FilterStopped(port.failure)

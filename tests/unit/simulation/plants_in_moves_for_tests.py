"""Faults planted into moves, and into changes of parameters."""

from __future__ import annotations

from typing import Any

from planting_for_tests import Original, Plants

from activebroker.directory.parts import Derived
from activebroker.directory.wiring import Wiring
from activebroker.filters import FilterRunner, Payload
from activebroker.matching import Chunk, select
from activebroker.node.dataplane.changing import Changing
from activebroker.node.dataplane.inlet import Inlet
from activebroker.node.dataplane.outlet import OutFlow, Outlet
from activebroker.node.dataplane.outlets import Outlets
from activebroker.node.dataplane.plane import Plane
from activebroker.node.dataplane.stage import Stage
from activebroker.node.dataplane.states import StageState
from activebroker.node.moves import Moves
from activebroker.protocol.flows import FlowOpened, StreamEnded
from derivation.protocol import Cancel, End

PLANTS = Plants()

# --- the swap -------------------------------------------------------------------------------------


@PLANTS.add("the end marker overtakes events that wait for credit", Outlet, "end_flow")
def _(original: Original) -> Original:
    def end_flow(self: Outlet, flow_id: int, *args: Any, **named: Any) -> None:
        flow = self.flows.get(flow_id)
        waiting = list(flow.waiting) if flow is not None and not (args or named) else []
        if flow is not None and waiting:
            flow.waiting.clear()
        original(self, flow_id, *args, **named)
        for item in waiting:
            assert flow is not None
            self._carry(flow, item)

    return end_flow


@PLANTS.add("the end marker is sent before the swap", Outlets, "open_flow")
def _(original: Original) -> Original:
    def open_flow(self: Outlets, spec: Any, retains: bool = False) -> None:
        outlet = self._plane.outlets.get(spec.outlet)
        if not spec.after or outlet is None or outlet.supplier is None:
            original(self, spec, retains)
            return
        emit, end = outlet.emit, outlet.end

        def late() -> None:
            outlet.__dict__.pop("emit", None)
            outlet.__dict__.pop("end", None)
            original(self, spec, retains)

        def emit_first(chunk: Chunk) -> None:
            emit(chunk)
            late()

        def end_first(*args: Any, **named: Any) -> None:
            late()
            end(*args, **named)

        outlet.emit, outlet.end = emit_first, end_first

    return open_flow


@PLANTS.add("the begin marker is omitted", Plane, "tell")
def _(original: Original) -> Original:
    def tell(self: Plane, node: str, body: Any) -> None:
        mark = isinstance(body, FlowOpened) and bool(body.after)
        if not mark or node == self.context.here:
            original(self, node, body)

    return tell


@PLANTS.add("one event too many goes the old way", Outlet, "end_flow")
def _(original: Original) -> Original:
    def end_flow(self: Outlet, flow_id: int, *args: Any, **named: Any) -> None:
        old = self.flows.get(flow_id)
        if args or named or self.supplier is None or old is None:
            original(self, flow_id, *args, **named)
            return
        predicate = self.subscribers[old.spec.subscriber].predicate
        emit, end = self.emit, self.end

        def late() -> None:
            self.__dict__.pop("emit", None)
            self.__dict__.pop("end", None)
            original(self, flow_id, *args, **named)

        def emit_first(chunk: Chunk) -> None:
            emit(chunk)
            if flow_id in self.flows and (part := select(chunk, predicate)) is not None:
                self._queue(old, part)
            late()

        def end_first(*ends: Any, **how: Any) -> None:
            late()
            end(*ends, **how)

        self.emit, self.end = emit_first, end_first

    return end_flow


@PLANTS.add("one event is dropped at the switch-over", Outlet, "open")
def _(original: Original) -> Original:
    def open(self: Outlet, spec: Any, retains: bool = False) -> None:
        original(self, spec, retains)
        if not spec.after:
            return
        queue = self._queue

        def skip(flow: OutFlow, item: Any) -> None:
            if flow.spec.id == spec.id and isinstance(item, Chunk):
                self.__dict__.pop("_queue", None)
            else:
                queue(flow, item)

        self._queue = skip

    return open


@PLANTS.add("flows do not wait for those that they follow", Inlet, "opened")
def _(original: Original) -> Original:
    def opened(self: Inlet, flow: int, source: str, outlet: int, after: Any, *args: Any) -> None:
        original(self, flow, source, outlet, (), *args)

    return opened


# --- the hand-over --------------------------------------------------------------------------------


@PLANTS.add("the buffer is not merged", Stage, "take_buffer")
def _(original: Original) -> Original:
    def take_buffer(self: Stage) -> Any:
        original(self)
        return ()

    return take_buffer


@PLANTS.add("the buffer is merged after the new events", Stage, "put_first")
def _(original: Original) -> Original:
    def put_last(self: Stage, items: list[Any]) -> None:
        self._inbox.extend((None, item) for item in items)

    return put_last


@PLANTS.add("the end of a stream is lost at the hand-over", Stage, "take_buffer")
def _(original: Original) -> Original:
    def take_buffer(self: Stage) -> Any:
        return tuple(pair for pair in original(self) if not isinstance(pair[1], StreamEnded))

    return take_buffer


@PLANTS.add("a roll-back forgets what was held", Moves, "_end")
def _(original: Original) -> Original:
    def end(self: Moves, end: Cancel | End) -> None:
        if isinstance(end, Cancel) and (at := self._origins.get(end.move)) is not None:
            at.stage._inbox.clear()
        original(self, end)

    return end


@PLANTS.add("the state is not restored", FilterRunner, "restore")
def _(original: Original) -> Original:
    return lambda self, states: None


@PLANTS.add("the snapshot is one event early", FilterRunner, "run")
def _(original: Original) -> Original:
    def run(self: FilterRunner, items: Any) -> Any:
        before = type(self).snapshot(self)
        result = original(self, items)
        self.snapshot = lambda: before
        return result

    return run


@PLANTS.add("the snapshot is one event late", FilterRunner, "run")
def _(original: Original) -> Original:
    def run(self: FilterRunner, items: Any) -> Any:
        result = original(self, items)
        last = items[-1]

        def late() -> dict[str, bytes]:
            instance = None if isinstance(last, str) else self._instances.get(last.supplier)
            if instance is not None:
                instance.__class__.enqueue(instance, last.events()[-1])
                instance._take()
            return type(self).snapshot(self)

        self.snapshot = late
        return result

    return run


# --- other parameters -----------------------------------------------------------------------------


@PLANTS.add("the sources' predicate is not widened", Wiring, "want")
def _(original: Original) -> Original:
    def want(self: Wiring, channel: Derived, predicate: Any, certain: bool = True) -> Any:
        if certain:
            return (yield from original(self, channel, predicate))
        return True

    return want


@PLANTS.add("events sent by the wider predicate are not filtered", Outlet, "set_predicate")
def _(original: Original) -> Original:
    return lambda self, subscriber, predicate, certain=True: original(self, subscriber, predicate)


@PLANTS.add("events sent before are filtered with the new parameters", Changing, "due")
def _(original: Original) -> Original:
    return lambda self, inputs, feeding, idle: self.outcome is None


@PLANTS.add("a filter goes on before its new parameters are saved", Stage, "changed")
def _(original: Original) -> Original:
    def changed(self: Stage, state: Any, error: Any) -> None:
        original(self, state, error)
        assert self.changing is not None
        if self.changing.outcome is None:
            self.state, self.changing.outcome = StageState.IDLE, True

    return changed


@PLANTS.add("a filter that is there keeps its old parameters", FilterRunner, "reconfigure")
def _(original: Original) -> Original:
    def reconfigure(self: FilterRunner, payload: Payload, envelope: Any) -> None:
        original(self, replace_values(payload), envelope)
        self._payload = payload

    def replace_values(payload: Payload) -> Payload:
        return Payload(payload.make, payload.input, payload.output)

    return reconfigure


@PLANTS.add("a filter that comes later gets the old parameters", FilterRunner, "reconfigure")
def _(original: Original) -> Original:
    def reconfigure(self: FilterRunner, payload: Payload, envelope: Any) -> None:
        before = self._payload
        original(self, payload, envelope)
        self._payload = before

    return reconfigure


@PLANTS.add("a relay is asked to run what it passes on", Stage, "_passes")
def _(original: Original) -> Original:
    return lambda self, item: self.exact and (isinstance(item, StreamEnded) or item.certain)

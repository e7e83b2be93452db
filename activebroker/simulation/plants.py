"""Faults to plant into the core: what the checkers must find, or they check nothing.

Each is a context manager that patches the core of this process.
`python -m activebroker.simulation.plants` prints how many seeds it takes to find each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any

from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from activebroker.directory.deaths import Record
from activebroker.directory.endings import Endings
from activebroker.directory.leases import Leases
from activebroker.directory.membership import Membership
from activebroker.directory.parts import Channel, Derived
from activebroker.directory.recoveries import Recoveries
from activebroker.directory.recovery import Recovery
from activebroker.directory.wiring import Wiring
from activebroker.events import Batch
from activebroker.filters import FilterRunner, Payload, RunResult
from activebroker.matching import Parcel, select
from activebroker.node.dataplane import failing
from activebroker.node.dataplane.changing import Changing
from activebroker.node.dataplane.outlet import OutFlow, Outlet
from activebroker.node.dataplane.outlets import Outlets
from activebroker.node.dataplane.plane import Plane
from activebroker.node.dataplane.port import Port
from activebroker.node.dataplane.ports import Ports
from activebroker.node.dataplane.stage import Stage
from activebroker.node.dataplane.stages import Stages
from activebroker.node.dataplane.states import StageState
from activebroker.node.effects import CancelTimer, Departed
from activebroker.node.links.link import Link
from activebroker.node.links.peers import Peers
from activebroker.node.moves import Moves
from activebroker.node.node import Node
from activebroker.protocol.messages import Deploy, FlowOpened, Heard, Settled, StreamEnded
from activebroker.protocol.specs import Positions
from activebroker.simulation.drawing import draw
from activebroker.simulation.run import hush, run
from activebroker.simulation.scenario import Scenario
from activebroker.simulation.shrink import kind
from derivation.protocol import Cancel, End

Plant = Callable[[], AbstractContextManager[None]]
PLANTS: dict[str, Plant] = {}
SEEDS = 2000  # in which each is to be found


def plant(
    name: str, owner: type | ModuleType, method: str
) -> Callable[[Callable[..., Callable[..., Any]]], Callable[..., Callable[..., Any]]]:
    """Register what makes, of the original `owner.method`, the one with the fault."""

    def register(make: Callable[..., Callable[..., Any]]) -> Callable[..., Callable[..., Any]]:
        @contextmanager
        def planted() -> Iterator[None]:
            original = getattr(owner, method)
            setattr(owner, method, make(original))
            try:
                yield
            finally:
                setattr(owner, method, original)

        PLANTS[name] = planted
        return make

    return register


Original = Callable[..., Any]

# --- the swap -------------------------------------------------------------------------------------


@plant("the ACK overtakes what waits for credit", Outlet, "end_flow")
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


@plant("the ACK is sent before the swap", Outlets, "open_flow")
def _(original: Original) -> Original:
    def open_flow(self: Outlets, spec: Any, keeps: bool = False) -> None:
        outlet = self._plane.outlets.get(spec.outlet)
        if not spec.after or outlet is None or outlet.supplier is None:
            original(self, spec, keeps)
            return
        emit, end = outlet.emit, outlet.end

        def late() -> None:
            outlet.__dict__.pop("emit", None)
            outlet.__dict__.pop("end", None)
            original(self, spec, keeps)

        def emit_first(parcel: Parcel) -> None:
            emit(parcel)
            late()

        def end_first(*args: Any, **named: Any) -> None:
            late()
            end(*args, **named)

        outlet.emit, outlet.end = emit_first, end_first  # type: ignore[method-assign]

    return open_flow


@plant("the mark is omitted", Plane, "tell")
def _(original: Original) -> Original:
    def tell(self: Plane, node: str, body: Any) -> None:
        mark = isinstance(body, FlowOpened) and bool(body.after)
        if not mark or node == self.context.here:
            original(self, node, body)

    return tell


@plant("one event too many goes the old way", Outlet, "end_flow")
def _(original: Original) -> Original:
    def end_flow(self: Outlet, flow_id: int, *args: Any, **named: Any) -> None:
        old = self.flows.get(flow_id)
        if args or named or self.supplier is None or old is None:
            original(self, flow_id, *args, **named)
            return
        predicate = self.takers[old.spec.taker].predicate
        emit, end = self.emit, self.end

        def late() -> None:
            self.__dict__.pop("emit", None)
            self.__dict__.pop("end", None)
            original(self, flow_id, *args, **named)

        def emit_first(parcel: Parcel) -> None:
            emit(parcel)
            if flow_id in self.flows and (part := select(parcel, predicate)) is not None:
                self._queue(old, part)
            late()

        def end_first(*ends: Any, **how: Any) -> None:
            late()
            end(*ends, **how)

        self.emit, self.end = emit_first, end_first  # type: ignore[method-assign]

    return end_flow


@plant("one event is dropped at the switch-over", Outlet, "open")
def _(original: Original) -> Original:
    def open(self: Outlet, spec: Any, keeps: bool = False) -> None:
        original(self, spec, keeps)
        if not spec.after:
            return
        queue = self._queue

        def skip(flow: OutFlow, item: Any) -> None:
            if flow.spec.id == spec.id and isinstance(item, Parcel):
                self.__dict__.pop("_queue", None)
            else:
                queue(flow, item)

        self._queue = skip  # type: ignore[method-assign]

    return open


@plant("flows do not wait for those that they follow", Port, "opened")
def _(original: Original) -> Original:
    def opened(self: Port, flow: int, source: str, outlet: int, after: Any, *args: Any) -> None:
        original(self, flow, source, outlet, (), *args)

    return opened


# --- the hand-over --------------------------------------------------------------------------------


@plant("the buffer is not merged", Stage, "take_buffer")
def _(original: Original) -> Original:
    def take_buffer(self: Stage) -> Any:
        original(self)
        return ()

    return take_buffer


@plant("the buffer is merged after the new events", Stage, "put_first")
def _(original: Original) -> Original:
    def put_last(self: Stage, items: list[Any]) -> None:
        self._inbox.extend((None, item) for item in items)

    return put_last


@plant("the end of a stream is lost at the hand-over", Stage, "take_buffer")
def _(original: Original) -> Original:
    def take_buffer(self: Stage) -> Any:
        return tuple(pair for pair in original(self) if not isinstance(pair[1], StreamEnded))

    return take_buffer


@plant("a roll-back forgets what was held", Moves, "_end")
def _(original: Original) -> Original:
    def end(self: Moves, end: Cancel | End) -> None:
        if isinstance(end, Cancel) and (at := self._origins.get(end.derivation)) is not None:
            at.stage._inbox.clear()
        original(self, end)

    return end


@plant("the state is not restored", FilterRunner, "restore")
def _(original: Original) -> Original:
    return lambda self, states: None


@plant("the snapshot is one event early", FilterRunner, "run")
def _(original: Original) -> Original:
    def run(self: FilterRunner, items: Any) -> Any:
        before = type(self).snapshot(self)
        result = original(self, items)
        self.snapshot = lambda: before  # type: ignore[method-assign]
        return result

    return run


@plant("the snapshot is one event late", FilterRunner, "run")
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

        self.snapshot = late  # type: ignore[method-assign]
        return result

    return run


# --- recovery -------------------------------------------------------------------------------------


@plant("a checkpoint is sent before what led to it is settled", Outlet, "settled")
def _(original: Original) -> Original:
    return lambda self, upto: True


@plant("inputs are settled before the directory has the checkpoint", Stages, "_pump")
def _(original: Original) -> Original:
    def pump(self: Stages, stage: Stage) -> None:
        original(self, stage)
        for outlet, (node, taker) in stage.port.sources.items():
            self._plane.tell(node, Settled(outlet, taker, dict(stage.saving.inputs), False))

    return pump


@plant("what is kept goes with the flow that is lost", Outlet, "close")
def _(original: Original) -> Original:
    def close(self: Outlet, flow_id: int) -> None:
        taker = self.takers.get(self.served_by(flow_id) or "")
        original(self, flow_id)
        if taker is not None:
            taker.kept.clear()
            taker.kept_bytes = 0

    return close


@plant("what is kept is not sent to who resumes", Outlet, "open")
def _(original: Original) -> Original:
    def open(self: Outlet, spec: Any, keeps: bool = False) -> None:
        if spec.resumes and (taker := self.takers.get(spec.taker)) is not None:
            taker.kept.clear()
        original(self, spec, keeps)

    return open


@plant("a port does not tell how far it has come", Port, "release")
def _(original: Original) -> Original:
    def release(self: Port, outlets: Any) -> Positions:
        original(self, outlets)
        return {}

    return release


@plant("the checkpoint's state is not restored", Node, "_serve")
def _(original: Original) -> Original:
    def serve(self: Node, body: Any, done: Any) -> None:
        if isinstance(body, Deploy) and (checkpoint := body.stage.checkpoint) is not None:
            stage = replace(body.stage, checkpoint=replace(checkpoint, state={}))
            body = Deploy(stage)
        original(self, body, done)

    return serve


@plant("the numbering of what comes out is not restored", Stage, "take_over")
def _(original: Original) -> Original:
    return lambda self, inputs, outputs: original(self, inputs, {})


@plant("a filter goes on before those whom its events are for are served", Recovery, "_connect")
def _(original: Original) -> Original:
    def connect(self: Recovery, *args: Any) -> Iterator[Any]:
        steps = original(self, *args)
        down = next(steps)
        up = steps.send([])
        yield up
        yield down

    return connect


# --- relays ---------------------------------------------------------------------------------------


@plant("a relay does not know how far its subscriptions have settled", Stages, "open")
def _(original: Original) -> Original:
    def open_stage(self: Stages, spec: Any) -> Stage:
        stage: Stage = original(self, spec)
        stage.outlet.tracks = spec.envelope is not None
        return stage

    return open_stage


@plant("who goes on at a relay does not wait for what its supplier sent itself", Port, "opened")
def _(original: Original) -> Original:
    return lambda self, *args: original(self, *args[:7], False, *args[8:])  # not `behind`


@plant("who is new at a relay sees what had holes", Wiring, "feed_relays")
def _(original: Original) -> Original:
    def feed_relays(self: Wiring, channel: Channel) -> Iterator[Any]:
        yield from original(self, channel)
        for relay in self.graph.relays_of(channel):
            relay.since = {}

    return feed_relays


# --- the link -------------------------------------------------------------------------------------


@plant("repeated frames are taken again", Link, "receive")
def _(original: Original) -> Original:
    def receive(self: Link, frame: Any, buffers: Any, now: float) -> list[Any]:
        again = 0 < frame.seq <= self._received and not isinstance(frame.body, Heard)
        return [*original(self, frame, buffers, now), *([(frame.body, buffers)] if again else [])]

    return receive


@plant("gaps are accepted", Link, "receive")
def _(original: Original) -> Original:
    def receive(self: Link, frame: Any, buffers: Any, now: float) -> Any:
        if frame.seq > self._received + 1 and not isinstance(frame.body, Heard):
            self._received = frame.seq - 1
        return original(self, frame, buffers, now)

    return receive


@plant("what is missing is not asked for", Link, "_ask_again")
def _(original: Original) -> Original:
    return lambda self, now: None


@plant("a stale incarnation is accepted", Peers, "is_stale")
def _(original: Original) -> Original:
    return lambda self, frame: False


# --- other parameters -----------------------------------------------------------------------------


@plant("what is sent is not widened", Wiring, "want")
def _(original: Original) -> Original:
    def want(self: Wiring, channel: Derived, predicate: Any, certain: bool = True) -> Any:
        if certain:
            return (yield from original(self, channel, predicate))
        return True

    return want


@plant("what is sent too much is not filtered", Outlet, "set_predicate")
def _(original: Original) -> Original:
    return lambda self, taker, predicate, certain=True: original(self, taker, predicate)


@plant("what was sent before is filtered with the new parameters", Changing, "due")
def _(original: Original) -> Original:
    return lambda self, inputs, feeding, idle: self.outcome is None


@plant("a filter goes on before its new parameters are saved", Stage, "changed")
def _(original: Original) -> Original:
    def changed(self: Stage, state: Any, error: Any) -> None:
        original(self, state, error)
        assert self.changing is not None
        if self.changing.outcome is None:
            self.state, self.changing.outcome = StageState.IDLE, True

    return changed


@plant("a filter that is there keeps its old parameters", FilterRunner, "reconfigure")
def _(original: Original) -> Original:
    def reconfigure(self: FilterRunner, payload: Payload, envelope: Any) -> None:
        original(self, replace_values(payload), envelope)
        self._payload = payload

    def replace_values(payload: Payload) -> Payload:
        return Payload(payload.make, payload.input, payload.output)

    return reconfigure


@plant("a filter that comes later gets the old parameters", FilterRunner, "reconfigure")
def _(original: Original) -> Original:
    def reconfigure(self: FilterRunner, payload: Payload, envelope: Any) -> None:
        before = self._payload
        original(self, payload, envelope)
        self._payload = before

    return reconfigure


@plant("a relay is asked to run what it passes on", Stage, "_passes")
def _(original: Original) -> Original:
    return lambda self, item: self.exact and (isinstance(item, StreamEnded) or item.certain)


# --- credit, time, failures -----------------------------------------------------------------------


@plant("credit leaks", Outlet, "return_credit")
def _(original: Original) -> Original:
    return lambda self, flow, nbytes: original(self, flow, nbytes // 2)


@plant("credit is returned twice", Outlet, "return_credit")
def _(original: Original) -> Original:
    def twice(self: Outlet, flow: int, nbytes: int) -> None:
        original(self, flow, nbytes)
        original(self, flow, nbytes)

    return twice


@plant("timers are never cancelled", Node, "handle")
def _(original: Original) -> Original:
    def handle(self: Node, input: Any, now: float) -> Any:
        return [each for each in original(self, input, now) if not isinstance(each, CancelTimer)]

    return handle


@plant("the loss of one source ends the streams of all", Port, "lost")
def _(original: Original) -> Original:
    def lost(self: Port, source: str, unopened: bool = False) -> Any:
        sources = {flow.source: None for flow in self.flows.values()}
        return (
            [item for each in sources for item in original(self, each)] if source in sources else []
        )

    return lost


# --- names, leases, and what recovery may cost ----------------------------------------------------


@plant("who answers loses its name", Membership, "prove")
def _(original: Original) -> Original:
    def prove(self: Membership, name: str, then: Any) -> None:
        if name in self._members and name != self._me:
            self._outside.expel(name)
        original(self, name, then)

    return prove


@plant("a lease runs though somebody takes the channel", Leases, "taken")
def _(original: Original) -> Original:
    return lambda self, channel: False


@plant("leases do not run out", Leases, "has_run_out")
def _(original: Original) -> Original:
    return lambda self, channel: ""


@plant("recovery has no budget", Record, "spent")
def _(original: Original) -> Original:
    return lambda self, budget, inputs, now: ""


@plant("suspects are tried together", Recoveries, "_on_trial")
def _(original: Original) -> Original:
    return lambda self, channel, deaths: []


@plant("the directory's node is not spared", Recovery, "candidates")
def _(original: Original) -> Original:
    return lambda self, channel, *how: original(self, channel)


# --- what goes wrong at the edge of a node --------------------------------------------------------


@plant("a row that is no event loses its batch", Batch, "_read_apart")
def _(original: Original) -> Original:
    def read_apart(self: Batch) -> Any:
        _, _, unreadable = original(self)
        return self.slice(0, 0), [], unreadable

    return read_apart


@plant("an event that is none is lost without a word", FilterRunner, "_read")
def _(original: Original) -> Original:
    return lambda self, batch, result: original(self, batch, RunResult())


@plant("what is no batch is dropped without a word", Ports, "_break")
def _(original: Original) -> Original:
    return lambda self, *of: None


@plant("a failed effect is not told", failing, "instead")
def _(original: Original) -> Original:
    return lambda effect, stages, error: []


@plant("what feeds a filter that was stopped keeps its events", Endings, "_stopped")
def _(original: Original) -> Original:
    return lambda self, channel, stage: None


# --- processes that join again --------------------------------------------------------------------


@plant("what was not acknowledged is not published again", Departed, "unacknowledged_of")
def _(original: Original) -> Original:
    return lambda self, channel, supplier: []


@plant("a port takes what comes once more", Port, "opened")
def _(original: Original) -> Original:
    def opened(self: Port, flow: int, *args: Any) -> None:
        original(self, flow, *args)
        if flow in self.flows:
            self.flows[flow].repeats = False

    return opened


# --- how soon they are found ----------------------------------------------------------------------


def found(scenario: Scenario, plant: Plant) -> str | None:
    """The kind of violation by which a scenario finds a planted fault, if it does.

    A checker has to find it: a fault that makes the core raise is not planted well. Without it the
    scenario has to be clean.
    """
    kinds = [kind(each) for each in run(scenario, plant, record=False).violations]
    if not kinds or any(each.startswith("crash") for each in kinds):
        return None
    return None if run(scenario, record=False).violations else kinds[0]


def main() -> None:
    hush()
    console = Console()
    table = Table("planted fault", "seed", "kind of violation")
    for name, plant in PLANTS.items():
        with console.status(name):
            hits = ((seed, what) for seed in range(SEEDS) if (what := found(draw(seed), plant)))
            seed, what = next(hits, (None, f"not in {SEEDS:,} seeds"))
        table.add_row(name, "" if seed is None else str(seed), what)
    console.print(table)


if __name__ == "__main__":
    main()

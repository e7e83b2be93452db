"""Nodes on a virtual network: real nodes, real filters, virtual time, seeded delays and faults."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from activebroker.broker import Node
from activebroker.broker import effects as fx
from activebroker.broker.messages import CallBody, Join
from activebroker.core.errors import ActiveBrokerError
from activebroker.events import Batch, TypeRegistry
from activebroker.filters import Failure, FilterRunner, unpack
from activebroker.routing import Member

KEY = b"k" * 32
HUB = "hub"  # keeps the directory
PATIENCE = 1000.0  # virtual seconds: the directory's own, shorter patience is what is tested


class Answered:
    """The answer to a request, once it is there. The callbacks are called at once."""

    def __init__(self, on_result: Callable[[Any], None], on_error: Callable[[], None]) -> None:
        self.on_result = on_result
        self.on_error = on_error
        self.done = False
        self.result: Any = None
        self.error: ActiveBrokerError | None = None


class Supply:
    """A user's supplier: what waits until its outlet is ready; `handed` gets what the node took."""

    def __init__(self, handed: Callable[[Batch], None]) -> None:
        self.waiting: deque[Batch] = deque()
        self.handed = handed
        self.closed: bool | None = None  # then: whether its channel was finished


class Intake:
    """A user's subscription. `pace`: seconds to consume a batch; None consumes at once."""

    def __init__(self, pace: float | None) -> None:
        self.pace = pace
        self.batches: list[Batch] = []
        self.ended = False
        self.error: ActiveBrokerError | None = None


class Host:
    """One node and its driver: what the runtime is in a process."""

    def __init__(self, net: VirtualNetwork, member: Member) -> None:
        self.net = net
        self.name = member.name
        self.member = member
        self.registry = TypeRegistry()
        self.node = Node(member, HUB, self.registry)
        if member.name != HUB:
            self.node.peers.members[HUB] = Member(HUB, "hub", True, 0)
        self.alive = True
        self.supplies: dict[int, Supply] = {}
        self.intakes: dict[int, Intake] = {}
        self.failures: list[Failure] = []
        self._answers: dict[int, Answered] = {}
        self._ids = itertools.count(1)
        self._timers: dict[str, int] = {}
        self._runners: dict[int, FilterRunner | None] = {}
        self._free_at: dict[int, float] = {}  # when a stage's worker has done what it was given

    def give(self, input: fx.Input) -> None:
        if self.alive:
            for effect in self.node.handle(input, self.net.now):
                self._perform(effect)

    def request(
        self,
        body: CallBody,
        on_result: Callable[[Any], None] = lambda result: None,
        on_error: Callable[[], None] = lambda: None,
    ) -> Answered:
        request_id = next(self._ids)
        answer = self._answers[request_id] = Answered(on_result, on_error)
        self.give(fx.RequestMade(request_id, body, PATIENCE))
        return answer

    def publish(self, outlet: int, batch: Batch) -> None:
        self.supplies[outlet].waiting.append(batch)
        self.pump(outlet)

    def pump(self, outlet_id: int) -> None:
        """Hand over what waits, as far as the outlet takes it."""
        supply = self.supplies[outlet_id]
        while supply.waiting and supply.closed is None and self.alive:
            outlet = self.node.exchange.outlets[outlet_id]
            if not outlet.ready:
                return
            batch = supply.waiting.popleft()
            supply.handed(batch)
            self.give(fx.BatchPublished(outlet_id, batch))

    def drain(self, outlet_id: int, finished: bool) -> None:
        """Hand over what waits; then the outlet may end."""
        if (supply := self.supplies.get(outlet_id)) is not None and supply.closed is None:
            self.pump(outlet_id)
            if supply.waiting and self.alive:
                self.net.soon(0.01, lambda: self.drain(outlet_id, finished))
                return
        self.give(fx.SupplierDrained(outlet_id, finished))

    def open_port(self, port: int, pace: float | None) -> Intake:
        intake = self.intakes[port] = Intake(pace)
        self.give(fx.PortOpened(port))
        return intake

    # --- effects ------------------------------------------------------------------------------

    def _perform(self, effect: fx.Effect) -> None:
        net = self.net
        match effect:
            case fx.Transmit(peer, address, frames):
                net.transmit(self, peer, address, frames)
            case fx.Deliver(port, flow, batch, nbytes):
                self._consume(self.intakes[port], batch, fx.BatchConsumed(port, flow, nbytes))
            case fx.EndSubscription(port, error):
                intake = self.intakes[port]
                assert not intake.ended
                intake.ended, intake.error = True, error
            case fx.DrainSupplier(outlet, finished):
                net.soon(0.0, lambda: self.drain(outlet, finished))
            case fx.OutletClosed(outlet, finished):
                if (supply := self.supplies.get(outlet)) is not None:
                    supply.closed = finished
            case fx.ResumeOutlet(outlet):
                net.soon(0.0, lambda: self.pump(outlet))
            case fx.LoadStage(stage):
                self._work(stage.id, lambda: self._load(stage))
            case fx.RunStage(stage_id, items, idle, end):
                self._work(stage_id, lambda: self._run(stage_id, items, idle, end))
            case fx.SnapshotStage(stage_id):
                self._work(stage_id, lambda: self._snapshot(stage_id))
            case fx.RestoreStage(stage_id, state):
                self._work(stage_id, lambda: self._restore(stage_id, state))
            case fx.UnloadStage(stage_id):
                self._work(stage_id, lambda: self._unload(stage_id))
            case fx.Reply(request_id, result, error):
                answer = self._answers.pop(request_id)
                answer.done, answer.result, answer.error = True, result, error
                if error is None:
                    answer.on_result(result)
                else:
                    answer.on_error()
            case fx.SetTimer(key, after):
                number = self._timers[key] = next(net.numbers)
                net.soon(after, lambda: self._fire(key, number), timer=True)
            case fx.CancelTimer(key):
                self._timers.pop(key, None)
            case fx.ShowFailures(report):
                self.failures += report.samples
            case fx.ForgetPeer(peer):
                net.connected.discard(frozenset((self.name, peer)))

    def _fire(self, key: str, number: int) -> None:
        if self._timers.get(key) == number:
            del self._timers[key]
            self.give(fx.TimerFired(key))

    def _consume(self, intake: Intake, batch: Batch, consumed: fx.BatchConsumed) -> None:
        assert not intake.ended, "events after the end"
        intake.batches.append(batch)
        if intake.pace is None:
            self.net.soon(0.0, lambda: self.give(consumed))
        else:
            due = max(self.net.now, self._free_at.get(-consumed.port, 0.0)) + intake.pace
            self._free_at[-consumed.port] = due
            self.net.soon(due - self.net.now, lambda: self.give(consumed))

    def _work(self, stage: int, action: Callable[[], fx.Input | None]) -> None:
        """Carry out in order, after a random delay, as a stage's thread does."""

        def carry_out() -> None:
            if self.alive and (answer := action()) is not None:
                self.net.soon(0.0, lambda: self.give(answer))

        due = max(self.net.now, self._free_at.get(stage, 0.0)) + self.net.work_time()
        self._free_at[stage] = due
        self.net.soon(due - self.net.now, carry_out)

    def _load(self, spec: Any) -> fx.Input:
        if spec.channel in self.net.unloadable:
            return fx.StageLoaded(spec.id, "ModuleNotFoundError: planted")
        payload = unpack(spec.envelope, KEY)
        self.registry.register(payload.input)
        self.registry.register(payload.output)
        envelope = spec.envelope
        self._runners[spec.id] = FilterRunner(
            payload,
            channel=spec.channel,
            name=envelope.name,
            shared=envelope.shared,
            stop_on_error=envelope.on_error == "stop",
        )
        return fx.StageLoaded(spec.id)

    def _unload(self, stage: int) -> None:
        self._runners.pop(stage, None)

    def _run(self, stage: int, items: Any, idle: bool, end: bool) -> fx.Input | None:
        if (runner := self._runners.get(stage)) is None:
            return None
        result = runner.idle() if idle else runner.end_all() if end else runner.run(items)
        return fx.WorkDone(stage, result)

    def _snapshot(self, stage: int) -> fx.Input | None:
        if (runner := self._runners.get(stage)) is None:
            return None
        state: dict[str, bytes] = {}
        self._attempt(stage, lambda: state.update(runner.snapshot()))
        return fx.StateSnapshotted(stage, state)

    def _restore(self, stage: int, state: dict[str, bytes]) -> None:
        if (runner := self._runners.get(stage)) is not None:
            self._attempt(stage, lambda: runner.restore(state))

    def _attempt(self, stage_id: int, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - a filter can raise anything
            spec = self.node.exchange.stages[stage_id].spec
            name = spec.envelope.name if spec.envelope is not None else ""
            failure = Failure(spec.channel, name, "", -1, str(error), "")
            self.net.soon(0.0, lambda: self.give(fx.StateFailed(stage_id, (failure,))))


class VirtualNetwork:
    """The hosts, the frames between them and the time.

    Frames between two hosts arrive in order, after a delay of the pair and some jitter. `loss`
    and `duplication` are probabilities for each frame.
    """

    def __init__(
        self,
        random: random.Random,
        names: Iterable[str],
        *,
        brokers: Iterable[str] = (),
        undialable: Iterable[str] = (),
        loss: float = 0.0,
        duplication: float = 0.0,
        slowest: float = 0.05,
    ) -> None:
        self.random = random
        self.loss = loss
        self.duplication = duplication
        self.slowest = slowest
        self.now = 0.0
        self.numbers = itertools.count()
        self.connected: set[frozenset[str]] = set()
        self.unloadable: set[str] = set()  # channels whose filters no node can load
        self.under_way = 0  # what is scheduled, timers left out
        self._agenda: list[tuple[float, int, bool, Callable[[], None]]] = []
        self._delays: dict[tuple[str, str], float] = {}
        self._last: dict[tuple[str, str], float] = {}
        self._severed: set[tuple[str, str]] = set()  # from a process that is gone
        self.hosts: dict[str, Host] = {}
        for name in (HUB, *names):
            address = None if name in set(undialable) else name
            self.hosts[name] = Host(self, Member(name, address, name in set(brokers), 1))
        joins = [host.request(Join(host.member)) for host in self.hosts.values()]
        self.run_until(lambda: all(join.done for join in joins))

    def soon(self, after: float, action: Callable[[], None], *, timer: bool = False) -> None:
        heapq.heappush(self._agenda, (self.now + after, next(self.numbers), timer, action))
        self.under_way += not timer

    def step(self) -> None:
        self.now, _, timer, action = heapq.heappop(self._agenda)
        self.under_way -= not timer
        action()

    def run_until(self, reached: Callable[[], bool], within: float = 120.0) -> None:
        """Let time pass until `reached()`; AssertionError after `within` virtual seconds."""
        end = self.now + within
        while not reached():
            assert self._agenda and self.now <= end, self.stuck()
            self.step()

    def run_for(self, seconds: float) -> None:
        end = self.now + seconds
        while self._agenda and self._agenda[0][0] <= end:
            self.step()
        self.now = end

    def settle(self, within: float = 120.0) -> None:
        """Let time pass until nothing is under way."""
        self.run_until(self.quiet, within)

    def quiet(self) -> bool:
        return self.under_way == 0 and not any(
            link.unacknowledged
            for host in self.alive()
            for peer, link in host.node.peers.links.items()
        )

    def alive(self) -> list[Host]:
        return [host for host in self.hosts.values() if host.alive]

    def kill(self, name: str) -> None:
        """The process is gone, and nobody is told. What it has sent does not arrive everywhere."""
        self.hosts[name].alive = False
        others = (other for other in self.hosts if other != name)
        self._severed |= {(name, other) for other in others if self._happens(0.5)}

    def restart(self, name: str) -> Host:
        """A new process of this name."""
        old = self.hosts[name].member
        member = Member(name, old.address, old.is_broker, old.incarnation + 1)
        self.hosts[name] = Host(self, member)
        self.connected = {pair for pair in self.connected if name not in pair}
        self._severed = {route for route in self._severed if route[0] != name}
        return self.hosts[name]

    def transmit(self, source: Host, peer: str, address: str | None, frames: Any) -> None:
        pair = frozenset((source.name, peer))
        if pair not in self.connected:
            if address is None:
                return  # it has to dial us first
            self.connected.add(pair)
        route = (source.name, peer)
        if route not in self._delays:
            self._delays[route] = self.random.uniform(0.0001, self.slowest)
        for head, buffers in frames:
            for _ in range(2 if self._happens(self.duplication) else 1):
                if self._happens(self.loss):
                    continue
                due = self.now + self._delays[route] * self.random.uniform(0.5, 1.5)
                due = self._last[route] = max(due, self._last.get(route, 0.0))
                arrived = fx.FrameArrived(head, [memoryview(part) for part in buffers])
                self.soon(due - self.now, partial(self._arrive, route, arrived))

    def _arrive(self, route: tuple[str, str], frame: fx.FrameArrived) -> None:
        if route not in self._severed:
            self.hosts[route[1]].give(frame)

    def work_time(self) -> float:
        return self.random.choice((0.0, 0.0005, 0.02)) * self.random.random()

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def stuck(self) -> str:
        """What everybody waits for, for a failing test."""
        lines = [f"nothing more happens, or too late, at {self.now:.3f} s"]
        for host in self.alive():
            node = host.node
            lines.append(
                f"{host.name}: links "
                f"{ {p: link.unacknowledged for p, link in node.peers.links.items()} } moves "
                f"{node.moves.under_way()}"
            )
            for outlet in node.exchange.outlets.values():
                for flow in outlet.flows.values():
                    lines.append(f"  {flow.spec} credit {flow.credit} waiting {len(flow.waiting)}")
            for port in node.exchange.ports.values():
                for into in port.flows.values():
                    lines.append(f"  port {port.id}: flow {into.id} waits for {into.after}")
        return "\n".join(lines)

"""One node and its driver: what the runtime is in a process, in virtual time."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import structs

from activebroker.core.errors import ActiveBrokerError
from activebroker.events import Batch, TypeRegistry
from activebroker.filters import Envelope, Failure, Payload
from activebroker.node import effects as fx
from activebroker.node.effects import Legacy
from activebroker.node.executor import Answer, Executor, MakeRunner, Work, python_runner
from activebroker.node.logwriter import LogWriter
from activebroker.node.node import TICK, Node
from activebroker.protocol.messages import CallBody, FailuresReported
from activebroker.protocol.requests import Join
from activebroker.protocol.specs import LOG, Member, StageSpec
from activebroker.simulation import edge
from activebroker.simulation.course import Course
from activebroker.simulation.logs import MemoryLog
from activebroker.simulation.machines import idle_ticks
from activebroker.simulation.network import Network
from activebroker.simulation.reference import ITEM, KILLS, payload_of
from activebroker.simulation.rows import TOUCHY
from activebroker.simulation.scenario import HUB

PATIENCE = 1000.0  # seconds: the directory's own, shorter patience is what is tested
SLOWED = 0.01  # seconds that a slowed host takes for a frame
SLOWED_WORK = 10.0  # times the work of its filters
INSTANT = 1e-9  # seconds between things in order, which rounding must not exchange


NOTHING = Legacy("")  # is left by a process that has not departed yet


class Answered:
    """The answer to a request, once it is there."""

    def __init__(self, on_result: Callable[[Any], None], on_error: Callable[[], None]) -> None:
        self.on_result = on_result
        self.on_error = on_error
        self.done = False
        self.result: Any = None
        self.error: ActiveBrokerError | None = None


class Supply:
    """A user's supplier: what waits until its outlet is ready; `handed` gets what the node took,
    and None at the end."""

    def __init__(self, handed: Callable[[Batch | None], None]) -> None:
        self.waiting: deque[Batch] = deque()
        self.handed = handed
        self.again = 0  # batches, first of those that wait, that were handed over before
        self.closed: bool | None = None  # then: whether its channel was finished

    def put_back(self, batches: Sequence[Batch]) -> None:
        """What was handed over may not have arrived: the next node is given it once more."""
        self.waiting.extendleft(reversed(batches))
        self.again += len(batches)

    def take(self) -> Batch:
        """The next that waits."""
        batch = self.waiting.popleft()
        if self.again:
            self.again -= 1
        else:
            self.handed(batch)
        return batch

    def close(self, finished: bool) -> None:
        if self.closed is None:
            self.closed = finished
            self.handed(None)


class Intake:
    """A user's subscription. `pace`: seconds to consume a batch; None consumes at once."""

    def __init__(self, pace: float | None) -> None:
        self.pace = pace
        self.batches: list[Batch] = []
        self.ended = False
        self.error: ActiveBrokerError | None = None


class Surroundings(Course, ABC):
    """What a host is in, and tells what becomes of it."""

    network: Network

    @abstractmethod
    def watch(self, host: Host) -> None:
        """A host has handled an input."""

    @abstractmethod
    def departed(self, host: Host, left: Legacy) -> None:
        """A node has left behind all that it had."""

    @abstractmethod
    def leave(self, host: Host) -> None:
        """A broker was asked to leave."""

    @abstractmethod
    def log(self, host: str, path: str) -> MemoryLog:
        """The log at a path of a host's disk."""

    @abstractmethod
    def killed_by_filter(self, host: Host, channel: str) -> None:
        """A filter has killed the process that runs it."""


class Host:
    """A process of the fabric. It can die, stand still for a while, and be slow."""

    def __init__(self, world: Surroundings, member: Member, before: Legacy | None = None) -> None:
        self.world = world
        self.name = member.name
        self.member = member
        self.registry = TypeRegistry()
        for type_ in (ITEM, TOUCHY):  # what a program that uses the channel knows
            self.registry.register(type_)
        self.node = Node(member, HUB, self.registry, before=before)
        self.rejoins = before is not None
        self.rejoining = False  # it has not laid yet all that it had
        if member.name != HUB:
            self.node.peers.members[HUB] = Member(HUB, HUB, True, 0)
        self.born = world.env.now
        self.alive = True
        self.joined = False
        self.expelled = False  # it was told that it is taken for lost
        self.paused = False
        self.slow_until = 0.0
        self.supplies: dict[int, Supply] = {}
        self.intakes: dict[int, Intake] = {}
        self.reports: list[FailuresReported] = []
        self.garbles_until = 0.0  # until when it sends nonsense for events
        self.executors: dict[int, Executor] = {}
        self._spoiled: set[int] = set()  # stages of which the next payload cannot be unpacked
        self._closed_outlets: dict[int, bool] = {}  # before their supplies were made
        self._answers: dict[int, Answered] = {}
        self._last_request = 0
        self.timers: dict[str, int] = {}
        self._tick_at = 0.0  # when the node wants its tick, and when it gets it: then, or later
        self._tick_given = 0.0
        self._free_at: dict[int, float] = {}  # when a stage's worker, or a consumer, is free
        self._frame_free = 0.0
        self._waiting: list[tuple[int, fx.Input]] = []  # while it stands still; frames first

    @property
    def has_users(self) -> bool:
        """Whether users do things here: not in a broker that leaves."""
        return self.joined and self.name not in self.world.leaving

    @property
    def busy(self) -> bool:
        """Whether users have something here, or have asked for it."""
        return bool(self.supplies or self.intakes or self._answers)

    @property
    def may_be_lost(self) -> bool:
        """Whether it was silent, to somebody, for so long that it may be expelled."""
        return self.world.silence.excuses(self.name, self.born)

    # --- what happens to it -------------------------------------------------------------------

    def give(self, input: fx.Input) -> None:
        """Let the node handle an input and carry out what it asks for."""
        if not self.alive:
            return
        if self.paused:
            kind = type(input)
            rank = 0 if kind is fx.FrameArrived else 2 if kind is fx.TimerFired else 1
            self._waiting.append((rank, input))
            return
        world = self.world
        world.counts["inputs"] += 1
        for effect in self.node.handle(input, world.env.now):
            if world.failing and type(effect) in world.failing:
                world.failing.remove(type(effect))
                self._failed(effect)
            else:
                _PERFORM[type(effect)](self, effect)
        world.watch(self)

    def frame_arrived(self, source: str, frame: tuple[bytes, Any], input: fx.FrameArrived) -> None:
        """A frame comes from the network."""
        if not self.alive:
            return
        world = self.world
        now = world.env.now
        if now < self.slow_until or now < self._frame_free:
            world.frame_fault("slow", source, self.name, frame)
            self._frame_free = max(now, self._frame_free) + SLOWED
            world.soon(self._frame_free - now, lambda _: self._take(source, frame, input))
        else:
            self._take(source, frame, input)

    def _take(self, source: str, frame: tuple[bytes, Any], input: fx.FrameArrived) -> None:
        if self.alive:
            self.world.arrived(source, self.name, frame)
            self.give(input)
            if self._tick_given > self._tick_at:
                self._schedule_tick()

    def post(self, input: fx.Input) -> None:
        """As a thread of the process does: the node gets it next."""
        self.world.soon(0.0, lambda _: self.give(input))

    def pause(self) -> None:
        """As SIGSTOP does: nothing is handled, and what comes waits."""
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        waiting, self._waiting = self._waiting, []
        waiting.sort(key=lambda each: each[0])
        for _, input in waiting:
            self.give(input)
        for outlet in list(self.supplies):
            self.pump(outlet)

    # --- what its users do --------------------------------------------------------------------

    def request(
        self,
        body: CallBody,
        on_result: Callable[[Any], None] = lambda result: None,
        on_error: Callable[[], None] = lambda: None,
    ) -> Answered:
        self._last_request += 1
        answer = self._answers[self._last_request] = Answered(on_result, on_error)
        self.give(fx.RequestMade(self._last_request, body, PATIENCE))
        return answer

    def open_supply(self, outlet: int, handed: Callable[[Batch | None], None]) -> Supply:
        supply = self.supplies[outlet] = Supply(handed)
        if outlet in self._closed_outlets:
            supply.close(self._closed_outlets.pop(outlet))
        return supply

    def publish(self, outlet: int, batch: Batch) -> None:
        self.supplies[outlet].waiting.append(batch)
        self.pump(outlet)

    def pump(self, outlet_id: int) -> None:
        """Hand over what waits, as far as the outlet takes it."""
        if (supply := self.supplies.get(outlet_id)) is None:
            return  # it is not attached yet
        while supply.waiting and supply.closed is None and self.alive and not self.paused:
            outlet = self.node.plane.outlets.get(outlet_id)
            if outlet is None or not outlet.ready or (self.rejoins and self.node.orphaned):
                return
            if self.expelled:
                self.world.violated("expelled", f"{self.name} hands events over, and is lost")
            self.give(fx.BatchPublished(outlet_id, supply.take()))

    def open_inlet(self, inlet: int, pace: float | None) -> Intake:
        intake = self.intakes[inlet] = Intake(pace)
        self.give(fx.InletOpened(inlet))
        return intake

    @property
    def failures(self) -> list[Failure]:
        """The events that were lost by filters that this process derived, as far as they show."""
        return [each for report in self.reports for each in report.samples]

    # --- effects ------------------------------------------------------------------------------

    def _failed(self, effect: fx.Effect) -> None:
        """As in the runtime: it costs what it was for."""
        world = self.world
        told, cost = edge.failed(effect, self.node.plane.stages)
        kind = type(effect).__name__
        world.counts[f"failed {kind}"] += 1
        world.costly.append(cost)
        world.note("fault", self.name, f"cannot carry out {kind}")
        if isinstance(effect, fx.Deliver) and (intake := self.intakes.pop(effect.inlet, None)):
            intake.ended, intake.error = True, ActiveBrokerError(edge.UNDELIVERED)
        if isinstance(effect, fx.ChangeFilter) and effect.stage % 2:
            self._spoiled.add(effect.stage)  # half of them fail where the filter is
            self._carry_out(effect)
            return
        for input in told:
            self.post(input)

    def _transmit(self, effect: fx.Transmit) -> None:
        frames = effect.frames
        if self.garbles_until > self.world.env.now:
            frames = [self._garbled(frame) for frame in frames]
        self.world.network.transmit(self.member, effect.peer, effect.address, frames)

    def _garbled(self, frame: tuple[bytes, Any]) -> tuple[bytes, Any]:
        """The frame with nonsense for its events, if it has any."""
        if (cost := edge.cost_of_nonsense(frame)) is None:
            return frame
        self.world.counts["frames garbled"] += 1
        self.world.costly.append(cost)
        head, buffers = frame
        return head, [edge.NONSENSE] * len(buffers)

    def _deliver(self, effect: fx.Deliver) -> None:
        world = self.world
        if (intake := self.intakes.get(effect.inlet)) is None:
            return  # given up, as one that could not be delivered to
        if intake.ended:
            world.violated("ended", f"{self.name} gets events of a subscription that has ended")
        intake.batches.append(effect.batch)
        world.saw(self.name, effect)
        consumed = fx.BatchConsumed(effect.inlet, effect.flow, effect.nbytes)
        if intake.pace is None:
            self.post(consumed)
        else:
            now = world.env.now
            due = max(now, self._free_at.get(-effect.inlet, 0.0)) + intake.pace
            self._free_at[-effect.inlet] = due
            world.soon(due - now, lambda _: self.give(consumed))

    def _end_subscription(self, effect: fx.EndSubscription) -> None:
        if (intake := self.intakes.get(effect.inlet)) is None:
            return
        if intake.ended:
            self.world.violated("ended", f"a subscription at {self.name} ends twice")
        intake.ended, intake.error = True, effect.error

    def _drain_supplier(self, effect: fx.DrainSupplier) -> None:
        self.world.soon(0.0, lambda _: self._drain(effect))

    def _drain(self, effect: fx.DrainSupplier) -> None:
        if (supply := self.supplies.get(effect.outlet)) is not None and supply.closed is None:
            self.pump(effect.outlet)
            if supply.waiting and self.alive:
                self.world.soon(0.01, lambda _: self._drain(effect))
                return
        self.give(fx.SupplierDrained(effect.outlet, effect.finished))

    def _end_supplier(self, effect: fx.EndSupplier) -> None:
        if (supply := self.supplies.get(effect.outlet)) is not None:
            supply.close(effect.finished)
        else:
            self._closed_outlets[effect.outlet] = effect.finished

    def _resume_outlet(self, effect: fx.ResumeOutlet) -> None:
        self.world.soon(0.0, lambda _: self.pump(effect.outlet))

    def _reply(self, effect: fx.Reply) -> None:
        answer = self._answers.pop(effect.request)

        def tell(_: object) -> None:
            answer.done, answer.result, answer.error = True, effect.result, effect.error
            if answer.error is None:
                answer.on_result(answer.result)
            else:
                answer.on_error()

        self.world.soon(0.0, tell)

    def _show_failures(self, effect: fx.ShowFailures) -> None:
        self.reports.append(effect.report)

    def joining(self) -> Join:
        return Join(self.member)

    def _depart(self, effect: fx.Depart) -> None:
        def depart(_: object) -> None:
            if self.alive:
                self.world.departed(self, effect.legacy)

        self.world.soon(0.0, depart)

    def _forget_peer(self, effect: fx.ForgetPeer) -> None:
        self.world.network.forget(self.name, effect.peer)

    # --- timers -------------------------------------------------------------------------------

    def _set_timer(self, effect: fx.SetTimer) -> None:
        if effect.key == "tick":
            self._tick_at = self.world.env.now + effect.after
            self._schedule_tick()
        else:
            self._schedule(effect.key, effect.after)

    def _schedule_tick(self) -> None:
        now = self.world.env.now
        at = self._tick_at + TICK * idle_ticks(self.node, self._tick_at)
        if at < now:
            at += TICK * (1 + int((now - at) / TICK))
        self._tick_given = at
        self._schedule("tick", at - now)

    def _schedule(self, key: str, after: float) -> None:
        world = self.world
        world.last_timer += 1
        number = self.timers[key] = world.last_timer

        def fire(_: object) -> None:
            if self.timers.get(key) == number:
                del self.timers[key]
                self.give(fx.TimerFired(key))

        world.later(after, fire)

    def _cancel_timer(self, effect: fx.CancelTimer) -> None:
        self.timers.pop(effect.key, None)

    # --- filters ------------------------------------------------------------------------------

    def _work(self, stage: int, action: Callable[[], Sequence[fx.Input]]) -> None:
        """Carry out in order, after some time, as a stage's thread does."""

        def carry_out(_: object) -> None:
            for answer in action() if self.alive else ():
                self.give(answer)

        now = self.world.env.now
        took = self.world.work_time() * (SLOWED_WORK if now < self.slow_until else 1.0)
        due = self._free_at[stage] = max(now, self._free_at.get(stage, 0.0) + INSTANT) + took
        self.world.soon(due - now, carry_out)

    def _load_stage(self, effect: fx.LoadStage) -> None:
        unpack = partial(self._unpack, effect.stage)
        engines: dict[str, MakeRunner] = {"python": python_runner, LOG: self._log_writer}
        executor = Executor(effect.stage, unpack, engines)

        def load() -> list[fx.Input]:
            self.executors[effect.stage.id] = executor
            return [executor.load()]

        self._work(effect.stage.id, load)

    def _log_writer(self, payload: Payload, envelope: Envelope, stage: StageSpec) -> LogWriter:
        assert stage.log is not None
        return LogWriter(self.world.log(self.name, stage.log.path))

    def _unload_stage(self, effect: fx.UnloadStage) -> None:
        def unload() -> list[fx.Input]:
            self.executors.pop(effect.stage, None)
            return []

        self._work(effect.stage, unload)

    def _carry_out(self, work: Work) -> None:
        def carry_out() -> list[fx.Input]:
            executor = self.executors.get(work.stage)
            if executor is None and isinstance(work, fx.RunStage):
                # Nobody would ever answer, and the stage would wait for good.
                self.world.violated("worker", f"{self.name} runs a stage that has no filter")
            if executor is None:
                return []
            answers = executor.carry_out(work)
            failures = [failure for answer in answers for failure in _failures(answer)]
            if any(failure.error.endswith(KILLS) for failure in failures):
                self.world.counts["hosts killed by filters"] += 1
                self.world.killed_by_filter(self, executor.spec.channel)
                return []
            return list(map(_placeless, answers))

        self._work(work.stage, carry_out)

    def _unpack(self, spec: StageSpec, envelope: Envelope) -> Payload:
        if spec.id in self._spoiled:
            self._spoiled.remove(spec.id)
            raise edge.Planted("planted")
        unloadable = not self.world.unloadable.isdisjoint({spec.channel, (spec.channel, self.name)})
        if unloadable or self.name in self.world.refusing:
            raise ModuleNotFoundError("planted")
        payload = payload_of(envelope)
        self.registry.register(payload.input)
        self.registry.register(payload.output)
        return payload


def _failures(answer: Answer) -> Sequence[Failure]:
    match answer:
        case fx.WorkDone(_, result):
            return result.failures
        case fx.StateFailed(_, failures):
            return failures
    return ()


def _placeless(answer: Answer) -> Answer:
    """A traceback names files: a run would depend on where they lie, by the sizes of frames."""
    failures = [structs.replace(each, traceback="") for each in _failures(answer)]
    match answer:
        case fx.WorkDone(_, result):
            return dataclasses.replace(
                answer, result=dataclasses.replace(result, failures=failures)
            )
        case fx.StateFailed():
            return dataclasses.replace(answer, failures=tuple(failures))
    return answer


_PERFORM: dict[type, Callable[[Host, Any], None]] = {
    fx.Transmit: Host._transmit,
    fx.Deliver: Host._deliver,
    fx.EndSubscription: Host._end_subscription,
    fx.DrainSupplier: Host._drain_supplier,
    fx.EndSupplier: Host._end_supplier,
    fx.ResumeOutlet: Host._resume_outlet,
    fx.LoadStage: Host._load_stage,
    fx.RunStage: Host._carry_out,
    fx.AppendLog: Host._carry_out,
    fx.ReadLog: Host._carry_out,
    fx.SnapshotStage: Host._carry_out,
    fx.RestoreStage: Host._carry_out,
    fx.ChangeFilter: Host._carry_out,
    fx.UnloadStage: Host._unload_stage,
    fx.Reply: Host._reply,
    fx.SetTimer: Host._set_timer,
    fx.CancelTimer: Host._cancel_timer,
    fx.ShowFailures: Host._show_failures,
    fx.LeaveFabric: lambda host, effect: host.world.leave(host),
    fx.ForgetPeer: Host._forget_peer,
    fx.Knock: lambda host, effect: None,  # who is cut off here is found by its silence
    fx.Depart: Host._depart,
}

"""Drives one node in one thread: gives it its inputs, and carries out its effects, in real time."""

from __future__ import annotations

import concurrent.futures
import copy
import itertools
import logging
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from activebroker.core.errors import (
    ActiveBrokerError,
    Closed,
    DeadlineExceeded,
    ProtocolError,
    SlowConsumer,
    Unreachable,
    flatten,
)
from activebroker.directory.deaths import Budget
from activebroker.events import TypeRegistry
from activebroker.node.dataplane.failing import instead
from activebroker.node.effects import (
    AppendLog,
    BatchConsumed,
    BatchPublished,
    CancelTimer,
    ChangeFilter,
    Deliver,
    Depart,
    DrainSupplier,
    Effect,
    EndSubscription,
    EndSupplier,
    ForgetPeer,
    FrameArrived,
    InletClosed,
    InletOpened,
    Input,
    Knock,
    LeaveFabric,
    Legacy,
    LoadStage,
    PeerAbsent,
    PeerEnded,
    PeerHeard,
    PeerHungUp,
    ReadLog,
    Reply,
    RequestMade,
    RestoreStage,
    ResumeOutlet,
    RunStage,
    SetTimer,
    ShowFailures,
    SnapshotStage,
    SupplierDrained,
    SyncAsked,
    TimerFired,
    Transmit,
    UnloadStage,
)
from activebroker.node.executor import MakeRunner
from activebroker.node.node import Node
from activebroker.protocol.messages import CallBody, FailuresReported
from activebroker.protocol.requests import ClaimName, Unsubscribe
from activebroker.protocol.specs import Member, Offsets
from activebroker.runtime.pool import POOL
from activebroker.runtime.publishing import PublishBuffer
from activebroker.runtime.queue import EventQueue
from activebroker.runtime.timers import Timers
from activebroker.runtime.workers import Workers
from activebroker.transport import Claim, Complaints, Told, Transport

log = logging.getLogger(__name__)

CLAIM = 5.0  # seconds that the directory may take to say whether a name is free
GRACE = 1.0  # seconds beyond a caller's patience, in which the node reports that it has run out
FORGOTTEN = 60.0  # seconds after which an answer is not awaited any more
FORKED = (
    "This fabric was made before the process forked, and lives in the parent only. Make your own "
    "fabric in this process."
)


@dataclass(frozen=True)
class Succession:
    """For a program that goes on with another node when it has lost its fabric."""

    registry: TypeRegistry  # shared by all nodes of the program
    before: Legacy  # what the nodes before have left; empty for the first node
    departed: Callable[[Legacy], None]  # called at the end of a node's thread


class Runtime:
    """Runs a node until `stop`. `key` signs and verifies filter payloads.

    `directory` is the name of the node with the directory, None if it is this one. With a
    `succession`, the node departs when the directory is lost, and leaves buffers and queues as they
    are.

    A bad message from a peer ends the peer's connection, and an effect that cannot be carried out
    ends its subscription or filter. Anything else that goes wrong ends the node at once: it logs
    what happened, `failure` holds it, and every call, also one that waits, gets Unreachable.
    """

    def __init__(
        self,
        member: Member,
        transport: Transport,
        *,
        directory: str | None,
        directory_address: str | None = None,
        key: bytes,
        engines: dict[str, MakeRunner],
        on_failures: Callable[[FailuresReported], None] = lambda report: None,
        budget: Budget = Budget(),  # noqa: B008 - a frozen value
        succession: Succession | None = None,
    ) -> None:
        warm_up()
        self.name = member.name
        self.registry = TypeRegistry() if succession is None else succession.registry
        self.transport = transport
        self.failure: BaseException | None = None  # what ended the node, if not `stop`
        self.dismissed = False  # whether its process is to leave the fabric, and to end
        before = None if succession is None else succession.before
        era = time.time_ns() // 1000  # nobody makes parts of a fabric faster than that grows
        self._node = Node(member, directory or member.name, self.registry, budget, before, era)
        self._succession = succession
        self._departed: Legacy | None = None
        self._departs_for = ""  # the reason, if it is told to depart
        if directory is not None:
            # Until it tells the members, the directory is the only one known.
            known = Member(directory, directory_address, is_broker=True, incarnation=0)
            self._node.peers.members[directory] = known
        self._on_failures = on_failures
        self._inbox: deque[Input] = deque()
        self._filled: deque[int] = deque()  # outlets with events to take
        self._asleep = False  # in `receive`, and not woken yet
        self._stopping = False
        self._disowned = False
        self._ended: ActiveBrokerError | None = None  # what every call gets from then on
        self._buffers: dict[int, PublishBuffer] = {}
        self._draining: dict[int, bool] = {}  # buffers to empty before their outlets end
        # Outlets that ended before they got a buffer, with the reason unless they were closed.
        self._unclaimed: dict[int, ActiveBrokerError | None] = {}
        self._queues: dict[int, EventQueue] = {}
        self._replies: dict[int, Future[Any]] = {}
        self._request_ids = itertools.count(1)
        self._timers = Timers()
        self._complaints = Complaints(log)
        self._thread = threading.Thread(target=self._run, name=f"node {self.name}", daemon=True)
        try:
            self._workers = Workers(key, engines, self.registry, self.post)
            self._thread.start()
        except RuntimeError as error:
            transport.close()
            raise Unreachable(
                f"Node {self.name!r} could not start: {error}. This process may have too many "
                "threads for its limits."
            ) from error
        _RUNNING.add(self)

    @property
    def orphaned(self) -> str:
        """Why this node is in no fabric any more; empty while it is."""
        return self._node.orphaned

    def member(self, name: str) -> Member | None:
        """The member of the fabric that has this name, as far as this node knows."""
        return self._node.peers.members.get(name)

    # --- for the user's threads ---------------------------------------------------------------

    def post(self, input: Input) -> None:
        """Give the node an input. Any thread may call this."""
        if self._ended is None:
            self._inbox.append(input)
            self._wake()

    def request(self, body: CallBody, patience: float) -> Any:
        """Ask the directory for something and wait for the answer.

        Raises the error of the answer, or DeadlineExceeded; Closed or Unreachable if the node has
        ended.
        """
        # The node gives up first, with a message that names the node that did not answer.
        late = f"Node {self.name!r} itself did not answer"
        return self._wait_for_reply(
            lambda id: RequestMade(id, body, patience), patience, late, GRACE
        )

    def _wait_for_reply(
        self, ask: Callable[[int], Input], patience: float, late: str, grace: float = 0.0
    ) -> Any:
        request_id = next(self._request_ids)
        future = self._replies[request_id] = Future()
        # The node's thread accesses these two in the opposite order, so that one of the threads
        # sees what the other did.
        if self._stopping or self._ended is not None:
            self._replies.pop(request_id, None)
            raise self._why_ended()
        self.post(ask(request_id))
        concurrent.futures.wait([future], patience + grace)
        if future.done():
            return future.result()
        self._replies.pop(request_id, None)
        raise DeadlineExceeded(f"{late} within {patience:g} s.")

    def sync(self, buffer: PublishBuffer, patience: float) -> None:
        """Wait until all that the node has taken from a buffer is acknowledged. Raises as `request`
        does."""
        outlet = next((id for id, each in self._buffers.items() if each is buffer), None)
        if outlet is not None:  # else it has ended, which it does after that
            late = "Not all that was published was acknowledged"
            self._wait_for_reply(lambda id: SyncAsked(id, outlet), patience, late)

    def claim(self, claim: Claim, told: Told) -> None:
        """Claim a name at the directory, for a process that is about to join.

        `told` is called in the node's thread, with None or the error as (class name, text).
        """
        request_id = next(self._request_ids)
        future = self._replies[request_id] = Future()
        future.add_done_callback(lambda done: told(_flat(done.exception())))
        self.post(RequestMade(request_id, ClaimName(claim.name, claim.replace, claim.again), CLAIM))

    def tell(self, body: CallBody) -> None:
        """Ask the directory for something without waiting for the answer."""
        self.post(RequestMade(next(self._request_ids), body, FORGOTTEN))

    def publish_to(self, outlet: int, buffer: PublishBuffer) -> None:
        """Let a buffer's events leave by an outlet that the directory has opened."""

        def filled() -> None:
            self._filled.append(outlet)
            self._wake()

        self._buffers[outlet] = buffer
        # As in `request`: one of the threads sees what the other did.
        if self._ended is not None:
            buffer.fail(self._why_ended(), 0)
        elif outlet in self._unclaimed:
            del self._buffers[outlet]
            why = self._unclaimed.pop(outlet)
            buffer.close(why or Closed(f"Channel {buffer.channel!r} was closed."))
        else:
            buffer.attach(filled)

    def open_inlet(self, inlet: int, queue: EventQueue) -> None:
        """Let the events of a subscription go to a queue; the directory connects it after this."""
        self._queues[inlet] = queue
        queue.attach(lambda flow, nbytes: self.post(BatchConsumed(inlet, flow, nbytes)))
        if self._ended is not None:  # as in `request`
            queue.end(self._why_ended())
        since = queue.since
        ends = since is not None and (since.ends or since.until is not None)
        self.post(InletOpened(inlet, self.received(inlet), since is not None, ends))

    def received(self, inlet: int) -> Offsets:
        """How far a subscription had come at the program's node before this one."""
        received = {} if self._succession is None else self._succession.before.received
        return received.get(inlet, {})

    def close_inlet(self, inlet: int) -> None:
        self.post(InletClosed(inlet))
        if (queue := self._queues.pop(inlet, None)) is not None:
            queue.end(None)

    def wait_drained(self, patience: float, until: float = math.inf) -> bool:
        """Wait until its peers have taken over everything that this node has sent.

        False once they took nothing for `patience` seconds, at the monotonic time `until`, or when
        the node has ended.
        """
        last, since = -1, 0.0
        # Looks that found nothing. It takes two, since one look may miss what changes its place.
        looks = 0
        while (looks := looks + 1 if self._drained() else 0) < 2:
            now = time.monotonic()
            if (progress := self._progress()) != last:
                last, since = progress, now
            if self._ended is not None or now - since > patience or now > until:
                return False
            time.sleep(0.005)
        return True

    def wait_complete(self, patience: float) -> bool:
        """Wait until the subscribers of the node before are back; False if they are not."""
        end = time.monotonic() + patience
        while any(outlet.awaited for outlet in list(self._node.plane.outlets.values())):
            if self._ended is not None or time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    def stop(self) -> None:
        """End the thread, the workers and the transport; drop what was not delivered."""
        if self._stopping:
            return
        self._stopping = True
        self.transport.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join(5.0)

    def depart(self, reason: str) -> None:
        """End the node, and leave buffers and queues as they are for another one."""
        self._departs_for = reason
        self.stop()

    def disown(self) -> None:
        """In the child of a fork, where the node's thread does not exist: end without a message to
        any peer."""
        self._disowned = self._stopping = True
        self._ended = Closed(FORKED)
        for buffer in self._buffers.values():
            buffer.disown(self._why_ended())
        for queue in self._queues.values():
            queue.disown(self._why_ended())
        self._replies.clear()

    @property
    def disowned(self) -> bool:
        """Whether this runtime belongs to the process from which this one was forked."""
        return self._disowned

    # --- the node's thread --------------------------------------------------------------------

    def _run(self) -> None:
        """Run the loop, then the parts of the end, each even if an earlier one fails."""
        parts = (self._loop, self._end_users, self._workers.close, self.transport.close)
        for part in (*parts, self._succeed):
            try:
                part()
            except BaseException as failure:
                self.failure = self.failure or failure
                log.critical("node %r has failed and ends", self.name, exc_info=True)

    def _succeed(self) -> None:
        if self._succession is not None and self._departed is not None:
            self._succession.departed(self._departed)

    def _loop(self) -> None:
        while not self._stopping and self._departed is None:
            self._asleep = True
            busy = self._inbox or self._filled or self._stopping
            arrivals = self.transport.receive(0.0 if busy else self._patience())
            self._asleep = False
            for peer in self.transport.heard():
                self._handle(PeerHeard(peer))
            for peer in self.transport.hung_up():
                self._handle(PeerHungUp(peer))
            for peer in self.transport.ended():
                self._handle(PeerEnded(peer))
            for peer in self.transport.absent():
                self._handle(PeerAbsent(peer))
            for source, head, buffers in arrivals:
                self._take(source, FrameArrived(head, buffers, source))
            # What a thread has published comes before what it asks for next.
            asked = len(self._inbox)
            for _ in range(len(self._filled)):
                self._publish(self._filled.popleft())
            for _ in range(asked):
                self._handle(self._inbox.popleft())
            for key in self._timers.due():
                if isinstance(key, str):
                    self._handle(TimerFired(key))
                else:
                    self._look_at(key)

    def _end_users(self) -> None:
        """The node has ended: end all calls, streams and buffers that wait for it."""
        if self._departed is None and self._departs_for:
            self._departed = self._node.departed(self._departs_for)
        if self._departed is not None:
            self._ended = Unreachable(self._departed.reason)
        elif self.failure is None:
            self._ended = Closed("The fabric was closed.")
        else:
            self._ended = Unreachable(
                f"Node {self.name!r} of this process has failed and ended, with "
                f"{type(self.failure).__name__}: {self.failure}. Make the fabric again; the log "
                "has the details."
            )
            self._ended.__cause__ = self.failure
        try:
            self._end_streams()
        finally:  # after the streams, at which a caller may look next
            for future in list(self._replies.values()):
                if not future.done():
                    future.set_exception(self._why_ended())
            self._inbox.clear()

    def _end_streams(self) -> None:
        if self._departed is not None:
            for buffer in self._buffers.values():
                self._put_back(buffer, self._departed)
            return
        for queue in list(self._queues.values()):
            queue.end(self._why_ended())
        try:
            acknowledged = self._node.acknowledged()
        except Exception:
            if self.failure is None:
                raise
            acknowledged = {}  # the node may have failed in the middle of anything
        for outlet, buffer in list(self._buffers.items()):
            buffer.fail(self._why_ended(), acknowledged.get(outlet, 0))

    def _put_back(self, buffer: PublishBuffer, left: Legacy) -> None:
        """Publish again what may not have arrived; subscribers that have it drop it."""
        buffer.put_back(left.unacknowledged_of(buffer.channel, buffer.supplier))

    def _why_ended(self) -> ActiveBrokerError:
        """A new error for each call, since each thread adds its traceback."""
        if self._ended is None:
            return Closed("The fabric was closed.")
        error = copy.copy(self._ended)
        error.__cause__ = self._ended.__cause__
        return error

    def _wake(self) -> None:
        # The loop sees by itself what came before it set the flag, so no wake is lost.
        if self._asleep:
            self._asleep = False
            self.transport.wake()

    def _take(self, source: str, frame: FrameArrived) -> None:
        try:
            self._handle(frame)
        except ProtocolError as error:
            self._complaints.say(source, f"Dropped the connection to {source!r}: {error}")
            self.transport.forget(source)

    def _handle(self, input: Input) -> None:
        for effect in self._node.handle(input, time.monotonic()):
            try:
                self._perform(effect)
            except Exception as error:  # noqa: BLE001 - it is told, or ends the node
                self._failed(effect, error)

    def _publish(self, outlet_id: int) -> None:
        outlet = self._node.plane.outlets.get(outlet_id)
        buffer = self._buffers.get(outlet_id)
        if outlet is not None and buffer is not None and not self._node.orphaned:
            while outlet.ready and (batch := buffer.take()) is not None:
                self._handle(BatchPublished(outlet_id, batch))
        if outlet_id in self._draining and (buffer is None or buffer.empty):
            self._handle(SupplierDrained(outlet_id, self._draining.pop(outlet_id)))

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Transmit(peer, address, frames):
                self.transport.transmit(peer, address, frames)
            case Deliver(inlet, flow, batch, nbytes):
                if (queue := self._queues.get(inlet)) is not None:
                    queue.put(flow, self.registry.conform(batch, queue.type), nbytes)
                    if queue.policy.disconnects and inlet not in self._timers:
                        self._timers.set(inlet, queue.policy.patience)
            case LoadStage(stage):
                self._workers.load(stage)
            case RunStage() | AppendLog() | ReadLog() | RestoreStage() | SnapshotStage():
                self._workers.do(effect)
            case ChangeFilter():
                self._workers.do(effect)
            case Depart(legacy):
                self._departed = legacy
            case ResumeOutlet(outlet):
                # Not at once: effects that follow this one come before new events.
                self._filled.append(outlet)
            case SetTimer(key, after):
                self._timers.set(key, after)
            case CancelTimer(key):
                self._timers.cancel(key)
            case Reply(request, result, error):
                if (future := self._replies.pop(request, None)) is not None:
                    if error is not None:
                        future.set_exception(error)
                    else:
                        future.set_result(result)
            case EndSubscription(inlet, error):
                if (queue := self._queues.pop(inlet, None)) is not None:
                    queue.end(error)
            case UnloadStage(stage_id):
                self._workers.unload(stage_id)
            case LeaveFabric():
                self.dismissed = True
            case ShowFailures(report):
                self._on_failures(report)
            case ForgetPeer(peer):
                self.transport.forget(peer)
            case Knock(peer, address):
                self.transport.knock(peer, address)
            case DrainSupplier(outlet, finished):
                self._close_buffer(outlet, finished)
                self._draining[outlet] = finished
                self._filled.append(outlet)
            case EndSupplier(outlet, finished, error, acknowledged):
                if error is None:
                    self._close_buffer(outlet, finished)
                else:
                    self._fail_buffer(outlet, error, acknowledged or 0)
                self._buffers.pop(outlet, None)

    def _failed(self, effect: Effect, error: Exception) -> None:
        """End the subscription or filter of an effect that could not be carried out. Raises the
        error if the effect was for neither."""
        told = instead(effect, self._node.plane.stages, error)
        if told is None:
            raise error
        if isinstance(effect, Deliver) and (queue := self._queues.pop(effect.inlet, None)):
            queue.end(ActiveBrokerError(f"Node {self.name!r} could not deliver: {error!r}"))
        log.error("node %r could not %s", self.name, type(effect).__name__, exc_info=error)
        # Not at once: effects that follow this one come first.
        self._inbox.extend(told)

    def _close_buffer(self, outlet: int, finished: bool) -> None:
        self._unclaimed.setdefault(outlet, None)
        if (buffer := self._buffers.get(outlet)) is not None:
            del self._unclaimed[outlet]
            what = f"Channel {buffer.channel!r}" if finished else f"Supplier {buffer.supplier!r}"
            buffer.close(Closed(f"{what} was closed."))

    def _patience(self) -> float | None:
        """How long to wait for frames, in seconds; None: until something comes."""
        timer, relief = self._timers.next(), POOL.relieve()
        return timer if relief is None else relief if timer is None else min(timer, relief)

    def _look_at(self, inlet: int) -> None:
        """End the subscription of a consumer that lets its events wait for too long."""
        queue = self._queues.get(inlet)
        left = None if queue is None else queue.left(time.monotonic())
        if queue is None or left is None:
            return
        if left > 0:
            self._timers.set(inlet, left)
            return
        del self._queues[inlet]
        queue.end(
            SlowConsumer(
                f"The subscription to channel {queue.channel!r} was cut off: what is left of it "
                f"had waited for {queue.policy.patience:g} s. Take events faster, or subscribe "
                "with a longer patience or another when_slow."
            )
        )
        self._handle(InletClosed(inlet))
        self.tell(Unsubscribe(queue.channel, inlet))

    def _fail_buffer(self, outlet: int, error: ActiveBrokerError, acknowledged: int) -> None:
        self._unclaimed.setdefault(outlet, error)
        if (buffer := self._buffers.get(outlet)) is not None:
            del self._unclaimed[outlet]
            buffer.fail(error, acknowledged)

    def _progress(self) -> int:
        """A number that grows when something that was sent is taken over."""
        links = list(self._node.peers.links.values())
        buffers = list(self._buffers.values())
        stages = list(self._node.plane.stages.values())
        return (
            sum(each.taken for each in buffers)
            + sum(each.taken_events for each in stages)
            + sum(link.acknowledged for link in links)
        )

    def _drained(self) -> bool:
        # Read from another thread: each value by itself is consistent, all together may not be.
        plane = self._node.plane
        return (
            not self._inbox
            and all(buffer.empty for buffer in list(self._buffers.values()))
            and not any(stage.busy for stage in list(plane.stages.values()))
            and all(
                outlet.ready and not (outlet.supplier and outlet.unacknowledged)
                for outlet in list(plane.outlets.values())
            )
            and all(link.unacknowledged == 0 for link in list(self._node.peers.links.values()))
        )


def warm_up() -> None:
    """Make pyarrow's first array, which imports pandas if that is installed. That may take seconds:
    better now than during a stream, a call, or after a name was claimed."""
    pa.array([0])


def _flat(error: BaseException | None) -> tuple[str, str] | None:
    return None if error is None else flatten(error)


_RUNNING: weakref.WeakSet[Runtime] = weakref.WeakSet()


def _forked() -> None:
    POOL.forget()
    for runtime in list(_RUNNING):
        runtime.disown()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_forked)

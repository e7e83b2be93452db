"""One node, one thread: what the node is told and what it asks for, in real time."""

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
    BatchConsumed,
    BatchPublished,
    CancelTimer,
    ChangeFilter,
    Deliver,
    Departed,
    DrainSupplier,
    Effect,
    EndSubscription,
    ForgetPeer,
    FrameArrived,
    InletClosed,
    InletOpened,
    Input,
    Knock,
    LoadStage,
    OutletClosed,
    PeerAbsent,
    PeerEnded,
    PeerHeard,
    PeerHungUp,
    Reply,
    RequestMade,
    RestoreStage,
    ResumeOutlet,
    RunStage,
    SetTimer,
    ShowFailures,
    SnapshotStage,
    SupplierDrained,
    TimerFired,
    Transmit,
    UnloadStage,
)
from activebroker.node.executor import MakeRunner
from activebroker.node.node import Node
from activebroker.protocol.messages import CallBody, ClaimName, FailuresReported, Unsubscribe
from activebroker.protocol.specs import Member
from activebroker.runtime.pool import POOL
from activebroker.runtime.publishing import PublishBuffer
from activebroker.runtime.queue import EventQueue
from activebroker.runtime.timers import Timers
from activebroker.runtime.workers import Workers
from activebroker.transport import Claim, Complaints, Told, Transport

log = logging.getLogger(__name__)

CLAIM = 5.0  # seconds that the directory may take to say whether a name is free
GRACE = 1.0  # seconds more than a caller's patience for the node to say that it has run out
FORGOTTEN = 60.0  # seconds after which nobody waits for an answer any more
FORKED = (
    "This fabric was made before the process forked, and lives in the parent only. Make your own "
    "fabric in this process."
)


@dataclass(frozen=True)
class Succession:
    """For a program that goes on with another node when it has lost its fabric.

    `registry` has the types of all of them, `before` is what those before have left (nothing for
    the first one), `departed` is called at the end of a node's thread.
    """

    registry: TypeRegistry
    before: Departed
    departed: Callable[[Departed], None]


class Runtime:
    """Runs a node until `stop`. `key` signs and verifies filter payloads.

    `directory` names the node that keeps the directory; None: this one does. With a `succession`,
    the node departs when the directory is lost, and leaves buffers and queues as they are.

    What goes wrong at the node's edge costs what it belongs to: what a peer sends, its connection;
    an effect, the subscription or filter it was for. Anything else ends the node at once: it logs
    what happened, `failure` holds it, and everybody who waits here, or calls, gets Unreachable.
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
        self.failure: BaseException | None = None  # what ended the node, where that was not `stop`
        before = None if succession is None else succession.before
        self._node = Node(member, directory or member.name, self.registry, budget, before)
        self._succession = succession
        self._departed: Departed | None = None
        self._departs_for = ""  # why it is to depart
        if directory is not None:
            # Until it tells the members, the directory is the only one known.
            known = Member(directory, directory_address, is_broker=True, incarnation=0)
            self._node.peers.members[directory] = known
        self._on_failures = on_failures
        self._inbox: deque[Input] = deque()
        self._filled: deque[int] = deque()  # outlets with events to take
        self._asleep = False  # in `receive`, and nobody has woken it yet
        self._stopping = False
        self._disowned = False
        self._ended: ActiveBrokerError | None = None  # what everybody gets from then on
        self._buffers: dict[int, PublishBuffer] = {}
        self._draining: dict[int, bool] = {}  # buffers to empty before their outlets end
        # Outlets that ended before they got a buffer, and why if their channel was not closed.
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

    # --- for the user's threads ---------------------------------------------------------------

    def post(self, input: Input) -> None:
        """Give the node an input; any thread may."""
        if self._ended is None:
            self._inbox.append(input)
            self._wake()

    def request(self, body: CallBody, patience: float) -> Any:
        """Ask the directory for something and wait for the answer.

        Raises the error of the answer, or DeadlineExceeded; Closed or Unreachable where the node
        has ended.
        """
        request_id = next(self._request_ids)
        future = self._replies[request_id] = Future()
        # The node's thread writes and reads these two the other way round: one of us sees it.
        if self._stopping or self._ended is not None:
            self._replies.pop(request_id, None)
            raise self._why_ended()
        self.post(RequestMade(request_id, body, patience))
        # The node gives up first, with a message that names the party.
        concurrent.futures.wait([future], patience + GRACE)
        if future.done():
            return future.result()
        self._replies.pop(request_id, None)
        raise DeadlineExceeded(f"Node {self.name!r} itself did not answer within {patience:g} s.")

    def claim(self, claim: Claim, told: Told) -> None:
        """Ask the directory, for a process that is about to join, for the name it will bear.

        `told` gets None, or the error as (class name, text), in the node's thread.
        """
        request_id = next(self._request_ids)
        future = self._replies[request_id] = Future()
        future.add_done_callback(lambda done: told(_flat(done.exception())))
        self.post(RequestMade(request_id, ClaimName(claim.name, claim.replace, claim.again), CLAIM))

    def tell(self, body: CallBody) -> None:
        """Ask the directory for something and do not wait for the answer."""
        self.post(RequestMade(next(self._request_ids), body, FORGOTTEN))

    def publish_to(self, outlet: int, buffer: PublishBuffer) -> None:
        """Let a buffer's events leave by an outlet that the directory has opened."""

        def filled() -> None:
            self._filled.append(outlet)
            self._wake()

        self._buffers[outlet] = buffer
        # As in `request`: one of us sees it.
        if self._ended is not None:
            buffer.fail(self._why_ended(), 0)
        elif outlet in self._unclaimed:
            del self._buffers[outlet]
            why = self._unclaimed.pop(outlet)
            buffer.close(why or Closed(f"Channel {buffer.channel!r} was closed."))
        else:
            buffer.attach(filled)

    def open_inlet(self, inlet: int, queue: EventQueue) -> None:
        """Let the events of a subscription, to be connected by the directory, come to a queue."""
        self._queues[inlet] = queue
        queue.attach(lambda flow, nbytes: self.post(BatchConsumed(inlet, flow, nbytes)))
        if self._ended is not None:  # as in `request`
            queue.end(self._why_ended())
        received = {} if self._succession is None else self._succession.before.received
        self.post(InletOpened(inlet, received.get(inlet, {})))

    def close_inlet(self, inlet: int) -> None:
        self.post(InletClosed(inlet))
        if (queue := self._queues.pop(inlet, None)) is not None:
            queue.end(None)

    def wait_drained(self, patience: float, until: float = math.inf) -> bool:
        """Wait until everything this node has sent was taken over by its peers.

        False once nothing was for `patience` seconds, at the monotonic time `until`, or when the
        node has ended.
        """
        last, since = -1, 0.0
        looks = 0  # that found nothing: two of them, for what changes places may be seen at neither
        while (looks := looks + 1 if self._drained() else 0) < 2:
            now = time.monotonic()
            if (progress := self._progress()) != last:
                last, since = progress, now
            if self._ended is not None or now - since > patience or now > until:
                return False
            time.sleep(0.005)
        return True

    def wait_complete(self, patience: float) -> bool:
        """Wait until those are back who were served by the node before; False if they are not."""
        end = time.monotonic() + patience
        while any(outlet.awaited for outlet in list(self._node.plane.outlets.values())):
            if self._ended is not None or time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    def stop(self) -> None:
        """End the thread, the workers and the transport. What was not delivered is dropped."""
        if self._stopping:
            return
        self._stopping = True
        self.transport.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join(5.0)

    def depart(self, reason: str) -> None:
        """End, and leave buffers and queues as they are for another node."""
        self._departs_for = reason
        self.stop()

    def disown(self) -> None:
        """In the child of a fork, where the node's thread is not: end without a word to anybody."""
        self._disowned = self._stopping = True
        self._ended = Closed(FORKED)
        for buffer in self._buffers.values():
            buffer.disown(self._why_ended())
        for queue in self._queues.values():
            queue.disown(self._why_ended())
        self._replies.clear()

    @property
    def disowned(self) -> bool:
        """Whether it lives in the process that this one was forked from."""
        return self._disowned

    # --- the node's thread --------------------------------------------------------------------

    def _run(self) -> None:
        """Each of these, whatever becomes of those before it."""
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
            # What a thread has published goes before what it asks for next.
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
        """Nobody waits here for a node that has ended."""
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
        finally:  # who asked may look then at what has become of those
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

    def _put_back(self, buffer: PublishBuffer, left: Departed) -> None:
        """What may not have arrived is published once more; who has it already, drops it."""
        buffer.put_back(left.unacknowledged_of(buffer.channel, buffer.supplier))

    def _why_ended(self) -> ActiveBrokerError:
        """A new error each time: it goes to threads that each add where they met it."""
        if self._ended is None:
            return Closed("The fabric was closed.")
        error = copy.copy(self._ended)
        error.__cause__ = self._ended.__cause__
        return error

    def _wake(self) -> None:
        # What came before the loop set the flag, the loop sees by itself; so no wake is lost.
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
            case RunStage() | RestoreStage() | SnapshotStage() | ChangeFilter():
                self._workers.do(effect)
            case Departed():
                self._departed = effect
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
            case OutletClosed(outlet, finished, error, acknowledged):
                if error is None:
                    self._close_buffer(outlet, finished)
                else:
                    self._fail_buffer(outlet, error, acknowledged or 0)
                self._buffers.pop(outlet, None)

    def _failed(self, effect: Effect, error: Exception) -> None:
        """Let an effect that could not be carried out cost what it was for, if it was for that."""
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
        """End the subscription of a consumer that has let its events wait for too long."""
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
        """Grows as what was sent is taken over."""
        links = list(self._node.peers.links.values())
        buffers = list(self._buffers.values())
        stages = list(self._node.plane.stages.values())
        return (
            sum(each.taken for each in buffers)
            + sum(each.taken_events for each in stages)
            + sum(link.acknowledged for link in links)
        )

    def _drained(self) -> bool:
        # Read from another thread: each value is read at once, and what is under way shows later.
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
    """pyarrow's first array imports pandas where that is installed, which may take seconds: not
    amid the stream, nor while somebody counts on an answer, nor after a name was claimed."""
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

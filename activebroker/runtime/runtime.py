"""One node, one thread: what the node is told and what it asks for, in real time."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

import pyarrow as pa

from activebroker.broker.effects import (
    BatchConsumed,
    BatchPublished,
    CancelTimer,
    ChangeFilter,
    Deliver,
    DrainSupplier,
    Effect,
    EndSubscription,
    ForgetPeer,
    FrameArrived,
    Input,
    LoadStage,
    OutletClosed,
    PeerHeard,
    PortClosed,
    PortOpened,
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
from activebroker.broker.messages import CallBody, ClaimName, FailuresReported
from activebroker.broker.node import Node
from activebroker.core.errors import Closed, DeadlineExceeded
from activebroker.events import EventType, TypeRegistry
from activebroker.routing import Member
from activebroker.runtime.pool import POOL
from activebroker.runtime.publishing import PublishBuffer
from activebroker.runtime.queue import EventQueue
from activebroker.runtime.workers import MakeRunner, Workers
from activebroker.transport import Claim, Told, Transport

log = logging.getLogger(__name__)

CLAIM = 5.0  # seconds that the directory may take to say whether a name is free
FORGOTTEN = 60.0  # seconds after which nobody waits for an answer any more


class Runtime:
    """Runs a node until `stop`. `key` signs and verifies filter payloads.

    `directory` names the node that keeps the directory; None: this one does.
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
    ) -> None:
        # pyarrow's first array imports pandas where that is installed, which may take seconds: not
        # amid the stream, and not while somebody counts on an answer.
        pa.array([0])
        self.name = member.name
        self.registry = TypeRegistry()
        self.transport = transport
        self._node = Node(member, directory or member.name, self.registry)
        if directory is not None:
            # Until it tells the members, the directory is the only one known.
            known = Member(directory, directory_address, is_broker=True, incarnation=0)
            self._node.peers.members[directory] = known
        self._workers = Workers(key, engines, self.registry, self.post)
        self._on_failures = on_failures
        self._inbox: deque[Input] = deque()
        self._filled: deque[int] = deque()  # outlets with events to take
        self._asleep = False  # in `receive`, and nobody has woken it yet
        self._stopping = False
        self._buffers: dict[int, PublishBuffer] = {}
        self._draining: dict[int, bool] = {}  # buffers to empty before their outlets end
        self._unclaimed: set[int] = set()  # outlets that ended before they got a buffer
        self._queues: dict[int, EventQueue] = {}
        self._replies: dict[int, Future[Any]] = {}
        self._request_ids = itertools.count(1)
        self._timers: list[tuple[float, int, str]] = []
        self._timer_ids: dict[str, int] = {}
        self._timer_count = itertools.count()
        self._thread = threading.Thread(target=self._loop, name=f"node {self.name}", daemon=True)
        self._thread.start()

    @property
    def orphaned(self) -> str:
        """Why this node is in no fabric any more; empty while it is."""
        return self._node.orphaned

    # --- for the user's threads ---------------------------------------------------------------

    def post(self, input: Input) -> None:
        """Give the node an input; any thread may."""
        self._inbox.append(input)
        self._wake()

    def request(self, body: CallBody, patience: float) -> Any:
        """Ask the directory for something and wait for the answer.

        Raises the error of the answer, or DeadlineExceeded.
        """
        if self._stopping:
            raise Closed("The fabric was closed.")
        request_id = next(self._request_ids)
        future = self._replies[request_id] = Future()
        self.post(RequestMade(request_id, body, patience))
        try:
            # The node gives up first, with a message that names the party.
            return future.result(patience + 2.0)
        except FutureTimeout:
            self._replies.pop(request_id, None)
            raise DeadlineExceeded(
                f"Node {self.name!r} itself did not answer within {patience:g} s."
            ) from None

    def claim(self, claim: Claim, told: Told) -> None:
        """Ask the directory, for a process that is about to join, for the name it will bear.

        `told` gets None, or the error as (class name, text), in the node's thread.
        """
        request_id = next(self._request_ids)
        future = self._replies[request_id] = Future()
        future.add_done_callback(lambda done: told(_flat(done.exception())))
        self.post(RequestMade(request_id, ClaimName(claim.name, claim.replace), CLAIM))

    def tell(self, body: CallBody) -> None:
        """Ask the directory for something and do not wait for the answer."""
        self.post(RequestMade(next(self._request_ids), body, FORGOTTEN))

    def publish_to(
        self, outlet: int, channel: str, supplier: str, type: EventType
    ) -> PublishBuffer:
        """The buffer whose events leave by an outlet that the directory has opened."""

        def filled() -> None:
            self._filled.append(outlet)
            self._wake()

        buffer = self._buffers[outlet] = PublishBuffer(channel, supplier, type, filled)
        # The node's thread writes and reads these two the other way round: one of us sees it.
        if outlet in self._unclaimed:
            del self._buffers[outlet]
            buffer.close(f"Channel {channel!r} was closed.")
        return buffer

    def open_port(self, port: int) -> EventQueue:
        """The queue of a new subscription, to be connected by the directory."""
        queue = self._queues[port] = EventQueue(
            lambda flow, nbytes: self.post(BatchConsumed(port, flow, nbytes))
        )
        self.post(PortOpened(port))
        return queue

    def close_port(self, port: int) -> None:
        self.post(PortClosed(port))
        if (queue := self._queues.pop(port, None)) is not None:
            queue.end(None)

    def wait_drained(self, patience: float) -> bool:
        """Wait until everything this node has sent was taken over by its peers."""
        end = time.monotonic() + patience
        while not self._drained():
            if time.monotonic() > end or not self._thread.is_alive():
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

    # --- the node's thread --------------------------------------------------------------------

    def _wake(self) -> None:
        # What came before the loop set the flag, the loop sees by itself; so no wake is lost.
        if self._asleep:
            self._asleep = False
            self.transport.wake()

    def _loop(self) -> None:
        try:
            while not self._stopping:
                self._asleep = True
                busy = self._inbox or self._filled or self._stopping
                arrivals = self.transport.receive(0.0 if busy else self._patience())
                self._asleep = False
                for peer in self.transport.heard():
                    self._handle(PeerHeard(peer))
                for head, buffers in arrivals:
                    self._handle(FrameArrived(head, buffers))
                # What a thread has published goes before what it asks for next.
                asked = len(self._inbox)
                for _ in range(len(self._filled)):
                    self._publish(self._filled.popleft())
                for _ in range(asked):
                    self._handle(self._inbox.popleft())
                self._fire_timers()
        finally:
            self._workers.close()
            self.transport.close()
            for buffer in self._buffers.values():
                buffer.close("The fabric was closed.")
            for queue in self._queues.values():
                queue.end(None)
            for future in list(self._replies.values()):
                if not future.done():
                    future.set_exception(Closed("The fabric was closed."))

    def _handle(self, input: Input) -> None:
        try:
            effects = self._node.handle(input, time.monotonic())
        except Exception:
            # A peer's mistake, or ours, must not end what others use. It is never silent.
            log.exception("node %r could not handle %s", self.name, type(input).__name__)
            return
        for effect in effects:
            self._perform(effect)

    def _publish(self, outlet_id: int) -> None:
        outlet = self._node.exchange.outlets.get(outlet_id)
        buffer = self._buffers.get(outlet_id)
        if outlet is not None and buffer is not None:
            while outlet.ready and (batch := buffer.take()) is not None:
                self._handle(BatchPublished(outlet_id, batch))
        if outlet_id in self._draining and (buffer is None or buffer.empty):
            self._handle(SupplierDrained(outlet_id, self._draining.pop(outlet_id)))

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Transmit(peer, address, frames):
                self.transport.transmit(peer, address, frames)
            case Deliver(port, flow, batch, nbytes):
                if (queue := self._queues.get(port)) is not None:
                    queue.put(flow, batch, nbytes)
            case RunStage() | RestoreStage() | SnapshotStage() | ChangeFilter():
                self._workers.do(effect)
            case ResumeOutlet(outlet):
                # Not at once: effects that follow this one come before new events.
                self._filled.append(outlet)
            case SetTimer(key, after):
                self._timer_ids[key] = next(self._timer_count)
                entry = (time.monotonic() + after, self._timer_ids[key], key)
                heapq.heappush(self._timers, entry)
            case CancelTimer(key):
                self._timer_ids.pop(key, None)
            case Reply(request, result, error):
                if (future := self._replies.pop(request, None)) is not None:
                    if error is not None:
                        future.set_exception(error)
                    else:
                        future.set_result(result)
            case EndSubscription(port, error):
                if (queue := self._queues.pop(port, None)) is not None:
                    queue.end(error)
            case LoadStage(stage):
                self._workers.load(stage)
            case UnloadStage(stage_id):
                self._workers.unload(stage_id)
            case ShowFailures(report):
                self._on_failures(report)
            case ForgetPeer(peer):
                self.transport.forget(peer)
            case DrainSupplier(outlet, finished):
                self._unclaimed.add(outlet)
                if outlet in self._buffers:
                    self._unclaimed.discard(outlet)
                self._close_buffer(outlet, finished)
                self._draining[outlet] = finished
                self._filled.append(outlet)
            case OutletClosed(outlet, finished):
                self._close_buffer(outlet, finished)
                self._buffers.pop(outlet, None)

    def _close_buffer(self, outlet: int, finished: bool) -> None:
        if (buffer := self._buffers.get(outlet)) is not None:
            what = f"Channel {buffer.channel!r}" if finished else f"Supplier {buffer.supplier!r}"
            buffer.close(f"{what} was closed.")

    def _patience(self) -> float | None:
        """How long to wait for frames, in seconds; None: until something comes."""
        waits = (self._next_timer(), POOL.relieve())
        return min((each for each in waits if each is not None), default=None)

    def _next_timer(self) -> float | None:
        while self._timers and self._timer_ids.get(self._timers[0][2]) != self._timers[0][1]:
            heapq.heappop(self._timers)  # cancelled, or set anew
        if not self._timers:
            return None
        return max(0.0, self._timers[0][0] - time.monotonic())

    def _fire_timers(self) -> None:
        while self._next_timer() == 0.0:
            _, number, key = heapq.heappop(self._timers)
            if self._timer_ids.get(key) == number:
                del self._timer_ids[key]
                self._handle(TimerFired(key))

    def _drained(self) -> bool:
        # Read from another thread: each value is read at once, and what is under way shows later.
        exchange = self._node.exchange
        return (
            not self._inbox
            and all(buffer.empty for buffer in list(self._buffers.values()))
            and all(
                outlet.ready and not (outlet.supplier and outlet.unsettled)
                for outlet in list(exchange.outlets.values())
            )
            and all(link.unacknowledged == 0 for link in list(self._node.peers.links.values()))
        )


def _flat(error: BaseException | None) -> tuple[str, str] | None:
    return None if error is None else (type(error).__name__, str(error))

"""A node: one process's part of the fabric, without threads, sockets or clocks.

It takes an input and the time, and returns effects. Suppliers, consumers, filters and the directory
are on nodes. A broker is a node for the filters of other processes.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, assert_never

from activebroker.core.errors import (
    ActiveBrokerError,
    ProtocolError,
    Unreachable,
    flatten,
)
from activebroker.directory.context import Done, Outside
from activebroker.directory.deaths import Budget
from activebroker.directory.directory import Directory
from activebroker.events import EventType, TypeRegistry, describe
from activebroker.matching import Chunk
from activebroker.node.context import Context
from activebroker.node.dataplane.inlets import Inlets
from activebroker.node.dataplane.outlets import Outlets
from activebroker.node.dataplane.plane import (
    Arrival,
    Fact,
    FilterChanged,
    FilterSaved,
    InputBegan,
    InputEnded,
    Plane,
)
from activebroker.node.dataplane.stages import Stages
from activebroker.node.departing import Departing
from activebroker.node.effects import (
    BatchConsumed,
    BatchPublished,
    CancelTimer,
    Effect,
    ForgetPeer,
    FrameArrived,
    InletClosed,
    InletOpened,
    Input,
    Knock,
    Legacy,
    LogAppended,
    LogRead,
    PeerAbsent,
    PeerEnded,
    PeerHeard,
    PeerHungUp,
    Reply,
    RequestMade,
    SetTimer,
    ShowFailures,
    StageChanged,
    StageLoaded,
    StateFailed,
    StateSnapshotted,
    SupplierDrained,
    SyncAsked,
    TimerFired,
    WorkDone,
)
from activebroker.node.links.calls import Calls
from activebroker.node.links.peers import Peers
from activebroker.node.moves import Moves
from activebroker.node.orders import Orders
from activebroker.protocol.flows import (
    Acknowledged,
    CreditReturned,
    Events,
    FlowDropped,
    FlowEnded,
    FlowOpened,
    FlowRewound,
    StreamEnded,
    TypeAnnounced,
)
from activebroker.protocol.frame import Buffers, Frame, decode
from activebroker.protocol.messages import (
    Answer,
    Body,
    Call,
    CallBody,
    CheckpointStored,
    CheckpointTaken,
    ExpectFlow,
    Expelled,
    FailuresReported,
    Greet,
    Heard,
    MembersChanged,
    OutletDrained,
    PeerSuspected,
)
from activebroker.protocol.orders import Order
from activebroker.protocol.requests import Join
from activebroker.protocol.specs import UNPLACED, Member
from derivation.protocol import Prepared, Refused, Started

log = logging.getLogger(__name__)
TICK = 0.1  # seconds between looks at the links


class Node:
    """A process's part of the fabric.

    `directory` is the name of the node with the directory: this one, with a `budget` for recovery
    and an `era`, a number that has grown by more than the parts of any earlier fabric; or a peer.

    With `before`, what the program's node before has left behind, this node goes on from there: its
    outlets first wait for the subscribers of that node. And it departs when its own fabric is lost.
    """

    def __init__(
        self,
        me: Member,
        directory: str,
        registry: TypeRegistry,
        budget: Budget = Budget(),  # noqa: B008 - a frozen value
        before: Legacy | None = None,
        era: int = 0,
    ) -> None:
        self.name = me.name
        self.registry = registry
        self.peers = Peers(me)
        self.orphaned = ""  # why there is no directory any more
        self._context = context = Context(me.name, directory, registry, self._send, self._announce)
        self._local: deque[tuple[Body, Buffers]] = deque()
        self._calls = Calls()
        self._ticking = False
        self._expelled = False  # a peer has said that the fabric took this process for lost
        self.plane = Plane(context)
        self.outlets = Outlets(self.plane)
        self.inlets = Inlets(self.plane)
        self.stages = Stages(self.plane, self.outlets, self.inlets)
        self.moves = Moves(context, self.plane, self.outlets, self.stages)
        self.orders = Orders(
            self.plane, self.outlets, self.inlets, self.stages, self.moves, self.peers
        )
        self.departing = Departing(
            self.plane, self.outlets, self.inlets, self.stages, self.peers, before
        )
        self.directory: Directory | None = None
        if directory == me.name:
            outside = Outside(
                call=self._call,
                tell=self._tell,
                expel=self._lose,
                incarnation=self.peers.incarnation,
                set_timer=self._set_timer,
                now=lambda: context.now,
                era=era,
            )
            self.directory = Directory(me, outside, budget)

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at `now` (seconds, of any monotonic clock); return effects in order.

        Raises ProtocolError for a frame that cannot be decoded, and for a message that its sender
        may not send; that message has changed nothing.
        """
        self._context.now = now
        match input:
            case FrameArrived(head, buffers, source):
                self._frame_arrived(decode(head), buffers, source)
            case PeerHeard(peer):
                self.peers.heard(peer, now)
            case PeerHungUp(peer):
                if self.directory is not None:  # it alone decides which process has ended
                    self.peers.greet_soon(peer)
            case PeerEnded(peer):
                if self.directory is not None:
                    self.directory.ended(peer)
            case PeerAbsent(peer):
                if self.directory is not None and self.peers.is_quiet(peer, now):
                    self.directory.ended(peer)
            case BatchPublished(outlet, batch):
                self.outlets.publish(outlet, Chunk(batch))
            case BatchConsumed(inlet, flow, nbytes):
                self.inlets.consumed(inlet, flow, nbytes)
            case StageLoaded() | WorkDone() | LogAppended() | LogRead():
                self.orders.driver_answered(input)
            case StateSnapshotted() | StateFailed() | StageChanged():
                self.orders.driver_answered(input)
            case RequestMade():
                self._request(input)
            case SyncAsked(id, outlet):
                self.outlets.sync(id, outlet)
            case InletOpened():
                self.inlets.open(input)
            case InletClosed(inlet):
                self.inlets.close(inlet)
            case SupplierDrained(outlet, finished):
                self.outlets.close(outlet, finished)
            case TimerFired(key):
                self._timer_fired(key)
            case _:
                assert_never(input)
        self._settle()
        effects = [*self._context.effects, *self.peers.flush(now)]
        self._context.effects.clear()
        if not self._ticking and (self.peers.links or self.active):
            self._ticking = True
            effects.append(SetTimer("tick", TICK))
        return effects

    # --- messages -----------------------------------------------------------------------------

    def _frame_arrived(self, frame: Frame, buffers: Sequence[Any], source: str) -> None:
        if frame.sender != source:
            raise ProtocolError(f"{source!r} sent a frame in the name of {frame.sender!r}.")
        if isinstance(frame.body, Expelled):
            if frame.to == self.peers.me.incarnation and frame.sender in self.peers.links:
                # Only the directory takes members for lost, and the sender has heard it from there.
                self._expelled = True
                mine = self.directory is not None or bool(self.orphaned)
                self._lose(frame.sender if mine else self._context.directory)
            return
        if self.orphaned and (
            not self.departing.under_way or frame.sender == self._context.directory
        ):
            # A node that has lost its fabric says this only to the directory's node: others have to
            # hear it from there.
            if frame.sender == self._context.directory:
                self._context.effects.append(self.peers.answer(frame, Expelled()))
            return
        if not self.peers.is_known(frame) and not self._admits(frame):
            return
        wrong: ProtocolError | None = None
        bodies = self.peers.receive(frame, buffers, self._context.now)
        for number, (body, its_buffers) in enumerate(bodies):
            if number:  # the consequences of a message come before the next one
                self._settle()
            if not self.peers.is_gone(frame):
                try:
                    self._receive(frame.sender, body, its_buffers)
                except ProtocolError as error:
                    wrong = wrong or error  # go on: the messages after it were acknowledged, too
                except Exception as error:
                    what = f"{frame.sender!r} sent {type(body).__name__}, which"
                    log.exception("%s node %r could not carry out", what, self.name)
                    wrong = wrong or ProtocolError(f"{what} could not be carried out: {error!r}")
        if wrong is not None:
            raise wrong

    def _admits(self, frame: Frame) -> bool:
        """Whether to listen to a frame that comes from another process than the one we have a link
        with, or is for another process than this one."""
        if self.peers.is_gone(frame):
            self._context.effects.append(self.peers.answer(frame, Expelled()))
            return False
        if self.peers.is_stale(frame):
            # The sender may be outdated, too: its frame does not prove that it is the present
            # process of its name. The answer tells it our incarnation.
            self._context.effects.append(self.peers.answer(frame, Heard()))
            return False
        if self.peers.restarted(frame):
            self._lose(frame.sender)
            self.peers.drop(frame.sender)  # with the messages for its predecessor
        return not self.peers.is_greeting(frame)

    def _receive(self, source: str, body: Body, buffers: Sequence[Any]) -> None:
        match body:
            case Events() | StreamEnded() | FlowEnded() | FlowOpened():
                self.inlets.receive(source, body, buffers)
            case CreditReturned() | Acknowledged() | FlowDropped() | FlowRewound():
                self.outlets.receive(body)
            case TypeAnnounced(description):
                self.registry.resolve(description)
            case CheckpointStored(stage_id):
                self.stages.checkpoint_kept(stage_id)
            case Call(call_id, request):
                answer = self._answer(source, call_id)
                try:
                    self._serve(request, answer)
                except Exception as failure:
                    # A fault of ours, or a bad argument from this process, which no decoder has
                    # checked: the caller gets an error and does not wait in vain.
                    what = type(request).__name__
                    log.exception("node %r could not carry out %s", self.name, what)
                    answer(None, ActiveBrokerError(f"{self.name!r} failed at {what}: {failure!r}"))
            case Answer(call_id, result, error):
                self._context.effects.append(CancelTimer(f"call {call_id}"))
                self._calls.answered(source, call_id, result, error)
            case Prepared() | Refused() | Started():
                if self.directory is not None:
                    self.directory.answered(body)
            case MembersChanged() | ExpectFlow() | Greet() if source != self._context.directory:
                raise ProtocolError(f"{source!r} sent {body!r}, which only the directory says.")
            case MembersChanged(members):
                self._members_changed(members)
            case ExpectFlow(spec, recovers):
                self.inlets.expect(spec, recovers)
                self.peers.greet(spec.source, self._context.now)
            case Greet(peer):
                self.peers.greet(peer, self._context.now)
            case FailuresReported():
                self._context.effects.append(ShowFailures(body))
            case CheckpointTaken() | OutletDrained() | PeerSuspected():
                if self.directory is not None:
                    self.directory.told(source, body)
            case Heard():
                pass
            case _ if not self.moves.receive(body, buffers):
                raise ProtocolError(f"{source!r} sent {body!r}, which this node does not expect.")

    def _settle(self) -> None:
        """Work off the consequences of a message or another input.

        First come the messages between parts of this node; then the facts that other parts have to
        know; then the stages and outlets that can go on; then, one by one, the messages of the node
        to itself.
        """
        plane = self.plane
        while True:
            if plane.under_way:
                match plane.under_way.popleft():
                    case Arrival() as arrival:
                        self.inlets.arrived(arrival)
                    case body:
                        self._receive(self.name, body, ())
            elif plane.facts:
                self._learn(plane.facts.popleft())
            elif plane.touched:
                self.stages.go_on()
            elif self._local:
                body, buffers = self._local.popleft()
                self._receive(self.name, body, buffers)
            elif self.directory is None or not self.directory.settle():
                break
        self.outlets.send_events()

    def _learn(self, fact: Fact) -> None:
        match fact:
            case InputBegan(stage, flow):
                self.moves.flow_opened(stage, flow)
            case InputEnded(stage, flow, lost):
                self.moves.flow_ended(stage, flow, lost)
            case FilterSaved(stage, error):
                self.moves.saved(stage, error)
            case FilterChanged():
                self.orders.changed(fact)
            case _:
                assert_never(fact)

    def _send(self, to: str, body: Body, buffers: Buffers = ()) -> None:
        if to == self.name:
            self._local.append((body, buffers))
        elif to == UNPLACED:
            return  # for a filter without a place: it is retained, and sent when there is one
        elif self.orphaned and to == self._context.directory:
            return
        else:
            self.outlets.send_events()
            self.peers.send(to, body, self._context.now, buffers)

    def _tell(self, to: str, body: Body) -> None:
        self._send(to, body)

    def _announce(self, to: str, type: EventType) -> None:
        if to == UNPLACED:
            return
        link = self.peers.link(to, self._context.now)
        if type.fingerprint not in link.announced:
            link.announced.add(type.fingerprint)
            link.send(TypeAnnounced(describe(type)))

    # --- calls --------------------------------------------------------------------------------

    def _answer(self, to: str, call_id: int) -> Done:
        """A callback that sends the answer to a call, unless the caller is gone by then."""
        asked = self.peers.incarnation(to)

        def done(result: Any, error: ActiveBrokerError | None) -> None:
            if self.peers.incarnation(to) == asked:
                self._send(to, Answer(call_id, result, flatten(error) if error else None))

        return done

    def _call(self, to: str, body: CallBody, patience: float, done: Done) -> None:
        call_id = self._calls.add(to, body, patience, done)
        self._context.effects.append(SetTimer(f"call {call_id}", patience))
        self._send(to, Call(call_id, body))

    def _request(self, request: RequestMade) -> None:
        def done(result: Any, error: ActiveBrokerError | None) -> None:
            if isinstance(request.body, Join) and error is None:
                self.peers.members = {member.name: member for member in result}
            self._context.effects.append(Reply(request.id, result, error))

        if self.orphaned:
            done(None, Unreachable(self.orphaned))
        else:
            self._call(self._context.directory, request.body, request.patience, done)

    def _serve(self, body: CallBody, done: Done) -> None:
        """Carry out a call: an order here, other calls at the directory."""
        if isinstance(body, Order):
            self.orders.carry_out(body, done)
        elif self.directory is not None:
            self.directory.request(body, done)
        else:
            what = type(body).__name__
            error = ProtocolError(
                f"{self.name!r} does not keep the directory and cannot answer {what}; it is at "
                f"{self._context.directory!r}."
            )
            done(None, error)

    # --- time and loss ------------------------------------------------------------------------

    def _timer_fired(self, key: str) -> None:
        kind, _, number = key.partition(" ")
        match kind:
            case "tick":
                self._tick()
            case "call":
                self._calls.expired(int(number))
            case "idle":
                self.stages.idle(int(number))
            case "awaited":
                self.outlets.await_no_more()
            case "departure":
                self.departing.end()
            case _ if self.directory is not None:
                self.directory.timer_fired(kind, number)

    def _tick(self) -> None:
        for peer in self.peers.silent(self._context.now):
            if not self._accuse(peer):
                self._lose(peer)
                self._settle()  # first handle the loss of one peer, then that of the next
        if self.directory is not None:
            self._knock()
        self.peers.tick(self._context.now)
        self.stages.tick()
        self.inlets.tick()
        if self.directory is not None:
            self.directory.tick()
        if self.departing.under_way:
            self.departing.end_if_done()
        self._ticking = bool(self.peers.links) or self.active or self.departing.under_way
        if self._ticking:
            self._context.effects.append(SetTimer("tick", TICK))

    def _knock(self) -> None:
        """Look for the brokers that should have been heard by now. Only for brokers: other
        processes may listen at addresses that cannot be reached from here."""
        for name, member in self.peers.members.items():
            address = member.address if member.is_broker and name != self.name else None
            if address is not None and self.peers.is_quiet(name, self._context.now):
                self._context.effects.append(Knock(name, address))

    def _accuse(self, peer: str) -> bool:
        """Ask the directory to decide which is lost, a silent peer or this node. Returns False if
        this node has to decide by itself.

        If it is this node that is cut off, to take the peer for lost would be wrong, and so would
        be what others are told because of that.
        """
        member = self.peers.members.get(peer)
        is_mine = self.directory is not None or peer == self._context.directory
        if is_mine or self.orphaned or member is None:
            return False
        if self.peers.reached(peer) != member.incarnation:
            if self.peers.gives_up(peer):
                suspected = PeerSuspected(peer, member.incarnation, heard=False)
                self._send(self._context.directory, suspected)
            return False
        if self.peers.accuse(peer, self._context.now):
            heard = self.peers.incarnation(peer) != 0
            accusation = PeerSuspected(peer, member.incarnation, heard)
            self._send(self._context.directory, accusation)
        return True

    def _members_changed(self, members: tuple[Member, ...]) -> None:
        """Take the new members. A process that is no longer one is gone for everybody."""
        before, self.peers.members = self.peers.members, {each.name: each for each in members}
        if self.directory is None:  # else it knows, and still has to answer those that leave
            for name, member in before.items():
                if name in self.peers.members:
                    continue
                self.peers.see_off(name, member.incarnation)
                if self.peers.is_succeeded(member):
                    self.inlets.lost(name, unopened=True)
                else:
                    self._lose(name)
            for member in members:
                if self.peers.is_successor(member):
                    self._lose(member.name)

    def _lose(self, peer: str) -> None:
        """A peer is gone: free everything here that was for it or from it."""
        acknowledged = self.acknowledged() if peer == self._context.directory else {}
        left = self.departing.left("")  # now, with the subscribers at that peer
        if self.departing.departs and (self.orphaned or peer == self._context.directory):
            self.departing.note_lost(peer)
        self.peers.drop(peer)
        self._context.effects.append(ForgetPeer(peer))
        self.outlets.lost(peer)
        self.inlets.lost(peer)
        self.moves.lost(peer)
        # Before calls to the peer fail, and those that wait for them go on:
        if self.directory is not None:
            self.directory.lost(peer)
        elif peer == self._context.directory:
            self._lose_fabric(acknowledged, left)
        self._calls.lost(peer)

    def _lose_fabric(self, acknowledged: dict[int, int], left: Legacy) -> None:
        self.orphaned = (
            f"The fabric took this process, {self.name!r}, for lost: it did not answer, or "
            "another process has taken its name. Connect again."
            if self._expelled
            else f"The fabric's directory at {self._context.directory!r} does not answer any more. "
            "Connect again."
        )
        self.moves.abandon()
        if self.departing.departs:
            self.departing.begin(replace(left, reason=self.orphaned))
        else:
            self.departing.abandon(self.orphaned, acknowledged)

    def departed(self, reason: str) -> Legacy:
        """What this node leaves behind if it ends now."""
        return self.departing.departed(reason)

    def acknowledged(self) -> dict[int, int]:
        """By supplier's outlet: all events before this number were taken over by all their
        subscribers."""
        return self.departing.acknowledged()

    @property
    def active(self) -> bool:
        """Whether something is due by time alone, even without any peer."""
        return bool(self.inlets.acknowledging) or self.stages.active

    def _set_timer(self, key: str, after: float | None) -> None:
        self._context.effects.append(CancelTimer(key) if after is None else SetTimer(key, after))

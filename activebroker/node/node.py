"""A node: one process's part of the fabric, without threads, sockets or clocks.

It takes an input and the time and returns effects. Suppliers, consumers, filters and the
directory sit on nodes; a broker is a node that is there for others' filters.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from activebroker.core.errors import (
    ActiveBrokerError,
    PayloadRefused,
    ProtocolError,
    Unreachable,
)
from activebroker.directory.changes import Done
from activebroker.directory.deaths import Budget
from activebroker.directory.directory import Directory
from activebroker.directory.migration import Migration
from activebroker.events import Batch, EventType, TypeRegistry, describe
from activebroker.filters import Failure
from activebroker.matching import Parcel
from activebroker.node.counters import counters
from activebroker.node.dataplane.exchange import Exchange
from activebroker.node.dataplane.saving import SavingState
from activebroker.node.dataplane.stage import Stage
from activebroker.node.effects import (
    BatchConsumed,
    BatchPublished,
    CancelTimer,
    Departed,
    DrainSupplier,
    Effect,
    ForgetPeer,
    FrameArrived,
    Input,
    LoadStage,
    PeerEnded,
    PeerHeard,
    PeerHungUp,
    PortClosed,
    PortOpened,
    Reply,
    RequestMade,
    RestoreStage,
    SetTimer,
    ShowFailures,
    StageChanged,
    StageLoaded,
    StateFailed,
    StateSnapshotted,
    SupplierDrained,
    TimerFired,
    WorkDone,
)
from activebroker.node.links.calls import Calls, flatten
from activebroker.node.links.peers import Peers
from activebroker.node.moves import Moves
from activebroker.protocol.frame import Buffers, Frame, decode
from activebroker.protocol.messages import (
    ENDED,
    AbandonPort,
    Answer,
    Body,
    Call,
    CallBody,
    ChangeStage,
    CheckpointTaken,
    CloseFlow,
    CloseOutlet,
    ClosePort,
    Deploy,
    ExpectFlow,
    Expelled,
    FailuresReported,
    FinishFlow,
    ForgetSaved,
    ForgetTaker,
    Greet,
    Heard,
    Join,
    KeepStage,
    MembersChanged,
    MovePrepared,
    MoveRefused,
    MoveStarted,
    OpenFlow,
    OpenOutlet,
    OutletDrained,
    PeerSuspected,
    ReleasePort,
    ReportNode,
    ReportSent,
    ReportStory,
    SetPredicate,
    TypeAnnounced,
    Undeploy,
)
from activebroker.protocol.specs import UNPLACED, Member

log = logging.getLogger(__name__)
TICK = 0.1  # seconds between looks at the links
AWAITED = 8.0  # seconds that outlets wait for those who were served by the node before: less than
# it takes a `close` behind them to give up, more than there is between two attempts to join again
DEPARTURE = 5.0  # seconds after which a node leaves a fabric, though something may be under way
SAMPLES = 10  # failures reported in full for each piece of work


class Node:
    """`directory` names the node that keeps the directory: this one, with a `budget` for recovery,
    or a peer.

    With `before`, it departs when its fabric is lost, and goes on where the program's node before
    has departed: its outlets first wait for those who were served there.
    """

    def __init__(
        self,
        me: Member,
        directory: str,
        registry: TypeRegistry,
        budget: Budget = Budget(),  # noqa: B008 - a frozen value
        before: Departed | None = None,
    ) -> None:
        self.name = me.name
        self.registry = registry
        self.peers = Peers(me)
        self._directory_name = directory
        self._effects: list[Effect] = []
        self._now = 0.0
        self._local: deque[tuple[Body, Buffers]] = deque()
        self._calls = Calls()
        self._deploying: dict[int, Done] = {}
        self._changing: dict[int, Done] = {}
        self._ticking = False
        self._expelled = False  # a peer has said that this process is lost to the fabric
        self.orphaned = ""  # why there is no directory any more
        self._departs = before is not None
        self._departing: Departed | None = None  # what it leaves behind
        self._served: tuple[str, ...] = ()  # the nodes that it served
        self._done = False
        self._unacknowledged: dict[int, list[Batch]] = {}  # by supplier's stream
        self.exchange = Exchange(
            me.name,
            directory,
            self._send,
            self._announce,
            registry,
            self._effects,
            on_flow_opened=lambda stage, flow: self.moves.flow_opened(stage, flow, self._now),
            on_flow_ended=lambda stage, flow, lost: self.moves.flow_ended(
                stage, flow, lost, self._now
            ),
            on_saved=lambda stage: self.moves.saved(stage, self._now),
            on_changed=self._changed,
        )
        if before is not None:
            self.exchange.succeed(before)
            self._effects.append(SetTimer("awaited", AWAITED))
        self.moves = Moves(me.name, self.exchange, self._send, registry, self._effects)
        self.directory: Directory | None = None
        if directory == me.name:
            self.directory = Directory(
                me,
                self._call,
                self._tell,
                self._set_move_deadline,
                self._set_timer,
                lambda: self._now,
                self._lose,
                self.peers.incarnation,
                budget,
            )

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input at `now` (seconds, of any monotonic clock); return effects in order.

        Raises ProtocolError for a frame that cannot be decoded, or says what its sender has no
        business to say; that part of it has changed nothing.
        """
        self._now = self.exchange.now = now
        match input:
            case FrameArrived(head, buffers, source):
                self._frame_arrived(decode(head), buffers, source)
            case PeerHeard(peer):
                self.peers.heard(peer, now)
            case PeerHungUp(peer):
                if self.directory is not None:  # which alone decides who has ended
                    self.peers.greet_soon(peer)
            case PeerEnded(peer):
                if self.directory is not None:
                    self.directory.ended(peer)
            case BatchPublished(outlet, batch):
                self.exchange.publish(outlet, Parcel(batch))
            case BatchConsumed(port, flow, nbytes):
                self.exchange.consumed(port, flow, nbytes)
            case WorkDone():
                self._work_done(input)
            case RequestMade():
                self._request(input)
            case PortOpened(port, received):
                self.exchange.open_port(port, received)
            case PortClosed(port):
                self.exchange.close_port(port)
            case SupplierDrained(outlet, finished):
                self.exchange.close_outlet(outlet, finished)
            case StageLoaded(stage_id, error):
                self._stage_loaded(stage_id, error)
            case StateFailed(stage_id, failures):
                if (stage := self.exchange.stages.get(stage_id)) is not None:
                    if not stage.saving.fails:  # a move asks once more
                        self._report(stage, failures)
                    saving = stage.saving.state is SavingState.TAKING or stage.changing is not None
                    stage.saving.fails |= saving
            case StateSnapshotted(stage_id, state):
                self._snapshotted(stage_id, state)
            case StageChanged(stage_id, state, error):
                if (stage := self.exchange.stages.get(stage_id)) is not None:
                    stage.changed(state, error)
                    self.exchange.pump(stage)
            case TimerFired(key):
                self._timer_fired(key)
        self._settle()
        effects = [*self._effects, *self.peers.flush(now)]
        self._effects.clear()
        if not self._ticking and (self.peers.links or self.exchange.active):
            self._ticking = True
            effects.append(SetTimer("tick", TICK))
        return effects

    # --- messages -----------------------------------------------------------------------------

    def _frame_arrived(self, frame: Frame, buffers: Sequence[Any], source: str) -> None:
        if frame.sender != source:
            raise ProtocolError(f"{source!r} sent a frame in the name of {frame.sender!r}.")
        if isinstance(frame.body, Expelled):
            if frame.to == self.peers.me.incarnation and frame.sender in self.peers.links:
                # Only the directory takes members for lost: the sender has it from there.
                self._expelled = True
                mine = self.directory is not None or bool(self.orphaned)
                self._lose(frame.sender if mine else self._directory_name)
            return
        if self.orphaned and (self._departing is None or frame.sender == self._directory_name):
            # To others than the directory, the word of an orphan is nobody's.
            if frame.sender == self._directory_name:
                self._effects.append(self.peers.answer(frame, Expelled()))
            return
        if self.peers.is_gone(frame):
            self._effects.append(self.peers.answer(frame, Expelled()))
            return
        if self.peers.is_stale(frame):
            # Its sender may be stale, too: it proves nothing about who has its name now.
            self._effects.append(self.peers.answer(frame, Heard()))  # which tells who we are
            return
        if self.peers.restarted(frame):
            self._lose(frame.sender)
            self.peers.drop(frame.sender)  # with what was still sent to its predecessor
        if self.peers.is_greeting(frame):
            return
        wrong: ProtocolError | None = None
        for body, its_buffers in self.peers.receive(frame, buffers, self._now):
            if not self.peers.is_gone(frame):
                try:
                    self._receive(frame.sender, body, its_buffers)
                except ProtocolError as error:
                    wrong = wrong or error  # what comes after it was acknowledged as well
                except Exception as error:
                    what = f"{frame.sender!r} sent {type(body).__name__}, which"
                    log.exception("%s node %r could not carry out", what, self.name)
                    wrong = wrong or ProtocolError(f"{what} could not be carried out: {error!r}")
        if wrong is not None:
            raise wrong

    def _receive(self, source: str, body: Body, buffers: Sequence[Any]) -> None:
        if self.exchange.receive(source, body, buffers) or self.moves.receive(
            body, buffers, self._now
        ):
            return
        match body:
            case Call(call_id, request):
                answer = self._answer(source, call_id)
                try:
                    self._serve(request, answer)
                except Exception as failure:
                    # A fault of ours, or what a caller in this process got past the types of the
                    # wire: who asked is told, and does not wait in vain.
                    what = type(request).__name__
                    log.exception("node %r could not carry out %s", self.name, what)
                    answer(None, ActiveBrokerError(f"{self.name!r} failed at {what}: {failure!r}"))
            case Answer(call_id, result, error):
                self._effects.append(CancelTimer(f"call {call_id}"))
                self._calls.answered(source, call_id, result, error)
            case MovePrepared() | MoveRefused() | MoveStarted():
                if (move := self._migration(body.derivation)) is not None:
                    move.receive(body)
            case MembersChanged() | ExpectFlow() | Greet() if source != self._directory_name:
                raise ProtocolError(f"{source!r} sent {body!r}, which only the directory says.")
            case MembersChanged(members):
                self._members_changed(members)
            case ExpectFlow(spec, recovers):
                self.exchange.expect_flow(spec, recovers)
                self.peers.greet(spec.source, self._now)
            case Greet(peer):
                self.peers.greet(peer, self._now)
            case FailuresReported():
                self._effects.append(ShowFailures(body))
            case CheckpointTaken() | OutletDrained() | PeerSuspected():
                if self.directory is not None:
                    self.directory.told(source, body)
            case Heard():
                pass
            case _:
                raise ProtocolError(f"{source!r} sent {body!r}, which this node does not expect.")

    def _settle(self) -> None:
        """Handle what parts of this node said to each other, until all is quiet."""
        self.exchange.settle()
        while self._local:
            body, buffers = self._local.popleft()
            self._receive(self.name, body, buffers)
            self.exchange.settle()
        self.exchange.send_events()

    def _send(self, to: str, body: Body, buffers: Buffers = ()) -> None:
        if to == self.name:
            self._local.append((body, buffers))
        elif to == UNPLACED:
            return  # it is kept for a filter that has no place yet, and sent when it has one
        elif self.orphaned and to == self._directory_name:
            return
        else:
            self.exchange.send_events()
            self.peers.send(to, body, self._now, buffers)

    def _tell(self, to: str, body: Body) -> None:
        self._send(to, body)

    def _announce(self, to: str, type: EventType) -> None:
        if to == UNPLACED:
            return
        link = self.peers.link(to, self._now)
        if type.fingerprint not in link.announced:
            link.announced.add(type.fingerprint)
            link.send(TypeAnnounced(describe(type)))

    # --- calls --------------------------------------------------------------------------------

    def _answer(self, to: str, call_id: int) -> Done:
        """Send the answer to a call; one whose process is gone gets none, nor its successor."""
        asked = self.peers.incarnation(to)

        def done(result: Any, error: ActiveBrokerError | None) -> None:
            if self.peers.incarnation(to) == asked:
                self._send(to, Answer(call_id, result, flatten(error) if error else None))

        return done

    def _call(self, to: str, body: CallBody, patience: float, done: Done) -> None:
        call_id = self._calls.add(to, body, patience, done)
        self._effects.append(SetTimer(f"call {call_id}", patience))
        self._send(to, Call(call_id, body))

    def _request(self, request: RequestMade) -> None:
        def done(result: Any, error: ActiveBrokerError | None) -> None:
            if isinstance(request.body, Join) and error is None:
                members = [_member(each) for each in result]
                self.peers.members = {member.name: member for member in members}
            self._effects.append(Reply(request.id, result, error))

        if self.orphaned:
            done(None, Unreachable(self.orphaned))
        else:
            self._call(self._directory_name, request.body, request.patience, done)

    def _serve(self, body: CallBody, done: Done) -> None:
        """Carry out a call; what only the directory can do goes to the directory."""
        exchange = self.exchange
        match body:
            case Deploy(spec):
                opened = exchange.open_stage(spec)
                opened.port.anew = spec.checkpoint is None
                if spec.envelope is None:  # a relay has nothing to load
                    exchange.start_stage(opened)
                    done(None, None)
                    return
                self._deploying[spec.id] = done
                self._effects.append(LoadStage(spec))
                if spec.checkpoint is not None and spec.checkpoint.state:
                    self._effects.append(RestoreStage(spec.id, spec.checkpoint.state))
                return
            case OpenOutlet(outlet, channel, supplier):
                exchange.open_outlet(outlet, channel, supplier)
            case CloseOutlet(outlet, finished):
                self._close_outlet(outlet, finished)
            case OpenFlow(spec):
                done(exchange.open_flow(spec), None)
                return
            case CloseFlow(outlet, flow, taker):
                exchange.close_flow(outlet, flow, taker)
            case ForgetTaker(outlet, taker):
                exchange.forget_taker(outlet, taker)
            case ForgetSaved(stage_id):
                if (stage := exchange.stages.get(stage_id)) is not None:
                    exchange.forget_saved(stage)
            case FinishFlow(outlet, flow, behind):
                exchange.finish_flow(outlet, flow, behind)
            case ReportSent(outlet, taker):
                done(exchange.sent_to(outlet, taker), None)
                return
            case SetPredicate(outlet, taker, predicate, certain):
                done(exchange.set_predicate(outlet, taker, predicate, certain), None)
                return
            case ChangeStage(stage_id, change, envelope, behind, passed):
                if (stage := exchange.stages.get(stage_id)) is None:
                    done(ENDED, None)
                    return
                self._changing[stage_id] = done
                stage.change(change, envelope, behind, passed)
                exchange.pump(stage)
                return
            case KeepStage(stage_id, change):
                stage = exchange.stages.get(stage_id)
                kept = stage is None or stage.keep(change)
                if kept:
                    self._changing.pop(stage_id, None)
                done(kept, None)
                return
            case ClosePort(port, flows):
                exchange.complete_port(port, flows)
            case AbandonPort(port, reason):
                exchange.abandon_port(port, reason)
            case ReleasePort(port, outlets):
                done(exchange.release_port(port, outlets), None)
                return
            case Undeploy(stage_id, discard):
                if discard:
                    exchange.discard_stage(stage_id)
                else:
                    exchange.remove_stage(stage_id)
            case ReportNode():
                done(counters(self.exchange, self.moves, self.peers), None)
                return
            case ReportStory(derivation):
                done({"now": self._now, "parts": self.moves.story(derivation)}, None)
                return
            case _ if self.directory is not None:
                self.directory.request(body, done)
                return
            case _:
                what = type(body).__name__
                error = ProtocolError(
                    f"{self.name!r} does not keep the directory and cannot answer {what}; it is at "
                    f"{self._directory_name!r}."
                )
                done(None, error)
                return
        done(None, None)

    def _close_outlet(self, outlet_id: int, finished: bool) -> None:
        outlet = self.exchange.outlets.get(outlet_id)
        if outlet is not None and finished:
            self.exchange.let_go(outlet)
        if outlet is None or not outlet.ended:
            self._effects.append(DrainSupplier(outlet_id, finished))

    def _stage_loaded(self, stage_id: int, error: str | None) -> None:
        if self.moves.loaded(stage_id, error, self._now):
            return
        if (done := self._deploying.pop(stage_id, None)) is None:
            return
        if error is not None:
            self.exchange.remove_stage(stage_id)
            done(None, PayloadRefused(f"{self.name!r} cannot run it: {error}"))
        else:
            if (stage := self.exchange.stages.get(stage_id)) is not None:  # not given up meanwhile
                self.exchange.start_stage(stage)
            done(None, None)

    def _changed(self, stage_id: int, failure: str) -> None:
        if (done := self._changing.pop(stage_id, None)) is not None:
            done(failure, None)

    def _snapshotted(self, stage_id: int, state: dict[str, bytes]) -> None:
        stage = self.exchange.stages.get(stage_id)
        if stage is not None and stage.saving.state is SavingState.TAKING:
            stage.snapshot_taken(state)
            self.exchange.pump(stage)
        else:
            self.moves.captured(stage_id, state, self._now)

    def _work_done(self, work: WorkDone) -> None:
        self.exchange.cpu_seconds += work.cpu_seconds
        stage = self.exchange.stages.get(work.stage)
        if stage is None:
            return
        self._report(stage, work.result.failures)
        stage.done(work.result, work.cpu_seconds)
        self.exchange.pump(stage)

    def _report(self, stage: Stage, failures: Sequence[Failure]) -> None:
        """Tell who derived the channel what its filter has lost."""
        if failures:
            samples = tuple(failures[:SAMPLES])
            report = FailuresReported(stage.spec.channel, len(failures), samples)
            self._send(stage.spec.owner, report)

    # --- time and loss ------------------------------------------------------------------------

    def _timer_fired(self, key: str) -> None:
        kind, _, number = key.partition(" ")
        match kind:
            case "tick":
                self._tick()
            case "call":
                self._calls.expired(int(number))
            case "move":
                if (move := self._migration(int(number))) is not None:
                    move.deadline_passed()
            case "idle":
                self.exchange.idle(int(number))
            case "awaited":
                self.exchange.await_no_more()
            case "departure":
                self._depart()
            case _ if self.directory is not None:
                self.directory.timer_fired(kind, number)

    def _tick(self) -> None:
        for peer in self.peers.silent(self._now):
            if not self._accuse(peer):
                self._lose(peer)
                self._settle()  # what went on by that may count on the next one
        self.peers.tick(self._now)
        self.exchange.tick()
        if self.directory is not None:
            self.directory.tick()
        if self._departing is not None:
            self._depart_if_done()
        self._ticking = (
            bool(self.peers.links) or self.exchange.active or self._departing is not None
        )
        if self._ticking:
            self._effects.append(SetTimer("tick", TICK))

    def _accuse(self, peer: str) -> bool:
        """Leave it to the directory who is lost, this node or a silent peer: whether that can be.

        What is concluded here from a loss, and told others, would be wrong if it is this node.
        """
        member = self.peers.members.get(peer)
        is_mine = self.directory is not None or peer == self._directory_name
        if is_mine or self.orphaned or member is None:
            return False
        if self.peers.reached(peer) != member.incarnation:
            return False
        if self.peers.accuse(peer, self._now):
            heard = self.peers.incarnation(peer) != 0
            accusation = PeerSuspected(peer, member.incarnation, heard)
            self._send(self._directory_name, accusation)
        return True

    def _members_changed(self, members: tuple[Member, ...]) -> None:
        """Whom the directory has lost, or seen off, is gone for everybody."""
        before, self.peers.members = self.peers.members, {each.name: each for each in members}
        if self.directory is None:  # which knows itself, and still has to answer who leaves
            for name, member in before.items():
                if name in self.peers.members:
                    continue
                self.peers.see_off(name, member.incarnation)
                if self.peers.is_succeeded(member):
                    self.exchange.lost_before(name)
                else:
                    self._lose(name)
            for member in members:
                if self.peers.is_successor(member):
                    self._lose(member.name)

    def _lose(self, peer: str) -> None:
        """A peer is gone: free everything here that was for it or from it."""
        acknowledged = self.acknowledged() if peer == self._directory_name else {}
        left = self.exchange.departure("")  # with those who are served there
        if self._departs and (self.orphaned or peer == self._directory_name):
            self._note_lost(peer)
        self.peers.drop(peer)
        self._effects.append(ForgetPeer(peer))
        self.exchange.lost(peer)
        self.moves.lost(peer, self._now)
        # Before whoever waits for the peer goes on:
        if self.directory is not None:
            self.directory.lost(peer)
        elif peer == self._directory_name:
            self._lose_fabric(acknowledged, left)
        self._calls.lost(peer)

    def _lose_fabric(self, acknowledged: dict[int, int], left: Departed) -> None:
        self.orphaned = (
            f"The fabric took this process, {self.name!r}, for lost: it did not answer, or "
            "another process has taken its name. Connect again."
            if self._expelled
            else f"The fabric's directory at {self._directory_name!r} does not answer any more. "
            "Connect again."
        )
        self.moves.abandon()
        if self._departs:
            self._departing = replace(left, reason=self.orphaned)
            self._served = self.exchange.targets
            self._effects.append(SetTimer("departure", DEPARTURE))
            self.exchange.wind_up()
            return
        self.exchange.abandon_all(self.orphaned, acknowledged)
        self._forget_all()

    def _forget_all(self) -> None:
        for each in list(self.peers.links):  # a successor may have the name by now
            self._effects.append(ForgetPeer(each))
        self.peers.links.clear()

    def _note_lost(self, peer: str) -> None:
        """What may not have come to a peer that this node parts from."""
        link = self.peers.links.get(peer)
        sent = self.exchange.events_of(link.unacknowledged_bodies()) if link is not None else ()
        self._note((*sent, *self.exchange.waiting_for(peer)))

    def _note(self, events: Iterable[tuple[int, Batch]]) -> None:
        for stream, batch in events:
            self._unacknowledged.setdefault(stream, []).append(batch)

    def _depart_if_done(self) -> None:
        """Once all that was under way has come and gone, here and at those whom we serve; at the
        second look, for by then they have our acknowledgements."""
        links = [self.peers.links[each] for each in self._served if each in self.peers.links]
        done = self.exchange.wound_up and not any(link.unacknowledged for link in links)
        if done and self._done:
            self._depart()
        self._done = done

    def _depart(self) -> None:
        if (departing := self._departing) is not None:
            self._departing = None
            self._effects.append(self._leaving(departing))
            self._forget_all()

    def departed(self, reason: str) -> Departed:
        """What it leaves behind if it ends now."""
        return self._leaving(self.exchange.departure(reason))

    def _leaving(self, departed: Departed) -> Departed:
        for peer in (*self.peers.links, self.name):
            self._note_lost(peer)
        self._note(self.exchange.unsettled())  # it came there, and may have been lost with a move
        return replace(
            departed,
            unacknowledged=self._unacknowledged,
            received=self.exchange.received,
            filtered=self.exchange.filtered,
        )

    def acknowledged(self) -> dict[int, int]:
        """By supplier's outlet: all events before this number were taken over by all who want
        them."""
        links = self.peers.links.values()
        return self.exchange.acknowledged(
            each for link in links for each in link.unacknowledged_bodies()
        )

    def _migration(self, derivation: int) -> Migration | None:
        """The derivation that this node initiates, if it is this one and under way."""
        return None if self.directory is None else self.directory.migration(derivation)

    def _set_move_deadline(self, derivation: int, at: float | None) -> None:
        self._set_timer(f"move {derivation}", None if at is None else at - self._now)

    def _set_timer(self, key: str, after: float | None) -> None:
        self._effects.append(CancelTimer(key) if after is None else SetTimer(key, after))


def _member(value: Any) -> Member:
    """A member as it comes out of an answer: decoded to builtins on the wire, whole locally."""
    return value if isinstance(value, Member) else Member(**value)

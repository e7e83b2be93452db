"""An outlet: where a node's events leave for all who want them.

A supplier has one, and so has every stage for its derived channel. It knows its *takers*: who wants
events, wherever they may be taken. A flow leads to the place where a taker is now. Each flow has a
credit in bytes that its port gives back as it consumes; events wait here when it is used up. For a
taker whose place may be lost, what it has not settled is kept, and a flow that resumes begins with
that. While any flow waits, or too much is kept, the outlet is not ready and its producer pauses. So
a slow consumer slows its suppliers, and what is held here is bounded.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from activebroker.events import ANY
from activebroker.matching import Parcel, Selection, doubted, parse, renumbered, select, split
from activebroker.protocol.messages import FlowEnded, StreamEnded
from activebroker.protocol.specs import NOWHERE, FlowSpec, Position, Positions
from derivation.protocol import Error
from predicate_extract import Predicate

WINDOW = 4 << 20  # bytes of a flow that may be under way
KEPT = 2 * WINDOW  # bytes kept for a taker before the producer pauses
ENDED = 1 << 10  # bytes that a kept end of a stream counts for


Item = Parcel | StreamEnded | FlowEnded
Carry = Callable[["OutFlow", Item], None]


@dataclass(slots=True)
class Taker:
    """Who wants events. `keeps`: what it has not settled is kept for it; `tracks`: only how far it
    has settled is.

    Where the predicate is wider than its filter, what is sent is not `certain` to be forwarded.
    `began` is where a supplier's stream was when it came, `sent` how far it was given events,
    `settled` how far it has settled them; `since`: what it has already. A taker that another outlet
    serves from now on is `closed`, and `left` when the end of its flow has come there: what follows
    that is free.
    """

    predicate: Predicate | None
    keeps: bool
    certain: bool = True
    tracks: bool = False
    since: Positions = field(default_factory=dict)
    flow: OutFlow | None = None
    last: int = 0  # the flow that served it last
    sent: Positions = field(default_factory=dict)
    settled: Positions = field(default_factory=dict)
    began: Position | None = None
    kept: deque[tuple[str, Position, Parcel | StreamEnded]] = field(default_factory=deque)
    kept_bytes: int = 0
    closed: bool = False
    left: bool = False

    def keep(self, supplier: str, item: Parcel | StreamEnded) -> None:
        if item.upto <= self.settled.get(supplier, NOWHERE):
            return  # made once more here, it was settled where it was made before
        self.kept.append((supplier, item.upto, item))
        self.kept_bytes += _size(item)

    def settle(self, upto: Positions) -> None:
        self.settled.update(upto)
        settled, kept = self.settled, self.kept
        self.kept = deque(each for each in kept if each[1] > settled.get(each[0], NOWHERE))
        self.kept_bytes = sum(_size(item) for _, _, item in self.kept)

    @property
    def unsettled(self) -> bool:
        if self.closed and (self.keeps or self.tracks) and not self.left:
            return True
        if self.tracks and not self.keeps:
            return any(
                position > self.settled.get(supplier, NOWHERE)
                for supplier, position in self.sent.items()
            )
        return bool(self.kept)

    def has_settled(self, upto: Positions) -> bool:
        """Whether all that was given to it up to there is settled."""
        if not (self.keeps or self.tracks):
            return True
        if self.keeps:
            return not any(
                position <= upto.get(supplier, NOWHERE) for supplier, position, _ in self.kept
            )
        return all(
            self.settled.get(supplier, NOWHERE) >= min(sent, upto.get(supplier, NOWHERE))
            for supplier, sent in self.sent.items()
        )


@dataclass(slots=True)
class OutFlow:
    """The sending end of a flow, with its counters. `beside`: it leads to a filter at this node
    that does no more than look at events."""

    spec: FlowSpec
    beside: bool = False
    credit: int = WINDOW
    ending: bool = False  # its end is behind what waits; nothing more is for it
    waiting: deque[Item] = field(default_factory=deque)
    offered_events: int = 0
    offered_bytes: int = 0
    sent_events: int = 0
    sent_bytes: int = 0


class Outlet:
    """Selects each batch for each taker and hands it to `carry` as credit allows.

    `supplier` is the user's, None at a stage. `numbers`: what it emits is counted here, from the
    begin of each stream of a supplier (that of a filter); otherwise items bear their positions
    already. At a stage it `tracks`: it knows how far every taker has settled, for the stage settles
    its inputs in turn. It is not ready as long as takers are `awaited` who will come back. `begun`:
    that of a stage that is to take over has not, and its takers are still served by the old place.
    """

    def __init__(
        self, id: int, channel: str, supplier: str | None, carry: Carry, numbers: bool = False
    ) -> None:
        self.id = id
        self.stream = id  # a supplier's that goes on with it after it had lost its fabric: another
        self.begins: Position | None = None  # then: from where on nobody has had anything of it
        self.before: dict[str, Position] = {}  # then: who was served before, and since when
        self.channel = channel
        self.supplier = supplier
        self.flows: dict[int, OutFlow] = {}
        self.takers: dict[str, Taker] = {}
        self.positions: Positions = {}
        self.emitted_events = 0
        self.begun = True
        self.ended = False
        self.error: Error | None = None  # why it ended, if its filter was stopped
        self.numbers = numbers
        self.tracks = supplier is None
        self.awaited: dict[str, None] = {}
        self.spared: dict[int, None] = {}  # flows whose ports went before they were opened
        self._finishing: dict[int, Positions] = {}  # flows that end when the outlet has come so far
        self._carry = carry

    @property
    def ready(self) -> bool:
        """Whether no flow waits for credit, not too much is kept, and nobody is awaited."""
        return (
            not self.awaited
            and not any(flow.waiting for flow in self.flows.values())
            and not any(taker.kept_bytes >= KEPT for taker in self.takers.values())
        )

    @property
    def full_at(self) -> tuple[str, ...]:
        """The nodes that keep it from being ready: those that take nothing now."""
        waiting = [flow.spec.target for flow in self.flows.values() if flow.waiting]
        full = [each.flow for each in self.takers.values() if each.kept_bytes >= KEPT]
        return (*waiting, *(flow.spec.target for flow in full if flow is not None))

    def repeats(self, suppliers: Collection[str] | None = None) -> bool:
        """Whether it makes again what a taker has already, for its first place was lost; only of
        these suppliers, where no others' events come here."""
        return any(
            self.positions.get(supplier, NOWHERE) < at
            for taker in self._open()
            for supplier, at in taker.since.items()
            if suppliers is None or supplier in suppliers
        )

    @property
    def drained(self) -> bool:
        """Whether nothing more will leave."""
        return self.ended and not self.flows and not self.unsettled

    @property
    def acknowledged(self) -> int:
        """At a supplier's: all events before this number have left, and are settled."""
        waiting = [item for flow in self.flows.values() for item in flow.waiting]
        kept = [item for taker in self.takers.values() for _, _, item in taker.kept]
        firsts = [each.batch.first_seq for each in waiting + kept if isinstance(each, Parcel)]
        return min(firsts, default=self.positions.get(self.supplier or "", NOWHERE)[1])

    @property
    def unsettled(self) -> bool:
        """Whether a taker has not settled all that it was given."""
        return any(taker.unsettled for taker in self.takers.values())

    def open(self, spec: FlowSpec, keeps: bool = False, beside: bool = False) -> None:
        """Serve a taker by this flow from now on; if it resumes, with what is kept for it first.

        A taker that resumes where nothing is kept for it has nothing to expect here, nor has one
        that comes when the outlet has ended. Where the outlet has not `begun`, it is early.
        """
        self.awaited.pop(spec.taker, None)
        taker = self.takers.get(spec.taker)
        since = dict(spec.since)
        if taker is not None and not spec.resumes:
            since = {**taker.since, **since}
        known = taker is not None and not taker.closed
        over = self.ended or (spec.resumes and self.begun and not known)
        kept = taker.kept if taker is not None else deque()
        taker = self.takers[spec.taker] = Taker(
            parse(spec.predicate) if taker is None or not spec.resumes else taker.predicate,
            keeps,
            spec.certain if taker is None or not spec.resumes else taker.certain,
            self.tracks,
            since,
            settled=dict(spec.began),
            began=self.began(spec.taker) or self._now(),
        )
        self.before.pop(spec.taker, None)
        taker.flow = self.flows[spec.id] = OutFlow(spec, beside)
        taker.last = spec.id
        if spec.resumes:
            for supplier, _, item in kept:
                self._give(taker, supplier, item)
        else:
            for supplier, _, item in kept:
                taker.keep(supplier, item)
        if over:
            # Of an outlet that has ended the directory may still count on this flow.
            self.end_flow(spec.id, finished=self.ended, error=self.error, keeps=True)

    def set_predicate(self, taker: str, predicate: str | None, certain: bool = True) -> None:
        """Change what a taker wants, also while no flow leads to it."""
        if (known := self.takers.get(taker)) is not None:
            known.predicate, known.certain = parse(predicate), certain

    def close(self, flow_id: int) -> None:
        """Stop at once: the port is gone, though its taker may come back elsewhere."""
        if (flow := self.flows.pop(flow_id, None)) is None:
            for name, each in list(self.takers.items()):
                if each.closed and each.last == flow_id:
                    each.left = True  # nobody waits for the end that was sent
                    self._leave(name, each)
            return
        taker = self.takers.get(flow.spec.taker)
        if taker is not None and taker.flow is flow:
            taker.flow = None
            if not (taker.keeps or taker.tracks):
                del self.takers[flow.spec.taker]

    def lost(self, peer: str) -> None:
        """A node is gone: who was there takes nothing any more, but may come back elsewhere."""
        for flow in list(self.flows.values()):
            if flow.spec.target == peer:
                self.close(flow.spec.id)

    def served_by(self, flow_id: int) -> str | None:
        """The taker whose flow this is now."""
        if (flow := self.flows.get(flow_id)) is None:
            return None
        taker = self.takers.get(flow.spec.taker)
        return flow.spec.taker if taker is not None and taker.flow is flow else None

    def drop(self, taker: str) -> None:
        """The taker is gone for good."""
        if (gone := self.takers.pop(taker, None)) is not None and gone.flow is not None:
            self.flows.pop(gone.flow.spec.id, None)

    def drop_served(self, flow_id: int) -> None:
        """Whom this flow has served last is gone for good, also where it has ended."""
        for name in [name for name, taker in self.takers.items() if taker.last == flow_id]:
            self.drop(name)

    def keep(self, taker: str) -> Positions:
        """Keep from now on what a taker has not settled; return how far it was given events."""
        if (known := self.takers.get(taker)) is not None:
            known.keeps = known.keeps or not known.closed
        if self.ended:
            return self.positions  # which every taker is given, an end whether it wants it or not
        return {} if known is None else known.sent

    def settle(self, taker: str, upto: Positions, ended: bool = False) -> None:
        if (settling := self.takers.get(taker)) is not None:
            settling.settle(upto)
            settling.left = settling.closed and (settling.left or ended)
            self._leave(taker, settling)

    def let_go(self) -> None:
        """The channel is being closed: nobody will resume any more, keep nothing."""
        for name in list(self.takers):
            self.forget(name)

    def abandon(self) -> None:
        """Nobody takes anything any more."""
        self.ended = True
        self.flows.clear()
        self.takers.clear()

    def forget(self, taker: str) -> None:
        """Keep nothing any more for a taker: it gets what its flow brings, and will not resume."""
        if (known := self.takers.get(taker)) is None:
            return
        known.keeps = known.tracks = False
        known.kept.clear()
        known.kept_bytes = 0
        if known.flow is None:
            del self.takers[taker]

    def settled(self, upto: Positions) -> bool:
        """Whether every taker has settled what it was given up to these positions."""
        return all(taker.has_settled(upto) for taker in self.takers.values())

    def emit(self, parcel: Parcel) -> None:
        """Send a batch to every taker that wants some of it."""
        rows, nbytes = parcel.batch.num_rows, parcel.nbytes
        supplier = parcel.batch.supplier
        self.emitted_events += rows
        if self.numbers:
            parcel = renumbered(parcel, self._next(supplier, parcel.upto[0], rows))
        self.positions[supplier] = parcel.upto
        selection = Selection(parcel)
        for taker in self._open():
            if supplier in taker.since:
                self._emit_since(taker, parcel)
                continue
            flow = taker.flow
            # Objects cost a predicate as much as a filter that does no more than look at them.
            beside = flow is not None and flow.beside and parcel.batch.type is ANY
            part = parcel if beside else selection.of(taker.predicate)
            if part is not None and (beside or not taker.certain):
                part = doubted(part)
            if flow is not None:
                flow.offered_events += rows
                flow.offered_bytes += nbytes
            if part is not None:
                self._put(taker, supplier, part)
        self._finish()

    def end_stream(self, supplier: str, upto: Position | None = None) -> None:
        """Tell all takers that a supplier's stream is complete; `upto` where it came from."""
        if upto is None:
            upto = self._next(supplier, self.stream, 1)
        elif self.numbers:
            upto = self._next(supplier, upto[0], 1)
        self.positions[supplier] = upto
        for taker in self._open():
            self._give(taker, supplier, StreamEnded(0, 0, supplier, upto))
        self._finish()

    def end_flow(
        self,
        flow_id: int,
        finished: bool = False,
        error: Error | None = None,
        keeps: bool = False,
    ) -> None:
        """End one flow behind what it has been given; it leaves the table when that is sent.

        Its taker is served by another flow, or by another outlet, from now on; or by none, if it is
        `finished`. Then nothing is kept for it, unless the outlet `keeps`.
        """
        for name, taker in list(self.takers.items()):
            if taker.last == flow_id:  # also where the flow was lost before
                taker.flow, taker.closed = None, True
                if (finished and not keeps) or not taker.unsettled:
                    del self.takers[name]
        if (flow := self.flows.get(flow_id)) is None or flow.ending:
            return
        flow.ending = True
        self._queue(flow, FlowEnded(flow_id, flow.spec.port, finished, error))

    def finish(self, flow_id: int, behind: Positions) -> None:
        """End a flow for good, behind all up to there: some of it may be on its way here."""
        self._finishing[flow_id] = behind
        self._finish()

    def end(self, finished: bool = False, error: Error | None = None, keeps: bool = False) -> None:
        """End all flows; the outlet is drained when they have gone and nothing is kept.

        `finished`: nothing follows them; then nothing is kept either, unless it `keeps`.
        """
        self.ended, self.error = True, error
        for flow_id in list(self.flows):
            self.end_flow(flow_id, finished=finished, error=error, keeps=keeps)
        if finished and not keeps:
            self.let_go()

    def go_on(self, at: Position, before: Mapping[str, Positions]) -> None:
        """Continue a supplier's stream that has come so far; some of it may come once more.
        `before`: since when takers were served by the node before."""
        assert self.supplier is not None
        self.stream, self.begins = at[0], at
        self.before = {
            taker: began
            for taker, streams in before.items()
            if (began := streams.get(self.supplier)) is not None and began[0] == at[0]
        }
        self.positions[self.supplier] = at

    def began(self, taker: str) -> Position | None:
        """Where a supplier's stream was when a taker came; None for one that comes after the
        supplier has joined its fabric again, and was not served before."""
        if (known := self.takers.get(taker)) is not None:
            return known.began
        return self.before.get(taker, self._now() if self.begins is None else None)

    def lift_credit(self) -> None:
        """Send all that there is: little more can come."""
        for flow_id, flow in list(self.flows.items()):
            flow.credit = sys.maxsize
            self.return_credit(flow_id, 0)

    def return_credit(self, flow_id: int, nbytes: int) -> None:
        """The port consumed `nbytes`; send what waited for it."""
        if (flow := self.flows.get(flow_id)) is None:
            return
        flow.credit += nbytes
        while flow.waiting and (flow.credit > 0 or not isinstance(flow.waiting[0], Parcel)):
            self._send(flow, flow.waiting.popleft())

    # --- inside -------------------------------------------------------------------------------

    def _now(self) -> Position | None:
        """Where a supplier's stream is."""
        if self.supplier is None:
            return None
        return self.positions.get(self.supplier, (self.stream, 0))

    def _next(self, supplier: str, stream: int, count: int) -> Position:
        """The position `count` further on, which is in a new stream if the supplier's is one."""
        last, so_far = self.positions.get(supplier, (0, 0))
        return (stream, count) if stream > last else (last, so_far + count)

    def _finish(self) -> None:
        for flow_id, behind in list(self._finishing.items()):
            if all(self.positions.get(name, NOWHERE) >= at for name, at in behind.items()):
                del self._finishing[flow_id]
                self.end_flow(flow_id, finished=True)

    def _leave(self, name: str, taker: Taker) -> None:
        if taker.closed and not taker.unsettled:
            del self.takers[name]

    def _open(self) -> list[Taker]:
        return [taker for taker in self.takers.values() if not taker.closed]

    def _emit_since(self, taker: Taker, parcel: Parcel) -> None:
        """A taker that resumes: some of this it may have already."""
        supplier = parcel.batch.supplier
        if parcel.upto <= taker.since[supplier] and not taker.keeps:
            return
        if (part := select(parcel, taker.predicate)) is not None:
            self._give(taker, supplier, part if taker.certain else doubted(part))
        if parcel.upto >= taker.since[supplier]:
            del taker.since[supplier]

    def _give(self, taker: Taker, supplier: str, item: Parcel | StreamEnded) -> None:
        """Send what the taker has not got yet; keep all of it."""
        since = taker.since.get(supplier, NOWHERE)
        before: Parcel | StreamEnded | None
        after: Parcel | StreamEnded | None
        if isinstance(item, Parcel):
            before, after = split(item, since, by_seq=not self.numbers)
        else:
            before, after = (item, None) if item.upto <= since else (None, item)
        if before is not None and taker.keeps:
            taker.keep(supplier, before)
        if after is not None:
            self._put(taker, supplier, after)

    def _put(self, taker: Taker, supplier: str, item: Parcel | StreamEnded) -> None:
        taker.sent[supplier] = item.upto
        if taker.keeps:
            taker.keep(supplier, item)
        if (flow := taker.flow) is not None:
            if isinstance(item, Parcel):
                flow.sent_events += item.batch.num_rows
                flow.sent_bytes += item.nbytes
            else:
                item = StreamEnded(flow.spec.id, flow.spec.port, supplier, item.upto)
            self._queue(flow, item)

    def _queue(self, flow: OutFlow, item: Item) -> None:
        if flow.waiting or (flow.credit <= 0 and isinstance(item, Parcel)):
            flow.waiting.append(item)
        else:
            self._send(flow, item)

    def _send(self, flow: OutFlow, item: Item) -> None:
        if isinstance(item, Parcel):
            flow.credit -= item.nbytes
        elif isinstance(item, FlowEnded):
            del self.flows[flow.spec.id]
        self._carry(flow, item)


def _size(item: Parcel | StreamEnded) -> int:
    return item.nbytes if isinstance(item, Parcel) else ENDED

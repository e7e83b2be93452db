"""An outlet: where events leave a node for their subscribers.

A supplier has one, and so has every stage. A *subscriber* wants events, wherever it is; a flow
leads to the place where it is now. Each flow has a credit in bytes, which its inlet gives back as
it consumes; events wait here when the credit is used up. If a subscriber's place may be lost, the
events that it has not acknowledged are retained, and a flow that resumes begins with them.

While a flow waits for credit, or too much is retained, the outlet is not ready and its producer
pauses. So a slow consumer slows its suppliers, and what is held here is bounded.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from activebroker.events import ANY
from activebroker.matching import Chunk, Selection, doubted, parse, renumbered, select, split
from activebroker.protocol.flows import FlowEnded, StreamEnded
from activebroker.protocol.specs import NOWHERE, FlowSpec, Offset, Offsets
from derivation.protocol import Error
from predicate_extract import Predicate

WINDOW = 4 << 20  # bytes of a flow that may be under way
RETAINED = 2 * WINDOW  # bytes retained for a subscriber before the producer pauses
ENDED = 1 << 10  # bytes that a retained end of a stream counts for


Item = Chunk | StreamEnded | FlowEnded
Carry = Callable[["OutFlow", Item], None]


@dataclass(slots=True)
class Subscriber:
    """A subscription, a filter or a relay that wants the outlet's events."""

    predicate: Predicate | None
    retains: bool  # what it has not acknowledged is retained for it
    certain: bool = True  # False: the predicate is wider than the filter's
    tracks: bool = False  # it acknowledges, whether or not anything is retained for it
    since: Offsets = field(default_factory=dict)  # what it has already
    flow: OutFlow | None = None
    last: int = 0  # the flow that served it last
    sent: Offsets = field(default_factory=dict)  # how far it was given events
    acknowledged: Offsets = field(default_factory=dict)
    began: Offset | None = None  # where the supplier's stream was when it came
    retained: deque[tuple[str, Offset, Chunk | StreamEnded]] = field(default_factory=deque)
    retained_bytes: int = 0
    closed: bool = False  # another outlet serves it from now on
    left: bool = False  # the end of its last flow has arrived there

    def retain(self, supplier: str, item: Chunk | StreamEnded) -> None:
        if item.upto <= self.acknowledged.get(supplier, NOWHERE):
            return  # made again after a recovery, it was acknowledged before
        self.retained.append((supplier, item.upto, item))
        self.retained_bytes += _size(item)

    def acknowledge(self, upto: Offsets) -> None:
        self.acknowledged.update(upto)
        acknowledged, retained = self.acknowledged, self.retained
        self.retained = deque(
            each for each in retained if each[1] > acknowledged.get(each[0], NOWHERE)
        )
        self.retained_bytes = sum(_size(item) for _, _, item in self.retained)

    @property
    def unacknowledged(self) -> bool:
        if self.closed and (self.retains or self.tracks) and not self.left:
            return True
        if self.tracks and not self.retains:
            return any(
                offset > self.acknowledged.get(supplier, NOWHERE)
                for supplier, offset in self.sent.items()
            )
        return bool(self.retained)

    def has_acknowledged(self, upto: Offsets) -> bool:
        """Whether all that it was given up to these offsets is acknowledged."""
        if not (self.retains or self.tracks):
            return True
        if self.retains:
            return not any(
                offset <= upto.get(supplier, NOWHERE) for supplier, offset, _ in self.retained
            )
        return all(
            self.acknowledged.get(supplier, NOWHERE) >= min(sent, upto.get(supplier, NOWHERE))
            for supplier, sent in self.sent.items()
        )


@dataclass(slots=True)
class OutFlow:
    """The sending end of a flow, with its counters."""

    spec: FlowSpec
    beside: bool = False  # it leads to a filter at this node that only looks at events
    credit: int = WINDOW
    ending: bool = False  # its end waits, or was sent: nothing more is for it
    waiting: deque[Item] = field(default_factory=deque)
    offered_events: int = 0
    offered_bytes: int = 0
    sent_events: int = 0
    sent_bytes: int = 0


class Outlet:
    """Selects from each batch what each subscriber wants, and hands it to `carry` as credit
    allows."""

    def __init__(
        self,
        id: int,
        channel: str,
        supplier: str | None,
        carry: Carry,
        numbers: bool = False,
        stream: int | None = None,
    ) -> None:
        self.id = id
        # The next three change for a supplier that goes on after it has lost its fabric: `stream`
        # is then that of its first outlet, no subscriber has had anything from `begins` on, and
        # `before` is where the stream was when earlier subscribers came.
        self.stream = id if stream is None else stream
        self.begins: Offset | None = None
        self.before: dict[str, Offset] = {}
        self.channel = channel
        self.supplier = supplier  # None at a filter
        self.flows: dict[int, OutFlow] = {}
        self.subscribers: dict[str, Subscriber] = {}
        self.offsets: Offsets = {}
        self.emitted_events = 0
        self.begun = True  # False at a move's destination while the origin serves the subscribers
        self.ended = False
        self.error: Error | None = None  # why it ended, if its filter was stopped
        # Whether offsets are counted here, from the begin of each supplier's stream, as at a
        # filter. Otherwise items have their offsets already.
        self.numbers = numbers
        self.by_seq = not numbers  # offsets are sequence numbers
        self.tracks = supplier is None  # a stage acknowledges its inputs after its subscribers do
        self.awaited: dict[str, None] = {}  # subscribers of before, which will come back
        self.spared: dict[int, None] = {}  # flows whose inlets went before they were opened
        self._finishing: dict[int, Offsets] = {}  # flows that end when the outlet has come so far
        self._carry = carry

    @property
    def ready(self) -> bool:
        """Whether no flow waits for credit, not too much is retained, and no subscriber is
        awaited."""
        return (
            not self.awaited
            and not any(flow.waiting for flow in self.flows.values())
            and not any(
                subscriber.retained_bytes >= RETAINED for subscriber in self.subscribers.values()
            )
        )

    @property
    def full_at(self) -> tuple[str, ...]:
        """The nodes that keep the outlet from being ready, since they take nothing now."""
        waiting = [flow.spec.target for flow in self.flows.values() if flow.waiting]
        full = [each.flow for each in self.subscribers.values() if each.retained_bytes >= RETAINED]
        return (*waiting, *(flow.spec.target for flow in full if flow is not None))

    def repeats(self, suppliers: Collection[str] | None = None) -> bool:
        """Whether the stage, recovered from an earlier place, still makes again what a subscriber
        has already. With `suppliers`, only events of these count."""
        return any(
            self.offsets.get(supplier, NOWHERE) < at
            for subscriber in self._open()
            for supplier, at in subscriber.since.items()
            if suppliers is None or supplier in suppliers
        )

    @property
    def drained(self) -> bool:
        """Whether nothing more will leave."""
        return self.ended and not self.flows and not self.unacknowledged

    @property
    def acknowledged(self) -> int:
        """At a supplier: all events before this number have left, and are acknowledged."""
        waiting = [item for flow in self.flows.values() for item in flow.waiting]
        retained = [
            item for subscriber in self.subscribers.values() for _, _, item in subscriber.retained
        ]
        firsts = [each.batch.first_seq for each in waiting + retained if isinstance(each, Chunk)]
        return min(firsts, default=self.offsets.get(self.supplier or "", NOWHERE)[1])

    @property
    def unacknowledged(self) -> bool:
        """Whether a subscriber has not acknowledged all that it was given."""
        return any(subscriber.unacknowledged for subscriber in self.subscribers.values())

    def open(self, spec: FlowSpec, retains: bool = False, beside: bool = False) -> None:
        """Serve a subscriber by this flow from now on. A flow that resumes begins with what is
        retained.

        It ends at once after that if the outlet has ended, or if the flow resumes for a subscriber
        that the outlet does not serve; an outlet that has not `begun` will serve it.
        """
        self.awaited.pop(spec.subscriber, None)
        subscriber = self.subscribers.get(spec.subscriber)
        since = dict(spec.since)
        if subscriber is not None and not spec.resumes:
            since = {**subscriber.since, **since}
        known = subscriber is not None and not subscriber.closed
        over = self.ended or (spec.resumes and self.begun and not known)
        retained = subscriber.retained if subscriber is not None else deque()
        subscriber = self.subscribers[spec.subscriber] = Subscriber(
            parse(spec.predicate)
            if subscriber is None or not spec.resumes
            else subscriber.predicate,
            retains,
            spec.certain if subscriber is None or not spec.resumes else subscriber.certain,
            self.tracks,
            since,
            acknowledged=dict(spec.began),
            began=self.began(spec.subscriber) or self._now(),
        )
        self.before.pop(spec.subscriber, None)
        subscriber.flow = self.flows[spec.id] = OutFlow(spec, beside)
        subscriber.last = spec.id
        if spec.resumes:
            for supplier, _, item in retained:
                self._give(subscriber, supplier, item)
        else:
            for supplier, _, item in retained:
                subscriber.retain(supplier, item)
        if over:
            # Even if the outlet has ended, the directory may count on this flow.
            self.end_flow(spec.id, finished=self.ended, error=self.error, retains=True)

    def set_predicate(self, subscriber: str, predicate: str | None, certain: bool = True) -> None:
        """Change what a subscriber wants, even if it has no flow now."""
        if (known := self.subscribers.get(subscriber)) is not None:
            known.predicate, known.certain = parse(predicate), certain

    def close(self, flow_id: int) -> None:
        """Stop at once: the inlet is gone, though its subscriber may come back elsewhere."""
        if (flow := self.flows.pop(flow_id, None)) is None:
            for name, each in list(self.subscribers.items()):
                if each.closed and each.last == flow_id:
                    each.left = True  # its inlet is gone, and waits for no end
                    self._leave(name, each)
            return
        subscriber = self.subscribers.get(flow.spec.subscriber)
        if subscriber is not None and subscriber.flow is flow:
            subscriber.flow = None
            if not (subscriber.retains or subscriber.tracks):
                del self.subscribers[flow.spec.subscriber]

    def lost(self, peer: str) -> None:
        """A node is gone: its subscribers take nothing any more, but may come back elsewhere."""
        for flow in list(self.flows.values()):
            if flow.spec.target == peer:
                self.close(flow.spec.id)

    def served_by(self, flow_id: int) -> str | None:
        """The subscriber whose flow this is now."""
        if (flow := self.flows.get(flow_id)) is None:
            return None
        subscriber = self.subscribers.get(flow.spec.subscriber)
        return flow.spec.subscriber if subscriber is not None and subscriber.flow is flow else None

    def drop(self, subscriber: str) -> None:
        """The subscriber is gone for good."""
        if (gone := self.subscribers.pop(subscriber, None)) is not None and gone.flow is not None:
            self.flows.pop(gone.flow.spec.id, None)

    def drop_served(self, flow_id: int) -> None:
        """The subscriber that this flow served last is gone for good; the flow may have ended."""
        for name in [
            name for name, subscriber in self.subscribers.items() if subscriber.last == flow_id
        ]:
            self.drop(name)

    def retain(self, subscriber: str) -> Offsets:
        """Retain from now on what a subscriber has not acknowledged; return how far it was given
        events before."""
        if (known := self.subscribers.get(subscriber)) is not None:
            known.retains = known.retains or not known.closed
        if self.ended:
            return self.offsets  # every subscriber was given all of them, as far as it wants them
        return {} if known is None else known.sent

    def acknowledge(self, subscriber: str, upto: Offsets, ended: bool = False) -> None:
        if (acknowledging := self.subscribers.get(subscriber)) is not None:
            acknowledging.acknowledge(upto)
            acknowledging.left = acknowledging.closed and (acknowledging.left or ended)
            self._leave(subscriber, acknowledging)

    def let_go(self) -> None:
        """The channel is being closed: no subscriber will resume any more, so retain nothing."""
        for name in list(self.subscribers):
            self.forget(name)

    def abandon(self) -> None:
        """End at once: no subscriber takes anything any more."""
        self.ended = True
        self.flows.clear()
        self.subscribers.clear()

    def forget(self, subscriber: str) -> None:
        """Retain nothing any more for a subscriber: it gets what its flow brings, and will not
        resume."""
        if (known := self.subscribers.get(subscriber)) is None:
            return
        known.retains = known.tracks = False
        known.retained.clear()
        known.retained_bytes = 0
        if known.flow is None:
            del self.subscribers[subscriber]

    def all_acknowledged(self, upto: Offsets) -> bool:
        """Whether every subscriber has acknowledged what it was given up to these offsets."""
        return all(subscriber.has_acknowledged(upto) for subscriber in self.subscribers.values())

    def emit(self, chunk: Chunk) -> None:
        """Send a batch to every subscriber that wants some of it."""
        rows, nbytes = chunk.batch.num_rows, chunk.nbytes
        supplier = chunk.batch.supplier
        self.emitted_events += rows
        if self.numbers:
            chunk = renumbered(chunk, self._next(supplier, chunk.upto[0], rows))
        self.offsets[supplier] = chunk.upto
        selection = Selection(chunk)
        for subscriber in self._open():
            if supplier in subscriber.since:
                self._emit_since(subscriber, chunk)
                continue
            flow = subscriber.flow
            # On objects, a predicate costs as much as a filter that only looks at them.
            beside = flow is not None and flow.beside and chunk.batch.type is ANY
            part = chunk if beside else selection.of(subscriber.predicate)
            if part is not None and (beside or not subscriber.certain):
                part = doubted(part)
            if flow is not None:
                flow.offered_events += rows
                flow.offered_bytes += nbytes
            if part is not None:
                self._put(subscriber, supplier, part)
        self._finish()

    def end_stream(self, supplier: str, upto: Offset | None = None) -> None:
        """Tell all subscribers that a supplier's stream is complete. `upto`: the offset of that
        end in the input, at a stage."""
        if upto is None:
            upto = self._next(supplier, self.stream, 1)
        elif self.numbers:
            upto = self._next(supplier, upto[0], 1)
        self.offsets[supplier] = upto
        for subscriber in self._open():
            self._give(subscriber, supplier, StreamEnded(0, 0, supplier, upto))
        self._finish()

    def end_flow(
        self,
        flow_id: int,
        finished: bool = False,
        error: Error | None = None,
        retains: bool = False,
    ) -> None:
        """End one flow after what it has been given; it leaves the table when that is sent.

        Another flow or another outlet serves its subscriber from now on; or none does, if the flow
        is `finished`. Then nothing is retained for the subscriber, unless the outlet `retains`.
        """
        for name, subscriber in list(self.subscribers.items()):
            if subscriber.last == flow_id:  # even if the flow was lost before
                subscriber.flow, subscriber.closed = None, True
                if (finished and not retains) or not subscriber.unacknowledged:
                    del self.subscribers[name]
        if (flow := self.flows.get(flow_id)) is None or flow.ending:
            return
        flow.ending = True
        self._queue(flow, FlowEnded(flow_id, flow.spec.inlet, finished, error))

    def finish(self, flow_id: int, after: Offsets) -> None:
        """End a flow for good after these offsets: some of those events may be on their way
        here."""
        self._finishing[flow_id] = after
        self._finish()

    def end(
        self, finished: bool = False, error: Error | None = None, retains: bool = False
    ) -> None:
        """End all flows; the outlet is drained when they have ended and nothing is retained.

        `finished`: no other flows follow them; then nothing is retained, unless it `retains`.
        """
        self.ended, self.error = True, error
        for flow_id in list(self.flows):
            self.end_flow(flow_id, finished=finished, error=error, retains=retains)
        if finished and not retains:
            self.let_go()

    def go_on(self, at: Offset, before: Mapping[str, Offsets]) -> None:
        """Continue a supplier's stream from an offset; some events before it may be published
        again. `before`: by subscriber that the node before served, where streams began for it."""
        assert self.supplier is not None
        self.stream, self.begins = at[0], at
        self.before = {
            subscriber: began
            for subscriber, streams in before.items()
            if (began := streams.get(self.supplier)) is not None and began[0] == at[0]
        }
        self.offsets[self.supplier] = at

    def began(self, subscriber: str) -> Offset | None:
        """Where a supplier's stream was when a subscriber came. None if the subscriber was not
        served before the supplier joined its fabric again."""
        if (known := self.subscribers.get(subscriber)) is not None:
            return known.began
        return self.before.get(subscriber, self._now() if self.begins is None else None)

    def lift_credit(self) -> None:
        """Send all that waits: the supplier publishes nothing more."""
        for flow_id, flow in list(self.flows.items()):
            flow.credit = sys.maxsize
            self.return_credit(flow_id, 0)

    def return_credit(self, flow_id: int, nbytes: int) -> None:
        """The inlet consumed `nbytes`: send what waited for this credit."""
        if (flow := self.flows.get(flow_id)) is None:
            return
        flow.credit += nbytes
        while flow.waiting and (flow.credit > 0 or not isinstance(flow.waiting[0], Chunk)):
            self._send(flow, flow.waiting.popleft())

    # --- inside -------------------------------------------------------------------------------

    def _now(self) -> Offset | None:
        """Where a supplier's stream is now."""
        if self.supplier is None:
            return None
        return self.offsets.get(self.supplier, (self.stream, 0))

    def _next(self, supplier: str, stream: int, count: int) -> Offset:
        """The offset `count` further on; in a new stream, it counts from the begin."""
        last, so_far = self.offsets.get(supplier, (0, 0))
        return (stream, count) if stream > last else (last, so_far + count)

    def _finish(self) -> None:
        for flow_id, after in list(self._finishing.items()):
            if all(self.offsets.get(name, NOWHERE) >= at for name, at in after.items()):
                del self._finishing[flow_id]
                self.end_flow(flow_id, finished=True)

    def _leave(self, name: str, subscriber: Subscriber) -> None:
        if subscriber.closed and not subscriber.unacknowledged:
            del self.subscribers[name]

    def _open(self) -> list[Subscriber]:
        return [subscriber for subscriber in self.subscribers.values() if not subscriber.closed]

    def _emit_since(self, subscriber: Subscriber, chunk: Chunk) -> None:
        """Emit to a subscriber that resumes, and may have some of this already."""
        supplier = chunk.batch.supplier
        if chunk.upto <= subscriber.since[supplier] and not subscriber.retains:
            return
        if (part := select(chunk, subscriber.predicate)) is not None:
            self._give(subscriber, supplier, part if subscriber.certain else doubted(part))
        if chunk.upto >= subscriber.since[supplier]:
            del subscriber.since[supplier]

    def _give(self, subscriber: Subscriber, supplier: str, item: Chunk | StreamEnded) -> None:
        """Send what the subscriber does not have yet; retain all of it."""
        since = subscriber.since.get(supplier, NOWHERE)
        before: Chunk | StreamEnded | None
        after: Chunk | StreamEnded | None
        if isinstance(item, Chunk):
            before, after = split(item, since, by_seq=self.by_seq)
        else:
            before, after = (item, None) if item.upto <= since else (None, item)
        if before is not None and subscriber.retains:
            subscriber.retain(supplier, before)
        if after is not None:
            self._put(subscriber, supplier, after)

    def _put(self, subscriber: Subscriber, supplier: str, item: Chunk | StreamEnded) -> None:
        subscriber.sent[supplier] = item.upto
        if subscriber.retains:
            subscriber.retain(supplier, item)
        if (flow := subscriber.flow) is not None:
            if isinstance(item, Chunk):
                flow.sent_events += item.batch.num_rows
                flow.sent_bytes += item.nbytes
            else:
                item = StreamEnded(flow.spec.id, flow.spec.inlet, supplier, item.upto)
            self._queue(flow, item)

    def _queue(self, flow: OutFlow, item: Item) -> None:
        if flow.waiting or (flow.credit <= 0 and isinstance(item, Chunk)):
            flow.waiting.append(item)
        else:
            self._send(flow, item)

    def _send(self, flow: OutFlow, item: Item) -> None:
        if isinstance(item, Chunk):
            flow.credit -= item.nbytes
        elif isinstance(item, FlowEnded):
            del self.flows[flow.spec.id]
        self._carry(flow, item)


def _size(item: Chunk | StreamEnded) -> int:
    return item.nbytes if isinstance(item, Chunk) else ENDED

"""The outlet of a log: its subscribers are given what is on disk, each from where it is.

A subscriber that has all the outlet has emitted is *live*: it gets the next batch at once. Another
one, since it came late or is slow, is given what the log has, as its credit allows, until it is
live. So no subscriber holds up the log or another subscriber, and nothing is retained in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from activebroker.matching import Chunk, Selection, doubted, parse
from activebroker.node.dataplane.inlet import supplier_of
from activebroker.node.dataplane.outlet import Carry, OutFlow, Outlet, Subscriber
from activebroker.node.effects import LogRead, LogState, ReadLog
from activebroker.protocol.flows import StreamEnded
from activebroker.protocol.specs import NOWHERE, FlowSpec, Offset, Offsets, Since, later
from derivation.protocol import Error
from predicate_extract import Predicate

READ = 1 << 20  # bytes to read at a time


@dataclass(slots=True)
class Wanted:
    """What a subscriber wants from a position on."""

    position: int
    predicate: Predicate | None
    certain: bool


@dataclass(slots=True)
class Cursor:
    """How far a subscriber has been given the log."""

    position: int | None  # None: it is looked up by the first read
    start: Since | None = None
    until: int | None = None  # the position where its flow ends
    since: Offsets = field(default_factory=dict)  # what it has beyond that, between two flows
    reading: bool = False
    wanted: deque[Wanted] = field(default_factory=deque)  # later
    # The `error` and `retains` with which its flow ends, for good, when the subscriber is live.
    end: tuple[Error | None, bool] | None = None


class LogOutlet(Outlet):
    """An event's position is the count of all before it in the log."""

    def __init__(self, id: int, channel: str, carry: Carry) -> None:
        super().__init__(id, channel, None, carry)
        self.by_seq = False  # of any two neighbours, the offsets are neighbours, too
        self.first = self.position = 0
        self.cursors: dict[str, Cursor] = {}
        self._ends: list[StreamEnded] = []  # of streams, after the last event

    def begin(self, log: LogState) -> None:
        """Go on after what the log has."""
        self.first, self.position = log.first, log.position
        self.offsets.update(log.offsets)

    @property
    def positions(self) -> tuple[int, int]:
        """The first one, and the next one."""
        return self.first, self.position

    @property
    def ready(self) -> bool:
        return True

    @property
    def full_at(self) -> tuple[str, ...]:
        return ()

    def all_acknowledged(self, upto: Offsets) -> bool:
        return True  # what a subscriber lacks is on disk

    def retain(self, subscriber: str) -> Offsets:
        known = self.subscribers.get(subscriber)
        return {} if known is None else known.sent

    def open(self, spec: FlowSpec, retains: bool = False, beside: bool = False) -> None:
        """Serve a subscriber by this flow from now on. One that is known goes on where it is, but
        if it resumes from `since`."""
        cursor = self.cursors.get(spec.subscriber)
        if cursor is None or spec.resumes:
            late = spec.log is not None or spec.resumes or bool(spec.since)
            until = spec.log.until if spec.log is not None else None
            if spec.log is not None and spec.log.ends:
                until = self.position
            cursor = Cursor(None if late else self.position, spec.log, until)
        cursor.reading = False  # for another flow, and not taken when it comes
        self.cursors[spec.subscriber] = cursor
        super().open(spec, False, beside)
        subscriber = self.subscribers[spec.subscriber]
        subscriber.since = {**cursor.since, **subscriber.since}
        self._end_if_due(spec.subscriber)

    def set_predicate(self, subscriber: str, predicate: str | None, certain: bool = True) -> None:
        """Change what a subscriber wants of that which is not in the log yet."""
        cursor, known = self.cursors.get(subscriber), self.subscribers.get(subscriber)
        if cursor is not None and known is not None:
            cursor.wanted.append(Wanted(self.position, parse(predicate), certain))

    def drop(self, subscriber: str) -> None:
        super().drop(subscriber)
        self.cursors.pop(subscriber, None)

    def forget(self, subscriber: str) -> None:
        super().forget(subscriber)
        if subscriber not in self.subscribers:
            self.cursors.pop(subscriber, None)

    def emit(self, chunk: Chunk) -> None:
        """Give a batch, which the log has by now, to the subscribers that are live."""
        self.emitted_events += chunk.batch.num_rows
        self.offsets[chunk.batch.supplier] = chunk.upto
        self._emit(chunk)

    def end_stream(self, supplier: str, upto: Offset | None = None) -> None:
        assert upto is not None
        self.offsets[supplier] = upto
        self._emit(StreamEnded(0, 0, supplier, upto))

    def reads(self) -> Iterator[ReadLog]:
        """What is to be read from the log now."""
        for name in self.lacking:
            cursor, subscriber = self.cursors[name], self.subscribers[name]
            if (flow := subscriber.flow) is not None:
                cursor.reading = True
                yield ReadLog(
                    self.id,
                    flow.spec.id,
                    cursor.position,
                    self._end_of(cursor),
                    READ,
                    cursor.start,
                    dict(subscriber.since),
                )

    @property
    def lacking(self) -> list[str]:
        """The subscribers for which something is to be read now."""
        return [
            name
            for name, each in self.subscribers.items()
            if each.flow is not None and self._lacks(self.cursors[name], each.flow)
        ]

    def read(self, answer: LogRead) -> None:
        """Give a subscriber what was read for it."""
        if (name := self.served_by(answer.flow)) is None:
            return
        cursor, subscriber = self.cursors[name], self.subscribers[name]
        cursor.reading = False
        if answer.error is not None:
            super().end_flow(answer.flow, finished=True, error=answer.error)
            return
        subscriber.since = later(subscriber.since, answer.since)
        cursor.position = answer.position
        for item in answer.items:
            self._offer(subscriber, cursor, item, _selection(item))
        if cursor.position == self.position:
            for ended in self._ends:  # they may have come to the log after it was read
                self._offer(subscriber, cursor, ended, None)
        self._end_if_due(name)

    def end_flow(
        self,
        flow_id: int,
        finished: bool = False,
        error: Error | None = None,
        retains: bool = False,
    ) -> None:
        """End one flow: at once if its subscriber goes on with another one, or else, `finished`,
        after all that the log has."""
        name = self.served_by(flow_id)
        if finished and name is not None:
            self.cursors[name].end = error, retains
            self._end_if_due(name)
        else:
            if name is not None:
                self.cursors[name].since = dict(self.subscribers[name].since)
            super().end_flow(flow_id, finished, error, retains)

    # --- inside -------------------------------------------------------------------------------

    def _emit(self, item: Chunk | StreamEnded) -> None:
        at = self.position
        selection = _selection(item)
        if isinstance(item, Chunk):
            self.position += item.batch.num_rows
            self._ends.clear()
        else:
            self._ends.append(item)
        for subscriber in self._open():
            flow = subscriber.flow
            if flow is None:
                continue
            cursor = self.cursors[flow.spec.subscriber]
            takes = _takes(flow) or selection is None
            whole = self._end_of(cursor) == self.position  # else a part of it is read
            if cursor.position == at and not cursor.reading and takes and whole:
                self._offer(subscriber, cursor, item, selection)
                self._end_if_due(flow.spec.subscriber)
        self._finish()

    def _offer(
        self,
        subscriber: Subscriber,
        cursor: Cursor,
        item: Chunk | StreamEnded,
        selection: Selection | None,
    ) -> None:
        """Give a subscriber the next item, as far as it wants that and does not have it."""
        assert cursor.position is not None
        while cursor.wanted and cursor.wanted[0].position <= cursor.position:
            wanted = cursor.wanted.popleft()
            subscriber.predicate, subscriber.certain = wanted.predicate, wanted.certain
        supplier = supplier_of(item)
        had = subscriber.since.get(supplier, NOWHERE)
        part: Chunk | StreamEnded | None = item
        if isinstance(item, Chunk):
            cursor.position += item.batch.num_rows
        else:  # it has no position, and may be met twice
            had = max(had, subscriber.sent.get(supplier, NOWHERE))
        if item.upto <= had:
            return
        if isinstance(item, Chunk) and selection is not None:
            if subscriber.flow is not None:
                subscriber.flow.offered_events += item.batch.num_rows
                subscriber.flow.offered_bytes += item.nbytes
            selected = selection.of(subscriber.predicate)
            part = doubted(selected) if selected and not subscriber.certain else selected
        if part is not None:
            self._give(subscriber, supplier, part)
        subscriber.since.pop(supplier, None)

    def _lacks(self, cursor: Cursor, flow: OutFlow) -> bool:
        """Whether there is something to read for a subscriber, which can take it."""
        behind = cursor.position is None or cursor.position < self._end_of(cursor)
        return behind and not cursor.reading and _takes(flow)

    def _end_of(self, cursor: Cursor) -> int:
        return self.position if cursor.until is None else min(self.position, cursor.until)

    def _end_if_due(self, name: str) -> None:
        """End a subscriber's flow, if the subscriber has all that comes before the end."""
        cursor, subscriber = self.cursors[name], self.subscribers.get(name)
        flow = subscriber.flow if subscriber is not None else None
        if flow is None or cursor.position is None or cursor.position < self._end_of(cursor):
            return
        if cursor.end is not None:
            super().end_flow(flow.spec.id, True, *cursor.end)
        elif cursor.until is not None and cursor.position >= cursor.until:
            super().end_flow(flow.spec.id, finished=True)


def _selection(item: Chunk | StreamEnded) -> Selection | None:
    return Selection(item) if isinstance(item, Chunk) else None


def _takes(flow: OutFlow) -> bool:
    return flow.credit > 0 and not flow.waiting

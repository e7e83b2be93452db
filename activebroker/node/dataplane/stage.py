"""A stage: a filter at a place, between an inlet and an outlet.

It takes what the inlet lets through, runs the filter, and emits the result to its outlet. If the
predicate alone decides, it passes batches on untouched. It takes nothing while its outlet is not
ready.

A stage is a machine. Its state says what the driver does for it at the moment, which is one thing
at a time, and what the stage does next.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection

from msgspec import structs

from activebroker.core.errors import FilterStopped, flatten
from activebroker.events import Batch
from activebroker.filters import Envelope, RunResult
from activebroker.matching import Chunk, split
from activebroker.node.dataplane.changing import Changing
from activebroker.node.dataplane.inlet import InFlow, Inlet, supplier_of
from activebroker.node.dataplane.logged import LogOutlet
from activebroker.node.dataplane.outlet import Outlet
from activebroker.node.dataplane.saving import Saving
from activebroker.node.dataplane.states import BUSY, NEXT, StageState, Then
from activebroker.node.effects import (
    AppendLog,
    ChangeFilter,
    Effect,
    LogState,
    RunStage,
    SnapshotStage,
)
from activebroker.protocol.flows import FlowEnded, StreamEnded
from activebroker.protocol.specs import LOG, Offset, Offsets, StageSpec, later
from derivation.protocol import Error

WORK_BYTES = 1 << 20  # that one piece of work may hold
WORK_SECONDS = 0.25  # of CPU time that one may take, estimated by what the filter has used so far
LOG_BYTES = 4 << 20  # that come to disk together
FIRST_EVENTS = 256  # that the first one may hold, when nothing is known of the filter

Item = Chunk | StreamEnded


class Stage:
    def __init__(self, spec: StageSpec, inlet: Inlet, outlet: Outlet) -> None:
        self.spec = spec
        self.inlet = inlet
        self.outlet = outlet
        self.state = StageState.LOADING
        self.moving = False  # a move of it is under way: it stays until that has ended
        self.lost_events = 0
        self.late_events = 0  # of these, those that came later than the filter allows
        self.keys = 0  # that the filter has instances for
        self.taken_events = 0
        self.python_events = 0
        self.cpu_seconds = 0.0
        self._inbox: deque[tuple[InFlow | None, Item]] = deque()  # None: a hand-over's buffer
        self._consumed: dict[int, InFlow] = {}  # flows to which credit may be due
        self._captures = False  # a move waits for its state
        self._then = Then.GO_ON
        self._quiet = False  # nothing has arrived since the idle timer was set
        self._stream_ended: StreamEnded | None = None  # at the end of the work in hand
        self._in_hand: Offsets = {}  # how far the filter has come after the work in hand
        self._bytes_in_hand = 0
        self._appending: tuple[Item, ...] = ()  # on their way to the log
        self._had: Offsets = {}  # how far the old place had come, until something comes after that
        self.changing: Changing | None = None
        self._last_change = 0
        self.saving = Saving(spec, inlet, outlet)
        if spec.checkpoint is not None:
            self.take_over(spec.checkpoint.inputs, spec.checkpoint.outputs)

    def take_over(self, inputs: Offsets, outputs: Offsets) -> None:
        """Go on from where another place has come to."""
        self._had.update(inputs)
        self.saving.inputs.update(inputs)
        self.outlet.offsets.update(outputs)
        self.inlet.received.update(inputs)

    @property
    def busy(self) -> bool:
        """Whether something that has arrived has not gone through the filter yet."""
        return self.state in BUSY or bool(self._inbox)

    @property
    def backlog(self) -> int:
        """Batches that wait for the filter."""
        return len(self._inbox)

    def waiting(self) -> list[Chunk]:
        """The batches that have arrived and wait: for the filter, or for flows that come first."""
        inbox = (item for _, item in self._inbox)
        held = (item for flow in self.inlet.flows.values() for item in flow.held)
        return [item for item in (*inbox, *held) if isinstance(item, Chunk)]

    def held(self) -> tuple[int, int]:
        """How many events and bytes are `waiting`."""
        chunks = self.waiting()
        return sum(each.batch.num_rows for each in chunks), sum(each.nbytes for each in chunks)

    @property
    def queue_length(self) -> int:
        """Events that wait for the filter."""
        return sum(item.batch.num_rows for _, item in self._inbox if isinstance(item, Chunk))

    @property
    def exact(self) -> bool:
        """Whether the predicate alone decides, so that the filter need not run. A log is exact, and
        has to write."""
        return self.logs or self.spec.envelope is None or self.spec.envelope.exact

    def put(self, free: list[tuple[InFlow, Item | FlowEnded]]) -> None:
        """Take what the inlet lets through."""
        self._quiet = False
        self._inbox.extend((flow, item) for flow, item in free if not isinstance(item, FlowEnded))

    def put_first(self, items: list[Item]) -> None:
        """Take the buffer of the old place, which comes before all that the new flows brought."""
        upto = {supplier_of(item): item.upto for item in items}
        self._had.update(upto)
        self.saving.first(upto)
        self.inlet.took(upto)
        self._inbox.extendleft((None, item) for item in reversed(items))

    def begin_to_recover(self, sent: Offsets) -> None:
        """Sources retain events from now on. Those that they had `sent` before may be only here,
        and so may those from sources that have ended."""
        waiting = {supplier_of(item): item.upto for _, item in self._inbox}
        self.saving.begin_to_recover(later(sent, waiting))

    @property
    def logs(self) -> bool:
        """Whether it is the stage of a log."""
        return self.spec.engine == LOG

    def begin_log(self, log: LogState) -> None:
        """Go on after what the log has, even if that is beyond the checkpoint."""
        assert isinstance(self.outlet, LogOutlet)
        self.take_over(log.offsets, log.offsets)
        self.outlet.begin(log)

    def start(self) -> None:
        """The filter is loaded, and may begin."""
        if self.state is StageState.LOADING:
            self._enter(StageState.IDLE)

    def take_consumed(self) -> Collection[InFlow]:
        """The flows of which something was consumed since the last call."""
        if not self._consumed:
            return ()
        consumed, self._consumed = self._consumed, {}
        return consumed.values()

    def pump(self, beside: Collection[str] = ()) -> Effect | None:
        """Go on as far as possible; return what the driver has to do, if anything.

        `beside` are the suppliers at this node, the only ones that feed a filter at its suppliers.
        Only a change of the filter needs them.
        """
        if self.state is StageState.LOADING or self.state in BUSY:
            return None
        if self._captures:
            self._enter(StageState.CAPTURING)
            return SnapshotStage(self.spec.id)
        if self.outlet.ended:
            self._enter(StageState.ENDED)
            self._discard()
            if self.changing is not None:
                self.changing.outcome = False
            return None
        if self.state is StageState.HOLDING:
            return None
        if self.saving.due:
            self.saving.begin()
            if not self.exact and not self.saving.fails:
                self._enter(StageState.SNAPSHOTTING)
                return SnapshotStage(self.spec.id)
            self.saving.taken({})
        while (change := self._change(beside)) is None and self._next() and self.outlet.ready:
            flow, item = self._inbox[0]
            if not self._passes(item):
                return self._work()
            self._inbox.popleft()
            self._pass_on(flow, item)
        return change or self._finish()

    def _pass_on(self, flow: InFlow | None, item: Item) -> None:
        """Emit an item untouched, since the predicate has decided."""
        if isinstance(item, Chunk):
            self.taken_events += item.batch.num_rows
            self.outlet.emit(item)
            self._give_back(flow, item)
        else:
            self._end_stream(item)
        self.saving.covered({supplier_of(item): item.upto}, _size(item))

    def _finish(self) -> Effect | None:
        """End the stage, if nothing is left to filter and nothing will come."""
        if self._inbox:
            return None
        if self._then is Then.LEAVE:
            # If the supplier was lost, the directory may still count on these flows.
            self._end(finished=True, error=self.inlet.error, retains=True)
        elif self._then is Then.WIND_UP and self.inlet.quiet:
            self._end(retains=True)
        elif self.outlet.ready and (self.inlet.complete or self.inlet.error):
            # After a failure no end hook runs: the filter has not seen all events.
            if self.inlet.failure is None and not self.exact:
                self._enter(StageState.ENDING)
                return RunStage(self.spec.id, end=True)
            self._end(finished=True, error=self.inlet.failure)
        return None

    def done(self, result: RunResult, cpu_seconds: float = 0.0) -> None:
        """The driver has run the work: emit the result."""
        self.cpu_seconds += cpu_seconds
        self.lost_events += len(result.failures) + result.late
        self.late_events += result.late
        self.keys = result.keys
        for batch in result.batches:
            stream, _ = {**self.saving.inputs, **self._in_hand}.get(batch.supplier, (0, 0))
            self.outlet.emit(Chunk(batch, upto=(stream, 0)))
        if self._stream_ended is not None:
            self._end_stream(self._stream_ended)
            self._stream_ended = None
        self.saving.covered(self._in_hand, self._bytes_in_hand)
        self._in_hand, self._bytes_in_hand = {}, 0
        if self.state is StageState.IDLING:
            # What an idle hook does is no function of the input: only a checkpoint preserves it.
            self.saving.urge()
        if result.stopped:
            self._end(finished=True, error=flatten(FilterStopped(result.failures[-1].error)))
        elif self.state is StageState.ENDING:
            self._end(finished=True, error=self.inlet.failure)
        else:
            self._enter(StageState.IDLE)

    def appended(self, first: int, error: Error | None = None) -> None:
        """The items in hand are in the log, which keeps what comes from a position on; they may
        leave. Or the log is broken."""
        items, self._appending = self._appending, ()
        assert isinstance(self.outlet, LogOutlet)
        if error is None:
            self.outlet.first = first
            for item in items:
                if isinstance(item, Chunk):
                    self.outlet.emit(item)
                else:
                    self._end_stream(item)
            self.saving.covered(self._in_hand, self._bytes_in_hand)
            self.saving.urge()  # suppliers may wait for the acknowledgement
        self._in_hand, self._bytes_in_hand = {}, 0
        if error is not None:
            self._end(finished=True, error=error)
        else:
            self._enter(StageState.IDLE)

    def leave_when_empty(self) -> None:
        """Nothing will feed the stage any more: end it when it is empty, but not its channel."""
        self._then = Then.LEAVE

    def wind_up(self) -> None:
        """End all flows, but not the channel, when all that is on its way has gone through the
        filter."""
        if self._then is Then.GO_ON:
            self._then = Then.WIND_UP

    def idle(self) -> Effect | None:
        """It is time for the idle hook, unless something has arrived since the timer was set."""
        quiet, self._quiet = self._quiet, True
        waits = self.state is not StageState.IDLE or self.outlet.ended
        if not quiet or waits or self._inbox or not self.outlet.ready:
            return None
        self._enter(StageState.IDLING)
        return RunStage(self.spec.id, idle=True)

    def change(
        self, id: int, envelope: Envelope, after: dict[int, Offsets], passed: Offsets
    ) -> None:
        """Go on with another envelope after these events; see `ChangeStage`."""
        others = (flow.id for flow in self.inlet.flows.values() if flow.outlet not in after)
        self.changing = Changing(id, envelope, after, passed, frozenset(others), self._inbox)

    def keep(self, change: int) -> bool:
        """Do not carry out a change, after all. Returns whether the filter goes on as it was."""
        taken = self.state in (StageState.CHANGING, StageState.HOLDING)
        if self.changing is not None and self.changing.outcome is None and not taken:
            self.changing = None
        return self.changing is None and self._last_change != change

    def _change(self, beside: Collection[str]) -> Effect | None:
        """What the driver has to do for a change of the filter, if it is time for that."""
        changing = self.changing
        if changing is None or (self.saving.recovers and not self.saving.possible):
            return None
        coming = None if self.saving.recovers else beside
        if self.outlet.repeats(coming):  # the new parameters would not repeat the same events
            return None
        if not changing.due(self.saving.inputs, self.inlet.flows, self._inbox):
            return None
        self.saving.covered(later(self.saving.inputs, changing.passed), 0)
        self.inlet.took(changing.passed)
        self._enter(StageState.CHANGING)
        return ChangeFilter(self.spec.id, changing.envelope)

    def changed(self, state: dict[str, bytes], error: str | None) -> None:
        """The driver has given the filter its new parameters, and this is its state."""
        assert self.changing is not None
        if error is not None:
            self._enter(StageState.IDLE)
            self.changing.outcome = error
            return
        self.spec = structs.replace(self.spec, envelope=self.changing.envelope)
        self._last_change = self.changing.id
        if self.saving.recovers:
            self._enter(StageState.HOLDING)
            self.saving.begin()
            self.saving.taken(state, self.changing.id)
        else:
            self._enter(StageState.IDLE)
            self.changing.outcome = True

    def take_change(self) -> bool | str | None:
        """How the change has ended, once."""
        changing = self.changing
        if changing is None:
            return None
        if self.state is StageState.HOLDING and not self.saving.change:
            self._enter(StageState.IDLE)
            changing.outcome = True
        if changing.outcome is not None:
            self.changing = None
        return changing.outcome

    def capture(self) -> None:
        """Run nothing more; `pump` asks for the state once the work in hand is done."""
        self._captures = True

    def take_buffer(self) -> tuple[tuple[str, Item], ...]:
        """Take what has arrived and was not filtered: (supplier, item) in order."""
        if self.outlet.ended:
            self._discard()
        taken = tuple(
            (item.batch.supplier if isinstance(item, Chunk) else item.supplier, item)
            for _, item in self._inbox
        )
        self._inbox.clear()
        return taken

    def _passes(self, item: Item) -> bool:
        """Whether an item goes on untouched. At a relay every item does: where a predicate raises,
        the subscribers' filters report it."""
        certain = isinstance(item, StreamEnded) or item.certain
        if self.logs:
            return False
        return self.spec.envelope is None or (self.exact and certain)

    def _work(self) -> RunStage | AppendLog:
        """The next items that need the filter, up to a bound, as one piece of work."""
        self._enter(StageState.WORKING)  # first of all, so that the stage is `busy` throughout
        if self.logs:
            return self._append()
        items: list[Batch | str] = []
        taken, events = 0, 0
        # A Spark job has a high fixed cost: it gets all there is.
        all_there_is = self.spec.engine == "spark"
        limit = math.inf if all_there_is else WORK_BYTES
        most = math.inf if all_there_is else self._most_events()
        while self._next() and taken < limit and events < most:
            flow, item = self._inbox[0]
            stream, _ = self._in_hand.get(supplier_of(item), item.upto)
            if self._passes(item) or stream != item.upto[0]:
                break
            self._inbox.popleft()
            if isinstance(item, Chunk):
                item = self._cut(flow, item, most - events)
                taken += item.nbytes
                events += item.batch.num_rows
                self.taken_events += item.batch.num_rows
                self.python_events += item.batch.num_rows
                items.append(item.batch)
                self._give_back(flow, item)
            else:
                # The end of a stream is emitted after what the work forwards, so it ends the work.
                items.append(item.supplier)
                self._stream_ended = item
            self._in_hand[supplier_of(item)] = item.upto
            if self._stream_ended is not None:
                break
        self._bytes_in_hand = taken
        return RunStage(self.spec.id, tuple(items))

    def _append(self) -> AppendLog:
        """What has arrived, up to a bound: it comes to disk together."""
        items: list[Item] = []
        taken = 0
        while self._next() and taken < LOG_BYTES:
            flow, item = self._inbox.popleft()
            taken += _size(item)
            items.append(item)
            if isinstance(item, Chunk):
                self.taken_events += item.batch.num_rows
                self._give_back(flow, item)
            self._in_hand[supplier_of(item)] = item.upto
        self._bytes_in_hand = taken
        self._appending = tuple(items)
        return AppendLog(self.spec.id, self._appending)

    def _has(self, supplier: str) -> Offset | None:
        """How far a log has a supplier's events, with those in hand."""
        return self._in_hand.get(supplier, self.saving.inputs.get(supplier))

    def _most_events(self) -> float:
        """How many events a piece of work may hold. A long one holds up hand-overs and checkpoints,
        and its CPU time is known only at its end."""
        if not self.python_events:
            return FIRST_EVENTS
        if not self.cpu_seconds:
            return math.inf
        return max(1, int(WORK_SECONDS * self.python_events / self.cpu_seconds))

    def _cut(self, flow: InFlow | None, chunk: Chunk, most: float) -> Chunk:
        """The first events of a supplier's chunk; the others go back to the front of the inbox.

        A chunk from a filter is taken whole: the offsets of its rows are not known here.
        """
        if flow is None or flow.supplier is None or chunk.batch.num_rows <= most:
            return chunk
        since = chunk.upto[0], int(chunk.batch.seqs[int(most)])
        first, rest = split(chunk, since, by_seq=True)
        assert first is not None and rest is not None
        self._inbox.appendleft((flow, rest))
        return first

    def snapshot_taken(self, state: dict[str, bytes]) -> None:
        """The driver has taken a snapshot for a checkpoint."""
        self._enter(StageState.IDLE)
        self.saving.taken(state)

    def _next(self) -> bool:
        """Whether there is something new in the inbox; then it is the first item.

        Items that the hand-over has covered are dropped. They come if a source is replaced during a
        move: its successor sends from where the new place has come to, and the old one had come
        further. A log drops whatever it has.
        """
        while self._inbox:
            flow, item = self._inbox[0]
            supplier = supplier_of(item)
            had = self._has(supplier) if self.logs else self._had.get(supplier)
            if had is None or flow is None:
                return True
            if item.upto > had:
                self._had.pop(supplier, None)
                if isinstance(item, Chunk) and (flow.supplier is not None or self.logs):
                    known, rest = split(item, had, by_seq=flow.supplier is not None)
                    assert rest is not None
                    if known is not None:
                        self._give_back(flow, known)
                    self._inbox[0] = flow, rest
                return True
            self._inbox.popleft()
            if isinstance(item, Chunk):
                self._give_back(flow, item)
        return False

    def _enter(self, state: StageState) -> None:
        if state is not self.state:
            assert state in NEXT[self.state], f"stage {self.spec.id}: {self.state} -> {state}"
            self.state = state
            self.validate()

    def validate(self) -> None:
        """Raise AssertionError if the stage's data do not fit its state."""
        assert self.state is StageState.WORKING or not self._in_hand
        assert self.state is not StageState.ENDED or self.outlet.ended
        if self.state in (StageState.CHANGING, StageState.HOLDING):
            assert self.changing is not None and self.changing.outcome is None

    def _end(
        self, finished: bool = False, error: Error | None = None, retains: bool = False
    ) -> None:
        self.outlet.end(finished=finished, error=error, retains=retains)
        self._enter(StageState.ENDED)

    def _end_stream(self, ended: StreamEnded) -> None:
        self.outlet.end_stream(ended.supplier, ended.upto)
        self.saving.urge()  # so that the supplier's process, which waits for it, can end

    def _discard(self) -> None:
        """The filter was stopped: drop what still arrives, and give back its credit."""
        while self._inbox:
            flow, item = self._inbox.popleft()
            if isinstance(item, Chunk):
                self._give_back(flow, item)

    def _give_back(self, flow: InFlow | None, chunk: Chunk) -> None:
        if flow is not None:
            flow.consumed += chunk.nbytes
            self._consumed[flow.id] = flow


def _size(item: Item) -> int:
    return item.nbytes if isinstance(item, Chunk) else 0

"""Runs a filter over batches: the only place where user code meets events."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, make_dataclass
from functools import partial
from itertools import groupby
from typing import Any, Protocol

import msgspec
import numpy as np

from activebroker.core.errors import TEXT, EventRefused, InvalidFilter, shortened
from activebroker.events import Batch, Event, EventType, build_batch, piecewise, sketch
from activebroker.events.columns.generated import filler
from activebroker.events.columns.records import Record
from activebroker.events.small_batch import SmallBatch
from activebroker.filters.filter import FIFOFilter, FunctionFilter, refuse_unrun, truth
from activebroker.filters.payload import Envelope, Payload

_HERE = __file__.removesuffix("runner.py")
SHARED = ""  # the stream key of a filter whose one instance sees all suppliers


class Failure(msgspec.Struct, frozen=True):
    """One event that was lost, by a filter that raised or because it cannot be decoded where it
    came; what `channel.errors` and `subscription.errors` hold.

    `filter` is empty where none was at work. `seq` is -1 where a hook (`on_start`, `on_end`,
    `on_idle`) raised. `content` is what shows of the event, shortened.
    """

    channel: str
    filter: str
    supplier: str
    seq: int
    error: str
    traceback: str
    content: str = ""

    @classmethod
    def of(
        cls,
        error: BaseException,
        channel: str,
        filter: str = "",
        supplier: str = "",
        seq: int = -1,
        content: str = "",
    ) -> Failure:
        """What there is to say of an error. Its traceback begins in the user's code."""
        what = shortened(f"{type(error).__name__}: {error}")
        first = error.__traceback__
        while first is not None and first.tb_frame.f_code.co_filename.startswith(_HERE):
            first = first.tb_next
        lines = traceback.format_exception(type(error), error, first or error.__traceback__)
        trace = shortened("".join(lines), 4 * TEXT)
        return cls(channel, filter, supplier, seq, what, trace, content)


@dataclass(slots=True)
class RunResult:
    """What came of a run: batches to forward in order, events lost, and whether to stop."""

    batches: list[Batch] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    stopped: bool = False
    late: int = 0  # events that a keyed filter lost since they came late
    late_samples: list[Failure] = field(default_factory=list)  # some of these
    keys: int = 0  # instances of a keyed filter now


class Runner(Protocol):
    """What runs a stage's filter; never called by two threads at once."""

    def run(self, items: Sequence[Batch | str]) -> RunResult: ...
    def idle(self) -> RunResult: ...
    def end_all(self) -> RunResult: ...
    def snapshot(self) -> dict[str, bytes]: ...
    def restore(self, states: dict[str, bytes]) -> None: ...
    def reconfigure(self, payload: Payload, envelope: Envelope) -> None: ...
    def close(self) -> None: ...


class FilterRunner:
    """The instances of one derivation at one place, one a supplier (one in all if shared).

    Those that only look at events share them, also with other derivations; others get their own,
    which they may change. Where a filter `reads` these fields, and neither the event nor its
    content gets out of its hands, there is one event, with one row after the other.
    """

    def __init__(
        self,
        payload: Payload,
        *,
        channel: str,
        name: str,
        shared: bool,
        stop_on_error: bool,
        only_looks: bool = False,
        reads: tuple[str, ...] | None = None,
    ) -> None:
        self._payload = payload
        self._channel = channel
        self._name = name
        self._shared = shared
        self._stop_on_error = stop_on_error
        self._only_looks = only_looks
        self._read_only(reads)
        # A mutable content may have been changed in place: then identity proves nothing.
        self._immutable = _is_frozen(payload.input.cls)
        self._instances: dict[str, FIFOFilter] = {}

    def _read_only(self, fields: tuple[str, ...] | None) -> None:
        self._reads = fields
        if fields:
            self._content = make_dataclass(self._payload.input.cls.__name__, fields, slots=True)(
                *fields
            )
            self._fill = filler(fields)

    def run(self, items: Sequence[Batch | str]) -> RunResult:
        """Take items in order: a batch, or the name of a supplier whose stream has ended."""
        result = RunResult()
        for item in items:
            if result.stopped:
                break
            if isinstance(item, str):
                self._end(item, result)
            else:
                self._run(item, result)
        return result

    def _run(self, batch: Batch, result: RunResult) -> None:
        try:
            instance = self._instance(batch.supplier, result)
        except BaseException as error:  # noqa: BLE001 - user code
            for seq in batch.seqs.tolist():
                self._fail(result, error, batch.supplier, seq)
            return
        if result.stopped:  # by on_start
            return
        batch = self._payload.own(batch)
        rows = None if self._only_looks else self._rows(batch)
        if rows is not None:
            self._pass(instance, batch, rows, result)
            return
        batch, events = self._read(batch, result)
        if isinstance(instance, FunctionFilter):
            self._ask(instance.function, batch, events, result)
            return
        enqueue, forwarded = instance.enqueue, instance._forwarded
        kept = len(forwarded)
        for event in events:
            try:
                if (returned := enqueue(event)) is not None:
                    refuse_unrun(returned)
            except BaseException as error:  # noqa: BLE001 - even SystemExit must not end a broker
                # The event is lost whole: what it forwarded before it raised goes with it.
                del forwarded[kept:]
                self._fail(result, error, batch.supplier, event.seq, sketch(event.content))
                if result.stopped:
                    break
            kept = len(forwarded)
        self._collect(instance._take(), batch, events, result)

    def _rows(self, batch: Batch) -> Iterator[None] | None:
        """Gives `_content` the fields of one row after another. None if whole events are to be
        made: of a few, or where a field cannot be read here."""
        if not self._reads or isinstance(batch, SmallBatch):
            return None
        assert isinstance(batch.type.codec, Record)
        kinds, columns = batch.type.codec.fields, batch.columns
        try:
            values = [kinds[name].decode(columns.column(name)) for name in self._reads]
        except Exception:  # noqa: BLE001 - whatever a field's class raises: told for each event
            return None
        return self._fill(self._content, *values)

    def _pass(
        self, instance: FIFOFilter, batch: Batch, rows: Iterator[None], result: RunResult
    ) -> None:
        """Forward the events, as they came, that the filter forwards."""
        content = self._content
        event = Event(content, batch.type.name, batch.supplier, 0, 0)
        enqueue: Callable[[Event], object] = instance.enqueue
        forwarded = instance._forwarded
        function = instance.function if isinstance(instance, FunctionFilter) else None
        header = zip(batch.seqs.tolist(), batch.times.tolist(), rows, strict=True)
        kept: list[int] = []
        for row, (event.seq, event.time, _) in enumerate(header):
            try:
                if function is not None:
                    answer = function(content)
                    if answer is True or (answer is not False and truth(answer)):
                        kept.append(row)
                    continue
                if (returned := enqueue(event)) is not None:
                    refuse_unrun(returned)
                if forwarded:
                    _check_itself(event, forwarded)
                    forwarded.clear()
                    kept.append(row)
            except BaseException as error:  # noqa: BLE001 - even SystemExit must not end a broker
                forwarded.clear()
                self._fail(result, error, batch.supplier, event.seq, _shown(batch.slice(row, 1)))
                if result.stopped:
                    break
        if kept:
            result.batches.append(batch.take(kept))

    def _ask(
        self,
        function: Callable[[Any], object],
        batch: Batch,
        events: list[Event],
        result: RunResult,
    ) -> None:
        """Forward the events, as they came, for which a plain function is true."""
        kept: list[int] = []
        for row, event in enumerate(events):
            try:
                answer = function(event.content)
                if answer is True or (answer is not False and truth(answer)):
                    kept.append(row)
            except BaseException as error:  # noqa: BLE001 - as above
                self._fail(result, error, batch.supplier, event.seq, sketch(event.content))
                if result.stopped:
                    break
        if kept:
            result.batches.append(batch.take(kept))

    def _read(self, batch: Batch, result: RunResult) -> tuple[Batch, list[Event]]:
        """The events that can be decoded here, as a batch and as objects; the others are lost."""
        readable, events, unreadable = batch.shared() if self._only_looks else batch.read()
        for each in unreadable:
            self._fail(result, each.error, batch.supplier, each.seq, each.content)
            if result.stopped:
                return readable.slice(0, each.row), events[: each.row]
        return readable, events

    def end_all(self) -> RunResult:
        """All streams have ended: run `on_end` and drop the instances."""
        result = RunResult()
        for supplier in list(self._instances):
            self._end(supplier, result)
        return result

    def close(self) -> None:
        """Drop everything at once."""
        self._instances.clear()

    def _end(self, supplier: str, result: RunResult) -> None:
        if (instance := self._instances.pop(supplier, None)) is not None:
            self._hook(instance, instance.on_end, supplier, result)

    def idle(self) -> RunResult:
        """Run `on_idle` of every instance."""
        result = RunResult()
        for supplier, instance in self._instances.items():
            self._hook(instance, instance.on_idle, supplier, result)
        return result

    def snapshot(self) -> dict[str, bytes]:
        """The state of every instance, by supplier."""
        if self._payload.stateless:
            return {}
        return {key: instance.snapshot() for key, instance in self._instances.items()}

    def restore(self, states: dict[str, bytes]) -> None:
        """Make an instance for every state; `on_start` ran at the old place, and is run only to
        make anew what could not come along. Raises the first error, after all that can be restored.
        """
        if self._payload.stateless:
            return
        errors: list[BaseException] = []
        for key, state in states.items():
            try:
                instance = self._payload.make()
                instance.restore(state)
            except BaseException as error:  # noqa: BLE001 - user code
                errors.append(error)
            else:
                self._instances[key] = instance
        if errors:
            raise errors[0]

    def reconfigure(self, payload: Payload, envelope: Envelope) -> None:
        """Give all instances, and those that are made later, the parameters of another payload.

        Raises whatever setting them raises, mostly before any instance has one.
        """
        payload.make()
        if payload.stateless or self._payload.stateless:
            self._instances.clear()  # each predicate has instances of its own
        for instance in self._instances.values():
            payload.reconfigure(instance)
        self._payload, self._only_looks = payload, envelope.only_looks
        self._read_only(envelope.reads)

    def _instance(self, supplier: str, result: RunResult) -> FIFOFilter:
        key = SHARED if self._shared else supplier
        if (instance := self._instances.get(key)) is None:
            instance = self._instances[key] = self._payload.make()
            self._hook(instance, instance.on_start, supplier, result)
            instance._begin()
        return instance

    def _hook(
        self, instance: FIFOFilter, hook: Callable[[], None], supplier: str, result: RunResult
    ) -> None:
        try:
            hook()
        except BaseException as error:  # noqa: BLE001 - user code
            self._fail(result, error, supplier, -1)
        self._append(instance._take(), result)

    def _collect(
        self, forwarded: list[Event], batch: Batch, events: list[Event], result: RunResult
    ) -> None:
        """Make batches of what was forwarded of a batch."""
        untouched = self._immutable or self._only_looks
        mask = _subsequence(events, forwarded) if untouched else None
        if mask is None:
            self._append(forwarded, result)
        elif forwarded:
            result.batches.append(batch if mask.all() else batch.filter(mask))

    def _append(self, forwarded: list[Event], result: RunResult) -> None:
        """Encode forwarded events, a batch for each run of one supplier and concrete type."""
        output = self._payload.output

        def fail(event: Event, error: BaseException) -> None:
            content = sketch(getattr(event, "content", event))
            supplier, seq = getattr(event, "supplier", ""), getattr(event, "seq", -1)
            self._fail(result, error, supplier, seq, content)

        typed: list[tuple[Event, EventType]] = []
        for event in forwarded:
            try:
                if not isinstance(event, Event):
                    raise InvalidFilter(
                        f"A filter forwards events; got {type(event).__name__}. "
                        "Use super().enqueue(event.replace(content))."
                    )
                content = output.check(event.content, self._channel)
                type_ = output.concrete(content)
                typed.append((event if content is event.content else event.replace(content), type_))
            except (InvalidFilter, EventRefused) as error:
                fail(event, error)
        for (_, type_), run in groupby(typed, key=lambda pair: (pair[0].supplier, pair[1])):
            build = partial(build_batch, type_)
            result.batches += piecewise([event for event, _ in run], build, fail)

    def _fail(
        self,
        result: RunResult,
        error: BaseException,
        supplier: str,
        seq: int,
        content: str = "",
    ) -> None:
        failure = Failure.of(error, self._channel, self._name, supplier, seq, content)
        result.failures.append(failure)
        result.stopped = result.stopped or self._stop_on_error


def _shown(batch: Batch) -> str:
    """What shows of the content of the only event of a batch."""
    _, events, unreadable = batch.read()
    return sketch(events[0].content) if events else unreadable[0].content


def _check_itself(event: Event, forwarded: list[Event]) -> None:
    if len(forwarded) > 1 or forwarded[0] is not event:
        raise InvalidFilter(
            "This filter forwards an event twice, or another one than it is given, which its code "
            "does not show. Forward with super().enqueue(event), in enqueue only."
        )


def _is_frozen(cls: type) -> bool:
    parameters = getattr(cls, "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def _subsequence(events: list[Event], forwarded: list[Event]) -> np.ndarray | None:
    """A mask of the events that were forwarded unchanged, or None where others were."""
    if len(forwarded) > len(events):
        return None
    mask = np.zeros(len(events), dtype=bool)
    position = iter(enumerate(events))
    for event in forwarded:
        for index, candidate in position:
            if candidate is event:
                mask[index] = True
                break
        else:
            return None
    return mask

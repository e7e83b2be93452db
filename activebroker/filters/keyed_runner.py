"""Runs a keyed filter over batches: a stream of instances for each supplier."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from activebroker.core.errors import InvalidFilter, LateEvent
from activebroker.events import Batch, Event, sketch
from activebroker.filters.keyed import KeyedFilter
from activebroker.filters.keyed_stream import KeyedStream
from activebroker.filters.keys import Keys
from activebroker.filters.payload import Envelope, Payload
from activebroker.filters.runner import SHARED, Failure, FilterRunner, RunResult

SAMPLES = 10  # late events of a run of which more is told than that there were some


class KeyedRunner(FilterRunner):
    """The instances of one derivation at one place, one for each key of each supplier's stream (of
    the stream of all suppliers, if shared)."""

    def __init__(
        self, payload: Payload, *, channel: str, name: str, shared: bool, stop_on_error: bool
    ) -> None:
        super().__init__(
            payload, channel=channel, name=name, shared=shared, stop_on_error=stop_on_error
        )
        assert issubclass(payload.cls, KeyedFilter)
        self._cls: type[KeyedFilter] = payload.cls
        self._timed = self._cls.moves_clock()
        self._keys = Keys(self._cls, payload.input, self._make)
        self._streams: dict[str, KeyedStream] = {}
        self._result = RunResult()  # of the run under way

    def run(self, items: Sequence[Batch | str]) -> RunResult:
        result = super().run(items)
        result.keys = self._count()
        return result

    def run_batch(self, batch: Batch, newest: list[Any] | None, name: str) -> RunResult:
        """Run the filter over some rows of the stream of this name. Where a clock matters, `newest`
        is the newest time of the whole stream at each row."""
        result = RunResult()
        self._run_in(self._stream(name), batch, result, newest)
        return result

    def advance(self, name: str, newest: Any) -> RunResult:
        """Move the clock of a stream on, as an event of that time would."""
        result = self._result = RunResult()
        stream = self._stream(name)
        stream.advance(newest)
        self._append(stream.take(), result)
        return result

    def _run(self, batch: Batch, result: RunResult) -> None:
        self._run_in(self._stream(batch.supplier), batch, result, None)

    def _run_in(
        self, stream: KeyedStream, batch: Batch, result: RunResult, newest: list[Any] | None
    ) -> None:
        self._result = result
        whole = self._payload.own(batch)
        batch, read = self._read(whole, result)
        found = self._keys.read(read)
        if found.lost and self._stop_on_error:
            found = found.until(found.lost[0])
        events, keys, times, lost = found
        if not self._timed:
            stream.run(events, keys)
        elif newest is None:
            stream.run_timed(events, keys, times, times)
        else:
            at = dict(zip(whole.seqs.tolist(), newest, strict=True))
            stream.run_timed(events, keys, times, [at[event.seq] for event in events])
        if not stream.stopped:
            for _, event, error in lost:
                self._lose(stream, error, event)
        self._collect(stream.take(), batch, read, result)

    def idle(self) -> RunResult:
        """Nothing: a keyed filter has no such hook."""
        return RunResult(keys=self._count())

    def end_all(self) -> RunResult:
        """All streams have ended: run what is left to be run, and drop the instances."""
        result = RunResult()
        for supplier in list(self._streams):
            self._end(supplier, result)
        return result

    def close(self) -> None:
        self._streams.clear()

    def _end(self, supplier: str, result: RunResult) -> None:
        self._result = result
        if (stream := self._streams.pop(supplier, None)) is not None:
            stream.end()
            self._append(stream.take(), result)

    def snapshot(self) -> dict[str, bytes]:
        """The state of every stream, by supplier."""
        return {supplier: stream.snapshot() for supplier, stream in self._streams.items()}

    def restore(self, states: dict[str, bytes]) -> None:
        """Take over streams; their instances are made when they are needed. Raises the first error,
        after all that can be restored."""
        errors: list[BaseException] = []
        for supplier, state in states.items():
            stream = self._new_stream(supplier)
            try:
                stream.restore(state)
            except BaseException as error:  # noqa: BLE001 - unpickling can raise anything
                errors.append(error)
            else:
                self._streams[supplier] = stream
        if errors:
            raise errors[0]

    def reconfigure(self, payload: Payload, envelope: Envelope) -> None:
        """Give all instances, and those that are made later, the parameters of another payload."""
        payload.make()
        self._result = RunResult()
        for stream in self._streams.values():
            for instance in stream.all_awake():
                payload.reconfigure(instance)
        if self._result.failures:  # of states that cannot be restored
            raise InvalidFilter(self._result.failures[0].error)
        self._payload = payload
        self._keys.anew()

    def _stream(self, name: str) -> KeyedStream:
        name = SHARED if self._shared else name
        if (stream := self._streams.get(name)) is None:
            stream = self._streams[name] = self._new_stream(name)
        return stream

    def _new_stream(self, name: str) -> KeyedStream:
        stream = KeyedStream(self._cls, self._make, self._keys)
        stream.fail, stream.late = partial(self._lose, stream), partial(self._lose_late, stream)
        return stream

    def _make(self) -> KeyedFilter:
        made = self._payload.make()
        assert isinstance(made, KeyedFilter)
        return made

    def _count(self) -> int:
        return sum(len(stream.instances) for stream in self._streams.values())

    def _lose(self, stream: KeyedStream, error: BaseException, event: Event | None) -> None:
        """An event is lost; or a hook has raised, after the event at hand."""
        supplier = stream.event.supplier if event is None and stream.event is not None else ""
        seq, content = -1, ""
        if event is not None:
            supplier, seq, content = event.supplier, event.seq, sketch(event.content)
        self._fail(self._result, error, supplier, seq, content)
        stream.stopped = self._result.stopped

    def _lose_late(self, stream: KeyedStream, event: Event) -> None:
        result = self._result
        result.late += 1
        if len(result.late_samples) < SAMPLES:
            error = LateEvent(
                f"It came after an event of {stream.newest!r}, and lateness is "
                f"{self._cls.lateness!r}. Define on_late to take such events, or allow more."
            )
            where = event.supplier, event.seq, sketch(event.content)
            result.late_samples.append(Failure.of(error, self._channel, self._name, *where))


def make_runner(payload: Payload, envelope: Envelope, channel: str) -> FilterRunner:
    """What runs a filter in this process."""
    stop = envelope.on_error == "stop"
    if issubclass(payload.cls, KeyedFilter):
        return KeyedRunner(
            payload,
            channel=channel,
            name=envelope.name,
            shared=envelope.shared,
            stop_on_error=stop,
        )
    return FilterRunner(
        payload,
        channel=channel,
        name=envelope.name,
        shared=envelope.shared,
        stop_on_error=stop,
        only_looks=envelope.only_looks,
        reads=envelope.reads,
    )

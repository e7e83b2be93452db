"""What runs on Spark's executors for a stage, and the messages that come back from there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np
import pyarrow as pa

from activebroker.core.errors import FilterNotPicklable
from activebroker.events import Batch, TypeDescription, TypeRegistry, describe, dump
from activebroker.filters import (
    SHARED,
    Envelope,
    Failure,
    FilterRunner,
    Payload,
    RunResult,
    make_runner,
    unpack,
)
from activebroker.spark.rows import Layout


class Forwarded(msgspec.Struct, frozen=True, tag=True):
    """Events that the filter forwards."""

    supplier: str
    event_type: TypeDescription
    columns: bytes


class Lost(msgspec.Struct, frozen=True, tag=True):
    """An event on which the filter raised."""

    failure: Failure


class Late(msgspec.Struct, frozen=True, tag=True):
    """Events that came later than a keyed filter allows, and some of them."""

    count: int
    samples: list[Failure]


class Stopped(msgspec.Struct, frozen=True, tag=True):
    """The filter raised, and its policy is to stop."""


class State(msgspec.Struct, frozen=True, tag=True):
    """The state of one stream's instance, after the job."""

    stream: str
    state: bytes


Message = Forwarded | Lost | Late | Stopped | State

RESULT = pa.schema(
    [pa.field("batch", pa.int32()), pa.field("row", pa.int64()), pa.field("message", pa.binary())]
)


@dataclass(frozen=True, slots=True)
class Job:
    """One micro-batch's work, as it travels to the executors.

    `batches` has for each batch the index of its type and its supplier, `starts` its first row. A
    `keyed` job has all rows of a stream in one task, and the streams' states come and go with it.
    """

    envelope: Envelope
    key: bytes
    channel: str
    keyed: bool
    types: tuple[TypeDescription, ...]
    batches: tuple[tuple[int, str], ...]
    starts: tuple[int, ...]
    states: dict[str, bytes]

    def run(self, received: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one task. Each message comes with its batch, and the first row it is about."""
        parts = [part for part in received if part.num_rows]
        if not parts:
            return
        payload, registry = _load(self.envelope, self.key)
        layout = Layout(payload.input, [registry.resolve(type) for type in self.types])
        indices = [index for index, _ in self.batches]
        runner = self._runner()
        restored: set[str] = set()
        messages: list[tuple[int, int, Message]] = []
        table = pa.Table.from_batches(parts)
        for number, row, columns in layout.split(table, np.array(self.starts), indices):
            index, supplier = self.batches[number]
            stream = SHARED if self.envelope.shared else supplier
            if stream in self.states and stream not in restored:
                runner.restore({stream: self.states[stream]})
            restored.add(stream)
            result = runner.run([Batch(supplier, layout.types[index], columns)])
            messages += [(number, row, message) for message in _messages(result)]
            if result.stopped:
                break
        if self.keyed:
            # After all batches: whatever else happened, it is the state that goes on.
            end = len(self.batches)
            messages += [(end, 0, State(k, v)) for k, v in self._snapshot(runner).items()]
        yield pa.RecordBatch.from_pylist(
            [
                {"batch": number, "row": row, "message": msgspec.msgpack.encode(message)}
                for number, row, message in messages
            ],
            RESULT,
        )

    def _runner(self) -> FilterRunner:
        if self.keyed:
            return _make_runner(self.envelope, self.key, self.channel)
        return _lasting_runner(self.envelope, self.key, self.channel)

    def _snapshot(self, runner: FilterRunner) -> dict[str, bytes]:
        try:
            return runner.snapshot()
        except Exception as error:
            raise FilterNotPicklable(
                f"The state of filter {self.envelope.name} cannot go from one of Spark's workers "
                f"to the next: {type(error).__name__}: {error}. Define snapshot and restore."
            ) from error


def _messages(result: RunResult) -> list[Message]:
    messages: list[Message] = [
        Forwarded(batch.supplier, describe(batch.type), bytes(memoryview(dump(batch)[0])))
        for batch in result.batches
    ]
    messages += [Lost(failure) for failure in result.failures]
    if result.late:
        messages.append(Late(result.late, result.late_samples))
    return [*messages, Stopped()] if result.stopped else messages


def reason(error: Exception) -> str:
    """The line of a job's error that says what it was."""
    from pyspark.errors import PythonException

    lines = str(error).splitlines() or [""]
    if not isinstance(error, PythonException):
        return f"{type(error).__name__}: {lines[0]}"
    frames = [number for number, line in enumerate(lines) if line.startswith("  ")]
    return next(iter(lines[frames[-1] + 1 if frames else 1 :]), lines[0])


# A worker process serves many jobs, one after the other; what they share is made once.


@lru_cache(maxsize=64)
def _load(envelope: Envelope, key: bytes) -> tuple[Payload, TypeRegistry]:
    payload = unpack(envelope, key)
    registry = TypeRegistry()
    registry.register(payload.input)
    registry.register(payload.output)
    return payload, registry


def _make_runner(envelope: Envelope, key: bytes, channel: str) -> FilterRunner:
    return make_runner(_load(envelope, key)[0], envelope, channel)


_lasting_runner = lru_cache(maxsize=64)(_make_runner)  # its filter keeps nothing between events

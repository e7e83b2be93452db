"""A filter over the rows of a DataFrame's partition, as it travels to the executors."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, make_dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from activebroker.core.errors import (
    ActiveBrokerError,
    EventRefused,
    FilterStopped,
    InvalidFilter,
    shortened,
)
from activebroker.events import EventType, from_table
from activebroker.events.columns.records import Record
from activebroker.filters import Envelope, Failure, FilterRunner, Payload, RunResult, unpack
from activebroker.spark.columns import reshape
from activebroker.spark.frame import Path, missing_in, refusal

log = logging.getLogger(__name__)

KEY = b"apply"  # whoever can run a function on the executors can run any code there
SKIP = "To drop such rows instead, give on_error='skip'."


@dataclass(frozen=True, slots=True)
class Task:
    """What an executor needs to run a filter over a partition.

    `names` are the columns of the contents; not all of them, if the filter reads no others.
    `required` are fields in them that may be null and must not be. With `skip`, an event on which
    the filter raises is dropped, and counted in `lost`; else the job fails.
    """

    envelope: Envelope
    names: tuple[str, ...]
    required: tuple[Path, ...]
    skip: bool
    lost: Any

    def mask(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Tell for each row whether the filter forwards it. The first array of a batch names the
        rows' streams."""
        streams = Streams(self)
        for suppliers, *columns in batches:
            table = pa.RecordBatch.from_arrays(columns, names=self.names)
            kept = np.zeros(len(suppliers), np.bool_)
            for stream, start, stop in runs(suppliers):
                streams.enter(stream)
                kept[start + streams.kept(table.slice(start, stop - start))] = True
            yield pa.array(kept)

    def forwarded(
        self, batches: Iterator[pa.RecordBatch], result: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """What the filter forwards, as columns of `result`. The first column names the streams."""
        streams = Streams(self)
        for batch in batches:
            content = batch.remove_column(0)
            for stream, start, stop in runs(batch.column(0)):
                yield from shaped(streams.enter(stream), result)
                rows = content.slice(start, stop - start)
                yield from shaped(streams.run(streams.acceptable(rows)[1]), result)
        yield from shaped(streams.end(), result)


class Streams:
    """The streams of a partition, one after the other; or one of all (`shared`)."""

    def __init__(self, task: Task) -> None:
        self._task = task
        payload = self._unpack(task.envelope)
        if len(task.names) < len(payload.input.schema.names):
            view = _view(payload.input, task.names)
            payload = Payload(payload.make, view, view, payload.values)
        self._type = payload.input
        self._runner = self._make_runner(payload)
        self._stream: str | None = None
        self._seq = 0

    def _unpack(self, envelope: Envelope) -> Payload:
        return unpack(envelope, KEY)

    def _make_runner(self, payload: Payload) -> FilterRunner:
        envelope = self._task.envelope
        return FilterRunner(
            payload,
            channel="DataFrame",
            name=envelope.name,
            shared=envelope.shared,
            stop_on_error=False,
            reads=envelope.reads,
        )

    def enter(self, stream: str | None) -> RunResult:
        """The rows that come are of this stream; another one has ended."""
        if stream == self._stream:
            return RunResult()
        ended, self._stream, self._seq = self._supplier, stream, 0
        return RunResult() if self._task.envelope.shared else self._told(self._runner.run([ended]))

    def run(self, rows: pa.RecordBatch) -> RunResult:
        """Run the filter over the next rows."""
        first, self._seq = self._seq, self._seq + rows.num_rows
        batches = from_table(self._type, rows, "DataFrame", self._supplier, first, 0)
        return self._told(self._runner.run(batches))

    def kept(self, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Which of the next rows the filter forwards, as they are."""
        numbers, rows = self.acceptable(rows)
        first = self._seq
        seqs = [batch.seqs - first for batch in self.run(rows).batches]
        found = np.concatenate(seqs) if seqs else np.empty(0, np.int64)
        if len(found) > 1 and (np.diff(found) <= 0).any():
            raise InvalidFilter(
                f"Filter {self._task.envelope.name} forwards an event twice, or out of order, "
                "which its code does not show. Forward by super().enqueue(event) in enqueue only."
            )
        return numbers[found]

    def acceptable(self, rows: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
        """The rows that can be events, and their numbers.

        Raises: EventRefused, unless the others are to be skipped.
        """
        bad = np.zeros(rows.num_rows, np.bool_)
        for path in self._task.required:
            missing = missing_in(rows, path)
            if missing.any():
                bad |= missing
                row = self._seq + int(missing.argmax())
                text = f"DataFrame, row {row}, {refusal(self._type, path)}"
                if not self._task.skip:
                    raise alone(EventRefused(f"{text}. {SKIP}"))
        if not bad.any():
            return np.arange(rows.num_rows), rows
        self._lose(int(bad.sum()), text)
        return np.flatnonzero(~bad), rows.filter(pa.array(~bad))

    def end(self) -> RunResult:
        """No rows come any more."""
        return self._told(self._runner.end_all())

    @property
    def _supplier(self) -> str:
        return self._stream or ""

    def _told(self, result: RunResult) -> RunResult:
        """The result; what the filter raised is raised here, or counted."""
        if result.failures:
            first: Failure = result.failures[0]
            whose = repr(first.supplier) if first.supplier else "its partition"
            where = f"on row {first.seq}" if first.seq >= 0 else "in a hook"
            row = first.content and f": {first.content}"
            text = f"{shortened(first.error, 500)}, {where} of {whose}{row}\n{first.traceback}"
            if not self._task.skip:
                raise alone(FilterStopped(f"Filter {first.filter} raised {text}{SKIP}"))
            self._lose(len(result.failures), text)
        if result.late:
            first = result.late_samples[0]
            self._lose(result.late, f"{first.error}, on row {first.seq}: {first.content}")
        return result

    def _lose(self, count: int, first: str) -> None:
        name = self._task.envelope.name
        log.warning("filter %s lost %d events, the first by %s", name, count, first)
        if self._task.lost is not None:
            self._task.lost.add(count)


def alone(error: ActiveBrokerError) -> ActiveBrokerError:
    """An error whose text says all: a Spark worker, which it ends, is to show it without the frames
    of Spark and of this package."""
    from pyspark import TaskContext

    if TaskContext.get() is not None:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
    return error


def _view(type: EventType, names: tuple[str, ...]) -> EventType:
    """The event type with some of its fields only."""
    assert isinstance(type.codec, Record)
    fields = {name: type.codec.fields[name] for name in names}
    cls = make_dataclass(type.cls.__name__, list(names), slots=True)
    return EventType(type.name, cls, Record(cls, fields))


def runs(suppliers: pa.Array) -> Iterator[tuple[str | None, int, int]]:
    """The runs of rows of one stream."""
    if not len(suppliers):
        return
    names = suppliers.dictionary_encode("encode")
    codes = names.indices.to_numpy()
    bounds = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(suppliers)]
    for start, stop in pairwise(bounds):
        yield names.dictionary[int(codes[start])].as_py(), start, stop


def shaped(result: RunResult, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in result.batches:
        arrays = [reshape(batch.columns.column(field.name), field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)

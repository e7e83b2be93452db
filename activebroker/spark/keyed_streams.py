"""A keyed filter over rows of a DataFrame, as it travels to the executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from activebroker.events import Batch, from_table
from activebroker.events.columns.records import Record
from activebroker.filters import (
    Envelope,
    FilterRunner,
    KeyedRunner,
    Payload,
    RunResult,
    in_utc,
    unpack,
)
from activebroker.spark.streams import KEY, Streams, Task, runs, shaped

BUCKETS = 32  # groups of keys in a streaming query, whose state has the group's number
# Columns beside those of the contents.
SUPPLIER, NEWEST, LAST, SEQ = "$supplier", "$newest", "$last", "$seq"
BUCKET, ORDER = "$bucket", "$order"

_decoder = msgspec.msgpack.Decoder(dict[str, bytes])


@dataclass(frozen=True, slots=True)
class KeyedTask:
    """What an executor needs to run a keyed filter.

    `time` is the column by which the clock goes, if anything depends on it. Then columns have the
    newest time of the stream at each row and, of a whole DataFrame, at the stream's last row. With
    `numbered` rows, another has their number in the stream. `result` is the schema of what is
    forwarded.
    """

    task: Task
    time: str | None
    numbered: bool
    result: pa.Schema

    def whole(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the filter forwards of a partition, where the rows of a stream are in sequence."""
        streams = _Streams(self)
        last: dict[str | None, pa.RecordBatch] = {}
        for batch in batches:
            for supplier, start, stop in runs(batch.column(0)):
                rows = batch.slice(start, stop - start)
                yield from streams.part(supplier, rows)
                last[supplier] = rows.slice(rows.num_rows - 1)
        if self.time is not None:  # rows that are elsewhere may have moved the clocks on
            for row in last.values():
                newest = pa.Table.from_batches([row.select([SUPPLIER, LAST])])
                yield from streams.advance(newest.rename_columns([SUPPLIER, NEWEST]))
        yield from streams.end_all()

    def packed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of whole streams in a micro-batch: sorted, with the newest time at each, and
        divided into buckets. Where there is a clock, each bucket is told the newest times."""
        parts = list(batches)
        table = pa.Table.from_batches(parts) if parts else None
        if table is None or not table.num_rows:
            return
        (rows,) = _sorted(table, self.task.envelope.shared).combine_chunks().to_batches()
        _, rows = _Streams(self).acceptable(rows)
        told: bytes | None = None
        if self.time is not None:
            newest = _newest(rows.column(self.time), self._bounds(rows))
            rows = rows.add_column(1, NEWEST, newest)
            last = [stop - 1 for _, stop in self._bounds(rows) if newest[stop - 1].is_valid]
            told = _written(rows.select([SUPPLIER, NEWEST]).take(pa.array(last, pa.int64())))
        bucket = rows.column(BUCKET)
        own = [name for name in rows.schema.names if not name.startswith((BUCKET, ORDER))]
        numbers = range(BUCKETS) if told is not None else pc.unique(bucket).to_pylist()
        for number in numbers:
            part = rows.select(own).filter(pc.equal(bucket, number))
            data = _written(part) if part.num_rows else None
            columns = [pa.array([number], pa.int32())]
            columns += [pa.array([each], pa.binary()) for each in (data, told)]
            yield pa.RecordBatch.from_arrays(columns, names=[BUCKET, "rows", "newest"])

    def step(self, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        """Run the filter over the rows of a bucket, and tell all its streams the newest times."""
        import pandas as pd

        streams = _Streams(self)
        if state.exists:
            streams.restore(*state.get)
        made: list[pa.RecordBatch] = []
        newest: list[pa.Table] = []
        for frame in frames:
            for rows, told in zip(frame["rows"], frame["newest"], strict=True):
                if told is not None:
                    newest.append(_read(told))
                if rows is not None:
                    (batch,) = _read(rows).combine_chunks().to_batches()
                    for supplier, start, stop in runs(batch.column(0)):
                        made += streams.part(supplier, batch.slice(start, stop - start))
        for times in newest:
            made += streams.advance(times)
        state.update((streams.snapshot(),))
        if made:
            yield pd.DataFrame({"rows": [_written(*made)]})

    def unpacked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that `step` has made."""
        for batch in batches:
            for rows in batch.column(0):
                yield from _read(rows.as_py()).to_batches()

    def _bounds(self, rows: pa.RecordBatch) -> list[tuple[int, int]]:
        """Where each stream is among rows that are sorted."""
        if self.task.envelope.shared:
            return [(0, rows.num_rows)] if rows.num_rows else []
        return [(start, stop) for _, start, stop in runs(rows.column(0))]


class _Streams(Streams):
    """The streams of a partition or a bucket. Names tell a supplier that is null from one whose
    name is an empty text."""

    _runner: KeyedRunner

    def __init__(self, keyed: KeyedTask) -> None:
        super().__init__(keyed.task)
        assert isinstance(self._type.codec, Record)
        self._keyed = keyed
        self._kind = self._type.codec.fields[keyed.time] if keyed.time is not None else None

    def _unpack(self, envelope: Envelope) -> Payload:
        return _payload(envelope)

    def _make_runner(self, payload: Payload) -> FilterRunner:
        envelope = self._task.envelope
        return KeyedRunner(
            payload,
            channel="DataFrame",
            name=envelope.name,
            shared=envelope.shared,
            stop_on_error=False,
        )

    def part(self, supplier: str | None, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Run the filter over the next rows of a supplier."""
        good, content = self.acceptable(rows.select(list(self._task.names)))
        seqs = np.arange(self._seq, self._seq + rows.num_rows)
        if self._keyed.numbered:
            seqs = rows.column(SEQ).to_numpy()
        self._seq += rows.num_rows
        newest = self._times(rows.column(NEWEST).take(pa.array(good))) if self._kind else None
        done = 0
        for batch in from_table(self._type, content, "DataFrame", supplier or "", 0, 0):
            stop = done + batch.num_rows
            arrays = [pa.array(seqs[good[done:stop]]), *batch.columns.columns[1:]]
            columns = pa.RecordBatch.from_arrays(arrays, schema=batch.type.batch_schema)
            batch = Batch(batch.supplier, batch.type, columns)
            told = newest and newest[done:stop]
            yield from self._made(self._runner.run_batch(batch, told, _name(supplier)))
            done = stop

    def advance(self, newest: pa.Table) -> Iterator[pa.RecordBatch]:
        """Move the clocks of streams on."""
        times = self._times(newest.column(NEWEST).combine_chunks())
        for supplier, time in zip(newest.column(SUPPLIER).to_pylist(), times, strict=True):
            if time is not None:
                yield from self._made(self._runner.advance(_name(supplier), time))

    def end_all(self) -> Iterator[pa.RecordBatch]:
        yield from self._made(self._runner.end_all())

    def snapshot(self) -> bytes:
        """The state of all streams."""
        return msgspec.msgpack.encode(self._runner.snapshot())

    def restore(self, state: bytes) -> None:
        """Take over what `snapshot` has returned."""
        self._runner.restore(_decoder.decode(state))

    def _made(self, result: RunResult) -> Iterator[pa.RecordBatch]:
        return shaped(self._told(result), self._keyed.result)

    def _times(self, column: pa.Array) -> list[Any]:
        """Times as events have them; None where no event has been that has one."""
        assert self._kind is not None
        there = column.is_valid().to_numpy(zero_copy_only=False)
        found: list[Any] = [None] * len(column)
        values = self._kind.decode(self._kind.conform(column.drop_null()))
        for row, time in zip(np.flatnonzero(there).tolist(), values, strict=True):
            found[row] = in_utc(time)
        return found


@lru_cache(maxsize=16)
def _payload(envelope: Envelope) -> Payload:
    """What an envelope holds: once in a worker, which runs one bucket after the other."""
    return unpack(envelope, KEY)


def _name(supplier: str | None) -> str:
    return "" if supplier is None else f"={supplier}"


def _sorted(table: pa.Table, shared: bool) -> pa.Table:
    """Each stream's rows in order, as Spark sorts: nulls come first, and NaNs last."""
    names = [name for name in table.schema.names if name.startswith(ORDER)]
    by: list[pa.ChunkedArray] = []
    for column in (table.column(name) for name in (names if shared else [SUPPLIER, *names])):
        by.append(column.is_valid())
        if pa.types.is_floating(column.type):
            by.append(pc.is_nan(column))
        by.append(column)
    if not by:
        return table
    keys = [(str(place), "ascending") for place in range(len(by))]
    return table.take(pc.sort_indices(pa.table(by, [key for key, _ in keys]), sort_keys=keys))


def _newest(times: pa.Array, bounds: Sequence[tuple[int, int]]) -> pa.Array:
    """The newest of the times so far in each stream; null where there was none yet."""
    there = times.is_valid()
    if pa.types.is_floating(times.type):
        there = pc.and_kleene(there, pc.invert(pc.is_nan(times))).fill_null(False)
    valid = there.to_numpy(zero_copy_only=False)
    plain = pa.float64() if pa.types.is_floating(times.type) else pa.int64()
    numbers = times.cast(plain).fill_null(0).to_numpy(zero_copy_only=False)
    least = -np.inf if pa.types.is_floating(plain) else np.iinfo(np.int64).min
    numbers = np.where(valid, numbers, least)
    seen = np.empty(len(valid), np.bool_)
    for start, stop in bounds:
        numbers[start:stop] = np.maximum.accumulate(numbers[start:stop])
        seen[start:stop] = np.logical_or.accumulate(valid[start:stop])
    return pa.array(numbers, plain, mask=~seen).cast(times.type)


def _written(*batches: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _read(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()

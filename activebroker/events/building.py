"""Making batches: of contents that are published, and of events that a filter forwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from activebroker.core.errors import EventRefused, ProtocolError
from activebroker.events.batch import Batch
from activebroker.events.columns.scalars import Int
from activebroker.events.event import Event
from activebroker.events.small_batch import FEW, SmallBatch
from activebroker.events.types import EventType

MOST_BYTES = 1 << 30  # of a batch, and so of an event; frames and columns hold twice as much

_INT = Int()


def encode(
    type: EventType,
    contents: list[Any],
    supplier: str,
    first_seq: int,
    times: int | list[int],
) -> Batch:
    """Make a batch of contents, all of exactly this type and returned by its `check`.

    They are numbered from `first_seq`. `times` is one time for all, or one each (ns). Raises
    `EventRefused` where they have more than `MOST_BYTES`.
    """
    rows = len(contents)
    if rows < FEW and (record := type.listed) is not None:
        stamps = [times] * rows if isinstance(times, int) else times
        seqs = list(range(first_seq, first_seq + rows))
        return _bounded(SmallBatch(supplier, type, [seqs, stamps, *record.columns(contents)]))
    return with_header(type, type.codec.encode(contents), rows, supplier, first_seq, times)


def with_header(
    type: EventType,
    columns: list[pa.Array],
    rows: int,
    supplier: str,
    first_seq: int,
    times: int | list[int],
) -> Batch:
    """Put the header's columns before the content's."""
    seqs = _column(np.arange(first_seq, first_seq + rows, dtype=np.int64))
    if isinstance(times, int):
        stamps = _column(np.full(rows, times, np.int64))
    else:
        stamps = _INT.encode(times)
    return _batch(type, [seqs, stamps, *columns], supplier)


def _column(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """What `pa.array` makes of them, which takes longer to find that out."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def build_batch(type: EventType, events: list[Event]) -> Batch:
    """Make a batch of events that keep their own sequence numbers and times.

    The contents must have passed the type's `check`. Raises `ProtocolError` unless there are
    events and one supplier published them all, `EventRefused` as `encode` does.
    """
    suppliers = dict.fromkeys(event.supplier for event in events)
    if len(suppliers) != 1:
        raise ProtocolError(f"a batch needs the events of one supplier, got {list(suppliers)}")
    contents = [event.content for event in events]
    seqs, times = [event.seq for event in events], [event.time for event in events]
    if len(events) < FEW and (record := type.listed) is not None:
        few = SmallBatch(events[0].supplier, type, [seqs, times, *record.columns(contents)])
        return _bounded(few)
    columns = [_INT.encode(seqs), _INT.encode(times), *type.codec.encode(contents)]
    return _batch(type, columns, events[0].supplier)


def _batch(type: EventType, arrays: list[pa.Array], supplier: str) -> Batch:
    columns = pa.RecordBatch.from_arrays(arrays, schema=type.batch_schema)
    return _bounded(Batch(supplier, type, columns))


def _bounded(batch: Batch) -> Batch:
    if batch.nbytes > MOST_BYTES:
        events = "An event" if len(batch) == 1 else f"{len(batch)} events"
        raise EventRefused(
            f"{events} of {batch.nbytes:,} bytes: too large, {MOST_BYTES:,} may go on their way at "
            "once. Send it in parts, or where it is stored."
        )
    return batch

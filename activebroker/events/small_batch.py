"""A few events as plain lists: around a lone event, Arrow's arrays cost many times the event.

It is a batch like any other, but its Arrow columns are made only when someone asks for them. On
the wire it is msgpack, which is checked against the event type while it is read. Only types whose
fields are numbers, truth values, text or bytes (or None) have this form.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from activebroker.core.decoding import UNDECODABLE
from activebroker.core.errors import ProtocolError
from activebroker.events.batch import Batch
from activebroker.events.columns.kinds import Kind
from activebroker.events.columns.records import Record
from activebroker.events.columns.scalars import Int
from activebroker.events.event import Event
from activebroker.events.types import EventType

FEW = 16  # rows; from here on Arrow is as cheap

_HEADER: list[Kind] = [Int(), Int()]
_encoder = msgspec.msgpack.Encoder()


class SmallBatch(Batch):
    """`lists`: the sequence numbers, the times, then the values of each field."""

    __slots__ = ("_columns", "lists")

    lists: Sequence[list[Any]]
    _columns: pa.RecordBatch | None

    def __init__(self, supplier: str, type: EventType, lists: Sequence[list[Any]]) -> None:
        set_ = object.__setattr__  # a batch is frozen
        set_(self, "supplier", supplier)
        set_(self, "type", type)
        set_(self, "lists", lists)
        set_(self, "_columns", None)
        set_(self, "_nbytes", -1)
        set_(self, "_shared", None)
        set_(self, "_whole", None)

    def as_type(self, type: EventType) -> Batch:
        return SmallBatch(self.supplier, type, self.lists)

    def with_fields_of(self, type: EventType) -> Batch:
        if (record := type.listed) is None:
            return super().with_fields_of(type)
        seqs, times, *content = self.lists
        known = dict(zip(self._record.fields, content, strict=True))
        lists = [
            known[name] if name in known else kind.decode(type.defaults[name]) * len(self)
            for name, kind in record.fields.items()
        ]
        return SmallBatch(self.supplier, type, [seqs, times, *lists])

    @property
    def columns(self) -> pa.RecordBatch:
        if self._columns is None:
            kinds = _HEADER + list(self._record.fields.values())
            arrays = [kind.encode(values) for kind, values in zip(kinds, self.lists, strict=True)]
            made = pa.RecordBatch.from_arrays(arrays, schema=self.type.batch_schema)
            object.__setattr__(self, "_columns", made)
        return self._columns

    @property
    def num_rows(self) -> int:
        return len(self.lists[0])

    def __len__(self) -> int:
        return len(self.lists[0])

    @property
    def nbytes(self) -> int:
        if self._nbytes < 0:
            object.__setattr__(self, "_nbytes", self._size())
        return self._nbytes

    def _size(self) -> int:
        nbytes = len(self) * self.type.fixed_width
        for index in self.type.varying:
            nbytes += 4 * len(self)  # Arrow's offsets
            for value in self.lists[index]:
                if value is not None:
                    nbytes += len(value.encode() if value.__class__ is str else value)
        return nbytes

    @property
    def seqs(self) -> npt.NDArray[np.int64]:
        return np.array(self.lists[0], np.int64)

    @property
    def first_seq(self) -> int:
        return int(self.lists[0][0])

    @property
    def last_seq(self) -> int:
        return int(self.lists[0][-1])

    @property
    def times(self) -> npt.NDArray[np.int64]:
        return np.array(self.lists[1], np.int64)

    def slice(self, offset: int, length: int) -> Batch:
        part = [values[offset : offset + length] for values in self.lists]
        return SmallBatch(self.supplier, self.type, part)

    def _contents(self) -> list[Any]:
        return self._record.build(len(self), *self.lists[2:])

    def _events(self) -> list[Event]:
        header = repeat(self.type.name), repeat(self.supplier), self.lists[0], self.lists[1]
        return list(map(Event, self._contents(), *header))

    @property
    def _record(self) -> Record:
        record = self.type.listed
        assert record is not None
        return record


def dump_lists(batch: SmallBatch) -> bytes:
    """The lists as msgpack."""
    return _encoder.encode(batch.lists)


def load_lists(type: EventType, supplier: str, data: memoryview) -> SmallBatch:
    """Return the batch that `dump_lists` stored; raises `ProtocolError` if it is none."""
    try:
        lists = type.lists.decode(data)
    except UNDECODABLE as error:
        raise ProtocolError(
            f"a batch of {type.name} from supplier {supplier!r} is malformed: {error}"
        ) from error
    if type.listed is None or len({len(values) for values in lists}) != 1:
        raise ProtocolError(f"a batch of {type.name} from supplier {supplier!r} has uneven lists")
    return SmallBatch(supplier, type, lists)

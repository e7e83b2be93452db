"""Whether bytes from elsewhere are a batch of their type: nothing in them is read before that.

Arrow itself trusts what it reads. One wrong offset makes it read another's memory, or end the
process; a length may be any; a null in a column that has none is a number without meaning. What
is sound here may still hold values that no event has, such as a day after the year 9999: that
shows where a row is decoded, and costs that row only.
"""

from __future__ import annotations

import struct
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from activebroker.core.errors import ProtocolError

_BEGIN = b"\xff\xff\xff\xff"  # of an Arrow IPC message; the size of its metadata follows
_METADATA = 8  # where that begins: a flatbuffer, after which comes the body
_U16, _I32, _U32 = struct.Struct("<H"), struct.Struct("<i"), struct.Struct("<I")
_PAIR = 16  # bytes of two int64
FEW = 2048  # rows: of so many Arrow checks the text sooner than a second look takes


class Layout:
    """What the batches of a schema look like as bytes."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._bare = pa.schema([_bare(field) for field in schema])
        buffers = [each for field in schema for each in _buffers(field.type)]
        self._texts = [i for i, is_text in enumerate(buffers) if is_text]

    def read(self, data: memoryview) -> pa.RecordBatch:
        """Return the record batch in `data`, whose columns are views of it.

        Raises `ProtocolError`, or what Arrow raises, unless all offsets, lengths and nulls are as
        the schema says and all text is UTF-8. `benchmarks/event_codec.py` has the price.
        """
        usual = self._usual
        places = usual.places if usual.matches(data) else _find(data)
        columns = _pairs(data, places.columns, places.column_count)
        # Arrow would make room for these before it finds that they are not there.
        if max(columns, default=0) > 8 * len(data):
            raise ProtocolError(f"it claims {max(columns)} values in {len(data)} bytes")
        buffer = pa.py_buffer(data)
        batch = pa.ipc.read_record_batch(buffer, self._schema)
        # Arrow checks text string by string, which is most of its work. Where all text is ASCII, a
        # look at the bytes of a column does, and Arrow checks the rest as if it were bytes.
        if batch.num_rows > FEW and self._texts and self._is_ascii(data, places):
            pa.ipc.read_record_batch(buffer, self._bare).validate(full=True)
        else:
            batch.validate(full=True)
        if any(columns[1::2]):
            for column, field in zip(batch.columns, self._schema, strict=True):
                _check_nulls(column, field)
        return batch

    def _is_ascii(self, data: memoryview, places: _Places) -> bool:
        """Whether all text is."""
        buffers = _pairs(data, places.buffers, places.buffer_count)
        for i in self._texts:
            offset, size = buffers[2 * i : 2 * i + 2]
            text = np.frombuffer(data, np.uint8, size, places.body + offset)
            if int(np.max(text, initial=0)) >= 128:
                return False
        return True

    @cached_property
    def _usual(self) -> _Usual:
        nulls = [pa.nulls(1, field.type) for field in self._schema]
        batch = pa.RecordBatch.from_arrays(nulls, schema=self._schema)
        return _Usual(memoryview(batch.serialize()).cast("B"))


class _Places(NamedTuple):
    """Where in a message are: length and nulls of each column, offset and size of each buffer, and
    what these are in, the body."""

    columns: int
    column_count: int
    buffers: int
    buffer_count: int
    body: int


class _Usual:
    """How Arrow writes the metadata of a layout here: a few numbers apart, always the same bytes.

    So where those are the same, all is in the same `places`.
    """

    def __init__(self, exemplar: memoryview) -> None:
        places = self.places = _find(exemplar)
        message, batch = _tables(exemplar)
        numbers = sorted(
            [
                (_place(exemplar, message, 3), 8),  # the size of the body
                (_place(exemplar, batch, 0), 8),  # the number of rows
                (places.columns, _PAIR * places.column_count),
                (places.buffers, _PAIR * places.buffer_count),
            ]
        )
        form, at = "<", 0
        for place, size in numbers:
            form += f"{place - at}s{size}x"
            at = place + size
        self._form = struct.Struct(f"{form}{places.body - at}s")
        self._same = self._form.unpack_from(exemplar)

    def matches(self, data: memoryview) -> bool:
        return len(data) >= self._form.size and self._form.unpack_from(data) == self._same


def _bare(field: pa.Field) -> pa.Field:
    """The field with bytes for text, at any depth."""
    arrow = field.type
    if pa.types.is_string(arrow):
        return field.with_type(pa.binary())
    if pa.types.is_struct(arrow):
        return field.with_type(pa.struct([_bare(child) for child in arrow]))
    if pa.types.is_list(arrow):
        return field.with_type(pa.list_(_bare(arrow.value_field)))
    return field


def _buffers(arrow: pa.DataType) -> list[bool]:
    """For each buffer that a column has, in Arrow's order: whether it is the bytes of text."""
    if pa.types.is_nested(arrow):
        children = [each for child in _children(arrow) for each in _buffers(child.type)]
        return [False] * (2 if pa.types.is_list(arrow) else 1) + children
    return [False] * (arrow.num_buffers - 1) + [bool(pa.types.is_string(arrow))]


def _children(arrow: pa.DataType) -> list[pa.Field]:
    return [arrow.field(i) for i in range(arrow.num_fields)]


def _check_nulls(array: pa.Array, field: pa.Field) -> None:
    """Raise `ProtocolError` for a null where the schema has none."""
    if array.null_count and not field.nullable:
        raise ProtocolError(f"there are nulls in {field.name!r}, which has none")
    if not pa.types.is_nested(field.type):
        return
    if array.null_count:  # what lies under a null is nobody's
        array = array.drop_null()
    is_struct = pa.types.is_struct(field.type)
    for i, child in enumerate(_children(field.type)):
        _check_nulls(array.field(i) if is_struct else array.flatten(), child)


def _find(data: memoryview) -> _Places:
    """What leads out of a message here, or backwards, Arrow refuses when it reads that."""
    _, batch = _tables(data)
    if _place(data, batch, 3):
        raise ProtocolError("it is compressed, and may be of any size")
    columns, buffers = (_follow(data, _place(data, batch, field)) for field in (1, 2))
    (size,) = _U32.unpack_from(data, len(_BEGIN))
    counts = (_U32.unpack_from(data, vector)[0] for vector in (columns, buffers))
    return _Places(
        columns + _U32.size, next(counts), buffers + _U32.size, next(counts), _METADATA + size
    )


def _tables(data: memoryview) -> tuple[int, int]:
    """Where the tables of a message and of its batch are; these are flatbuffers."""
    if data[:4] != _BEGIN:
        raise ProtocolError("it does not begin as an Arrow message does")
    message = _follow(data, _METADATA)
    return message, _follow(data, _place(data, message, 2))


def _place(data: memoryview, table: int, field: int) -> int:
    """Where a field of a flatbuffer's table is; 0 where the table lacks it."""
    vtable = table - _I32.unpack_from(data, table)[0]
    at = 4 + 2 * field
    if at >= _U16.unpack_from(data, vtable)[0]:
        return 0
    offset: int = _U16.unpack_from(data, vtable + at)[0]
    return table + offset if offset else 0


def _follow(data: memoryview, at: int) -> int:
    return at + int(_U32.unpack_from(data, at)[0])


def _pairs(data: memoryview, at: int, count: int) -> tuple[int, ...]:
    """A flatbuffer's vector of two int64 each, one after the other."""
    return struct.unpack_from(f"<{2 * count}q", data, at)

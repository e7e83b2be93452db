"""How many bytes the rows of a batch hold, so that credit for them can be counted.

Arrow's own `nbytes` depends on how an array came about: a copy sent through IPC drops what the
original carried beside its values. Here only the values count. The size of a batch is therefore
the same in every process, and the sizes of its slices add up to it.
"""

from __future__ import annotations

import struct

import pyarrow as pa

_INT32, _INT64 = struct.Struct("=i"), struct.Struct("=q")
_LIST = pa.list_(pa.null()).id
# The offsets of the types of variable size that event types have, by type id.
_OFFSETS = {
    pa.string().id: _INT32,
    pa.binary().id: _INT32,
    pa.large_binary().id: _INT64,
    _LIST: _INT32,
}


def row_width(arrow: pa.DataType) -> int | None:
    """Bytes a value of this type, or None if values differ in size. A bool counts as one byte."""
    if pa.types.is_struct(arrow):
        widths = [row_width(field.type) for field in arrow]
        return None if None in widths else sum(width or 0 for width in widths)
    if pa.types.is_fixed_size_list(arrow):
        item = row_width(arrow.value_type)
        return None if item is None else item * int(arrow.list_size)
    return None if arrow.id in _OFFSETS else max(1, int(arrow.bit_width) // 8)


def size(array: pa.Array) -> int:
    """Bytes of the values of an array, and of their offsets."""
    rows, kind = len(array), array.type.id
    if (offset := _OFFSETS.get(kind)) is None:
        width = row_width(array.type)
        if width is not None:
            return rows * width
        return sum(size(array.field(i)) for i in range(array.type.num_fields))
    if not rows:
        return 0
    offsets = array.buffers()[1]
    (first,) = offset.unpack_from(offsets, offset.size * array.offset)
    (last,) = offset.unpack_from(offsets, offset.size * (array.offset + rows))
    if kind == _LIST:
        return rows * offset.size + size(array.values.slice(first, last - first))
    return rows * offset.size + int(last - first)

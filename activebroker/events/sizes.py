"""How many bytes the rows of a batch hold, so that credit for them can be counted.

Arrow's own `nbytes` depends on how an array came about: a copy sent through IPC drops what the
original carried beside its values. Here only the values count. The size of a batch is therefore
the same in every process, and the sizes of its slices add up to it.
"""

from __future__ import annotations

import struct

import pyarrow as pa

_OFFSETS = {4: struct.Struct("=i"), 8: struct.Struct("=q")}


def row_width(arrow: pa.DataType) -> int | None:
    """Bytes a value of this type, or None if values differ in size. A bool counts as one byte."""
    if pa.types.is_struct(arrow):
        widths = [row_width(field.type) for field in arrow]
        return None if None in widths else sum(width or 0 for width in widths)
    if pa.types.is_fixed_size_list(arrow):
        item = row_width(arrow.value_type)
        return None if item is None else item * int(arrow.list_size)
    if _offset_width(arrow):
        return None
    return max(1, int(arrow.bit_width) // 8)


def size(array: pa.Array) -> int:
    """Bytes of the values of an array, and of their offsets."""
    rows = len(array)
    width = row_width(array.type)
    if width is not None:
        return rows * width
    if pa.types.is_struct(array.type):
        return sum(size(array.field(i)) for i in range(array.type.num_fields))
    offset_width = _offset_width(array.type)
    if not rows:
        return 0
    read = _OFFSETS[offset_width].unpack_from
    offsets = array.buffers()[1]
    (first,) = read(offsets, offset_width * array.offset)
    (last,) = read(offsets, offset_width * (array.offset + rows))
    if pa.types.is_list(array.type):
        return rows * offset_width + size(array.values.slice(first, last - first))
    return rows * offset_width + int(last - first)


def _offset_width(arrow: pa.DataType) -> int:
    """Bytes of an offset, for the types of variable size that event types have; else 0."""
    if pa.types.is_large_binary(arrow):
        return 8
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow) or pa.types.is_list(arrow):
        return 4
    return 0

"""Arrow columns in the types that Spark has, and back.

Spark has no fixed-size lists, unsigned integers or half floats, which numpy arrays in events need.
Where only our own code reads a column again, such arrays are packed into bytes, which cost Spark a
copy where a list would cost a call for each number (`carried`). Where a user of Spark reads it, it
becomes a list of the next wider number type (`readable`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

Convert = Callable[[pa.DataType], pa.DataType]

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}


def carried(arrow: pa.DataType) -> pa.DataType:
    """The type in which Spark carries such a column between two processes of ours."""
    if pa.types.is_fixed_size_list(arrow) or pa.types.is_large_binary(arrow):
        return pa.binary()
    return _within(arrow, carried)


def readable(arrow: pa.DataType) -> pa.DataType:
    """The type that a user of Spark expects for such a column."""
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(readable(arrow.value_type))
    return _WIDER.get(arrow) or _within(arrow, readable)


def _within(arrow: pa.DataType, convert: Convert) -> pa.DataType:
    # Everything inside may be null for Spark: it is, where what is around it is.
    if pa.types.is_list(arrow):
        return pa.list_(convert(arrow.value_type))
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(field.name, convert(field.type)) for field in arrow])
    return arrow


def reshape(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Bring a column into a type that `carried` or `readable` gave for its own, or back.

    Values stay the same. Raises `pyarrow.ArrowInvalid` where the target cannot hold one.
    """
    source = array.type
    if source == target:
        return array
    if pa.types.is_binary(target) and pa.types.is_fixed_size_list(source):
        return _packed(array)
    if pa.types.is_fixed_size_list(target) and not pa.types.is_nested(source):
        return _unpacked(array.cast(pa.binary()), target)  # Spark can be set to give large_binary
    if pa.types.is_list(target) and (
        pa.types.is_list(source) or pa.types.is_fixed_size_list(source)
    ):
        return _as_list(array, target)
    if pa.types.is_struct(target) and target.num_fields:
        children = [reshape(array.field(i), field.type) for i, field in enumerate(target)]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=_nulls(array))
    return array.cast(target)


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _as_list(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        offsets = np.arange(len(array) + 1, dtype=np.int32) * size
        values = array.values.slice(array.offset * size, len(array) * size)
    else:
        offsets = array.offsets.to_numpy()
        values = array.values
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()),
        reshape(values, target.value_type),
        type=target,
        mask=_nulls(array),
    )


def _packed(array: pa.Array) -> pa.Array:
    """Each fixed-size list of numbers as its bytes, which are not copied."""
    size, rows = array.type.list_size, len(array)
    numbers = array.values.slice(array.offset * size, rows * size)
    if pa.types.is_boolean(numbers.type):
        numbers = numbers.cast(pa.uint8())
    width = size * numbers.type.bit_width // 8
    data = numbers.buffers()[1].slice(numbers.offset * numbers.type.bit_width // 8)
    offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * np.int32(width))
    present = array.is_valid().buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(pa.binary(), rows, [present, offsets, data])


def _unpacked(array: pa.Array, target: pa.DataType) -> pa.Array:
    dense = array.drop_null() if array.null_count else array
    item = target.value_type
    dtype: Any = np.dtype(np.bool_ if pa.types.is_boolean(item) else item.to_pandas_dtype())
    _, offsets, data = dense.buffers()
    count = len(dense) * target.list_size
    start = int(np.frombuffer(offsets, np.int32)[dense.offset]) if count else 0
    numbers = np.frombuffer(data, dtype, count, start) if count else np.empty(0, dtype)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(numbers, item), type=target)
    if dense is array:
        return lists
    present = array.is_valid().to_numpy(zero_copy_only=False)
    return lists.take(pa.array(np.cumsum(present) - 1, mask=~present))

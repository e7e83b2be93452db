"""The kinds that hold other kinds: optional values, lists, numpy arrays and nested dataclasses."""

from __future__ import annotations

import json
import math
import operator
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from activebroker.events.columns.generated import tester
from activebroker.events.columns.kinds import Bind, Kind, Misfit, cast, plain, unpacked
from activebroker.events.columns.scalars import Number

if TYPE_CHECKING:
    from activebroker.events.columns.records import Record


class Maybe(Kind):
    """`X | None`: the only kind whose arrays hold nulls. Its item handles the rest densely."""

    nullable = True

    def __init__(self, item: Kind) -> None:
        self.item = item
        self.arrow = item.arrow
        self.metadata = item.metadata
        self.classes = item.classes
        self.native = None if item.native is None else item.native | None
        self.signature = f"{item.signature} | None"

    @property
    def expected(self) -> str:
        return f"{self.item.expected} | None"

    def test(self, v: str, bind: Bind) -> str:
        return f"({v} is None or {self.item.test(v, bind)})"

    def fit(self, value: Any) -> Any:
        try:
            return None if value is None else self.item.fit(value)
        except Misfit as misfit:
            if not misfit.path:
                misfit.expected = self.expected
            raise

    def encode(self, values: list[Any]) -> pa.Array:
        if type(self.item).encode in (Kind.encode, Number.encode):
            return pa.array(values, self.arrow)  # Arrow's own conversion takes None as null
        present = np.fromiter((value is not None for value in values), np.bool_, len(values))
        return _expand(self.item.encode([v for v in values if v is not None]), present)

    def decode(self, array: pa.Array) -> list[Any]:
        if not array.null_count:
            return self.item.decode(array)
        values: list[Any]
        if type(self.item).decode is Kind.decode:  # Arrow's own conversion has None for null
            values = array.to_pylist()
            return values
        values = [None] * len(array)
        rows = np.flatnonzero(_present(array)).tolist()
        for row, value in zip(rows, self.item.decode(array.drop_null()), strict=True):
            values[row] = value
        return values

    def conform(self, array: pa.Array) -> pa.Array:
        array = unpacked(array)
        present = _present(array)
        try:
            return _expand(self.item.conform(array.drop_null()), present)
        except Misfit as misfit:
            if misfit.row is not None:
                misfit.row = int(np.flatnonzero(present)[misfit.row])
            raise


def _present(array: pa.Array) -> npt.NDArray[np.bool_]:
    present: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return present


def _expand(dense: pa.Array, present: npt.NDArray[np.bool_]) -> pa.Array:
    """Put the dense values where `present` is true, and nulls elsewhere."""
    if len(dense) == len(present):
        return dense
    return dense.take(pa.array(np.cumsum(present) - 1, mask=~present))


class ListOf(Kind):
    """`list[X]`; a tuple or a numpy array of one dimension is converted."""

    def __init__(self, item: Kind) -> None:
        self.item = item
        self.arrow = pa.list_(item.field("item"))
        self.classes = item.classes
        self.signature = f"list[{item.signature}]"

    @property
    def expected(self) -> str:
        return f"list[{self.item.expected}]"

    def test(self, v: str, bind: Bind) -> str:
        return f"{v}.__class__ is list and all(map({bind(tester(self.item))}, {v}))"

    def fit(self, value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.ndim == 1:
            value = value.tolist()
        if not isinstance(value, list | tuple):
            raise Misfit.of(self.expected, value)
        items = []
        for index, item in enumerate(value):
            try:
                items.append(self.item.fit(item))
            except Misfit as misfit:
                raise misfit.under(f"[{index}]") from None
        unchanged = value.__class__ is list and all(map(operator.is_, items, value))
        return value if unchanged else items

    def encode(self, values: list[Any]) -> pa.Array:
        offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum([len(value) for value in values], out=offsets[1:])
        items = self.item.encode(list(chain.from_iterable(values)))
        bounds = pa.array(offsets, pa.int32())  # raises where there are more items
        return pa.ListArray.from_arrays(bounds, items, type=self.arrow)

    def decode(self, array: pa.Array) -> list[Any]:
        items = self.item.decode(array.flatten())
        offsets = array.offsets.to_numpy()
        return [items[a:b] for a, b in pairwise((offsets - offsets[0]).tolist())]

    def conform(self, array: pa.Array) -> pa.Array:
        array = plain(array, self)
        if not _is_list(array.type):
            raise Misfit.column(self, array)
        if pa.types.is_fixed_size_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        offsets = array.offsets.to_numpy()
        offsets = offsets - offsets[0]
        try:
            items = self.item.conform(array.flatten())
        except Misfit as misfit:
            if misfit.row is not None:
                row = int(np.searchsorted(offsets, misfit.row, "right")) - 1
                misfit.under(f"[{misfit.row - offsets[row]}]").row = row
            raise
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, type=self.arrow)


def _is_list(arrow: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(arrow)
        or pa.types.is_large_list(arrow)
        or pa.types.is_fixed_size_list(arrow)
    )


class ArrayOf(Kind):
    """A numpy array of fixed shape and dtype. Read back, it is a read-only view of the batch."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype
        item = pa.field("item", pa.from_numpy_dtype(dtype), nullable=False)
        self.arrow = pa.list_(item, math.prod(shape))
        self.signature = f"ndarray {dtype}{list(shape)}"
        self.metadata = {
            "activebroker.kind": "array",
            "activebroker.shape": json.dumps(shape),
        }

    def test(self, v: str, bind: Bind) -> str:
        return (
            f"{v}.__class__ is {bind(np.ndarray)} and {v}.dtype == {bind(self.dtype)}"
            f" and {v}.shape == {bind(self.shape)}"
        )

    def fit(self, value: Any) -> npt.NDArray[Any]:
        if (
            not isinstance(value, np.ndarray)
            or value.dtype != self.dtype
            or value.shape != self.shape
        ):
            raise Misfit.of(self.expected, value)
        return np.asarray(value)

    def encode(self, values: list[Any]) -> pa.Array:
        flat = np.stack(values).reshape(-1) if values else np.empty(0, self.dtype)
        return pa.FixedSizeListArray.from_arrays(pa.array(flat), type=self.arrow)

    def decode(self, array: pa.Array) -> list[Any]:
        flat = array.flatten().to_numpy(zero_copy_only=False)
        flat.flags.writeable = False
        return list(flat.reshape(len(array), *self.shape))

    def conform(self, array: pa.Array) -> pa.Array:
        array = plain(array, self)
        refused = Misfit.column(self, array)
        if not _is_list(array.type):
            raise refused
        size = self.arrow.list_size
        if pa.types.is_fixed_size_list(array.type):
            lengths = np.full(len(array), array.type.list_size)
        else:
            lengths = np.diff(array.offsets.to_numpy())
        wrong = np.flatnonzero(lengths != size)
        if wrong.size:
            row = int(wrong[0])
            raise Misfit(self.expected, f"{lengths[row]} numbers", row=row)
        items = array.flatten()
        number = pa.types.is_integer(items.type) or pa.types.is_floating(items.type)
        if items.type != self.arrow.value_type and (not number or self.dtype == np.bool_):
            raise refused
        try:
            items = cast(plain(items, self), _Item(self))
        except Misfit as misfit:
            if misfit.row is not None:
                row, index = divmod(misfit.row, size)
                misfit.under(f"[{index}]").row = row
            raise
        return pa.FixedSizeListArray.from_arrays(items, type=self.arrow)


class _Item(Kind):
    """The items of a numpy array, as the target of a cast."""

    def __init__(self, array: ArrayOf) -> None:
        self.arrow = array.arrow.value_type
        self.signature = str(array.dtype)


class Struct(Kind):
    """A dataclass inside an event: the class itself, since a column has no room for subclasses."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.arrow = pa.struct(list(record.schema))
        self.signature = record.signature
        inside = (cls for kind in record.fields.values() for cls in kind.classes)
        self.classes = (record.cls, *inside)
        self.metadata = {
            "activebroker.kind": "struct",
            "activebroker.name": record.cls.__name__,
        }

    @property
    def expected(self) -> str:
        return self.record.cls.__name__

    def test(self, v: str, bind: Bind) -> str:
        return f"{bind(self.record.fits)}({v})"

    def fit(self, value: Any) -> Any:
        return self.record.fit(value)

    def encode(self, values: list[Any]) -> pa.Array:
        if not self.record.fields:
            return pa.array([{}] * len(values), self.arrow)
        columns = self.record.encode(values)
        return pa.StructArray.from_arrays(columns, fields=list(self.arrow))

    def decode(self, array: pa.Array) -> list[Any]:
        columns = [array.field(i) for i in range(array.type.num_fields)]
        return self.record.decode(columns, len(array))

    def conform(self, array: pa.Array) -> pa.Array:
        array = plain(array, self)
        if not pa.types.is_struct(array.type):
            raise Misfit.column(self, array)
        names = [field.name for field in array.type]
        columns = {name: array.field(i) for i, name in enumerate(names)}
        conformed = self.record.conform(columns)
        if not conformed:
            return array
        return pa.StructArray.from_arrays(conformed, fields=list(self.arrow))

"""What a field can hold: one class a kind of value, from check to Arrow column and back.

A kind answers for a single annotation. It tells whether a value fits, converts the few that fit
after an exact conversion, and turns lists of values into Arrow arrays and arrays into lists.
Containers are in `nested`, whole dataclasses in `records`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from activebroker.core.errors import shortened

_sketch = reprlib.Repr()
_sketch.maxother = 1000
_sketch.maxstring = _sketch.maxlong = 200
_sketch.maxlist = _sketch.maxtuple = _sketch.maxset = _sketch.maxdict = 20

Bind = Callable[[object], str]
"""Makes an object available to generated code and returns the name it has there."""


class Misfit(Exception):
    """A value does not fit. Never leaves this package: it becomes an `EventRefused`.

    `path` leads from the content to the value (`".legs[3].price"`), and is put together by the
    containers on the way up; `row` is the row of a table or list.
    """

    def __init__(
        self, expected: str, got: str, why: str = "", path: str = "", row: int | None = None
    ) -> None:
        super().__init__(expected, got, why)
        self.expected = expected
        self.got = got
        self.why = why
        self.path = path
        self.row = row

    @classmethod
    def of(cls, expected: str, value: object, why: str = "") -> Misfit:
        """A value came that does not fit."""
        return cls(expected, shown(value), why)

    @classmethod
    def column(cls, kind: Kind, array: pa.Array, why: str = "") -> Misfit:
        """A column came whose values do not mean the same."""
        what = shortened(f"a column of {array.type}", 400)
        return cls(kind.expected, what, why or kind.remedy(array.type))

    @property
    def text(self) -> str:
        """What was expected and what came, without where."""
        return f"expected {self.expected}, got {self.got}" + (f": {self.why}" if self.why else "")

    def under(self, prefix: str) -> Misfit:
        """This misfit, seen from the container that holds the value at `prefix`."""
        self.path = prefix + self.path
        return self


def shown(value: object) -> str:
    """Return the type and a short repr of a value, for error messages."""
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"{type(value).__name__} {value.dtype}{list(value.shape)}"
    return f"{type(value).__name__} {reprlib.repr(value)}"


def sketch(content: object) -> str:
    """Return what shows of a content: its repr, at most 1,000 characters of it."""
    try:
        return _sketch.repr(content)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever its class raises, SystemExit too
        return f"<a {type(content).__name__}, whose repr raises {type(error).__name__}>"


class Kind:
    """How the values of one annotation are checked, stored and read back.

    `signature` is a canonical text: two kinds are the same when their signatures are. Arrays given
    to `encode`, `decode` and `conform` hold no null; `nested.Maybe` alone deals with nulls.
    """

    arrow: pa.DataType
    signature: str
    nullable = False
    native: Any = None
    """The type of its values for msgspec, where a value is all that there is to them."""
    metadata: dict[str, str] = {}
    classes: tuple[type, ...] = ()
    """The enums and dataclasses that its values are of, or hold."""

    @property
    def expected(self) -> str:
        """What an error message says was expected."""
        return self.signature

    def field(self, name: str) -> pa.Field:
        """The Arrow field of this kind."""
        return pa.field(name, self.arrow, self.nullable, self.metadata or None)

    def test(self, v: str, bind: Bind) -> str:
        """A Python expression over the variable `v`: true only if the value fits as it is."""
        raise NotImplementedError

    def fit(self, value: Any) -> Any:
        """Return the value, or its exact conversion to this kind; raise `Misfit`."""
        raise NotImplementedError

    def encode(self, values: list[Any]) -> pa.Array:
        """Store values that fit."""
        return pa.array(values, self.arrow)

    def decode(self, array: pa.Array) -> list[Any]:
        """Read back what `encode` stored."""
        values: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
        return values

    def conform(self, array: pa.Array) -> pa.Array:
        """Return the array in this kind's Arrow type, cast without loss; raise `Misfit`."""
        if array.type == self.arrow and not array.null_count:
            return array
        array = plain(array, self)
        if not self.accepts(array.type):
            raise Misfit.column(self, array)
        if array.type != self.arrow:
            array = cast(array, self)
        return array

    def remedy(self, arrow: pa.DataType) -> str:
        """What to do about a column of this type, which is not accepted, if there is something."""
        return ""

    def accepts(self, arrow: pa.DataType) -> bool:
        """Whether a column of this type may be cast: its values mean the same."""
        raise NotImplementedError


def plain(array: pa.Array, kind: Kind) -> pa.Array:
    """Return the array unpacked, and make sure that it holds no null."""
    array = unpacked(array)
    if array.null_count:
        row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise Misfit(kind.expected, "null", row=row)
    return pa.nulls(0, kind.arrow) if pa.types.is_null(array.type) else array


def unpacked(array: pa.Array) -> pa.Array:
    """Return the same values without dictionaries, runs or views, at any depth.

    There a null may hide where `null_count` does not see it, and Arrow can do little with views.
    """
    arrow, types = array.type, pa.types
    if not _is_packed(arrow):
        return array
    if types.is_dictionary(arrow):
        return unpacked(array.dictionary).take(array.indices)
    if types.is_run_end_encoded(arrow):
        rows = np.arange(array.offset, array.offset + len(array))
        runs = np.searchsorted(array.run_ends.to_numpy(), rows, side="right")
        return unpacked(array.values).take(pa.array(runs))
    if types.is_string_view(arrow) or types.is_binary_view(arrow):
        return array.cast(pa.string() if types.is_string_view(arrow) else pa.binary())
    missing = array.is_null() if array.null_count else None
    if types.is_struct(arrow):
        fields = [unpacked(array.field(i)) for i in range(arrow.num_fields)]
        return pa.StructArray.from_arrays(fields, arrow.names, mask=missing)
    sizes = pc.list_value_length(array).fill_null(0).to_numpy()
    ends = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    return pa.ListArray.from_arrays(ends, unpacked(array.flatten()), mask=missing)


def _is_packed(arrow: pa.DataType) -> bool:
    types = pa.types
    if types.is_struct(arrow):
        return any(_is_packed(field.type) for field in arrow)
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
        return _is_packed(arrow.value_type)
    return bool(
        types.is_dictionary(arrow)
        or types.is_run_end_encoded(arrow)
        or types.is_string_view(arrow)
        or types.is_binary_view(arrow)
        or types.is_list_view(arrow)
        or types.is_large_list_view(arrow)
    )


def cast(array: pa.Array, kind: Kind) -> pa.Array:
    """Cast without loss; the `Misfit` tells the first row that cannot be cast, and why."""
    if array.offset and (
        pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    ):
        # Arrow looks at where it ends in what it is a slice of, which may be beyond 2 GiB.
        array = array.take(pa.array(np.arange(len(array))))
    try:
        return array.cast(kind.arrow)
    except pa.ArrowException as error:
        low, high = 0, len(array)
        while high - low > 1:  # the rows before `low` can be cast, those before `high` cannot
            middle = (low + high) // 2
            try:
                array.slice(low, middle - low).cast(kind.arrow)
                low = middle
            except pa.ArrowException:
                high = middle
        small = len(array) > 0 and array.slice(low, 1).nbytes < 1 << 20
        value = f"{array.type} {sketch(array[low].as_py())}" if small else f"a {array.type}"
        raise Misfit(kind.expected, value, shortened(str(error), 400), row=low) from None

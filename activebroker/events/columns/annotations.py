"""From a dataclass and its annotations to a record of kinds."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
import zoneinfo
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, Flag
from typing import Annotated, Any, get_args, get_origin

import numpy as np
import pyarrow as pa

from activebroker.core.errors import EventTypeError
from activebroker.events.columns import scalars
from activebroker.events.columns.kinds import Kind, shown
from activebroker.events.columns.nested import ArrayOf, ListOf, Maybe, Struct
from activebroker.events.columns.records import Record

SUPPORTED = (
    "int, float, bool, str, bytes, datetime, Annotated[datetime, Zone('UTC')], date, Decimal, "
    "Annotated[Decimal, Precision(p, s)], an Enum, a dataclass, list[X], X | None, "
    "Annotated[np.ndarray, Shape(n)]"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Zone:
    """Marks a `datetime` field as aware: `Annotated[datetime, Zone("UTC")]`.

    Aware values of any zone are accepted; read back, they are in this one.
    """

    name: str

    def __post_init__(self) -> None:
        try:
            scalars.Timestamp(self.name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise EventTypeError(
                f"Zone({self.name!r}): no such time zone; use a name like 'Europe/Berlin'"
            ) from None


@dataclasses.dataclass(frozen=True, slots=True)
class Precision:
    """Sets the digits of a `Decimal` field, and how many of them follow the point."""

    digits: int
    scale: int

    def __post_init__(self) -> None:
        if not 1 <= self.digits <= 38 or not 0 <= self.scale <= self.digits:
            raise EventTypeError(f"{self!r}: digits must be in 1..38 and scale in 0..digits")


@dataclasses.dataclass(frozen=True, slots=True, init=False)
class Shape:
    """Sets the shape and dtype of a numpy array field: `Shape(100)`, `Shape(3, 4, dtype="f4")`."""

    dims: tuple[int, ...]
    dtype: str

    def __init__(self, *dims: int, dtype: str = "float64") -> None:
        if not dims or any(dim < 1 for dim in dims) or math.prod(dims) >= 2**31:
            raise EventTypeError(f"Shape{dims}: give one or more sizes, each at least 1")
        try:
            pa.from_numpy_dtype(numeric := np.dtype(dtype))
            if numeric.kind not in "biuf":
                raise TypeError
        except (TypeError, pa.ArrowNotImplementedError):
            raise EventTypeError(
                f"Shape(dtype={dtype!r}): use a bool, int or float of numpy"
            ) from None
        object.__setattr__(self, "dims", tuple(dims))
        object.__setattr__(self, "dtype", numeric.newbyteorder("=").name)


_Mark = Zone | Precision | Shape
_MARKED: dict[object, type] = {datetime: Zone, Decimal: Precision, np.ndarray: Shape}
_PLAIN: dict[object, Callable[[], Kind]] = {
    int: scalars.Int,
    float: scalars.Float,
    bool: scalars.Bool,
    str: scalars.Str,
    bytes: scalars.Bytes,
    date: scalars.Date,
}


class _Unsupported(Exception):
    """Why an annotation cannot be a field's; becomes an `EventTypeError` that names the field."""


def record_of(cls: type, within: tuple[type, ...] = ()) -> Record:
    """Return the record of a dataclass. `within` are the dataclasses that are being read already.

    Raises `EventTypeError` naming class, field, annotation and what is supported.
    """
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        given = cls.__qualname__ if isinstance(cls, type) else shown(cls)
        raise EventTypeError(
            f"{given} is not a dataclass. Declare the fields of an event in a class with "
            "@dataclass, or give their pyarrow.Schema, or `object` for any picklable content, such "
            "as a dict"
        )
    hints = _hints(cls)
    fields: dict[str, Kind] = {}
    for field in dataclasses.fields(cls):
        try:
            fields[field.name] = _kind_of(hints[field.name], (*within, cls))
        except _Unsupported as reason:
            raise EventTypeError(
                f"{cls.__qualname__}.{field.name}: the annotation {_spell(hints[field.name])} is "
                f"not supported{reason}. Supported: {SUPPORTED}."
            ) from None
    return Record(cls, fields)


def _hints(cls: type) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise EventTypeError(
            f"{cls.__qualname__}: its annotations cannot be evaluated ({error}). Names in them "
            "must be importable at run time and defined at module level."
        ) from error
    # Evaluated for good: a class that is shipped by value leaves its module's names behind.
    for base in cls.__mro__:
        if own := vars(base).get("__annotations__"):
            own.update({name: hints[name] for name in own if isinstance(own[name], str)})
    for name, hint in hints.items():
        if isinstance(hint, dataclasses.InitVar):
            raise EventTypeError(
                f"{cls.__qualname__}.{name}: an event is built from its fields alone, so it "
                "cannot have an InitVar; make it a field"
            )
    return hints


def _kind_of(annotation: Any, within: tuple[type, ...], marks: tuple[_Mark, ...] = ()) -> Kind:
    origin = get_origin(annotation)
    if origin is Annotated:
        base, *extra = get_args(annotation)
        return _kind_of(base, within, (*marks, *(m for m in extra if isinstance(m, _Mark))))
    if origin in (typing.Union, types.UnionType):
        return _optional(get_args(annotation), within, marks)
    base = origin or annotation
    allowed = _MARKED.get(base)
    for mark in marks:
        if type(mark) is not allowed:
            raise _Unsupported(f": {mark!r} does not apply to it")
    if allowed is not None:
        return _marked(base, marks[-1] if marks else None)
    if base is list and get_args(annotation):
        return ListOf(_kind_of(get_args(annotation)[0], within))
    if origin is None and isinstance(base, type):
        return _named(base, within)
    raise _Unsupported("")


def _optional(args: tuple[Any, ...], within: tuple[type, ...], marks: tuple[_Mark, ...]) -> Kind:
    rest = [arg for arg in args if arg is not types.NoneType]
    if len(rest) != 1:
        raise _Unsupported(": a union may only be X | None")
    kind = _kind_of(rest[0], within, marks)
    return kind if isinstance(kind, Maybe) else Maybe(kind)


def _marked(base: object, mark: _Mark | None) -> Kind:
    if isinstance(mark, Shape):
        return ArrayOf(mark.dims, np.dtype(mark.dtype))
    if isinstance(mark, Precision):
        return scalars.Decimals(mark.digits, mark.scale)
    if isinstance(mark, Zone):
        return scalars.Timestamp(mark.name)
    if base is np.ndarray:
        raise _Unsupported(": an array needs its shape, Annotated[np.ndarray, Shape(n)]")
    return scalars.Decimals(38, 18) if base is Decimal else scalars.Timestamp()


def _named(cls: type, within: tuple[type, ...]) -> Kind:
    if cls in _PLAIN:
        return _PLAIN[cls]()
    if issubclass(cls, Enum) and not issubclass(cls, Flag):
        return scalars.Member(cls)
    if dataclasses.is_dataclass(cls):
        if cls in within:
            raise _Unsupported(": a dataclass cannot contain itself")
        return Struct(record_of(cls, within))
    raise _Unsupported("")


def _spell(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else repr(annotation)

"""The kinds of single values: numbers, text, bytes, moments, decimals and enum members."""

from __future__ import annotations

import decimal
import json
import math
from array import array as packed
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pyarrow as pa

from activebroker.core.errors import EventRefused, suggestion
from activebroker.events.columns.kinds import Bind, Kind, Misfit, plain, shown

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
AWARE = "it has a time zone: annotate the field with one, Annotated[datetime, Zone('UTC')]"
NAIVE = "it has no time zone, and the field has: give it one, say with .replace(tzinfo=UTC)"


class Number(Kind):
    """A number that fills a machine word."""

    word: str  # its code in the module `array`

    def encode(self, values: list[Any]) -> pa.Array:
        # Half the price of `pa.array`, which has to find out what the values are.
        words = pa.py_buffer(packed(self.word, values))
        return pa.Array.from_buffers(self.arrow, len(values), [None, words], 0)


class Int(Number):
    """`int`, within 64 bits. A bool is not an int here."""

    word = "q"
    native = Annotated[int, msgspec.Meta(ge=_INT64_MIN, le=_INT64_MAX)]
    arrow = pa.int64()
    signature = "int"

    def test(self, v: str, bind: Bind) -> str:
        return f"{v}.__class__ is int and {_INT64_MIN} <= {v} <= {_INT64_MAX}"

    def fit(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise Misfit.of(self.expected, value)
        number = int(value)
        if not _INT64_MIN <= number <= _INT64_MAX:
            raise Misfit.of(self.expected, value, "it does not fit into 64 bits")
        return number

    def accepts(self, arrow: pa.DataType) -> bool:
        return bool(pa.types.is_integer(arrow) or pa.types.is_floating(arrow))


class Float(Number):
    """`float`, 64 bits; NaN and the infinities are values. An int is converted if that is exact."""

    word = "d"
    native = float
    arrow = pa.float64()
    signature = "float"

    def test(self, v: str, bind: Bind) -> str:
        return f"{v}.__class__ is float"

    def fit(self, value: Any) -> float:
        if isinstance(value, float | np.floating):
            return float(value)
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise Misfit.of(self.expected, value)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if number != int(value):
            raise Misfit.of(self.expected, value, "no float has exactly this value")
        return number

    def accepts(self, arrow: pa.DataType) -> bool:
        return bool(pa.types.is_floating(arrow) or pa.types.is_integer(arrow))


class Bool(Kind):
    """`bool`."""

    arrow = pa.bool_()
    native = bool
    signature = "bool"

    def test(self, v: str, bind: Bind) -> str:
        return f"{v}.__class__ is bool"

    def fit(self, value: Any) -> bool:
        if not isinstance(value, bool | np.bool_):
            raise Misfit.of(self.expected, value)
        return bool(value)

    def accepts(self, arrow: pa.DataType) -> bool:
        return bool(pa.types.is_boolean(arrow))


def encodable(text: str) -> bool:
    """Whether UTF-8 has this text: lone surrogates are legal in a `str` but in no encoding."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Str(Kind):
    """`str`, stored as UTF-8."""

    native = str
    arrow = pa.string()
    signature = "str"

    def test(self, v: str, bind: Bind) -> str:
        return f"{v}.__class__ is str and ({v}.isascii() or {bind(encodable)}({v}))"

    def fit(self, value: Any) -> str:
        if not isinstance(value, str):
            raise Misfit.of(self.expected, value)
        if not encodable(value):
            raise Misfit.of(self.expected, value, "it holds a lone surrogate")
        return str.__str__(value)

    def accepts(self, arrow: pa.DataType) -> bool:
        return bool(
            pa.types.is_string(arrow)
            or pa.types.is_large_string(arrow)
            or pa.types.is_string_view(arrow)
        )


class Bytes(Kind):
    """`bytes`; a bytearray or memoryview is copied."""

    arrow = pa.binary()
    native = bytes
    signature = "bytes"

    def test(self, v: str, bind: Bind) -> str:
        return f"{v}.__class__ is bytes"

    def fit(self, value: Any) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise Misfit.of(self.expected, value)
        return value if value.__class__ is bytes else bytes(memoryview(value))

    def accepts(self, arrow: pa.DataType) -> bool:
        return bool(
            pa.types.is_binary(arrow)
            or pa.types.is_large_binary(arrow)
            or pa.types.is_fixed_size_binary(arrow)
            or pa.types.is_binary_view(arrow)
        )


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)


class Dated(Kind):
    """Arrow can hold more than Python's calendar: `low` to `high`, in units of the column.

    A column from elsewhere has to keep a `margin` from its ends.
    """

    low: int
    high: int
    margin = 0

    def decode(self, array: pa.Array) -> list[Any]:
        try:
            return super().decode(self._within(array, 0))
        except Misfit as misfit:
            raise EventRefused(misfit.text) from None

    def conform(self, array: pa.Array) -> pa.Array:
        return self._within(super().conform(array), self.margin)

    def _within(self, array: pa.Array, margin: int) -> pa.Array:
        numbers = array.view(pa.int64() if array.type.bit_width == 64 else pa.int32()).to_numpy()
        outside = np.flatnonzero((numbers < self.low + margin) | (numbers > self.high - margin))
        if outside.size:
            row = int(outside[0])
            got = f"{array.type} {numbers[row]}"
            raise Misfit(self.expected, got, "outside the calendar", row=row)
        return array


class Timestamp(Dated):
    """`datetime` in microseconds: naive, or aware and then read back in one time zone."""

    low, high = _micros(datetime.min), _micros(datetime.max)

    def __init__(self, zone: str | None = None) -> None:
        self.arrow = pa.timestamp("us", zone)
        self.signature = f"datetime[{zone}]" if zone else "datetime"
        self.zone: tzinfo | None = None
        if zone:
            self.zone = UTC if zone == "UTC" else ZoneInfo(zone)
            self.margin = 24 * 60 * 60 * 1_000_000  # for the way from UTC to the zone

    def test(self, v: str, bind: Bind) -> str:
        same_zone = f"{v}.__class__ is {bind(datetime)} and {v}.tzinfo is {bind(self.zone)}"
        # At the ends of the calendar the way to UTC and back may leave it: left to `fit`.
        return same_zone if self.zone in (None, UTC) else f"{same_zone} and 1 < {v}.year < 9999"

    def fit(self, value: Any) -> datetime:
        moment = value
        if isinstance(value, np.datetime64):
            if np.isnat(value) or (micros := value.astype("M8[us]")) != value:
                raise Misfit.of(self.expected, value, "microseconds cannot hold it")
            moment = micros.item()
        if not isinstance(moment, datetime) or moment != moment:  # pandas' NaT is a datetime
            raise Misfit.of(self.expected, value)
        if getattr(moment, "nanosecond", 0):  # pandas' Timestamp
            raise Misfit.of(self.expected, value, "microseconds cannot hold it")
        if moment.__class__ is not datetime:
            moment = datetime.combine(moment.date(), moment.timetz())
        aware = moment.utcoffset() is not None
        if aware != (self.zone is not None):
            raise Misfit.of(self.expected, value, AWARE if aware else NAIVE)
        if self.zone is not None:
            try:
                moment.astimezone(UTC).astimezone(self.zone)
            except OverflowError:
                raise Misfit.of(self.expected, value, "outside the calendar in UTC") from None
        return moment

    def decode(self, array: pa.Array) -> list[Any]:
        moments = super().decode(array)  # in UTC when the column has a zone
        if self.zone is None:
            return moments
        aware = [moment.replace(tzinfo=UTC) for moment in moments]
        zone = self.zone
        return aware if zone is UTC else [moment.astimezone(zone) for moment in aware]

    def accepts(self, arrow: pa.DataType) -> bool:
        return bool(pa.types.is_timestamp(arrow) and (arrow.tz is None) == (self.zone is None))

    def remedy(self, arrow: pa.DataType) -> str:
        if not pa.types.is_timestamp(arrow):
            return ""
        return NAIVE if arrow.tz is None else AWARE


class Date(Dated):
    """`date`; a datetime is not a date here."""

    arrow = pa.date32()
    signature = "date"
    low, high = ((day - date(1970, 1, 1)).days for day in (date.min, date.max))

    def test(self, v: str, bind: Bind) -> str:
        return f"{v}.__class__ is {bind(date)}"

    def fit(self, value: Any) -> date:
        day = value
        if isinstance(value, np.datetime64) and value.dtype == "M8[D]":
            day = value.item()
        if not isinstance(day, date) or isinstance(day, datetime):
            raise Misfit.of(self.expected, value)
        return day if day.__class__ is date else date(day.year, day.month, day.day)

    def accepts(self, arrow: pa.DataType) -> bool:
        return bool(pa.types.is_date(arrow))


class Decimals(Kind):
    """`Decimal` with at most `precision` digits, `scale` of them after the point."""

    def __init__(self, precision: int, scale: int) -> None:
        self.precision, self.scale = precision, scale
        self.arrow = pa.decimal128(precision, scale)
        self.signature = f"Decimal[{precision},{scale}]"
        self._exponents = range(-scale, 1)  # NaN and infinity have letters for exponents
        self._unit = Decimal(1).scaleb(-scale)
        self._exact = decimal.Context(
            prec=precision, traps=[decimal.Inexact, decimal.InvalidOperation]
        )

    def test(self, v: str, bind: Bind) -> str:
        return (
            f"{v}.__class__ is {bind(Decimal)} and {v}.adjusted() < {self.precision - self.scale}"
            f" and {v}.as_tuple().exponent in {bind(self._exponents)}"
        )

    def fit(self, value: Any) -> Decimal:
        number = value
        if isinstance(value, int) and not isinstance(value, bool):
            number = Decimal(value)
        if not isinstance(number, Decimal):
            raise Misfit.of(self.expected, value)
        if not number.is_finite():
            raise Misfit.of(self.expected, value, "it is not a finite number")
        try:
            exact = self._exact.quantize(number, self._unit)
        except (decimal.Inexact, decimal.InvalidOperation):
            raise Misfit.of(self.expected, value, "it has more digits") from None
        return number if number.as_tuple().exponent in self._exponents else exact

    def decode(self, array: pa.Array) -> list[Any]:
        values: list[Any] = array.to_pylist()
        return values

    def conform(self, array: pa.Array) -> pa.Array:
        array = plain(array, self)
        if pa.types.is_integer(array.type):  # Arrow would want room for digits that are not there
            array = array.cast(pa.decimal128(20, 0))
        return super().conform(array)

    def accepts(self, arrow: pa.DataType) -> bool:
        return bool(pa.types.is_decimal(arrow))


class Member(Kind):
    """A member of an `Enum`, stored as its name."""

    arrow = pa.string()

    def __init__(self, cls: type[Enum]) -> None:
        self.cls = cls
        self.classes = (cls,)
        self.members = {member._name_: member for member in cls}
        names = ",".join(self.members)
        self.signature = f"{cls.__name__}<{names}>"
        self.metadata = {
            "activebroker.kind": "enum",
            "activebroker.name": cls.__name__,
            "activebroker.members": json.dumps(list(self.members)),
        }

    def test(self, v: str, bind: Bind) -> str:
        return f"{v}.__class__ is {bind(self.cls)}"

    def fit(self, value: Any) -> Enum:
        if not isinstance(value, self.cls):
            # Another copy of the class, from another process, has the same name and members.
            same = isinstance(value, Enum) and Member(type(value)).signature == self.signature
            if not same:
                why = (
                    f"another class of this name; that of the channel has {', '.join(self.members)}"
                )
                namesake = type(value).__name__ == self.cls.__name__
                raise Misfit.of(self.expected, value, why if namesake else "")
        return self.members[value._name_]

    def encode(self, values: list[Any]) -> pa.Array:
        return pa.array([value._name_ for value in values], self.arrow)

    def decode(self, array: pa.Array) -> list[Any]:
        return list(map(self.members.__getitem__, super().decode(array)))

    def conform(self, array: pa.Array) -> pa.Array:
        array = super().conform(array)
        coded = array.dictionary_encode()
        for code, name in enumerate(coded.dictionary.to_pylist()):
            if name not in self.members:
                row = int(np.flatnonzero(coded.indices.to_numpy() == code)[0])
                why = f"no such member.{suggestion(name, self.members)}"
                raise Misfit(self.expected, shown(name), why, row=row)
        return array

    accepts = Str.accepts

"""The constants a predicate may hold: plain, immutable, and the same in every process.

Two constants are equal only when they are of one type and print alike: `1`, `1.0` and `True` are
three constants, and NaN equals itself. (How *values* compare is Python's business, at evaluation.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

Plain = None | bool | int | float | str | bytes | date | datetime | Decimal

_TYPES = (type(None), bool, int, float, str, bytes, date, datetime, Decimal)


def is_plain(value: object) -> bool:
    """Whether `value` is exactly of a supported type; a subclass could compare in its own way."""
    if type(value) not in _TYPES:
        return False
    if isinstance(value, datetime) and value.tzinfo is not None:
        zone = value.tzinfo
        return type(zone) is timezone or (type(zone) is ZoneInfo and zone.key is not None)
    # A signalling NaN raises in `==` as well, which every other constant spares us.
    return not (isinstance(value, Decimal) and value.is_snan())


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A constant operand."""

    value: Plain

    def _key(self) -> tuple[type, object]:
        value = self.value
        if isinstance(value, datetime):
            return datetime, (value.isoformat(), getattr(value.tzinfo, "key", None), value.fold)
        return type(value), repr(value) if isinstance(value, float | Decimal) else value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    @property
    def is_nan(self) -> bool:
        return (isinstance(self.value, float) and math.isnan(self.value)) or (
            isinstance(self.value, Decimal) and self.value.is_nan()
        )

    def __str__(self) -> str:
        value = self.value
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return str(value).upper()
        if isinstance(value, str):
            return "'" + value.replace("'", "''") + "'"
        if isinstance(value, bytes):
            return f"X'{value.hex()}'"
        if isinstance(value, datetime):
            return f"TIMESTAMP '{value.isoformat(' ')}'"
        if isinstance(value, date):
            return f"DATE '{value.isoformat()}'"
        if isinstance(value, int):
            return str(value) if value.bit_length() < 4096 else hex(value)
        return str(value)

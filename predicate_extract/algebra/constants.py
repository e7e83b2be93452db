"""The values that a predicate's constants may have: plain, immutable, the same everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A member of an `Enum`, by its class's name and its own: event types are told apart so too.

    It equals the member itself, in any process's copy of the class.
    """

    of: str
    name: str

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Enum):
            other = member_of(other)
        return type(other) is Member and (other.of, other.name) == (self.of, self.name)

    def __hash__(self) -> int:
        return hash(self.name)  # as the member itself does


def member_of(value: Enum) -> Member | None:
    """The constant for an enum's member; None where `==` does not compare members only."""
    cls = type(value)
    plain = cls.__eq__ is object.__eq__ and not isinstance(value, Flag)
    return Member(cls.__name__, value.name) if plain else None


Plain = (
    None | bool | int | float | str | bytes | date | datetime | time | timedelta | Decimal | Member
)

_TYPES = (
    *(type(None), bool, int, float, str, bytes),
    *(date, datetime, time, timedelta, Decimal, Member),
)


def is_plain(value: object) -> bool:
    """Whether `value` is exactly of a supported type; a subclass could compare in its own way."""
    if type(value) not in _TYPES:
        return False
    if isinstance(value, time) and value.tzinfo is not None:
        return False
    if isinstance(value, datetime) and value.tzinfo is not None:
        zone = value.tzinfo
        return type(zone) is timezone or (type(zone) is ZoneInfo and zone.key is not None)
    # A signalling NaN raises in `==` as well, which every other constant spares us.
    return not (isinstance(value, Decimal) and value.is_snan())

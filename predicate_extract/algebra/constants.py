"""The values that a predicate's constants may have: plain, immutable, the same everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from zoneinfo import ZoneInfo

from predicate_extract.algebra.enums import home_of, is_plain_enum, payload


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A member of an `Enum`, by its class's name and its own.

    `home` is where the class is: its module, and the classes around it. It is empty for a member of
    the very class that a field of the schema has: a process may have its own copy of that class,
    under another module.
    """

    of: str
    name: str
    home: str = ""

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Enum):
            cls = type(other)
            here = self.home in ("", home_of(cls))
            return here and (cls.__name__, other._name_) == (self.of, self.name)
        this = (self.of, self.name, self.home)
        return type(other) is Member and (other.of, other.name, other.home) == this

    def __hash__(self) -> int:
        return hash(self.name)  # as the member itself does


def member_of(value: Enum) -> Member | None:
    """The constant for an enum's member; None where it is not all that the member is."""
    cls = type(value)
    names = cls.__name__.isidentifier() and value._name_.isidentifier()
    if not names or not is_plain_enum(cls) or payload(value) is not None:
        return None
    return Member(cls.__name__, value._name_, home_of(cls))


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

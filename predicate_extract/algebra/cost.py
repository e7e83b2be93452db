"""What computing a predicate may cost: time and memory in proportion to the event, no more.

A predicate runs where the events are made, on values that others chose. What could take longer
than that (an integer of a million digits, a text that grows with each step) is not computed there:
the event goes to the filter, as one does on which the predicate raises.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

MAX_BITS = 1 << 16
"""Of an integer; Python multiplies and divides larger ones in more than linear time."""
MAX_EXPONENT = 10_000
MAX_SIZE = 1 << 20
"""Of what is made, in characters or items, where the event itself holds nothing as large."""
MAX_SEPARATOR = 256
_MAX_DIGITS = 5_000

_LONG_NUMBER = re.compile(r"\d{4}")


class Undecided(Exception):
    """Only the filter can say: to compute this may take long."""


def check_size(value: object) -> None:
    """Refuse numbers, and ranges, that are small to write and large to compute with.

    Raises: Undecided.
    """
    match value:
        case int() if value.bit_length() > MAX_BITS:
            pass
        case Decimal() if value.is_finite() and abs(value.adjusted()) > MAX_EXPONENT:
            pass
        case range() if value[MAX_SIZE:]:
            pass
        case _:
            return
    raise Undecided(f"this {type(value).__name__} is too large")


def rounded(value: object, *digits: int) -> object:
    """`round`, without computing the power of ten that a small integer rounds to zero by."""
    if isinstance(value, int):
        digits = tuple(max(each, -MAX_BITS) for each in digits)
    return round(value, *digits)  # type: ignore[call-overload]


def integer(value: int | float | Decimal | str | bytes) -> int:
    """`int`; reading digits takes the square of their number.

    Raises: Undecided.
    """
    if isinstance(value, str | bytes) and len(value) > _MAX_DIGITS:
        raise Undecided("these are many digits")
    return int(value)


def formatted(value: object, spec: str = "") -> str:
    """`format`, but to no width of a thousand or more.

    Raises: Undecided.
    """
    if _LONG_NUMBER.search(spec):
        raise Undecided("this format may be wide")
    return format(value, spec)


def replaced(text: str, old: str, new: str, *count: int) -> str:
    """`text.replace`, unless the result is much larger.

    Raises: Undecided.
    """
    growth = text.count(old) * (len(new) - len(old))
    if len(text) + growth > max(len(text), MAX_SIZE):
        raise Undecided("replacing makes this text large")
    return text.replace(old, new, *count)


def check_separator(text: str | bytes) -> None:
    """Refuse what each place of a text is compared with as a whole.

    Raises: Undecided.
    """
    if len(text) > MAX_SEPARATOR:
        raise Undecided("this separator is long")


def check_all(values: Sequence[object]) -> None:
    """Refuse a list that holds a large number.

    Raises: Undecided.
    """
    for value in values:
        check_size(value)

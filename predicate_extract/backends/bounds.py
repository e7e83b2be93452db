"""Python's exact comparison of numbers, brought to a machine type.

Python compares an int with a float, or with an int of any size, by their true values; a machine
type would round. These functions turn the constant into one of the column's own type, and give a
plain bool where every value of the column compares alike.
"""

from __future__ import annotations

import math
from decimal import Decimal

Bound = bool | tuple[str, int] | tuple[str, float]

_LESS = ("<", "<=")


def for_integers(op: str, value: int | float | Decimal, low: int, high: int) -> Bound:
    """`x op value` for integers `low <= x <= high`, with an int in that range.

    `value` is finite, infinite or a float NaN.
    """
    if isinstance(value, float) and math.isnan(value):
        return op == "!="
    if value == math.inf or value > high:
        return op in ("<", "<=", "!=")
    if value == -math.inf or value < low:
        return op in (">", ">=", "!=")
    whole = math.floor(value)
    if whole == value:
        return op, whole
    if op in ("==", "!="):
        return op == "!="
    # Between `whole` and the next integer.
    return ("<=", whole) if op in _LESS else (">", whole)


def for_floats(op: str, value: int | float) -> Bound:
    """`x op value` for 64-bit floats x, with a float; NaN must compare as IEEE says."""
    if isinstance(value, float):
        return (op == "!=") if math.isnan(value) else (op, value)
    try:
        near = float(value)
    except OverflowError:
        near = math.inf if value > 0 else -math.inf
    if near == value:
        return op, near
    if op in ("==", "!="):
        return op == "!="
    # `value` lies strictly between two neighbouring floats, and `near` is one of them.
    if near > value:
        return ("<", near) if op in _LESS else (">=", near)
    return ("<=", near) if op in _LESS else (">", near)

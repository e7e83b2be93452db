"""Does one predicate cover another? Sound: True only when it surely does.

`P` covers `Q` when every content that Q matches (true or raised) P matches as well. Raising is what
makes this subtle: `a AND b` matches whatever makes `a` raise, even where `b` is false.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from predicate_extract.constants import Const
from predicate_extract.predicate import (
    COMPARISONS,
    FALSE,
    TRUE,
    And,
    Compare,
    Defined,
    Field,
    In,
    Not,
    Or,
    Predicate,
)

if TYPE_CHECKING:
    import pyarrow as pa

_UP, _DOWN = (">", ">="), ("<", "<=")


def covers(wide: Predicate, narrow: Predicate, schema: pa.Schema | None) -> bool:
    """Whether `wide` surely matches every content that `narrow` matches."""
    if wide == TRUE or isinstance(wide, Defined) or narrow in (FALSE, wide):
        return True
    if isinstance(narrow, Or):
        return all(covers(wide, part, schema) for part in narrow.parts)
    if isinstance(wide, And):
        return all(covers(part, narrow, schema) for part in wide.parts)
    if isinstance(wide, Or) and any(covers(part, narrow, schema) for part in wide.parts):
        return True
    if isinstance(narrow, And):
        for part in narrow.parts:
            if covers(wide, part, schema):
                return True
            # Where this part raises, `narrow` matches whatever the later parts are.
            if not _cannot_raise(part, schema):
                return False
        return False
    if isinstance(wide, Not) and isinstance(narrow, Not):
        differs = isinstance(wide.part, Compare) and wide.part.op == "!="
        implied = _true_implies(wide.part, narrow.part)
        return implied and not differs and _raises_alike(narrow.part, wide.part)
    return _true_implies(narrow, wide) and _raises_alike(narrow, wide)


def _cannot_raise(part: Predicate, schema: pa.Schema | None) -> bool:
    if schema is None:
        return False
    from predicate_extract.schema import can_raise

    return not can_raise(part, schema)


def _true_implies(narrow: Predicate, wide: Predicate) -> bool:
    """Whether `wide` is true (or raises) wherever `narrow` is true; both conditions on a field."""
    values = _values(narrow)
    if values is not None and _field(narrow) == _field(wide):
        return all(_accepts(wide, value) for value in values)
    match narrow, wide:
        case Compare(low_op, Field() as one, Const() as low), Compare(
            op, Field() as two, Const() as bound
        ) if one == two and _same_order(low, bound):
            if op in _UP and low_op in _UP:
                return _less(bound, low) or (_equal(bound, low) and (op, low_op) != (">", ">="))
            if op in _DOWN and low_op in _DOWN:
                return _less(low, bound) or (_equal(bound, low) and (op, low_op) != ("<", "<="))
            if op == "!=" and low_op in _UP:
                return _less(bound, low) or (_equal(bound, low) and low_op == ">")
            if op == "!=" and low_op in _DOWN:
                return _less(low, bound) or (_equal(bound, low) and low_op == "<")
    return narrow == wide


def _raises_alike(narrow: Predicate, wide: Predicate) -> bool:
    """Whether `wide` raises, or is true, wherever `narrow` raises; both on the same field."""
    if narrow == wide:
        return True
    match narrow, wide:
        # Apart from a failing read, `==` with a plain constant and `in (…)` do not raise.
        case ((Compare("==" | "!=") | In(hashed=False)), (Compare() | In())):
            return True
        case In(), In(hashed=True):
            return True
        case Compare(_, _, Const() as one), Compare(op, _, Const() as two):
            # What cannot be ordered with one of them differs from both.
            return _same_order(one, two) and op != "=="
    return False


def _field(condition: Predicate) -> Field | None:
    match condition:
        case Compare(_, Field() as field, Const()) | In(field):
            return field
    return None


def _values(condition: Predicate) -> tuple[Const, ...] | None:
    match condition:
        case Compare("==", Field(), Const() as value):
            return (value,)
        case In(_, values):
            return values
    return None


def _accepts(condition: Predicate, value: Const) -> bool:
    """Whether the condition is true (or raises) for everything that equals `value`."""
    if value.is_nan or value.value is None:
        return False
    # Two aware datetimes of one zone compare by the clock on the wall, others by the instant.
    if isinstance(value.value, datetime) and value.value.tzinfo is not None:
        return False
    match condition:
        case In(_, values):
            return any(value.value == other.value for other in values)
        case Compare(op, _, Const(other)):
            try:
                return bool(COMPARISONS[op](value.value, other))
            except (TypeError, ArithmeticError):
                return False
    return False


def _same_order(one: Const, two: Const) -> bool:
    """Whether the same values can be ordered with both, in one total order."""
    if one.is_nan or two.is_nan:
        return False
    numbers = (bool, int, float)
    if type(one.value) in numbers and type(two.value) in numbers:
        return True
    return type(one.value) is type(two.value) and type(one.value) in (str, bytes)


def _less(one: Const, two: Const) -> bool:
    return bool(COMPARISONS["<"](one.value, two.value))


def _equal(one: Const, two: Const) -> bool:
    return one.value == two.value

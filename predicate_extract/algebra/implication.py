"""What one condition on a term says about another condition on it.

The basis of simplification and of `covers`: intervals for the orders that are total on plain
values, and plain evaluation where a condition leaves only a few values.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from predicate_extract.algebra.predicate import (
    COMPARISONS,
    Compare,
    In,
    IsNull,
    Not,
    Predicate,
    Truthy,
)
from predicate_extract.algebra.terms import Const, Term

_MIRRORED_BY_NOT = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def subject(condition: Predicate) -> Term | None:
    """The term that a condition is about, all else in it being constant."""
    match condition:
        case Compare(_, of, Const()) | In(of) | IsNull(of) | Truthy(of):
            return of
        case Not(part):
            return subject(part)
    return None


def follows(known: Predicate, asked: Predicate) -> bool | None:
    """What `asked` surely gives where `known`, about the same term, is true; None if unsure.

    A sure answer also says that `asked` does not raise there.
    """
    values = _values(known)
    if values is not None:
        answers = {_at(asked, value) for value in values}
        return answers.pop() if len(answers) == 1 else None
    interval = _interval(known)
    if interval is None:
        return None
    match asked:
        case Not(part):
            answer = _within(interval, part)
            return None if answer is None else not answer
        case _:
            return _within(interval, asked)


@dataclass(frozen=True, slots=True)
class _Interval:
    """The values of an order above, or below, a bound; perhaps with those that have no order."""

    bound: Const
    above: bool
    closed: bool
    nan: bool

    def has(self, value: Const) -> bool:
        op = (">" if self.above else "<") + ("=" if self.closed else "")
        return bool(COMPARISONS[op](value.value, self.bound.value))


def _values(known: Predicate) -> tuple[Any, ...] | None:
    """The values that a true condition leaves, up to equality."""
    match known:
        case IsNull():
            return (None,)
        case Compare("==", _, Const() as const) if _is_certain(const):
            return (const.value,)
        case In(_, values) if values and all(map(_is_certain, values)):
            return tuple(const.value for const in values)
    return None


def _is_certain(const: Const) -> bool:
    """Whether what equals the constant compares as it does.

    Not so for None, NaN, and aware datetimes: two of one zone compare by the clock on the wall.
    """
    value = const.value
    aware = isinstance(value, datetime) and value.tzinfo is not None
    return not (value is None or const.is_nan or aware)


def _at(condition: Predicate, value: Any) -> bool | None:
    try:
        match condition:
            case Not(part):
                answer = _at(part, value)
                return None if answer is None else not answer
            case Compare(op, _, Const(other)):
                return bool(COMPARISONS[op](value, other))
            case In(_, values):
                return any(value == const.value for const in values)
            case IsNull():
                return value is None
            case Truthy():
                return bool(value)
    except (TypeError, ArithmeticError):
        pass
    return None


def _interval(known: Predicate) -> _Interval | None:
    match known:
        case Compare("<" | "<=" | ">" | ">=" as op, _, Const() as bound):
            return _Interval(bound, op[0] == ">", op[1:] == "=", nan=False)
        case Not(Compare("<" | "<=" | ">" | ">=" as op, _, Const() as bound)):
            opposite = _MIRRORED_BY_NOT[op]
            return _Interval(bound, opposite[0] == ">", opposite[1:] == "=", nan=True)
    return None


def _within(interval: _Interval, asked: Predicate) -> bool | None:
    """What `asked` gives for all values of the interval."""
    match asked:
        case IsNull():
            return False
        case Compare("==" | "!=" as op, _, Const() as value) if same_order(value, interval.bound):
            if not interval.has(value):
                return op == "!="
        case In(_, values) if all(same_order(value, interval.bound) for value in values):
            if not any(map(interval.has, values)):
                return False
        case Compare(op, _, Const() as bound) if same_order(bound, interval.bound):
            strict = len(op) == 1
            beyond = less(interval.bound, bound) if interval.above else less(bound, interval.bound)
            if beyond:  # the interval reaches over this bound
                return None
            level = interval.bound.value == bound.value
            if (op[0] == ">") == interval.above:
                sure = not level or not strict or not interval.closed
                return True if sure and not interval.nan else None
            return False if not level or strict or not interval.closed else None
    return None


def same_order(one: Const, two: Const) -> bool:
    """Whether the same values can be ordered with both, in one total order."""
    if one.is_nan or two.is_nan:
        return False
    numbers = (bool, int, float)
    if type(one.value) in numbers and type(two.value) in numbers:
        return True
    if type(one.value) is not type(two.value):
        return False
    if isinstance(one.value, datetime) and isinstance(two.value, datetime):
        return one.value.tzinfo is None and two.value.tzinfo is None
    return isinstance(one.value, str | bytes | date | time | timedelta)


def less(one: Const, two: Const) -> bool:
    return bool(COMPARISONS["<"](one.value, two.value))

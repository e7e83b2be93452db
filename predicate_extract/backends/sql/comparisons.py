"""Comparisons in SQL that come out as in Python."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import time, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal

from sqlglot import exp

from predicate_extract.algebra.constants import Member, Plain
from predicate_extract.algebra.predicate import COMPARISONS
from predicate_extract.algebra.schema import family_of
from predicate_extract.backends.bounds import Bound, for_floats, for_integers
from predicate_extract.backends.sql.decimals import as_decimal, cast
from predicate_extract.backends.sql.literals import literal
from predicate_extract.backends.sql.logic import FALSE, TRUE, Bits, Test
from predicate_extract.backends.sql.moments import in_fixed_zone
from predicate_extract.backends.sql.values import MAX_DIGITS, Value, binary, call, constant
from predicate_extract.backends.truth import Unfaithful

_KINDS: dict[str, type[exp.Binary]] = {
    "==": exp.EQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_NUMBERS = {"integer", "float", "decimal"}
_ORDERED = {*_NUMBERS, "str", "bytes", "list", "date", "naive", "aware", "delta", "time"}
_SECOND = 1_000_000
_ALL_DIGITS = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def hits(op: str, left: Value, right: Value) -> Bits:
    """Where `left op right` holds for values that are not None."""
    kinds = {left.family, right.family}
    if (
        left.family is None
        or left.family == right.family == "list"
        or (right.family is None and right.constant is None)
    ):
        raise Unfaithful
    if right.family is None:
        return FALSE
    if len(kinds) == 2 and not _alike(kinds):
        if op == "==":
            return FALSE
        raise Unfaithful
    if right.constant is not None:
        return _of_constant(op, left, right.constant.value)
    if "decimal" in kinds:
        return _of_two_decimals(op, left, right)
    match left.family:
        case "integer":
            left, right = left.number(), right.number()
        case "float":
            test = left.test(_KINDS[op], right.sql, *right.nulls)
            return test & ~(right if op in ("<", "<=") else left).is_nan
        case "aware" if not (in_fixed_zone(left) and in_fixed_zone(right)):
            raise Unfaithful
        case "member" | "whole" | "seconds":
            raise Unfaithful
    return left.test(_KINDS[op], right.sql, *right.nulls)


def _of_constant(op: str, left: Value, value: Plain) -> Bits:
    if isinstance(value, Decimal) and left.family == "integer" and not value.is_finite():
        raise Unfaithful
    match left.family, value:
        case "integer", int() | float() | Decimal() if left.sql_type == "BOOLEAN":
            return _of_truth_value(op, left, value)
        case "integer", int() | float() | Decimal():
            return _bounded(left, for_integers(op, value, left.low, left.high))
        case "float", int() | float():
            hits = _bounded(left, for_floats(op, value))
            # SQL calls NaN greater than every number.
            return hits & ~left.is_nan if op in (">", ">=") else hits
        case "whole", int() | float():
            return _bounded(left, for_floats(op, value))
        case "seconds", int() | float() if value == value:
            return _of_seconds(op, left, value)
        case ("delta", timedelta()) | ("time", time()):
            count = constant(value).low
            return _bounded(left, for_integers(op, count, left.low, left.high))
        case "decimal", int() | float() | Decimal():
            return _of_decimal(op, left, value)
        case "member", Member(of):
            if op != "==":
                raise Unfaithful
            if left.slot is None or of != left.slot.member_of:
                return FALSE
        case "aware", _ if not in_fixed_zone(left):
            raise Unfaithful
    if left.family != family_of(value):
        raise Unfaithful
    return left.test(_KINDS[op], literal(value))


def _bounded(left: Value, bound: Bound) -> Bits:
    if isinstance(bound, bool):
        return TRUE if bound else FALSE
    op, value = bound
    return left.test(_KINDS[op], literal(value))


def _of_truth_value(op: str, left: Value, value: int | float | Decimal) -> Bits:
    if_true, if_false = (COMPARISONS[op](answer, value) for answer in (True, False))
    if if_true == if_false:
        return TRUE if if_true else FALSE
    return Test.of(left.sql if if_true else exp.not_(left.sql), left.nulls)


def _of_decimal(op: str, left: Value, value: int | float | Decimal) -> Bits:
    """Compares the numbers without their decimal point."""
    exact = Decimal(value)
    if not left.digits or exact.is_nan():
        raise Unfaithful
    limit = 10**left.digits - 1
    bound = for_integers(op, exact.scaleb(left.scale, _ALL_DIGITS), -limit, limit)
    if isinstance(bound, bool):
        return _bounded(left, bound)
    number = exp.Literal.string(f"{Decimal(bound[1]).scaleb(-left.scale, _ALL_DIGITS):f}")
    return left.test(_KINDS[bound[0]], exp.cast(number, f"DECIMAL({left.digits}, {left.scale})"))


def _of_two_decimals(op: str, left: Value, right: Value) -> Bits:
    left, right = as_decimal(left), as_decimal(right)
    scale = max(left.scale, right.scale)
    digits = max(side.digits - side.scale for side in (left, right)) + scale
    if digits > MAX_DIGITS:
        raise Unfaithful
    if (left.digits, left.scale) != (right.digits, right.scale):
        left, right = cast(left, digits, scale), cast(right, digits, scale)
    return left.test(_KINDS[op], right.sql, *right.nulls)


def _of_seconds(op: str, left: Value, value: int | float) -> Bits:
    """Compares microseconds: Python rounds their millionth, which keeps them in order."""
    if left.high - left.low >= 2**62:
        raise Unfaithful
    first, beyond = (
        bisect(range(left.low, left.high + 1), value, key=lambda count: count / _SECOND) + left.low
        for bisect in (bisect_left, bisect_right)
    )
    match op:
        case "==":
            return _bounded(left, (">=", first)) & _bounded(left, ("<", beyond))
        case "<" | ">=":
            return _bounded(left, (op, first))
    return _bounded(left, ("<" if op == "<=" else ">=", beyond))


def truth(value: Value) -> Bits:
    if value.sql_type == "BOOLEAN":
        return Test.of(value.sql, value.nulls)
    match value.family:
        case "str":
            return value.test(exp.NEQ, literal(""))
        case "bytes":
            return value.test(exp.NEQ, literal(b""))
        case "integer" | "float" | "decimal" | "whole" | "seconds" | "delta":
            return value.test(exp.NEQ, literal(0))
        case "list":
            return Test.of(binary(exp.GT, call("LEN", value.sql), literal(0)), value.nulls)
        case "date" | "naive" | "aware" | "member" | "time":
            return ~value.none
    raise Unfaithful


def unordered(left: Value, right: Value) -> bool:
    """Whether Python surely raises if it is asked which of them is the larger one, both being
    there."""
    kinds = {left.family, right.family}
    return kinds <= _ORDERED and len(kinds) == 2 and not _alike(kinds)


def _alike(kinds: set[str | None]) -> bool:
    return kinds <= _NUMBERS or kinds <= {"whole", "seconds", "integer", "float"}

"""Arithmetic in SQL, with the numbers that Python computes.

No row makes it fail: integers are widened so that they cannot overflow, and a divisor of zero
becomes null.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from predicate_extract.algebra.predicate import COMPARISONS
from predicate_extract.backends.sql.literals import literal
from predicate_extract.backends.sql.logic import Test, any_of
from predicate_extract.backends.sql.values import Value, binary, call, constant, is_null, operand
from predicate_extract.backends.truth import Unfaithful

ARITHMETIC = ("+", "-", "*", "/", "//", "%", "neg", "abs", "min", "max")

_WIDEST = 10**38  # what both a HUGEINT and a DECIMAL of 38 digits hold

_SIGNS: dict[str, tuple[type[exp.Binary], Callable[[int, int], int]]] = {
    "+": (exp.Add, operator.add),
    "-": (exp.Sub, operator.sub),
    "*": (exp.Mul, operator.mul),
}


def arithmetic(function: str, numbers: list[Value]) -> Value:
    """A function of integers and floats that are there.

    Raises: Unfaithful.
    """
    whole = all(number.family == "integer" for number in numbers)
    match function, numbers:
        case "neg", [one]:
            if whole:
                return _integers("-", constant(0), one)
            return Value(exp.Neg(this=operand(one.sql)), "float", nan=True)
        case "abs", [one]:
            return _absolute(one)
        case (("+" | "-" | "*"), [one, two]):
            if whole:
                return _integers(function, one, two)
            one, two = one.rounded_float(), two.rounded_float()
            return Value(binary(_SIGNS[function][0], one.sql, two.sql), "float", nan=True)
        case "/", [one, two]:
            return _quotient(one, two, whole)
        case "%", [one, two] if not whole:
            return _float_remainder(one.rounded_float(), two.rounded_float())
        case (("//" | "%"), [one, two]) if whole:
            return _whole_division(function, one, two)
        case (("min" | "max"), [one, two]):
            return _extreme(function, one, two, whole)
    raise Unfaithful


def _wide(values: list[Value], low: int, high: int) -> tuple[list[exp.Expr], str]:
    """Operands in a type that holds them, and what lies between `low` and `high`; and that type."""
    limit = max(-low - 1, high, *(max(-value.low - 1, value.high) for value in values))
    if limit >= _WIDEST:
        raise Unfaithful
    type = "BIGINT" if limit < 2**63 else "HUGEINT"
    sides = [value.sql for value in values]
    if all(value.sql_type != type for value in values):
        sides[0] = exp.cast(sides[0], type)
    return sides, type


def _integers(sign: str, one: Value, two: Value) -> Value:
    kind, compute = _SIGNS[sign]
    corners = [compute(a, b) for a in (one.low, one.high) for b in (two.low, two.high)]
    low, high = min(corners), max(corners)
    sides, type = _wide([one, two], low, high)
    return Value(binary(kind, *sides), "integer", low=low, high=high, sql_type=type)


def _whole_division(function: str, one: Value, two: Value) -> Value:
    """Python rounds down, and the remainder has the divisor's sign; SQL rounds towards zero."""
    zero, divisor = _divisor(two)
    alike = one.low >= 0 and two.low > 0
    size, step = max(-one.low, one.high), max(-two.low, two.high)
    if function == "%":
        low, high = min(0, two.low + 1), max(0, two.high - 1)
        between = 0 if alike else max(2 * step, size if two.low < 0 else 0)
    else:
        low, high = -size, size
        between = 0 if alike else size + step
    (left, right), type = _wide([one, replace(two, sql=divisor)], -between, between)
    remainder = binary(exp.Mod, left, right)
    if not alike:
        remainder = binary(exp.Mod, binary(exp.Add, remainder, right), right)
    sql = remainder
    if function == "//":
        sql = binary(exp.IntDiv, left if alike else binary(exp.Sub, left, remainder), right)
    return Value(sql, "integer", nulls=zero, raised=any_of(zero), low=low, high=high, sql_type=type)


def _absolute(one: Value) -> Value:
    if one.family == "float":
        return Value(call("ABS", one.sql), "float", nan=True)
    high = max(-one.low, one.high)
    (sql,), type = _wide([one], -high, high)
    return Value(call("ABS", sql), "integer", high=high, sql_type=type)


def _quotient(one: Value, two: Value, whole: bool) -> Value:
    """Python divides integers of any size before it rounds."""
    one, divisor = (
        (one.exact_float(), two.exact_float())
        if whole
        else (one.rounded_float(), two.rounded_float())
    )
    zero, by = _divisor(two if whole else divisor)
    dividend = one.sql if one.constant is None else exp.cast(one.sql, "DOUBLE")
    return Value(
        binary(exp.Div, dividend, by),
        "float",
        nulls=zero,
        raised=any_of((one.raised, divisor.raised, *zero)),
        sure=one.sure and divisor.sure,
        nan=not whole,
    )


def _extreme(function: str, one: Value, two: Value, whole: bool) -> Value:
    """The first one, unless the second is beyond it; null if one of them is."""
    if not whole:
        one, two = one.exact_float(), two.exact_float()
    kind, larger = (exp.GT, two) if function == "max" else (exp.LT, one)
    beyond: exp.Expr = binary(kind, two.sql, one.sql)
    if larger.nan:
        beyond = exp.and_(beyond, exp.not_(call("ISNAN", larger.sql)))
    choice = exp.case().when(beyond, two.sql)
    nulls = [is_null(side.sql) for side in (one, two) if side.nulls]
    if nulls:
        choice = choice.when(exp.and_(*((~null).plain() for null in nulls)), one.sql)
    else:
        choice = choice.else_(one.sql)
    pick = max if function == "max" else min
    return Value(
        choice,
        "integer" if whole else "float",
        raised=one.raised | two.raised,
        sure=one.sure and two.sure,
        low=pick(one.low, two.low),
        high=pick(one.high, two.high),
        nan=one.nan or two.nan,
    )


def _float_remainder(one: Value, two: Value) -> Value:
    """As for integers; the remainder of SQL has the dividend's sign."""
    zero, divisor = _divisor(two)
    remainder = binary(exp.Mod, one.sql, divisor)
    nought = literal(0)
    positive, negative = (binary(kind, divisor, nought) for kind in (exp.GT, exp.LT))
    too_low, too_high = (binary(kind, remainder, nought) for kind in (exp.LT, exp.GT))
    if two.constant is not None:
        above = COMPARISONS[">"](two.constant.value, 0)
        unlike: exp.Expr = too_low if above else too_high
    else:
        unlike = exp.or_(exp.and_(positive, too_low), exp.and_(negative, too_high))
    sql = exp.case().when(unlike, binary(exp.Add, remainder, divisor)).else_(remainder)
    return Value(sql, "float", nulls=zero, raised=any_of(zero), nan=True)


def _divisor(value: Value) -> tuple[tuple[Test, ...], exp.Expr]:
    """Where it is zero, and the divisor, null there."""
    if value.constant is not None:
        if not value.constant.value:  # it raises on every row
            raise Unfaithful
        return (), value.sql
    if not value.low <= 0 <= value.high:
        return (), value.sql
    return (value.test(exp.EQ, literal(0)),), exp.Nullif(this=value.sql, expression=literal(0))

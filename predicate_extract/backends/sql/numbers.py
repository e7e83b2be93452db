"""Arithmetic in SQL, with the numbers that Python computes.

No row makes it fail: integers are widened so that they cannot overflow, and a divisor of zero
becomes null.
"""

from __future__ import annotations

import math
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

_BITWISE: dict[str, type[exp.Binary]] = {
    "&": exp.BitwiseAnd,
    "|": exp.BitwiseOr,
    "^": exp.BitwiseXor,
}
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
        case (("//" | "%"), [one, two]) if whole:
            return _whole_division(function, one, two)
        case (("//" | "%"), [one, two]):
            return _float_division(function, one.rounded_float(), two.rounded_float())
        case (("min" | "max"), [one, two]):
            if not whole:
                one, two = one.exact_float(), two.exact_float()
            return extreme(function, one, two)
    raise Unfaithful


def number(function: str, numbers: list[Value]) -> Value:
    """Another function of integers or floats that are there.

    Raises: Unfaithful.
    """
    match function, numbers:
        case (("&" | "|" | "^"), [Value(family="integer"), Value(family="integer")]):
            return _bits(function, *numbers)
        case (("int" | "floor" | "ceil" | "trunc" | "round"), [Value(family="integer") as one]):
            return one
        case (("int" | "floor" | "ceil" | "trunc" | "round"), [one]):
            return _whole(function, one)
        case "float", [one]:
            return one.rounded_float()
        case "sqrt", [one]:
            return _root(one.rounded_float())
        case "isnan", [Value(family="float") as one]:
            return _answer(call("ISNAN", one.sql))
        case "isinf", [Value(family="float") as one]:
            return _answer(_infinite(one))
        case "isfinite", [Value(family="float") as one]:
            either = exp.or_(call("ISNAN", one.sql), _infinite(one))
            return _answer(exp.not_(exp.paren(either)))
        case "is_integer", [Value(family="float") as one]:
            return _answer(binary(exp.EQ, _past_the_point(one), literal(0)))
    raise Unfaithful


def _answer(sql: exp.Expr) -> Value:
    return Value(sql, "integer", high=1, sql_type="BOOLEAN")


def _infinite(one: Value) -> exp.Expr:
    return binary(exp.EQ, call("ABS", one.sql), literal(math.inf))


def _past_the_point(one: Value) -> exp.Expr:
    return binary(exp.Mod, one.sql, literal(1))


def _bits(function: str, one: Value, two: Value) -> Value:
    low, high = min(one.low, two.low, -1), max(one.high, two.high)
    width = max(-low - 1, high).bit_length()
    (left, right), type = _wide([one, two], -(2**width), 2**width - 1)
    if type != "BIGINT":
        raise Unfaithful
    sql = binary(_BITWISE[function], left, right)
    return Value(sql, "integer", low=-(2**width), high=2**width - 1, sql_type=type)


def _root(one: Value) -> Value:
    """The square root; null where there is none."""
    if one.constant is not None:
        raise Unfaithful
    negative = one.test(exp.LT, literal(0))
    there = exp.case().when(exp.not_(negative.plain()), one.sql)
    return Value(call("SQRT", there), "float", nulls=(negative,), raised=negative, nan=True)


def _whole(function: str, one: Value) -> Value:
    """An integer of any size, of which a float is left; NaN and infinity have none."""
    if one.constant is not None:
        raise Unfaithful
    sql: exp.Expr = call("ROUND_EVEN", one.sql, literal(0))
    match function:
        case "int" | "trunc":
            sql = binary(exp.Sub, one.sql, _past_the_point(one))
        case "floor" | "ceil":
            sql = _stepped(sql, one.sql, function == "floor")
    none = Test.of(_infinite(one), one.nulls) | one.is_nan
    return Value(sql, "whole", raised=none)


def _stepped(whole: exp.Expr, number: exp.Expr, down: bool) -> exp.Expr:
    """The nearest integer, if it is below or above, or else the next one."""
    kinds = (exp.GT, exp.Sub) if down else (exp.LT, exp.Add)
    step = binary(kinds[1], whole, literal(1))
    return exp.case().when(binary(kinds[0], whole, number), step).else_(whole)


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
    size = max(-one.low, one.high)
    if function == "%":
        low, high = min(0, two.low + 1), max(0, two.high - 1)
    elif two.constant is not None:
        low, high = sorted(side // two.low for side in (one.low, one.high))
    elif two.low > 0:
        low, high = min(one.low, 0), max(one.high, 0)
    else:
        low, high = -size, size
    (left, right), type = _wide([one, replace(two, sql=divisor)], 0, 0)
    remainder = binary(exp.Mod, left, right)
    alike = one.low >= 0 and two.low > 0
    if function == "%":
        sql: exp.Expr = remainder
        if two.constant is not None and not alike and abs(two.low) < 2**31:
            sql = binary(exp.Mod, binary(exp.Add, remainder, right), right)
        elif not alike:
            sql = _on_its_side(two, divisor, remainder, binary(exp.Add, remainder, right))
    else:
        if type == "BIGINT" and high >= 2**63:  # the lowest integer by -1
            if two.constant is not None:
                return arithmetic("neg", [one])
            right = exp.Nullif(this=right.copy(), expression=literal(-1))
        sql = binary(exp.IntDiv, left, right)
        if not alike:
            sql = _on_its_side(two, divisor, remainder, binary(exp.Sub, sql, literal(1)), sql)
        if type == "BIGINT" and high >= 2**63:
            type = "HUGEINT"
            negated = exp.Neg(this=exp.cast(one.sql.copy(), type))
            minus_one = binary(exp.EQ, two.sql, literal(-1))
            sql = exp.case().when(minus_one, negated).else_(exp.cast(sql, type))
    return Value(sql, "integer", nulls=zero, raised=any_of(zero), low=low, high=high, sql_type=type)


def _on_its_side(
    two: Value,
    divisor: exp.Expr,
    remainder: exp.Expr,
    changed: exp.Expr,
    same: exp.Expr | None = None,
) -> exp.Expr:
    """One result where SQL's remainder has not the divisor's sign, and else the other."""
    nought = literal(0)
    too_low, too_high = (binary(kind, remainder, nought) for kind in (exp.LT, exp.GT))
    if two.constant is not None:
        unlike: exp.Expr = too_low if COMPARISONS[">"](two.constant.value, 0) else too_high
    else:
        positive, negative = (binary(kind, divisor, nought) for kind in (exp.GT, exp.LT))
        unlike = exp.or_(exp.and_(positive, too_low), exp.and_(negative, too_high))
    return exp.case().when(unlike, changed).else_((same or remainder).copy())


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


def extreme(function: str, one: Value, two: Value) -> Value:
    """The first one, unless the second is beyond it; null if one of them is."""
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
        one.family,
        raised=one.raised | two.raised,
        sure=one.sure and two.sure,
        low=pick(one.low, two.low),
        high=pick(one.high, two.high),
        nan=one.nan or two.nan,
    )


def _float_division(function: str, one: Value, two: Value) -> Value:
    """As for integers, and step for step as Python's own, which rounds at each."""
    zero, divisor = _divisor(two)
    remainder = binary(exp.Mod, one.sql, divisor)
    if function == "%":
        sql = _on_its_side(two, divisor, remainder, binary(exp.Add, remainder, divisor))
    else:
        quotient = binary(exp.Div, binary(exp.Sub, one.sql, remainder), divisor)
        less = binary(exp.Sub, quotient, literal(1))
        sql = _nearest(_on_its_side(two, divisor, remainder, less, quotient))
    return Value(sql, "float", nulls=zero, raised=any_of(zero), nan=True)


def _nearest(quotient: exp.Expr) -> exp.Expr:
    """The integer, of which rounding has left nearly one; the lower one of two."""
    even = call("ROUND_EVEN", quotient, literal(0))
    tie = binary(exp.EQ, binary(exp.Sub, even, quotient), literal(0.5))
    return exp.case().when(tie, binary(exp.Sub, even, literal(1))).else_(even)


def _divisor(value: Value) -> tuple[tuple[Test, ...], exp.Expr]:
    """Where it is zero, and the divisor, null there."""
    if value.constant is not None:
        if not value.constant.value:  # it raises on every row
            raise Unfaithful
        return (), value.sql
    if not value.low <= 0 <= value.high:
        return (), value.sql
    return (value.test(exp.EQ, literal(0)),), exp.Nullif(this=value.sql, expression=literal(0))

"""Decimals in SQL, where Python does not round either.

Python computes with 28 digits. Results that may have more are left to it.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from predicate_extract.backends.sql.values import Value, binary, call, operand
from predicate_extract.backends.truth import Unfaithful

_PRECISION = 28  # of Python's default context
_LONG = 18  # so many digits surely fit into a BIGINT
_KINDS: dict[str, type[exp.Binary]] = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul}


def as_decimal(value: Value) -> Value:
    """The same number as a decimal.

    Raises: Unfaithful.
    """
    if value.family == "decimal" and value.digits:
        return value
    if value.family != "integer":
        raise Unfaithful
    value = value.number()
    digits = len(str(max(-value.low, value.high)))
    return cast(replace(value, family="decimal", digits=digits, sql_type=""), digits, 0)


def cast(value: Value, digits: int, scale: int) -> Value:
    """A decimal with so many digits, `scale` of them after the point, which is enough for it."""
    sql = exp.cast(value.sql.copy(), f"DECIMAL({digits}, {scale})")
    return replace(value, sql=sql, digits=digits, scale=scale)


def decimal(function: str, numbers: list[Value]) -> Value:
    """A function of decimals, or of decimals and integers, that are there.

    Raises: Unfaithful.
    """
    if function == "int":
        return _whole(numbers[0])
    sides = [as_decimal(number) for number in numbers]
    match function, sides:
        case (("+" | "-"), [one, two]):
            scale = max(one.scale, two.scale)
            digits = max(side.digits - side.scale for side in sides) + scale + 1
            one, two = (cast(side, _checked(digits), scale) for side in sides)
        case "*", [one, two]:
            digits, scale = one.digits + two.digits, one.scale + two.scale
        case (("neg" | "abs"), [one]):
            sql = exp.Neg(this=operand(one.sql)) if function == "neg" else call("ABS", one.sql)
            _checked(one.digits)
            return Value(sql, "decimal", digits=one.digits, scale=one.scale)
        case _:
            raise Unfaithful
    sql = binary(_KINDS[function], one.sql, two.sql)
    return cast(Value(sql, "decimal"), _checked(digits), scale)


def _whole(number: Value) -> Value:
    """Python cuts off what is after the point; a cast would round."""
    digits = number.digits - number.scale
    if not number.digits or digits > _LONG:
        raise Unfaithful
    rest = binary(exp.Mod, number.sql, exp.Literal.number(1))
    limit = 10**digits
    sql = exp.cast(binary(exp.Sub, number.sql, rest), "BIGINT")
    return Value(sql, "integer", low=-limit, high=limit, sql_type="BIGINT")


def _checked(digits: int) -> int:
    if digits > _PRECISION:
        raise Unfaithful
    return digits

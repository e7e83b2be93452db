"""Functions of texts in SQL, with the values that Python computes."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from predicate_extract.algebra.constants import Plain
from predicate_extract.backends.sql.literals import literal
from predicate_extract.backends.sql.logic import Test, any_of
from predicate_extract.backends.sql.numbers import arithmetic
from predicate_extract.backends.sql.values import Value, binary, call, constant, is_ascii
from predicate_extract.backends.truth import Unfaithful

_WHITESPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))
_FAR = 2**30  # an index that no text has

_TESTS = {"startswith": "STARTS_WITH", "endswith": "ENDS_WITH", "contains": "CONTAINS"}
_CASES = {"lower": "LOWER", "casefold": "LOWER", "upper": "UPPER"}
_STRIPS = {"strip": "TRIM", "lstrip": "LTRIM", "rstrip": "RTRIM"}


def text(function: str, args: list[Value]) -> Value:
    """A function of texts that are there.

    Raises: Unfaithful.
    """
    sql = [arg.sql for arg in args]
    match function, [arg.family for arg in args]:
        case "+", ["str", "str"]:
            return Value(binary(exp.DPipe, *sql), "str")
        case (("startswith" | "endswith" | "contains"), ["str", "str"]):
            return Value(call(_TESTS[function], *sql), "integer", high=1, sql_type="BOOLEAN")
        case "len", ["str"]:
            return _length(args[0])
        case (("strip" | "lstrip" | "rstrip"), ["str"]):
            return Value(call(_STRIPS[function], *sql, literal(_WHITESPACE)), "str")
        case (("strip" | "lstrip" | "rstrip"), ["str", "str"]):
            return Value(call(_STRIPS[function], *sql), "str")
        case (("lower" | "casefold" | "upper"), ["str"]):
            # Beyond ASCII, Python and SQL follow different tables.
            return Value(call(_CASES[function], *sql), "str", raised=~is_ascii(args[0]), sure=False)
        case "item", ["str", "integer"] if args[1].constant:
            return _letter(args[0], args[1].low)
        case "replace", ["str", "str", "str"] if _given(*args[1:]):
            return Value(call("REPLACE", *sql), "str")
        case "count", ["str", "str"] if _given(args[1]):
            return _count(*args)
        case "find", ["str", "str"] if _given(args[1]):
            place = binary(exp.Sub, call("STRPOS", *sql), literal(1))
            return Value(place, "integer", low=-1, high=2**63 - 1, sql_type="BIGINT")
        case (("removeprefix" | "removesuffix"), ["str", "str"]) if _given(args[1]):
            return _without(function == "removeprefix", *args)
    raise Unfaithful


def shown(args: list[Value]) -> Value:
    """The texts of values, one after the other; that of None is `None`."""
    parts = [_shown(arg) for arg in args]
    sql = parts[0]
    for part in parts[1:]:
        sql = binary(exp.DPipe, sql, part)
    raised = any_of(arg.raised for arg in args)
    return Value(sql, "str", raised=raised, sure=all(arg.sure for arg in args))


def _shown(value: Value) -> exp.Expr:
    if value.constant is not None:
        return literal(format(value.constant.value))
    match value.family:
        case "str":
            sql = value.sql
        case "integer" if value.sql_type == "BOOLEAN":
            sql = exp.case().when(value.sql, literal("True"))
            sql = sql.when(exp.not_(value.sql), literal("False"))
        case "integer" | "date":
            sql = exp.cast(value.sql.copy(), "VARCHAR")
        case _:
            raise Unfaithful
    return call("COALESCE", sql, literal("None")) if value.nulls else sql


def sliced(text: Value, low: Plain, high: Plain) -> Value:
    """`text[low:high]`.

    Raises: Unfaithful.
    """
    if text.family != "str":
        raise Unfaithful
    first = _place(text, 0 if low is None else low)
    args = [text.sql, _sql(_sum(first, 1))]
    if high is not None:
        args.append(_sql(_not_negative(_sum(_place(text, high), first, exp.Sub))))
    return Value(call("SUBSTRING", *args), "str")


def split_part(text: Value, separator: str, place: int) -> Value:
    """`text.split(separator)[place]`.

    Raises: Unfaithful.
    """
    if text.family != "str" or not separator or abs(place) >= _FAR:
        raise Unfaithful
    number = place + 1 if place >= 0 else place
    sql = call("SPLIT_PART", text.sql, literal(separator), literal(number))
    if place in (0, -1):
        return Value(sql, "str")
    parts = replace(_count(text, constant(separator)), nulls=text.nulls)
    last = place if place >= 0 else -place - 1
    return Value(sql, "str", raised=parts.test(exp.LT, literal(last)))


def _given(*texts: Value) -> bool:
    return all(each.constant for each in texts) and bool(texts[0].constant.value)  # type: ignore


def _length(text: Value) -> Value:
    return Value(
        call("LENGTH", text.sql), "integer", high=2**63 - 1, sql_type="BIGINT", nulls=text.nulls
    )


# An integer that is known, or its SQL.
_Number = int | exp.Expr


def _place(text: Value, index: Plain) -> _Number:
    """Where an index of a slice points to, counted from the start."""
    if not isinstance(index, int) or abs(index) >= _FAR:
        raise Unfaithful
    if index >= 0:
        return int(index)
    return _not_negative(_sum(call("LENGTH", text.sql), -index, exp.Sub))


def _sum(one: _Number, two: _Number, kind: type[exp.Binary] = exp.Add) -> _Number:
    if isinstance(one, int) and isinstance(two, int):
        return one + two if kind is exp.Add else one - two
    return one if isinstance(two, int) and two == 0 else binary(kind, _sql(one), _sql(two))


def _not_negative(number: _Number) -> _Number:
    return max(number, 0) if isinstance(number, int) else call("GREATEST", number, literal(0))


def _sql(number: _Number) -> exp.Expr:
    return literal(number) if isinstance(number, int) else number


def _letter(text: Value, index: int) -> Value:
    if abs(index) >= _FAR:
        raise Unfaithful
    if index >= 0:
        beyond: Test = _length(text).test(exp.LTE, literal(index))
        first = literal(index + 1)
    else:
        beyond = _length(text).test(exp.LT, literal(-index))
        first = _sql(_sum(call("LENGTH", text.sql), -index - 1, exp.Sub))
    return Value(call("SUBSTRING", text.sql, first, literal(1)), "str", raised=beyond)


def _count(text: Value, part: Value) -> Value:
    """How often a part is in a text, without overlaps."""
    rest = call("REPLACE", text.sql, part.sql, literal(""))
    size = replace(
        _length(text),
        sql=binary(exp.Sub, call("LENGTH", text.sql), call("LENGTH", rest)),
        high=2**31,
        sql_type="",
    )
    times = len(str(part.constant.value))  # type: ignore[union-attr]
    return size if times == 1 else arithmetic("//", [size, constant(times)])


def _without(first: bool, text: Value, part: Value) -> Value:
    size = len(str(part.constant.value))  # type: ignore[union-attr]
    found = call("STARTS_WITH" if first else "ENDS_WITH", text.sql, part.sql)
    rest = sliced(text, size, None) if first else sliced(text, None, -size)
    return Value(exp.case().when(found, rest.sql).else_(text.sql.copy()), "str")

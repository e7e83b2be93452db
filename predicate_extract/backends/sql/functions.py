"""Functions in SQL, with the values that Python computes.

`Value.raised` says where Python raises, or where SQL computes something else. A function of null is
null.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from sqlglot import exp

from predicate_extract.algebra.schema import family
from predicate_extract.backends.sql.literals import literal
from predicate_extract.backends.sql.logic import FALSE, any_of
from predicate_extract.backends.sql.numbers import ARITHMETIC, arithmetic
from predicate_extract.backends.sql.values import Value, binary, call, constant, is_ascii
from predicate_extract.backends.truth import Unfaithful

_WHITESPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))

_TESTS = {"startswith": "STARTS_WITH", "endswith": "ENDS_WITH", "contains": "CONTAINS"}
_CASES = {"lower": "LOWER", "casefold": "LOWER", "upper": "UPPER"}
_STRIPS = {"strip": "TRIM", "lstrip": "LTRIM", "rstrip": "RTRIM"}
_LENGTHS = {"str": "LENGTH", "bytes": "OCTET_LENGTH", "list": "LEN"}
_TAKES_NONE = ("str", "contains", *_STRIPS)  # with others, a None raises
_DAYS = {"year": "YEAR", "month": "MONTH", "day": "DAY", "isoweekday": "ISODOW"}
_HOURS = {"hour": "HOUR", "minute": "MINUTE", "second": "SECOND"}


def applied(function: str, args: list[Value]) -> Value:
    """A function of values that are there: rows where one is None are left to Python.

    Raises: Unfaithful.
    """
    if function in ARITHMETIC and all(arg.family in ("integer", "float") for arg in args):
        result = arithmetic(function, [arg.number() for arg in args])
    else:
        result = _call(function, [_in_its_zone(arg) for arg in args])
    return replace(
        result,
        nulls=tuple(dict.fromkeys((*itertools.chain(*(arg.nulls for arg in args)), *result.nulls))),
        raised=any_of((*(arg.absent for arg in args), result.raised)),
        sure=result.sure
        and all(arg.sure and (arg.none == FALSE or function not in _TAKES_NONE) for arg in args),
    )


def _call(function: str, args: list[Value]) -> Value:
    sql = [arg.sql for arg in args]
    match function, [arg.family for arg in args]:
        case "+", ["str", "str"]:
            return Value(binary(exp.DPipe, *sql), "str")
        case (("startswith" | "endswith" | "contains"), ["str", "str"]):
            return Value(call(_TESTS[function], *sql), "integer", high=1, sql_type="BOOLEAN")
        case "contains", ["list", "str"] if args[1].constant and _holds_text(args[0]):
            return Value(call("LIST_CONTAINS", *sql), "integer", high=1, sql_type="BOOLEAN")
        case "isnan", ["float"]:
            return Value(call("ISNAN", *sql), "integer", high=1, sql_type="BOOLEAN")
        case "len", ["str" | "bytes" | "list" as kind]:
            return Value(call(_LENGTHS[kind], *sql), "integer", high=2**63 - 1, sql_type="BIGINT")
        case (("strip" | "lstrip" | "rstrip"), ["str"]):
            return Value(call(_STRIPS[function], *sql, literal(_WHITESPACE)), "str")
        case (("strip" | "lstrip" | "rstrip"), ["str", "str"]):
            return Value(call(_STRIPS[function], *sql), "str")
        case (("lower" | "casefold" | "upper"), ["str"]):
            # Beyond ASCII, Python and SQL follow different tables.
            return Value(call(_CASES[function], *sql), "str", raised=~is_ascii(args[0]), sure=False)
        case "str", ["str"]:
            return Value(sql[0], "str")
        case "str", ["integer"] if args[0].sql_type != "BOOLEAN":
            return Value(exp.cast(sql[0], "VARCHAR"), "str")
        case "date", ["naive"]:
            return Value(exp.cast(sql[0], "DATE"), "date")
        case "weekday", ["date" | "naive"]:
            return arithmetic("-", [_call("isoweekday", args), constant(1)])
        case _, ["date" | "naive"] if function in _DAYS:
            part = call(_DAYS[function], *sql)
            return Value(part, "integer", low=1, high=9999, sql_type="BIGINT")
        case _, ["naive"] if function in _HOURS:
            return Value(call(_HOURS[function], *sql), "integer", high=59, sql_type="BIGINT")
    raise Unfaithful


def _in_its_zone(value: Value) -> Value:
    """The same; a moment in UTC with the date and time that are read there."""
    if value.family != "aware" or value.slot is None or value.slot.type.tz != "UTC":
        return value
    local = exp.AtTimeZone(this=value.sql, zone=exp.Literal.string("UTC"))
    return replace(value, sql=local, family="naive")


def _holds_text(value: Value) -> bool:
    return value.slot is not None and family(value.slot.type.value_type) == "str"

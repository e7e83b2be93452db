"""Functions in SQL, with the values that Python computes.

`Value.raised` says where Python raises, or where SQL computes something else. A function of null is
null.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from predicate_extract.algebra.schema import family
from predicate_extract.backends.sql.decimals import decimal
from predicate_extract.backends.sql.logic import FALSE, any_of
from predicate_extract.backends.sql.moments import moment
from predicate_extract.backends.sql.numbers import ARITHMETIC, arithmetic, extreme, number
from predicate_extract.backends.sql.texts import shown, sliced, text
from predicate_extract.backends.sql.values import Value, call
from predicate_extract.backends.truth import Unfaithful

_LENGTHS = {"bytes": "OCTET_LENGTH", "list": "LEN"}
_TAKES_NONE = ("contains", "strip", "lstrip", "rstrip")  # with others, a None raises
_NUMBERS = ("integer", "float")
_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}
_TIMES = ("date", "naive", "aware", "delta")


def applied(function: str, args: list[Value]) -> Value:
    """A function of values that are there: rows where one is None are left to Python.

    Raises: Unfaithful.
    """
    match function, args:
        case (("str" | "concat"), _):
            return shown(args)
        case "isoformat", [Value(family="date")]:
            return over(args, shown(args))
        case "slice", [of, Value(constant=low), Value(constant=high)] if low and high:
            return over([of], sliced(of, low.value, high.value))
        case (("min" | "max"), [_, _, _, *_]):
            return reduce(lambda one, two: applied(function, [one, two]), args)
    sure = all(arg.none == FALSE for arg in args) or function not in _TAKES_NONE
    return over(args, _call(function, args), sure)


def over(args: list[Value], result: Value, sure: bool = True) -> Value:
    """The result of a function that is computed where all of these are there, and surely raises
    where one is None."""
    return replace(
        result,
        nulls=tuple(dict.fromkeys((*itertools.chain(*(arg.nulls for arg in args)), *result.nulls))),
        raised=any_of((*(arg.absent for arg in args), result.raised)),
        sure=result.sure and sure and all(arg.sure for arg in args),
    )


def _call(function: str, args: list[Value]) -> Value:
    families = [arg.family for arg in args]
    if all(each in _NUMBERS for each in families):
        numbers = [arg.number() for arg in args]
        if function in ("&", "|", "^") and all(arg.sql_type == "BOOLEAN" for arg in args):
            raise Unfaithful  # it is a truth value
        return (arithmetic if function in ARITHMETIC else number)(function, numbers)
    if "decimal" in families:
        return decimal(function, args)
    if function in ("min", "max") and families in (["str"] * 2, ["date"] * 2, ["naive"] * 2):
        return extreme(function, *args)
    match function, families:
        case _, [kind, *_] if kind in _TIMES:
            return moment(function, args)
        case "contains", ["list", _] if args[1].constant:
            return _listed(*args)
        case "len", [("bytes" | "list") as kind]:
            size = call(_LENGTHS[kind], args[0].sql)
            return Value(size, "integer", high=2**63 - 1, sql_type="BIGINT")
    return text(function, args)


def _listed(values: Value, item: Value) -> Value:
    """Whether a list holds a constant."""
    of = None if values.slot is None else values.slot.type.value_type
    if of is None:
        raise Unfaithful
    kind = family(of)
    if kind != item.family or kind not in ("str", "integer") or pa.types.is_boolean(of):
        raise Unfaithful
    if kind == "str":
        found = call("LIST_CONTAINS", values.sql, item.sql)
    elif pa.types.is_signed_integer(of) and item.number().low.bit_length() < of.bit_width:
        wanted = exp.cast(item.number().sql, _INTEGERS[of.bit_width])
        found = call("LIST_HAS", values.sql, wanted)
    else:
        raise Unfaithful
    return Value(found, "integer", high=1, sql_type="BOOLEAN")

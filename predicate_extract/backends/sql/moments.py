"""Days, times and moments in SQL, counted in microseconds."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from sqlglot import exp

from predicate_extract.backends.sql.literals import literal
from predicate_extract.backends.sql.logic import any_of
from predicate_extract.backends.sql.numbers import arithmetic
from predicate_extract.backends.sql.values import Value, binary, call, constant
from predicate_extract.backends.truth import Unfaithful

_DAY = 86_400_000_000
_SECOND = 1_000_000
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1)
_FIRST, _LAST = datetime.min, datetime.max
_FIXED_ZONE = re.compile(r"UTC|Etc/UTC|[+-]\d\d:\d\d")
_DAYS = {"year": "YEAR", "month": "MONTH", "day": "DAY", "isoweekday": "ISODOW"}
_HOURS = {"hour": "HOUR", "minute": "MINUTE", "second": "SECOND"}
_PARTS = {"days": (_DAY, None), "seconds": (_SECOND, _DAY), "microseconds": (1, _SECOND)}


def in_fixed_zone(value: Value) -> bool:
    """Whether the moments are those of a zone without summer time, in which Python compares them
    as moments."""
    if value.constant is not None:
        return True  # others are no literals
    return value.slot is not None and _FIXED_ZONE.fullmatch(value.slot.type.tz) is not None


def moment(function: str, args: list[Value]) -> Value:
    """A function of days, moments, or the time between two, that are there.

    Raises: Unfaithful.
    """
    match function, [arg.family for arg in args]:
        case "-", [("naive" | "aware" | "date") as one, two] if one == two:
            return _between(*args)
        case (("+" | "-"), ["naive", "delta"]):
            return _shifted(function, *args)
        case "+", ["delta", "naive"]:
            return _shifted(function, *reversed(args))
        case (("+" | "-"), ["delta", "delta"]) | (("neg" | "abs"), ["delta"]):
            whole = arithmetic(function, [_counted(arg) for arg in args])
            return replace(whole, family="delta")
        case "total_seconds", ["delta"]:
            return replace(_counted(args[0]), family="seconds")
        case "timestamp", ["aware"]:
            return replace(_microseconds(args[0]), family="seconds")
        case _, ["delta"] if function in _PARTS:
            size, whole_part = _PARTS[function]
            number = _counted(args[0])
            if whole_part is not None:
                number = arithmetic("%", [number, constant(whole_part)])
            return arithmetic("//", [number, constant(size)])
    return _part(function, _in_its_zone(args[0])) if len(args) == 1 else _unknown()


def _unknown() -> Value:
    raise Unfaithful


def _part(function: str, of: Value) -> Value:
    if of.family == "naive":
        match function:
            case "date":
                return Value(exp.cast(of.sql, "DATE"), "date")
            case "time":
                day = arithmetic("%", [_microseconds(of), constant(_DAY)])
                return replace(day, family="time")
            case "microsecond":
                return arithmetic("%", [_microseconds(of), constant(_SECOND)])
            case _ if function in _HOURS:
                part = call(_HOURS[function], of.sql)
                return Value(part, "integer", high=59, sql_type="BIGINT")
    if of.family in ("date", "naive"):
        if function == "weekday":
            return arithmetic("-", [_part("isoweekday", of), constant(1)])
        if function in _DAYS:
            part = call(_DAYS[function], of.sql)
            return Value(part, "integer", low=1, high=9999, sql_type="BIGINT")
    raise Unfaithful


def _in_its_zone(value: Value) -> Value:
    """The same; a moment in UTC with the date and time that are read there."""
    if value.family != "aware" or value.slot is None or value.slot.type.tz != "UTC":
        return value
    return replace(value, sql=_in_utc(value.sql), family="naive")


def _in_utc(sql: exp.Expr) -> exp.Expr:
    return exp.AtTimeZone(this=sql.copy(), zone=exp.Literal.string("UTC"))


def _counted(value: Value) -> Value:
    """The same as an integer."""
    if value.constant is not None:
        return constant(value.low)
    return replace(value, family="integer", sql_type="BIGINT")


def _microseconds(value: Value) -> Value:
    """Microseconds since 1970, in UTC if it is known."""
    if value.constant is not None:
        at = value.constant.value
        assert isinstance(at, datetime)
        if at.tzinfo is not None:
            at = at.astimezone(UTC).replace(tzinfo=None)
        return constant((at - _EPOCH) // _MICROSECOND)
    sql = value.sql
    if value.family == "aware":
        if not in_fixed_zone(value):
            raise Unfaithful
        sql = _in_utc(sql)
    low, high = ((each - _EPOCH) // _MICROSECOND for each in (_FIRST, _LAST))
    return Value(call("EPOCH_US", sql), "integer", low=low, high=high, sql_type="BIGINT")


def _between(one: Value, two: Value) -> Value:
    if one.family == "date":
        most = (date.max - date.min).days
        days = call("DATE_DIFF", exp.Literal.string("day"), two.sql, one.sql)
        whole = Value(days, "integer", low=-most, high=most)
        return replace(arithmetic("*", [whole, constant(_DAY)]), family="delta")
    whole = arithmetic("-", [_microseconds(one), _microseconds(two)])
    return replace(whole, family="delta")


def _shifted(sign: str, moment: Value, by: Value) -> Value:
    """Python raises where the result is outside of its calendar."""
    count = _counted(by) if sign == "+" else arithmetic("neg", [_counted(by)])
    if max(-count.low, count.high) > (_LAST - _FIRST) // _MICROSECOND:
        raise Unfaithful
    sql = binary(exp.Add, moment.sql, call("TO_MICROSECONDS", count.sql))
    result = Value(sql, "naive", nulls=(*moment.nulls, *by.nulls))
    outside = (result.test(exp.LT, literal(_FIRST)), result.test(exp.GT, literal(_LAST)))
    return replace(result, raised=any_of(outside))

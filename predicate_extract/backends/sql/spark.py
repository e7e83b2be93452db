"""The conditions of the other files, which are DuckDB's, written for Spark.

They mean the same there under Spark's default settings (ANSI mode). A text is compared as a plain
`STRING`, whatever collation or padding its column has.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from predicate_extract.backends.sql.values import binary, call, operand
from predicate_extract.backends.truth import Unfaithful

_WIDE = exp.DType.INT128  # DuckDB's HUGEINT

# In a pattern: one character that is repeated, and how often a group is at the most.
_SINGLE = re.compile(r"\(\?:(\[(?:\\.|[^\]\\])*\]|\(\?s:\.\))\)\{")
_REPEATED = re.compile(r"\)\{\d+,(\d*)\}")
_OFTEN = 100

# Functions that Spark calls otherwise.
_FUNCTIONS = {
    "STARTS_WITH": "STARTSWITH",
    "ENDS_WITH": "ENDSWITH",
    "STRLEN": "OCTET_LENGTH",
    "STRPOS": "INSTR",
    "LIST_EXTRACT": "TRY_ELEMENT_AT",
}
_TRIMS = {"TRIM": "BTRIM", "LTRIM": "LTRIM", "RTRIM": "RTRIM"}


def text(condition: exp.Expr) -> str:
    """The text of a condition.

    Raises: Unfaithful, if Spark has nothing like it.
    """
    return _written(condition.copy()).sql("spark", identify=True)


def _written(sql: exp.Expr) -> exp.Expr:
    """The expression for Spark, from the leaves upwards."""
    if isinstance(sql, exp.Cast) and sql.to.this == exp.DType.VARBINARY:
        return exp.HexString(this=str(sql.this.this).replace("\\x", "").upper())
    if isinstance(sql, exp.Anonymous) and sql.this == "REGEXP_MATCHES":
        text, pattern = sql.expressions
        sql = call("REGEXP_LIKE", text, exp.Literal.string(_in_java(str(pattern.this))))
    for child in list(sql.iter_expressions()):
        child.replace(_written(child))
    write = _WRITERS.get(type(sql))
    return sql if write is None else write(sql)


def _literal(sql: exp.Expr) -> exp.Expr:
    content = str(sql.this)
    if not sql.is_string:
        # A number with a point would be a DECIMAL.
        whole = "." not in content or "e" in content
        return sql if whole else exp.Literal.number(f"{content}e0")
    # In any text, Spark puts the values of variables for `${...}`.
    if content.isprintable() and not set(content) & set("$\\"):
        return sql
    return exp.cast(exp.HexString(this=content.encode().hex().upper()), "VARCHAR")


def _cast(sql: exp.Expr) -> exp.Expr:
    assert isinstance(sql, exp.Cast)
    if sql.to.this == _WIDE:
        return exp.cast(sql.this, "DECIMAL(38, 0)")
    if sql.to.this == exp.DType.TIMESTAMPTZ:  # a TIMESTAMP is what Spark's settings say
        return exp.cast(sql.this, "TIMESTAMP_LTZ", dialect="spark")
    return sql


def _whole_quotient(sql: exp.Expr) -> exp.Expr:
    # Of decimals too it is a BIGINT, which they may not fit into.
    if any(cast.to.this == exp.DType.DECIMAL for cast in sql.find_all(exp.Cast)):
        raise Unfaithful
    return sql


def _call(sql: exp.Expr) -> exp.Expr:
    name, args = str(sql.this), sql.expressions
    match name, args:
        case (("TRIM" | "LTRIM" | "RTRIM"), [text, letters]):
            ordered = [text, letters] if name == "TRIM" else [letters, text]
            return call(_TRIMS[name], *ordered)
        case "LIST_CONTAINS", [texts, text]:
            plain = exp.cast(texts, "ARRAY<STRING>", dialect="spark")
            return binary(exp.GT, call("ARRAY_POSITION", plain, text), exp.Literal.number(0))
        case "LIST_HAS", [numbers, number]:
            return binary(exp.GT, call("ARRAY_POSITION", numbers, number), exp.Literal.number(0))
        case "ROUND_EVEN", [number, _]:
            return call("RINT", number)
        case "DATE_DIFF", [_, one, two]:
            return call("DATEDIFF", two, one)
        case "EPOCH_US", [moment]:
            return _microseconds(moment)
        case "LEN", [_]:
            return call("ARRAY_SIZE", *args)
        case "ISODOW", [day]:
            return binary(exp.Add, call("WEEKDAY", day), exp.Literal.number(1))
    return call(_FUNCTIONS.get(name, name), *args)


def _in_java(pattern: str) -> str:
    """A pattern of `algebra.linear` for Java, which reads it alike but for where a line ends, and
    repeats a group by recursion: on a long text, the stack would overflow."""
    text = _SINGLE.sub(r"\1{", pattern)
    often = any(int(most or _OFTEN) >= _OFTEN for most in _REPEATED.findall(text))
    if often or "(?m:" in text:
        raise Unfaithful
    return text


def _epoch() -> exp.Expr:
    zero = exp.Literal.string("1970-01-01 00:00:00")
    return exp.cast(zero, "TIMESTAMP_NTZ", dialect="spark")


def _microseconds(moment: exp.Expr) -> exp.Expr:
    """Since 1970; `TIMESTAMPDIFF` would count them in the session's time zone."""
    if isinstance(moment, exp.Anonymous) and moment.this == "TIMESTAMPADD":  # of `_in_utc`
        counted: exp.Expr = moment.expressions[1]
        return counted
    since = exp.paren(exp.Sub(this=operand(moment), expression=_epoch()))
    seconds = exp.cast(since, "INTERVAL SECOND", dialect="spark")
    number = exp.cast(seconds, "DECIMAL(20, 6)")
    return exp.cast(binary(exp.Mul, number, exp.Literal.number(1_000_000)), "BIGINT")


def _sum(sql: exp.Expr) -> exp.Expr:
    added = sql.expression
    if isinstance(added, exp.Anonymous) and added.this == "TO_MICROSECONDS":
        return _added(added.expressions[0], sql.this)
    return sql


def _added(microseconds: exp.Expr, moment: exp.Expr) -> exp.Expr:
    return call("TIMESTAMPADD", exp.Var(this="MICROSECOND"), microseconds, moment)


def _in_utc(sql: exp.Expr) -> exp.Expr:
    """Date and time of a moment; a plain cast would take those of the session's time zone."""
    return call(
        "TIMESTAMPADD", exp.Var(this="MICROSECOND"), call("UNIX_MICROS", sql.this), _epoch()
    )


def _item(sql: exp.Expr) -> exp.Expr:
    return exp.Dot(this=operand(sql.this), expression=exp.to_identifier(sql.expressions[0].name))


_WRITERS: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.Literal: _literal,
    exp.Cast: _cast,
    exp.IntDiv: _whole_quotient,
    exp.Anonymous: _call,
    exp.Add: _sum,
    exp.AtTimeZone: _in_utc,
    exp.Bracket: _item,
}

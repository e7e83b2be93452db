"""A predicate's constants, written in SQL."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal

from sqlglot import exp

from predicate_extract.algebra.constants import Member, Plain
from predicate_extract.backends.truth import Unfaithful

_SURROGATE = re.compile("[\ud800-\udfff]")  # alone, it is no UTF-8


def literal(value: Plain) -> exp.Expr:
    """The constant; a float as a number that becomes this very float next to one.

    Raises: Unfaithful, if SQL has nothing like it.
    """
    match value:
        case bool():
            return exp.Boolean(this=value)
        case int() if value.bit_length() < 4096:  # a longer text is refused by Python itself
            return _signed(str(abs(value)), value < 0)
        case float() if not math.isfinite(value):
            return exp.cast(exp.Literal.string(repr(value)), "DOUBLE")
        case float():
            return _signed(_digits(abs(value)), value < 0)
        case Decimal():
            return _signed(f"{abs(value):f}", value < 0)
        case str():
            if "\0" in value or _SURROGATE.search(value):
                raise Unfaithful
            return exp.Literal.string(value)
        case bytes():
            return _quoted("".join(f"\\x{byte:02x}" for byte in value), "BLOB")
        case Member():
            return literal(value.name)
        case datetime() if value.tzinfo is None:
            return _quoted(value.isoformat(" "), "TIMESTAMP")
        case datetime():
            return _quoted(_in_utc(value).isoformat(" "), "TIMESTAMPTZ")
        case date():
            return _quoted(value.isoformat(), "DATE")
    raise Unfaithful


def _quoted(text: str, type: str) -> exp.Expr:
    return exp.cast(exp.Literal.string(text), type, dialect="duckdb")


def _signed(digits: str, negative: bool) -> exp.Expr:
    number = exp.Literal(this=digits, is_string=False)
    return exp.Neg(this=number) if negative else number


def _digits(value: float) -> str:
    if value <= 2**53 and value.is_integer():
        return str(int(value))
    text = repr(value)
    # A short decimal is converted without loss; what has an exponent is a float from the start.
    return text if "e" in text or len(text) <= 15 else f"{text}e0"


def _in_utc(value: datetime) -> datetime:
    # In a zone with summer time Python compares wall clocks, or calls the repeated hour unequal.
    if getattr(value.tzinfo, "key", "UTC") != "UTC":
        raise Unfaithful
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise Unfaithful from error

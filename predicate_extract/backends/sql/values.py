"""What a term of a predicate is in SQL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import time, timedelta
from decimal import Decimal

from sqlglot import exp

from predicate_extract.algebra.constants import Plain
from predicate_extract.algebra.schema import Slot, family_of
from predicate_extract.algebra.terms import Const
from predicate_extract.backends.sql.literals import literal
from predicate_extract.backends.sql.logic import FALSE, TRUE, Bits, Test
from predicate_extract.backends.truth import Unfaithful

MAX_DIGITS = 38
"""Of a decimal in SQL."""

_EXACT = 2**53  # integers up to here are floats too


@dataclass(frozen=True, slots=True)
class Value:
    """A term on every row.

    `nulls`: one of them holds wherever `sql` is null. `none`: where the value is None. `raised`:
    where computing it raises, or `sql` is not what Python computes; if `sure`, only the former.
    `slot` is that of a field, and `constant` the value of a constant. An integer lies between `low`
    and `high`; a float may be NaN if `nan` says so. `sql_type` is an integer's or truth value's
    type in SQL, if it matters. A decimal has so many `digits`, `scale` of them after the point.

    Time is an integer of microseconds: that of a "delta", of a "time" since midnight, and of
    "seconds", whose value is a millionth of it. A "whole" number is a float for SQL, and an integer
    of any size for Python.
    """

    sql: exp.Expr
    family: str | None
    nulls: tuple[Test, ...] = ()
    none: Bits = FALSE
    raised: Bits = FALSE
    sure: bool = True
    slot: Slot | None = None
    constant: Const | None = None
    low: int = 0
    high: int = 0
    nan: bool = False
    sql_type: str = ""
    digits: int = 0
    scale: int = 0

    @property
    def absent(self) -> Bits:
        """Where there is nothing to compute with."""
        return self.raised | self.none

    @property
    def is_nan(self) -> Bits:
        """Where it is NaN."""
        return Test.of(call("ISNAN", self.sql), self.nulls) if self.nan else FALSE

    def test(self, kind: type[exp.Binary], other: exp.Expr, *nulls: Test) -> Test:
        """Whether it compares so in SQL."""
        return Test.of(binary(kind, self.sql, other), (*self.nulls, *nulls))

    def number(self) -> Value:
        """The same; a truth value as a number."""
        if self.sql_type != "BOOLEAN":
            return self
        if self.constant is not None:
            return constant(self.low)
        return replace(self, sql=exp.cast(self.sql, "BIGINT"), sql_type="BIGINT")

    def rounded_float(self) -> Value:
        """The same as a float, rounded as Python does."""
        if self.family == "float":
            return self
        if self.constant is not None:
            return constant(_near(self.low))
        if max(-self.low, self.high) >= 2**64:
            raise Unfaithful
        return replace(self, sql=exp.cast(self.sql, "DOUBLE"), family="float", sql_type="")

    def exact_float(self) -> Value:
        """The same as a float, where that does not round."""
        if self.constant is not None and self.family == "integer":
            if _near(self.low) != self.low:
                raise Unfaithful
        elif max(-self.low, self.high) > _EXACT:
            limit = literal(_EXACT)
            within = exp.Between(this=operand(self.sql), low=literal(-_EXACT), high=limit)
            rounds = Test.of(exp.Not(this=within), self.nulls)
            exact = replace(self, low=-_EXACT, high=_EXACT, raised=self.raised | rounds, sure=False)
            return exact.rounded_float()
        return self.rounded_float()


def _near(value: int) -> float:
    try:
        return float(value)
    except OverflowError as error:  # it is raised on every row
        raise Unfaithful from error


def binary(kind: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Binary:
    """`left op right`."""
    if issubclass(kind, exp.Predicate):  # a comparison, which binds loosest
        return kind(this=left.copy(), expression=right.copy())
    return kind(this=operand(left), expression=operand(right))


def operand(sql: exp.Expr) -> exp.Expr:
    """The expression as part of a larger one."""
    return exp.paren(sql) if isinstance(sql, exp.Binary) else sql.copy()


def call(name: str, *args: exp.Expr) -> exp.Expr:
    """`name(args)`."""
    return exp.Anonymous(this=name, expressions=[arg.copy() for arg in args])


def is_ascii(text: Value) -> Test:
    """Whether a text has no other characters."""
    bytes, characters = (call(name, text.sql) for name in ("STRLEN", "LENGTH"))
    return Test.of(binary(exp.EQ, bytes, characters), text.nulls)


def is_null(sql: exp.Expr) -> Test:
    """`sql IS NULL`."""
    return Test.of(exp.Is(this=sql.copy(), expression=exp.Null()))


def constant(value: Plain) -> Value:
    """The same value on every row.

    Raises: Unfaithful, if SQL has nothing like it.
    """
    if value is None:
        return Value(exp.Null(), None, none=TRUE, constant=Const(None))
    if isinstance(value, timedelta | time):
        return _of_microseconds(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    whole = int(value) if isinstance(value, int) else 0
    type = "BOOLEAN" if isinstance(value, bool) else ""
    const = Const(value)
    return Value(
        literal(value),
        family_of(value),
        constant=const,
        low=whole,
        high=whole,
        nan=const.is_nan,
        sql_type=type,
    )


def _of_microseconds(value: timedelta | time) -> Value:
    if isinstance(value, time):
        if value.tzinfo is not None:
            raise Unfaithful
        since = timedelta(
            hours=value.hour,
            minutes=value.minute,
            seconds=value.second,
            microseconds=value.microsecond,
        )
        return replace(_of_microseconds(since), family="time", constant=Const(value))
    whole = value // timedelta(microseconds=1)
    return replace(constant(whole), family="delta", constant=Const(value))


def _decimal(value: Decimal) -> Value:
    if not value.is_finite() or abs(value.adjusted()) > MAX_DIGITS:
        return Value(literal(0), "decimal", constant=Const(value))  # compared in Python only
    scale = max(0, -int(value.as_tuple().exponent))
    digits = max(value.adjusted() + 1, 0) + scale
    number = exp.cast(exp.Literal.string(f"{value:f}"), f"DECIMAL({max(digits, 1)}, {scale})")
    return Value(number, "decimal", constant=Const(value), digits=digits, scale=scale)

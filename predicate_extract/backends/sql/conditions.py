"""A predicate as the WHERE clause of a SQL query, in front of the Python part.

Each condition becomes two that are never null, where it is true and where it raises, and these are
combined as in `predicate_extract.backends.truth`. SQL evaluates them all, in any order, so none may
fail. What SQL cannot decide as Python does keeps its rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal

import pyarrow as pa
from sqlglot import exp

from predicate_extract.algebra.constants import Member, Plain
from predicate_extract.algebra.functions import MATCHING
from predicate_extract.algebra.linear import NotLinear, linear
from predicate_extract.algebra.predicate import (
    COMPARISONS,
    MIRRORED,
    Compare,
    Defined,
    In,
    IsNull,
    Predicate,
    Truthy,
)
from predicate_extract.algebra.schema import family_of
from predicate_extract.algebra.terms import Call, Const, Term
from predicate_extract.backends.bounds import Bound, for_floats, for_integers
from predicate_extract.backends.sql import spark
from predicate_extract.backends.sql.literals import literal
from predicate_extract.backends.sql.logic import FALSE, TRUE, Bits, Test, any_of, written
from predicate_extract.backends.sql.terms import Terms
from predicate_extract.backends.sql.values import Value, binary, call, is_ascii
from predicate_extract.backends.truth import Backend, Outcome, Unfaithful

DIALECTS = ("duckdb", "spark")
"""The dialects whose results are known to be Python's."""

_KINDS: dict[str, type[exp.Binary]] = {
    "==": exp.EQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_NUMBERS = {"integer", "float", "decimal"}
_FIXED_ZONE = re.compile(r"UTC|Etc/UTC|[+-]\d\d:\d\d")
_ALL_DIGITS = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


@dataclass(frozen=True, slots=True)
class Where:
    """A predicate as conditions of SQL, each the text of a WHERE clause.

    `keep` is true for every row for which the predicate is true or raises, and maybe for more; else
    it is false or null. It is None if it would keep all rows. `exact`: it is true for no row for
    which the predicate is false. `raised`, if that is so, is true where the predicate raises; it
    is None if that is nowhere.
    """

    keep: str | None
    exact: bool
    raised: str | None


def to_sql(
    predicate: Predicate, schema: pa.Schema, dialect: str = "duckdb"
) -> tuple[str | None, bool]:
    """The rows to keep, and whether these are exactly the rows where the predicate is true.

    The rows have the columns of `schema`, a struct per nested object; the database has its default
    settings. The text is `Where.keep`.

    Raises: ValueError, for another dialect.
    """
    found = where(predicate, schema, dialect)
    return found.keep, found.exact and found.raised is None


def where(predicate: Predicate, schema: pa.Schema, dialect: str = "duckdb") -> Where:
    """The rows to keep, and among them those where the predicate raises.

    Raises: ValueError, for another dialect.
    """
    if dialect not in DIALECTS:
        raise ValueError(f"Expected a dialect among {', '.join(DIALECTS)}, got {dialect!r}.")
    try:
        outcome = _Sql(schema, dialect).judge(predicate)
        keep = outcome.keep
    except Unfaithful:  # it is too large
        return Where(None, False, None)
    raised = None if outcome.raised == FALSE else outcome.raised
    exact = outcome.maybe in (None, FALSE) and (raised is None or outcome.sure)
    return Where(
        None if keep == TRUE else _text(written(keep), dialect),
        exact,
        None if raised is None or not exact else _text(written(raised), dialect),
    )


def _text(condition: exp.Expr, dialect: str) -> str:
    return spark.text(condition) if dialect == "spark" else condition.sql(dialect)


class _Sql(Backend[Bits]):
    def __init__(self, schema: pa.Schema, dialect: str) -> None:
        super().__init__(schema)
        self._dialect = dialect
        self._value = Terms(schema, collated=dialect == "spark").value

    def constant(self, value: bool) -> Bits:
        return TRUE if value else FALSE

    def condition(self, condition: Predicate) -> Outcome[Bits]:
        outcome = self._condition(condition)
        for bits in (outcome.true, outcome.raised):
            if bits is not None:
                _text(written(bits), self._dialect)  # what this dialect lacks is left to the filter
        return outcome

    def _condition(self, condition: Predicate) -> Outcome[Bits]:
        if not condition.fields():
            answer = condition.evaluate(None)
            # What is undecided raises here, and may not in the filter.
            true, raised = self.constant(answer is True), self.constant(answer is None)
            return _outcome(true, raised, sure=False)
        match condition:
            case Compare(op, left, right):
                return self._compare(op, left, right)
            case In(item, values):
                value = self._value(item)
                return _outcome(self._is_in(value, values), value.raised, value.sure)
            case Truthy(Call(how, (of, Const(str() as pattern), *flags))) if how in MATCHING:
                return self._matches(of, how, pattern, flags)
            case IsNull(Call(how, (of, Const(str() as pattern), *flags))) if how in MATCHING:
                return self._inverted(self._matches(of, how, pattern, flags))
            case IsNull(of):
                value = self._value(of)
                return _outcome(value.none, value.raised, value.sure)
            case Truthy(of):
                value = self._value(of)
                return _outcome(_truth(value), value.raised, value.sure)
            case Defined(of):
                value = self._value(of)
                return _outcome(~value.raised, value.raised, value.sure)
        raise Unfaithful

    def _compare(self, op: str, one: Term, two: Term) -> Outcome[Bits]:
        left, right = self._value(one), self._value(two)
        if left.constant is not None:
            op, left, right = MIRRORED[op], right, left
        elif right.constant is None and {left.family, right.family} == {"integer", "float"}:
            left, right = left.number().exact_float(), right.number().exact_float()
        sure = left.sure and right.sure
        if op not in ("==", "!="):
            return _outcome(_hits(op, left, right), left.absent | right.absent, sure)
        equal = _hits("==", left, right) | (left.none & right.none)
        return _outcome(equal if op == "==" else ~equal, left.raised | right.raised, sure)

    def _matches(self, of: Term, how: str, pattern: str, flags: Sequence[Term]) -> Outcome[Bits]:
        """Where a pattern matches a text; one that is no text raises."""
        value = self._value(of)
        known = [flag.value for flag in flags if isinstance(flag, Const)]
        if value.family != "str" or len(known) < len(flags):
            raise Unfaithful
        try:
            wanted = linear(pattern, *known or [0], how)
        except NotLinear as error:
            raise Unfaithful from error
        found = call("REGEXP_MATCHES", value.sql, literal(wanted.anywhere(how)))
        outcome = _outcome(Test.of(found, value.nulls), value.absent, value.sure)
        if not wanted.ascii:
            return outcome
        ascii = is_ascii(value)
        maybe = ~ascii if outcome.raised is None else ~ascii & ~outcome.raised
        return replace(outcome, true=outcome.true & ascii, maybe=maybe)

    def _is_in(self, item: Value, values: tuple[Const, ...]) -> Bits:
        # A NaN is in a tuple that holds this very object.
        if item.family in (None, "list") or any(const.is_nan for const in values):
            raise Unfaithful
        hits, listed = FALSE, []
        for const in values:
            equal = item.none if const.value is None else _hits("==", item, self._value(const))
            if isinstance(equal, Test) and isinstance(equal.sql, exp.EQ):
                listed.append(equal)
            else:
                hits |= equal
        if len(listed) < 2:
            return any_of((*listed, hits))
        literals = [equal.sql.expression for equal in listed]
        return Test.of(exp.In(this=listed[0].sql.this, expressions=literals), item.nulls) | hits


def _outcome(true: Bits, raised: Bits, sure: bool) -> Outcome[Bits]:
    if raised == FALSE:
        return Outcome(true)
    return Outcome(true & ~raised, raised, sure=sure)


def _hits(op: str, left: Value, right: Value) -> Bits:
    """Where `left op right` holds for values that are not None."""
    kinds = {left.family, right.family}
    if (
        left.family is None
        or left.family == right.family == "list"
        or (right.family is None and right.constant is None)
    ):
        raise Unfaithful
    if right.family is None:
        return FALSE
    if len(kinds) == 2 and not kinds <= _NUMBERS:
        if op == "==":
            return FALSE
        raise Unfaithful
    if right.constant is not None:
        return _hits_of_constant(op, left, right.constant.value)
    if "decimal" in kinds and not (left.slot and right.slot and left.slot.type == right.slot.type):
        raise Unfaithful
    match left.family:
        case "integer":
            left, right = left.number(), right.number()
        case "float":
            test = left.test(_KINDS[op], right.sql, *right.nulls)
            return test & ~(right if op in ("<", "<=") else left).is_nan
        case "aware" if not (_in_fixed_zone(left) and _in_fixed_zone(right)):
            raise Unfaithful
        case "member":
            raise Unfaithful
    return left.test(_KINDS[op], right.sql, *right.nulls)


def _hits_of_constant(op: str, left: Value, value: Plain) -> Bits:
    match left.family, value:
        case "integer", int() | float() if left.sql_type == "BOOLEAN":
            return _hits_of_truth(op, left, value)
        case "integer", int() | float() | Decimal():
            if isinstance(value, Decimal) and not value.is_finite():
                raise Unfaithful
            return _bounded(left, for_integers(op, value, left.low, left.high))
        case "float", int() | float():
            hits = _bounded(left, for_floats(op, value))
            # SQL calls NaN greater than every number.
            return hits & ~left.is_nan if op in (">", ">=") else hits
        case "decimal", int() | float() | Decimal():
            return _hits_of_decimal(op, left, value)
        case "member", Member(of):
            if op != "==":
                raise Unfaithful
            if left.slot is None or of != left.slot.member_of:
                return FALSE
        case "aware", _ if not _in_fixed_zone(left):
            raise Unfaithful
    if left.family != family_of(value):
        raise Unfaithful
    return left.test(_KINDS[op], literal(value))


def _bounded(left: Value, bound: Bound) -> Bits:
    if isinstance(bound, bool):
        return TRUE if bound else FALSE
    op, value = bound
    return left.test(_KINDS[op], literal(value))


def _hits_of_truth(op: str, left: Value, value: int | float) -> Bits:
    if_true, if_false = (COMPARISONS[op](answer, value) for answer in (True, False))
    if if_true == if_false:
        return TRUE if if_true else FALSE
    return Test.of(left.sql if if_true else exp.not_(left.sql), left.nulls)


def _hits_of_decimal(op: str, left: Value, value: int | float | Decimal) -> Bits:
    """Compares the numbers without their decimal point."""
    exact = Decimal(value)
    if left.slot is None or left.slot.type.scale < 0 or exact.is_nan():
        raise Unfaithful
    type = left.slot.type
    limit = 10**type.precision - 1
    bound = for_integers(op, exact.scaleb(type.scale, _ALL_DIGITS), -limit, limit)
    if isinstance(bound, bool):
        return _bounded(left, bound)
    number = exp.Literal.string(f"{Decimal(bound[1]).scaleb(-type.scale, _ALL_DIGITS):f}")
    return left.test(_KINDS[bound[0]], exp.cast(number, f"DECIMAL({type.precision}, {type.scale})"))


def _truth(value: Value) -> Bits:
    if value.sql_type == "BOOLEAN":
        return Test.of(value.sql, value.nulls)
    match value.family:
        case "str":
            return value.test(exp.NEQ, literal(""))
        case "bytes":
            return value.test(exp.NEQ, literal(b""))
        case "integer" | "float" | "decimal":
            return value.test(exp.NEQ, literal(0))
        case "list":
            return Test.of(binary(exp.GT, call("LEN", value.sql), literal(0)), value.nulls)
        case "date" | "naive" | "aware" | "member":
            return ~value.none
    raise Unfaithful


def _in_fixed_zone(value: Value) -> bool:
    return value.slot is not None and _FIXED_ZONE.fullmatch(value.slot.type.tz) is not None

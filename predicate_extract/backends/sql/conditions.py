"""A predicate as the WHERE clause of a SQL query, in front of the Python part.

Each condition becomes two that are never null, where it is true and where it raises, and these are
combined as in `predicate_extract.backends.truth`. SQL evaluates them all, in any order, so none may
fail. What SQL cannot decide as Python does keeps its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from predicate_extract.algebra.functions import ISINSTANCE, MATCHING
from predicate_extract.algebra.linear import NOTHING, Linear, NotLinear, linear
from predicate_extract.algebra.predicate import (
    MIRRORED,
    Compare,
    Defined,
    In,
    IsNull,
    Predicate,
    Truthy,
)
from predicate_extract.algebra.terms import Call, Const, Term
from predicate_extract.backends.sql import spark
from predicate_extract.backends.sql.alphabet import CASES, PLACES, kind_of_text, spelled
from predicate_extract.backends.sql.comparisons import hits, truth, unordered
from predicate_extract.backends.sql.literals import literal
from predicate_extract.backends.sql.logic import FALSE, TRUE, Bits, Test, any_of, written
from predicate_extract.backends.sql.numbers import arithmetic
from predicate_extract.backends.sql.terms import Terms
from predicate_extract.backends.sql.values import Value, call, constant, is_ascii
from predicate_extract.backends.truth import Backend, Outcome, Unfaithful

DIALECTS = ("duckdb", "spark")
"""The dialects whose results are known to be Python's."""

_EXAMPLES: dict[str | None, object] = {
    "str": "",
    "bytes": b"",
    "integer": 0,
    "float": 0.0,
    "decimal": Decimal(0),
    "date": date.min,
    "naive": datetime.min,
    "aware": datetime.now(UTC),
}


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
        with suppress(Unfaithful):
            return self._of_letters(condition)
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
            case Truthy(Call("isinstance", (of, *kinds))):
                names = [str(each.value) for each in kinds if isinstance(each, Const)]
                return self._isinstance(self._value(of), names)
            case Truthy(Call("contains", (Call("range") as numbers, item))):
                return self._in_range(self._value(item), numbers)
            case Truthy(Call("contains", (Call("tuple" | "list", parts), item))):
                return self._is_one_of(self._value(item), [self._value(part) for part in parts])
            case Defined(Call("hash", (of,))):
                value = self._value(of)
                if value.family in (None, "list"):
                    raise Unfaithful
                return _outcome(~value.raised, value.raised, value.sure)
            case Truthy(of):
                value = self._value(of)
                return _outcome(truth(value), value.raised, value.sure)
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
            if unordered(left, right):
                return Outcome(FALSE, TRUE)
            return _outcome(hits(op, left, right), left.absent | right.absent, sure)
        equal = hits("==", left, right) | (left.none & right.none)
        return _outcome(equal if op == "==" else ~equal, left.raised | right.raised, sure)

    def _of_letters(self, condition: Predicate) -> Outcome[Bits]:
        """A condition on the characters of a text.

        Raises: Unfaithful, if it is none.
        """
        match condition:
            case Compare("==" | "!=" as op, Call(function, (of,)), Const(str() as text)) | Compare(
                "==" | "!=" as op, Const(str() as text), Call(function, (of,))
            ) if function in CASES:
                outcome = self._has(of, [spelled(function, "==", text)])
                return outcome if op == "==" else self._inverted(outcome)
            case In(Call(function, (of,)), values) if function in CASES:
                texts = [each.value for each in values if isinstance(each.value, str)]
                patterns = [spelled(function, "==", text) for text in texts]
                return self._has(of, [f"(?:{'|'.join(patterns)})"] if patterns else [NOTHING])
            case Truthy(Call(how, (Call(function, (of,)), Const(str() as text)))) if (
                function in CASES and how in PLACES
            ):
                return self._has(of, [spelled(function, how, text)])
            case Truthy(Call(function, (of,))) if (kind := kind_of_text(function)) is not None:
                return self._has(of, *kind)
        raise Unfaithful

    def _has(self, of: Term, some: list[str], none: Sequence[str] = ()) -> Outcome[Bits]:
        """Where each of some patterns is found in a text, and none of others."""
        value = self._value(of)
        if value.family != "str":
            raise Unfaithful
        found: Bits = TRUE
        for pattern in (*some, *none):
            sql = call("REGEXP_MATCHES", value.sql, exp.Literal.string(pattern))
            one = Test.of(sql, value.nulls)
            found &= ~one if pattern in none else one
        return _outcome(found, value.absent, value.sure)

    def _isinstance(self, value: Value, kinds: list[str]) -> Outcome[Bits]:
        if value.slot is None or value.family not in _EXAMPLES:
            raise Unfaithful
        one = False if value.sql_type == "BOOLEAN" else _EXAMPLES[value.family]
        types = tuple(ISINSTANCE[kind] for kind in kinds)
        there, none = isinstance(one, types), isinstance(None, types)
        found = (TRUE if none else ~value.none) if there else value.none if none else FALSE
        return _outcome(found, value.raised, value.sure)

    def _in_range(self, item: Value, numbers: Call) -> Outcome[Bits]:
        among = numbers.compute(lambda field: None)
        if item.family != "integer" or not isinstance(among, range):
            raise Unfaithful
        if not among:
            return _outcome(FALSE, item.raised, item.sure)
        low, high = sorted((among[0], among[-1]))
        number = item.number()
        found = hits(">=", number, constant(low)) & hits("<=", number, constant(high))
        if (step := abs(among.step)) > 1:
            rest = replace(arithmetic("%", [number, constant(step)]), nulls=item.nulls)
            found &= hits("==", rest, constant(low % step))
        return _outcome(found & ~item.none, item.raised, item.sure)

    def _is_one_of(self, item: Value, values: list[Value]) -> Outcome[Bits]:
        # A NaN is in a tuple that holds this very object.
        if item.nan or item.family in (None, "list", "member"):
            raise Unfaithful
        if any(each.family in ("list", "member") for each in values):
            raise Unfaithful
        found = any_of(
            hits("==", *_in_order(item, each)) | item.none & each.none for each in values
        )
        raised = any_of(each.raised for each in (item, *values))
        return _outcome(found, raised, all(each.sure for each in (item, *values)))

    def _matches(self, of: Term, how: str, pattern: str, flags: Sequence[Term]) -> Outcome[Bits]:
        """Where a pattern matches a text; one that is no text raises."""
        value = self._value(of)
        known = [flag.value for flag in flags if isinstance(flag, Const)]
        if value.family != "str" or len(known) < len(flags):
            raise Unfaithful
        wanted = _linear(pattern, known, how)
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
        others, listed = FALSE, []
        for const in values:
            equal = item.none if const.value is None else hits("==", item, self._value(const))
            if isinstance(equal, Test) and isinstance(equal.sql, exp.EQ):
                listed.append(equal)
            else:
                others |= equal
        if len(listed) < 2:
            return any_of((*listed, others))
        literals = [equal.sql.expression for equal in listed]
        return Test.of(exp.In(this=listed[0].sql.this, expressions=literals), item.nulls) | others


def _linear(pattern: str, given: list[Any], how: str) -> Linear:
    """The pattern, if possible with the letters and digits of this Python."""
    flags = given[0] if given else 0
    try:
        return linear(pattern, flags, how, beyond_ascii=True)
    except NotLinear:
        pass
    try:
        return linear(pattern, flags, how)
    except NotLinear as error:
        raise Unfaithful from error


def _in_order(item: Value, other: Value) -> tuple[Value, Value]:
    return (other, item) if item.constant is not None else (item, other)


def _outcome(true: Bits, raised: Bits, sure: bool) -> Outcome[Bits]:
    if raised == FALSE:
        return Outcome(true)
    return Outcome(true & ~raised, raised, sure=sure)

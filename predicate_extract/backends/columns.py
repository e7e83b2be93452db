"""Evaluate a predicate on whole Arrow columns, with the results of Python on every row.

A row of the batch stands for an object with the columns as attributes (a struct is an object
again, null is None). Ordering a null raises, `== None` does not, integers compare exactly with any
constant. A condition that Arrow and numpy cannot decide as Python does is evaluated in Python, on
the distinct values of its column; what columns cannot say counts as raised, which sends the row to
the Python filter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from predicate_extract.algebra.constants import Member, Plain
from predicate_extract.algebra.functions import MATCHING
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
from predicate_extract.algebra.terms import Call, Const, Field, Term
from predicate_extract.backends.bounds import for_floats, for_integers
from predicate_extract.backends.objects import (
    UNREACHABLE,
    Column,
    column_of,
    distinct,
    meet,
    objects,
    valid_rows,
)
from predicate_extract.backends.patterns import found_in
from predicate_extract.backends.truth import Backend, Outcome, Unfaithful

Bools = npt.NDArray[np.bool_]

_ARROW = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_FIXED_ZONE = re.compile(r"UTC|Etc/UTC|[+-]\d\d:\d\d")
_FEW = 4
_WORDS = {pa.date32().id: np.int32, pa.timestamp("us").id: np.int64}


@dataclass(frozen=True, slots=True)
class Mask:
    """Where a predicate is true, and where it raises or is not known (None: nowhere); one bool a
    row."""

    true: Bools
    raised: Bools | None

    @property
    def keep(self) -> Bools:
        """The rows that must reach the filter."""
        return self.true if self.raised is None else self.true | self.raised


def mask(predicate: Predicate, batch: pa.RecordBatch) -> Mask:
    """Evaluate `predicate` on every row of `batch`."""
    outcome = _Columns(batch).judge(predicate)
    return Mask(outcome.true, outcome.unsure)


@dataclass(frozen=True, slots=True)
class _Values:
    """A column, ready to compare; `valid` and `reached` are None when every row is.

    `data` is a numpy array for numbers, dates and timestamps, an Arrow array otherwise. It holds
    something for every row; `valid` says where that is the value, and `reached` where the objects
    on the way to it exist.
    """

    type: pa.DataType
    family: str | None
    data: Any
    valid: Bools | None
    reached: Bools | None
    member_of: str | None = None


class _Columns(Backend[Bools]):
    def __init__(self, batch: pa.RecordBatch) -> None:
        super().__init__(batch.schema)
        self._batch = batch
        self._ready: dict[Field, _Values] = {}

    def constant(self, value: bool) -> Bools:
        return np.full(self._batch.num_rows, value)

    def condition(self, condition: Predicate) -> Outcome[Bools]:
        try:
            return self._native(condition)
        except Unfaithful:
            return self._by_value(condition)

    def _native(self, condition: Predicate) -> Outcome[Bools]:
        match condition:
            case Compare(op, Field() as left, Const(value)):
                return self._compare_constant(op, self._values(left), value)
            case Compare(op, Const(value), Field() as right):
                return self._compare_constant(MIRRORED[op], self._values(right), value)
            case Compare(op, Field() as left, Field() as right):
                return self._compare_fields(op, self._values(left), self._values(right))
            case In(Field() as item, values):
                column = self._values(item)
                return self._reach(column, self._is_in(column, values))
            case IsNull(Field() as field):
                column = self._values(field)
                null = self.constant(False) if column.valid is None else ~column.valid
                return self._reach(column, null)
            case Defined(Field() as field):
                return self._reach(self._values(field), self.constant(True))
            case Truthy(Field() as field):
                column = self._values(field)
                return self._reach(column, _restrict(self._truth(column), column.valid))
            case Truthy(Call(how, (Field() as text, Const(str() as pattern), *flags))) | IsNull(
                Call(how, (Field() as text, Const(str() as pattern), *flags))
            ) if how in MATCHING:
                found = self._matches(self._values(text), how, pattern, tuple(flags))
                return found if isinstance(condition, Truthy) else self._inverted(found)
        raise Unfaithful

    # -- reading a column ----------------------------------------------------------------------

    def _values(self, field: Field) -> _Values:
        if field not in self._ready:
            self._ready[field] = _prepare(column_of(self._batch, field))
        return self._ready[field]

    # -- any condition, value by value ---------------------------------------------------------

    def _by_value(self, condition: Predicate) -> Outcome[Bools]:
        """Evaluate what has no faithful operation on columns in Python, once for each value of its
        field, or for each row if it has several."""
        fields = condition.fields()
        columns = [column_of(self._batch, field) for field in fields]
        if len(columns) == 1:
            values, codes = distinct(columns[0])
            rows: Iterable[tuple[object, ...]] = zip(values)
        else:
            codes = None
            rows = zip(*map(objects, columns), strict=True) if columns else [()]
        answers = [_answer(condition, dict(zip(fields, row, strict=True))) for row in rows]
        true = np.array([answer is True for answer in answers], bool)
        raised = np.array([answer is None for answer in answers], bool)
        if codes is not None:
            true, raised = true[codes], raised[codes]
        elif not columns:
            true, raised = (np.full(self._batch.num_rows, bits[0]) for bits in (true, raised))
        return Outcome(true, raised if raised.any() else None)

    # -- single conditions ---------------------------------------------------------------------

    def _compare_constant(self, op: str, column: _Values, value: Plain) -> Outcome[Bools]:
        equality = op in ("==", "!=")
        if column.family is None:
            raise Unfaithful
        if value is None and equality:
            null = self.constant(False) if column.valid is None else ~column.valid
            return self._reach(column, null if op == "==" else ~null)
        hits = self._hits(op, column, value)
        if hits is None:
            if not equality:
                return Outcome(self.constant(False), self.constant(True))
            hits = self.constant(op == "!=")
        return self._settle(op, column, hits, column.valid)

    def _compare_fields(self, op: str, left: _Values, right: _Values) -> Outcome[Bools]:
        if left.family is None or right.family is None:
            raise Unfaithful
        reached = meet(left.reached, right.reached)
        if "member" in (left.family, right.family):
            raise Unfaithful
        both = _Values(left.type, left.family, None, meet(left.valid, right.valid), reached)
        hits = self._hits_of_two(op, left, right)
        if hits is None:
            if op not in ("==", "!="):
                return Outcome(self.constant(False), self.constant(True))
            hits = self.constant(op == "!=")
        outcome = self._settle(op, both, hits, both.valid)
        if op in ("==", "!=") and left.valid is not None and right.valid is not None:
            nones = _restrict(~left.valid & ~right.valid, reached)
            return Outcome(
                outcome.true | nones if op == "==" else outcome.true & ~nones, outcome.raised
            )
        return outcome

    def _matches(
        self, column: _Values, how: str, pattern: str, flags: tuple[Term, ...]
    ) -> Outcome[Bools]:
        """Where a pattern matches; what is no text raises, as what has no order does."""
        if column.family != "str":
            raise Unfaithful
        hits, unknown = found_in(column.data, how, pattern, flags)
        outcome = self._settle("<", column, _bools(hits), column.valid)
        if unknown is None:
            return outcome
        maybe = _restrict(_bools(unknown), column.reached)  # False for null
        return Outcome(outcome.true & ~maybe, outcome.raised, maybe)

    def _settle(self, op: str, column: _Values, hits: Bools, valid: Bools | None) -> Outcome[Bools]:
        """What a comparison gives, from its hits among the values that are not None."""
        if valid is None:
            return self._reach(column, hits)
        if op == "!=":
            return self._reach(column, hits | ~valid)
        outcome = self._reach(column, hits & valid)
        if op == "==":
            return outcome
        raised = ~valid if outcome.raised is None else ~valid | outcome.raised
        return Outcome(outcome.true, raised)

    def _reach(self, column: _Values, true: Bools) -> Outcome[Bools]:
        if column.reached is None:
            return Outcome(true)
        return Outcome(true & column.reached, ~column.reached)

    def _hits(self, op: str, column: _Values, value: Plain) -> Bools | None:
        """Where `column op value` holds; None if they are of kinds that never compare."""
        kind, data = column.family, column.data
        other = family_of(value)
        numbers = ("integer", "float", "decimal")
        if kind != other and not (kind in numbers and other in numbers):
            return None
        match kind, value:
            case "integer", int() | float() | Decimal():
                if isinstance(value, Decimal) and not value.is_finite():
                    raise Unfaithful
                limits = np.iinfo(data.dtype)
                bound = for_integers(op, value, int(limits.min), int(limits.max))
            case "float", int() | float():
                bound = for_floats(op, value)
            case "decimal", int() | Decimal():
                return _arrow(op, data, _decimal_scalar(value, column.type))
            case (("str" | "bytes"), (str() | bytes())):
                return _arrow(op, data, _scalar(value, data.type))
            case "member", Member(of, name) if op in ("==", "!="):
                if of != column.member_of:
                    return self.constant(op == "!=")
                return _arrow(op, data, _scalar(name, data.type))
            case "date", date():
                bound = op, (value - date(1970, 1, 1)).days
            case (("naive" | "aware"), datetime()):
                bound = op, _microseconds(value, column.type)
            case _:
                raise Unfaithful
        if isinstance(bound, bool):
            return self.constant(bound)
        compared: Bools = COMPARISONS[bound[0]](data, data.dtype.type(bound[1]))
        return compared

    def _hits_of_two(self, op: str, left: _Values, right: _Values) -> Bools | None:
        one, two = left.family, right.family
        numbers = ("integer", "float", "decimal")
        if one != two and not (one in numbers and two in numbers):
            return None
        if one in ("str", "bytes", "decimal") or one != two:
            if one != two or left.type != right.type:
                raise Unfaithful
            return _arrow(op, left.data, right.data)
        mixed_signs = one == "integer" and left.data.dtype.kind != right.data.dtype.kind
        zones = one == "aware" and not (_fixed(left.type) and _fixed(right.type))
        if mixed_signs or zones:
            raise Unfaithful
        compared: Bools = COMPARISONS[op](left.data, right.data)
        return compared

    def _is_in(self, column: _Values, values: tuple[Const, ...]) -> Bools:
        if column.family is None or any(const.is_nan for const in values):
            raise Unfaithful
        plain = [const.value for const in values if const.value is not None]
        alike = [value for value in plain if family_of(value) == column.family]
        if column.family == "str" and len(alike) > _FEW:
            table = pa.array([_scalar(value, column.data.type) for value in alike])
            hits = _bools(pc.is_in(column.data, value_set=table))
        else:
            hits = self.constant(False)
            for value in plain:
                hit = self._hits("==", column, value)
                hits = hits if hit is None else hits | hit
        hits = _restrict(hits, column.valid)
        if len(plain) < len(values) and column.valid is not None:
            hits = hits | ~column.valid
        return hits

    def _truth(self, column: _Values) -> Bools:
        match column.family:
            case "integer" | "float":
                truth: Bools = column.data != 0
                return truth
            case "str" | "bytes":
                return _arrow(
                    "!=",
                    column.data,
                    pa.scalar("" if column.family == "str" else b"", column.data.type),
                )
            case "date" | "naive" | "aware" | "member":
                return self.constant(True)
        raise Unfaithful


def _answer(condition: Predicate, values: dict[Field, object]) -> bool | None:
    def read(field: Field) -> object:
        value = values[field]
        if value is UNREACHABLE:
            raise AttributeError(f"{field} is an attribute of None")
        return value

    try:
        return condition.holds(read)
    except Exception:  # noqa: BLE001 - whatever the filter would raise here is this result
        return None


def _prepare(column: Column) -> _Values:
    array, member_of = column.array, column.member_of
    if pa.types.is_null(array.type):
        # Every value is None; the type that stands in for it does not matter.
        array = array.cast(pa.int64())
        column = replace(column, array=array)
    type, valid = array.type, valid_rows(array)
    kind = column.family
    if kind in ("integer", "float", "date", "naive", "aware"):
        array = _to_numpy(array, type)
    return _Values(type, kind, array, valid, column.reached, member_of)


def _to_numpy(array: Any, type: pa.DataType) -> npt.NDArray[Any]:
    if pa.types.is_boolean(type):
        return _bools(array).view(np.int8)
    word = _WORDS.get(type.id) or type.to_pandas_dtype()
    if not len(array):
        return np.empty(0, word)
    # Behind a null is any value: as good as another.
    values = np.frombuffer(array.buffers()[1], word, count=array.offset + len(array))[
        array.offset :
    ]
    # Comparing a float32 with a Python float would round the latter.
    return values.astype(np.float64) if values.dtype.kind == "f" and word != np.float64 else values


def _bools(array: Any) -> Bools:
    if array.null_count:
        array = array.fill_null(False)
    values: Bools = array.to_numpy(zero_copy_only=False)
    return values


def _arrow(op: str, left: Any, right: Any) -> Bools:
    return _bools(_ARROW[op](left, right))


def _restrict(bits: Bools, to: Bools | None) -> Bools:
    return bits if to is None else bits & to


def _scalar(value: Plain, type: pa.DataType) -> Any:
    try:
        return pa.scalar(value, type)
    except (UnicodeEncodeError, pa.ArrowInvalid) as error:
        # A lone surrogate: no column holds one.
        raise Unfaithful from error


def _decimal_scalar(value: int | Decimal, type: pa.DataType) -> Any:
    exact = Decimal(value)
    if not exact.is_finite():
        raise Unfaithful
    return _scalar(exact, type)


def _fixed(type: pa.DataType) -> bool:
    return _FIXED_ZONE.fullmatch(type.tz) is not None


def _microseconds(value: datetime, type: pa.DataType) -> int:
    if value.tzinfo is None:
        return (value - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    # In a zone with summer time Python compares wall clocks, or calls the repeated hour unequal.
    if not _fixed(type) or getattr(value.tzinfo, "key", "UTC") != "UTC":
        raise Unfaithful
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

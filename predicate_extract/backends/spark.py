"""A predicate as a native Spark Column, in front of the Python part of a query.

Spark differs from Python in nulls (a comparison with null is null), in NaN (equal to itself and
greater than all else) and in evaluating every part of a condition. So each condition becomes two
Columns that are never null, where it is true and where it raises, and these are combined as in
`predicate_extract.truth`. What Spark cannot decide as Python does keeps its rows.
"""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import pyarrow as pa

from predicate_extract.algebra.constants import Plain
from predicate_extract.algebra.predicate import (
    COMPARISONS,
    MIRRORED,
    TRUE,
    Compare,
    Defined,
    In,
    IsNull,
    Predicate,
    Truthy,
)
from predicate_extract.algebra.schema import Slot, family, family_of, find
from predicate_extract.algebra.terms import Const, Field, Key
from predicate_extract.backends.bounds import for_floats, for_integers
from predicate_extract.backends.truth import Backend, Outcome, Unfaithful

# pyspark's Column, which only an installed pyspark can name.
Column = Any


def to_column(
    predicate: Predicate, schema: pa.Schema, functions: Any
) -> tuple[Column | None, bool]:
    """The rows to keep, and whether these are exactly the rows where the predicate is true.

    `functions` is the module `pyspark.sql.functions`, handed in so that this package needs none.

    The rows have the columns of `schema`, a struct per nested object. The Column keeps every row
    for which the predicate is true or raises, and may keep more; it is None if it would keep all.
    """
    if predicate == TRUE:
        return None, True
    backend = _Spark(schema, functions)
    outcome = backend.judge(predicate)
    return outcome.keep, outcome.exact


class _Spark(Backend[Column]):
    def __init__(self, schema: pa.Schema, functions: Any) -> None:
        super().__init__(schema)
        self._f = functions

    def constant(self, value: bool) -> Column:
        return self._f.lit(value)

    def condition(self, condition: Predicate) -> Outcome[Column]:
        match condition:
            case Compare(op, Field() as field, Const(value)):
                return self._compare(op, field, value)
            case Compare(op, Const(value), Field() as field):
                return self._compare(MIRRORED[op], field, value)
            case In(Field() as field, values):
                slot, column = self._find(field)
                if family(slot.type) is None or any(const.is_nan for const in values):
                    raise Unfaithful
                hits = self.constant(False)
                for const in values:
                    hits = hits | self._equal(slot, column, const.value)
                return self._reach(field, hits)
            case IsNull(Field() as field) if find(self.schema, field) is not None:
                return self._reach(field, self._column(field.path).isNull())
            case Defined(Field() as field) if find(self.schema, field) is not None:
                return self._reach(field, self.constant(True))
            case Truthy(Field() as field):
                slot, column = self._find(field)
                return self._reach(field, self._never_null(self._truth(slot, column)))
        raise Unfaithful

    def _find(self, field: Field) -> tuple[Slot, Column]:
        slot = find(self.schema, field)
        if slot is None or not slot.plain:
            raise Unfaithful
        return slot, self._column(field.path)

    def _column(self, path: tuple[Key, ...]) -> Column:
        column = self._f.col(f"`{str(path[0]).replace('`', '``')}`")
        for name in path[1:]:
            column = column.getField(name)
        return column

    def _reach(self, field: Field, true: Column) -> Outcome[Column]:
        """Reading raises where an object on the way is null."""
        slot = find(self.schema, field)
        if slot is not None and slot.reachable:
            return Outcome(true)
        missing = self.constant(False)
        for depth in range(1, len(field.path)):
            missing = missing | self._column(field.path[:depth]).isNull()
        return Outcome(true & ~missing, missing)

    def _compare(self, op: str, field: Field, value: Plain) -> Outcome[Column]:
        slot, column = self._find(field)
        if family(slot.type) is None:
            raise Unfaithful
        if op in ("==", "!="):
            equal = self._equal(slot, column, value)
            return self._reach(field, equal if op == "==" else ~equal)
        hits = self._hits(op, slot, column, value)
        if hits is None:
            return Outcome(self.constant(False), self.constant(True))
        outcome = self._reach(field, self._never_null(hits))
        if not slot.nullable:
            return outcome
        null = column.isNull()
        return Outcome(outcome.true, null if outcome.raised is None else outcome.raised | null)

    def _equal(self, slot: Slot, column: Column, value: Plain) -> Column:
        """Whether the value equals the constant; never null."""
        if value is None:
            return column.isNull()
        hits = self._hits("==", slot, column, value)
        return self.constant(False) if hits is None else self._never_null(hits)

    def _never_null(self, condition: Column) -> Column:
        return self._f.coalesce(condition, self.constant(False))

    def _hits(self, op: str, slot: Slot, column: Column, value: Plain) -> Column | None:
        """`column op value`, null for null; None if they are of kinds that never compare."""
        kind, other = family(slot.type), family_of(value)
        numbers = ("integer", "float", "decimal")
        if kind != other and not (kind in numbers and other in numbers):
            return None
        types = pa.types
        compare = COMPARISONS[op]
        match kind, value:
            case "integer", int() | float() if types.is_boolean(slot.type):
                if_true, if_false = bool(compare(True, value)), bool(compare(False, value))
                return (column & self._f.lit(if_true)) | (~column & self._f.lit(if_false))
            case "integer", int() | float() if types.is_signed_integer(slot.type):
                high = 2 ** (slot.type.bit_width - 1) - 1
                bound = for_integers(op, value, -high - 1, high)
                if isinstance(bound, bool):
                    return self.constant(bound)
                return COMPARISONS[bound[0]](column, self._f.lit(bound[1]).cast("bigint"))
            case "float", int() | float() if types.is_float64(slot.type):
                bound = for_floats(op, value)
                if isinstance(bound, bool):
                    return self.constant(bound)
                if math.isinf(bound[1]):
                    raise Unfaithful
                hits = COMPARISONS[bound[0]](column, self._f.lit(float(bound[1])))
                # Spark calls NaN greater than every number.
                return hits & ~self._f.isnan(column) if bound[0] in (">", ">=") else hits
            case "str", str() if "\0" not in value and value.isprintable():
                return compare(column, self._f.lit(value))
            case "date", date():
                return compare(column, self._f.lit(value))
        raise Unfaithful

    def _truth(self, slot: Slot, column: Column) -> Column:
        match family(slot.type):
            case "integer" if pa.types.is_boolean(slot.type):
                return column
            case "integer" if pa.types.is_signed_integer(slot.type):
                return column != self._f.lit(0)
            case "float" if pa.types.is_float64(slot.type):
                return column != self._f.lit(0.0)
            case "str":
                return column != self._f.lit("")
            case "date":
                return column.isNotNull()
        raise Unfaithful

"""What Python says on rows that Spark fails in a filter's place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from activebroker.core.errors import ActiveBrokerError
from activebroker.events import EventType, from_table
from activebroker.filters import Envelope, FilterRunner, unpack
from activebroker.spark.frame import Path, column
from activebroker.spark.streams import KEY
from predicate_extract import Const, Predicate, Term

if TYPE_CHECKING:
    from pyspark.sql import Column

_ROWS = 400
_MOST = 16  # kinds of rows, by which of their fields are null
_ORDINARY: tuple[Any, ...] = (
    *(0, 1, -1, 2, 0.5, -0.5, float("nan"), float("inf"), Decimal(0), Decimal("1.5")),
    *("", "a", "1", b"", b"a", False, True),
    *(date(2020, 1, 1), date(9999, 12, 30), datetime(2020, 1, 1), datetime(9999, 12, 30)),
)


@dataclass(frozen=True, slots=True)
class Words:
    """The errors of some rows, by which of these fields are null there."""

    fields: tuple[Path, ...]
    said: dict[tuple[bool, ...], str]

    @classmethod
    def of(cls, envelope: Envelope, type: EventType, predicate: Predicate) -> Words:
        """Let the filter, which does nothing but raise or forward, have rows made of its own
        constants: Spark evaluates conditions, which know only that Python raises."""
        fields = tuple(
            dict.fromkeys(
                tuple(map(str, field.path[: field.keyed.index(True) if field.keyed else None]))
                for field in predicate.fields()
            )
        )
        pool = _Pool([*_ORDINARY, *_around(predicate)])
        random = Random(0)
        schema = type.schema
        read = {path[0] for path in fields}
        drawn = [each for each in schema if each.name in read or not each.nullable]
        rows = [{each.name: _drawn(each, pool, random) for each in drawn} for _ in range(_ROWS)]
        try:
            table = pa.Table.from_pylist(rows, schema)
            batches = from_table(type, table, "DataFrame", "", 0, 0)
            payload = unpack(envelope, KEY)
            runner = FilterRunner(
                payload,
                channel="",
                name=envelope.name,
                shared=envelope.shared,
                stop_on_error=False,
            )
            failures = runner.run(batches).failures
        except (ActiveBrokerError, pa.ArrowException):  # these values are none of its events
            return cls((), {})
        found: dict[tuple[bool, ...], dict[str, None]] = {}
        for failure in failures:
            if failure.seq < 0:  # it cannot be made here
                return cls((), {})
            nulls = tuple(_is_null(rows[failure.seq], path) for path in fields)
            found.setdefault(nulls, {})[failure.error] = None
        return cls(fields, {nulls: _either(list(errors)) for nulls, errors in found.items()})

    def column(self) -> Column:
        """The error of a row, after a space; an empty text where none is known."""
        from pyspark.sql import functions as f

        if len(self.said) > _MOST:
            return f.lit("")
        told = f.when(f.lit(False), "")
        for nulls, error in self.said.items():
            here = f.lit(True)
            for path, null in zip(self.fields, nulls, strict=True):
                found = column(path[0])
                for name in path[1:]:
                    found = found.getField(name)
                here = here & (found.isNull() if null else found.isNotNull())
            told = told.when(here, f" {error}")
        return told.otherwise("")


def _either(errors: list[str]) -> str:
    """The errors; only the class of those that tell of their values, which are made up here."""
    by_class: dict[str, list[str]] = {}
    for error in errors:
        by_class.setdefault(error.partition(":")[0], []).append(error)
    if len(errors) > 2:
        return " or ".join(by_class)
    return " or ".join(name if len(some) > 1 else some[0] for name, some in by_class.items())


def _around(term: Term) -> Iterator[Any]:
    """The constants in a predicate, and what is next to them."""
    if isinstance(term, Const):
        value: Any = term.value
        yield value
        if isinstance(value, int | float | Decimal):
            yield from (value - 1, value + 1)
        elif isinstance(value, date) and date(2, 1, 1) < date(*value.timetuple()[:3]) < date.max:
            yield from (value - timedelta(1), value + timedelta(1))
    for part in term.operands():
        yield from _around(part)


def _drawn(field: pa.Field, pool: _Pool, random: Random) -> Any:
    """A value of a field: one of the pool, if that has any of its type."""
    if field.nullable and random.random() < 0.3:
        return None
    if pa.types.is_struct(field.type):
        return {each.name: _drawn(each, pool, random) for each in field.type}
    if pa.types.is_list(field.type):
        return [_drawn(field.type.value_field, pool, random) for _ in range(random.randrange(3))]
    fitting = pool.fitting(field.type)
    return random.choice(fitting) if fitting else None


class _Pool:
    def __init__(self, values: list[Any]) -> None:
        self._values = values
        self._fitting: dict[pa.DataType, list[Any]] = {}

    def fitting(self, type: pa.DataType) -> list[Any]:
        """The values that a column of this type can have."""
        if type not in self._fitting:
            self._fitting[type] = [each for each in self._values if _fits(each, type)]
        return self._fitting[type]


def _fits(value: Any, type: pa.DataType) -> bool:
    try:
        return bool(pa.scalar(value, type).is_valid)
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        return False


def _is_null(row: Any, path: Path) -> bool:
    for name in path:
        row = None if row is None else row[name]
    return row is None

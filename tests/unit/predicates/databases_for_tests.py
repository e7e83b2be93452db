"""Databases that evaluate a predicate's condition, and what Python says of the same rows."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from test_column_masks import rows_of

from predicate_extract import Predicate
from predicate_extract.algebra.functions import FUNCTIONS, MATCHING, Function
from predicate_extract.backends.sql import where

ROW = "row number"


def numbered(batch: pa.RecordBatch) -> pa.Table:
    return pa.table(batch).append_column(ROW, pa.array(range(batch.num_rows)))


def register(database: Any, batch: pa.RecordBatch) -> None:
    database.register("events", numbered(batch))


def _in_python(how: str) -> Function:
    def run(text: Any, pattern: Any, flags: int = 0) -> object:
        return getattr(re, how)(pattern, text, flags)

    return Function(run, {})


_PATTERNS = {how: _in_python(how) for how in MATCHING}


def answer(predicate: Predicate, content: Any) -> bool | None:
    """What Python says, where it may take as long as it likes to search a text."""
    with patch.dict(FUNCTIONS, _PATTERNS):
        return predicate.evaluate(content)


class Engine(ABC):
    """A database; `at_once` conditions a query: its time grows faster than their number."""

    dialect: str
    at_once: int
    lacks: Sequence[pa.DataType] = ()

    @abstractmethod
    def kept(self, conditions: list[str | None], batch: pa.RecordBatch) -> list[set[int]]:
        """The rows that each keeps."""

    def check_all(
        self,
        predicates: list[Predicate],
        batch: pa.RecordBatch,
        contents: list[Any] | None = None,
    ) -> list[bool]:
        """Each condition is sound, and exact if it is said to be. Returns which are."""
        batch = batch.select([f.name for f in batch.schema if f.type not in self.lacks])
        contents = rows_of(batch) if contents is None else contents
        found = [where(predicate, batch.schema, self.dialect) for predicate in predicates]
        texts = [text for each in found for text in (each.keep, each.raised or "FALSE")]
        kept = [
            rows
            for first in range(0, len(texts), self.at_once)
            for rows in self.kept(texts[first : first + self.at_once], batch)
        ]
        for n, (predicate, each) in enumerate(zip(predicates, found, strict=True)):
            keep, raised = kept[2 * n], kept[2 * n + 1]
            for row, content in enumerate(contents):
                expected = answer(predicate, content)
                told = f"{predicate} on {content}: {each}"
                assert row in keep or expected is False, told
                assert not each.exact or (row in keep) == (expected is not False), told
                assert not each.exact or (row in raised) == (expected is None), told
        return [each.exact and each.raised is None for each in found]


class Duck(Engine):
    dialect = "duckdb"
    at_once = 50

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def kept(self, conditions: list[str | None], batch: pa.RecordBatch) -> list[set[int]]:
        register(self._connection, batch)
        lists = [f'list("{ROW}") FILTER (WHERE {text or "TRUE"})' for text in conditions]
        (every,) = self._connection.execute(f"SELECT {', '.join(lists)} FROM events").fetchall()
        return [set(rows or ()) for rows in every]


class Spark(Engine):
    dialect = "spark"
    at_once = 100
    lacks = (pa.uint64(), pa.null())

    def __init__(self, session: Any) -> None:
        self._session = session

    def frame(self, batch: pa.RecordBatch) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        table = numbered(batch)
        types = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
        return self._session.createDataFrame(table, types)

    def kept(self, conditions: list[str | None], batch: pa.RecordBatch) -> list[set[int]]:
        from pyspark.sql.functions import expr

        wanted = [expr(text or "TRUE").alias(f"c{n}") for n, text in enumerate(conditions)]
        columns = self.frame(batch).select(ROW, *wanted).toArrow().to_pydict()
        rows = columns.pop(ROW)
        return [
            {row for row, hit in zip(rows, hits, strict=True) if hit} for hits in columns.values()
        ]

"""Generated filters against what they really do.

Sound: an event that a filter forwards, raises for, or changes anything for, matches. Exact, where
claimed: the predicate says precisely which events are forwarded, alone and unchanged.
"""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from databases_for_tests import Spark, register
from filters_for_tests import FIFOFilter, run
from programs_for_tests import Writer
from test_column_masks import rows_of

from predicate_extract import extract
from predicate_extract.backends.columns import mask
from predicate_extract.backends.sql import to_sql, where

NOTES: list[object] = []
_numbers = count()


def thing(fields: dict[str, Any]) -> SimpleNamespace:
    inner = {k: SimpleNamespace(**v) if isinstance(v, dict) else v for k, v in fields.items()}
    return SimpleNamespace(**inner)


def load(text: str, base: type = FIFOFilter) -> dict[str, Any]:
    """Execute a program, with this base class, from a file that only `linecache` knows."""
    filename = f"generated-{next(_numbers)}.py"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"FIFOFilter": base, "NOTES": NOTES, "__name__": "generated"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # `is` with a literal is a question, too
        code = compile(text, filename, "exec", dont_inherit=True)
    exec(code, namespace)
    return namespace


@dataclass(frozen=True)
class Seen:
    """What a filter did with one content: `counts` if anything of it is to be seen outside, `plain`
    if it forwarded the event, alone and unchanged, and nothing else."""

    counts: bool
    plain: bool
    changed: bool
    raised: bool
    shown: str


def watch(namespace: dict[str, Any], contents: Iterable[Any]) -> Iterator[Seen]:
    """Let one instance of the filter have all contents, for real."""
    instance = namespace["Filter"](1)
    for content in contents:
        namespace["LIMIT"] = 2
        NOTES.clear()
        shown = repr(content)
        did = run(instance, content)
        namespace["rebind"]()
        changed = did.changed or did.spoiled or bool(NOTES) or namespace["LIMIT"] != 2
        itself = len(did.sent) == 1 and getattr(did.sent[0], "content", None) is content
        yield Seen(
            counts=bool(did.sent or did.raised or changed),
            plain=itself and not (did.raised or changed),
            changed=did.changed,
            raised=bool(did.raised),
            shown=f"{did} for {shown}",
        )


def compare(
    where: str, verdicts: Iterable[bool | None], exact: bool, seen: list[Seen]
) -> Iterator[str]:
    """What an evaluation of the predicate has wrong; None is for a content that it raises for."""
    for verdict, each in zip(verdicts, seen, strict=True):
        if verdict is False and each.counts:
            yield f"unsound {where}: {each.shown}"
        if exact and (verdict is True) != each.plain and not (verdict is None and each.counts):
            yield f"not exact {where}: {each.shown}"


def violations(text: str, some: list[dict[str, Any]]) -> Iterator[str]:
    """What contradicts the extraction, for a program and the fields of a sequence of contents."""
    contents = [thing(fields) for fields in some]
    namespace = load(text)
    found = extract(namespace["Filter"], 1)
    verdicts = [found.predicate.evaluate(content) for content in contents]
    seen = list(watch(namespace, contents))
    yield from compare(f"{found.predicate}", verdicts, found.exact, seen)
    if not found.stateful:
        yield from (f"stateful: {each.shown}" for each in seen if each.changed)


def typed_violations(text: str, batch: pa.RecordBatch, database: Any) -> Iterator[str]:
    """The same where the contents have a schema: in objects, in columns, and in SQL."""
    namespace = load(text)
    found = extract(namespace["Filter"], 1, schema=batch.schema)
    contents = rows_of(batch)
    plain = [found.predicate.evaluate(content) for content in contents]
    columns = mask(found.predicate, batch)
    raised = [False] * len(contents) if columns.raised is None else columns.raised.tolist()
    in_columns = [
        None if error else true for true, error in zip(columns.true.tolist(), raised, strict=True)
    ]
    where, exact = to_sql(found.predicate, batch.schema)
    register(database, batch)
    query = f'SELECT "row number" FROM events WHERE {where or "TRUE"}'
    rows = {row for (row,) in database.execute(query).fetchall()}
    in_sql = [place in rows for place in range(len(contents))]
    seen = list(watch(namespace, contents))
    shown = f"{found.predicate} of {batch.schema}"
    yield from compare(f"objects {shown}", plain, found.exact, seen)
    yield from compare(f"columns {shown}", in_columns, False, seen)
    yield from compare(f"SQL {where} {shown}", in_sql, found.exact and exact, seen)


def violations_of(seed: int) -> list[str]:
    writer = Writer(Random(seed))
    text = writer.program()
    return list(violations(text, [writer.content() for _ in range(12)]))


def typed_violations_of(seed: int, database: Any, for_sql: bool = False) -> list[str]:
    writer = Writer(Random(f"typed {seed}"), for_sql)
    text = writer.program()
    return list(typed_violations(text, writer.batch(), database))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A thousand programs; `--rounds 1000`, as at night, makes them two hundred thousand."""
    if "block" in metafunc.fixturenames:
        blocks = metafunc.config.getoption("rounds") or 5
        metafunc.parametrize("block", range(blocks))
    if "many" in metafunc.fixturenames:  # 2,000 programs; 50,000 at night
        blocks = metafunc.config.getoption("rounds") // 2 or 20
        metafunc.parametrize("many", range(blocks))


def test_generated_filters(block):
    for seed in range(block * 100, block * 100 + 100):
        assert violations_of(seed) == [], f"seed {seed}"


def test_generated_filters_of_typed_contents(block, database):
    for seed in range(block * 100, block * 100 + 100):
        assert typed_violations_of(seed, database) == [], f"seed {seed}"


def test_generated_filters_that_sql_has_other_words_for(block, database):
    for seed in range(block * 100, block * 100 + 40):
        assert typed_violations_of(seed, database, for_sql=True) == [], f"seed {seed}"


@pytest.mark.spark
@pytest.mark.timeout(300)  # the first starts Spark
def test_generated_filters_in_spark(many, spark):
    """Many predicates on the same rows, for a job of Spark takes long."""
    engine = Spark(spark)
    random = Random(f"spark {many}")
    batch = Writer(random, for_sql=many % 2 == 1).batch(40)
    writers = (Writer(random, for_sql=many % 2 == 1) for _ in range(100))
    programs = [load(writer.program()) for writer in writers]
    found = [extract(each["Filter"], 1, schema=batch.schema) for each in programs]
    conditions = [where(each.predicate, batch.schema, "spark") for each in found]
    keeps = engine.kept([each.keep for each in conditions], batch)
    raises = engine.kept([each.raised or "FALSE" for each in conditions], batch)
    for namespace, each, condition, keep, raised in zip(
        programs, found, conditions, keeps, raises, strict=True
    ):
        verdicts = [None if row in raised else row in keep for row in range(batch.num_rows)]
        seen = list(watch(namespace, rows_of(batch)))
        exact = each.exact and condition.exact
        assert list(compare(f"{each.predicate}", verdicts, exact, seen)) == []
        if exact and each.raises:
            fails = [row.raised for row in seen]
            assert [verdict is None for verdict in verdicts] == fails, f"{each.predicate}"


@pytest.mark.timeout(60)  # it took hours
def test_a_program_with_far_more_paths_than_parts_is_analysed(database):
    assert typed_violations_of(73258, database) == []

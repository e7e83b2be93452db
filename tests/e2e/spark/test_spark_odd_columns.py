"""`apply` over what only Spark has: odd columns, collations, streams of null, streaming frames.

Without postponed annotations: the classes travel to processes that lack this module, where names in
annotations could not be looked up.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import pytest

from activebroker.core.errors import EventRefused, EventTypeError, InvalidFilter, UnknownField
from activebroker.events import Event, Zone
from activebroker.filters import FIFOFilter
from activebroker.spark import apply

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]  # the first one starts Spark


class Odd(FIFOFilter):
    """Runs in Python."""

    def enqueue(self, event: Event) -> None:
        if divmod(event.content.number, 2)[1]:
            super().enqueue(event)


class Rising(FIFOFilter):
    def __init__(self) -> None:
        self.highest = -1

    def enqueue(self, event: Event) -> None:
        if event.content.number > self.highest:
            self.highest = event.content.number
            super().enqueue(event)


class First(FIFOFilter):
    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event: Event) -> None:
        self.seen += 1
        if self.seen == 1:
            super().enqueue(event)


class Last(FIFOFilter):
    last: Event

    def enqueue(self, event: Event) -> None:
        self.last = event

    def on_end(self) -> None:
        super().enqueue(self.last)


@dataclass(frozen=True)
class Numbered:
    number: int


class Marks(FIFOFilter):
    """Remembers nothing, but does something at the end of a stream."""

    output = Numbered

    def enqueue(self, event: Event) -> None:
        super().enqueue(event.replace(Numbered(event.content.number)))

    def on_end(self) -> None:
        super().enqueue(Event(Numbered(-1), "Numbered", "", 0, 0))


@dataclass(frozen=True)
class Named:
    number: int
    name: str


def numbers(df: Any) -> list[int]:
    return sorted(row["number"] for row in df.select("number").collect())


ODD = """
    SELECT id AS number, map('a', id) AS pairs, INTERVAL '1' DAY * id AS days, NULL AS nothing,
        make_ym_interval(int(id)) AS months, id * 2 AS `a b`, parse_json('{"x": 1}') AS free,
        struct(id AS x, map(1, 2) AS y) AS r, CAST('a' AS CHAR(3)) AS `class`, id AS `weird.name`
    FROM range(6)
"""


@pytest.mark.parametrize("event_type", [None, Numbered])
@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (lambda row: row.number > 2, [3, 4, 5]),
        (Odd, [1, 3, 5]),
        (Rising, [0, 1, 2, 3, 4, 5]),
        (lambda row: [row][0].number < 2, [0, 1]),
    ],
)
def test_other_columns_stay_whatever_their_types(
    spark: Any, filter: object, expected: list[int], event_type: type | None
) -> None:
    df = spark.sql(ODD)
    found = apply(df, filter, event_type=event_type, order_by="number")
    assert found.schema == df.schema
    assert numbers(found) == expected
    kept = found.select("number", "`a b`", "pairs", "days").collect()
    assert all(row["a b"] == 2 * row.number == 2 * row.pairs["a"] for row in kept)


def test_what_forwards_other_events_has_their_fields(spark: Any) -> None:
    df = spark.sql(ODD)
    assert apply(df, Last, order_by="number").columns == ["number"]
    assert numbers(apply(df, Last, order_by="number")) == [5]
    both = df.withColumn("name", df.number.cast("string"))
    assert apply(both, Last, event_type=Numbered, order_by="number").columns == ["number"]


@pytest.mark.parametrize(
    ("error", "match", "action"),
    [
        (UnknownField, "'pairs': its type is map", lambda df: apply(df, lambda r: r.pairs)),
        (UnknownField, "'days'", lambda df: apply(df, lambda r: r.days)),
        (
            InvalidFilter,
            'expected "raise" or "skip", got \'skp\'',
            lambda df: apply(df, Odd, on_error="skp"),
        ),
        (
            InvalidFilter,
            "supplier: expected.*'pairs'",
            lambda df: apply(df, Rising, supplier="pairs"),
        ),
        (EventTypeError, "No column", lambda df: apply(df.select("pairs", "a b"), Odd)),
        (EventRefused, "no column 'name'", lambda df: apply(df, Odd, event_type=Named)),
    ],
)
def test_misfits_are_refused_at_once(
    spark: Any, error: type[Exception], match: str, action: Callable[[Any], object]
) -> None:
    with pytest.raises(error, match=match):
        action(spark.sql(ODD))


def test_two_columns_of_one_name(spark: Any) -> None:
    df = spark.sql("SELECT 1 AS number, 2 AS a, 3 AS A")
    assert numbers(apply(df, Odd)) == numbers(apply(df, lambda row: row.number == 1)) == [1]
    with pytest.raises(UnknownField, match="'A': several columns have this name"):
        apply(df, lambda row: row.A > 1)


@pytest.fixture
def collated(spark: Any) -> Iterator[Any]:
    spark.sql(
        "CREATE TABLE collated (number INT, name STRING COLLATE UTF8_LCASE, code CHAR(4)) "
        "USING parquet"
    )
    spark.sql(
        "INSERT INTO collated VALUES (1, 'A', 'a'), (2, 'a', 'ab'), (3, 'b', 'b'), (4, 'A', 'a')"
    )
    yield spark.table("collated")
    spark.sql("DROP TABLE collated")


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (lambda row: row.name != "a", [1, 3, 4]),
        (lambda row: row.name in ("a", "b"), [2, 3]),
        (lambda row: row.name.startswith("A"), [1, 4]),
        (lambda row: row.code == "a", []),
        (lambda row: row.code == "a   ", [1, 4]),
        (lambda row: row.code > "a   ", [2, 3]),
        (lambda row: row.name.title() == row.name, [1, 4]),
        (lambda row: row.code.title() == "A   ", [1, 4]),
    ],
)
def test_texts_compare_as_in_python(collated: Any, filter: object, expected: list[int]) -> None:
    found = apply(collated, filter)
    assert numbers(found) == expected
    assert found.schema == collated.schema


def test_streams_are_told_apart_as_in_python(spark: Any, collated: Any) -> None:
    assert numbers(apply(collated, First, supplier="name", order_by="number")) == [1, 2, 3]
    df = spark.createDataFrame(
        [(1, None), (2, ""), (3, "a"), (4, None), (5, "")], "number int, name string"
    )
    assert numbers(apply(df, Last, supplier="name", order_by="number")) == [3, 4, 5]
    assert numbers(apply(df, First, supplier=df.name, order_by="number")) == [1, 2, 3]
    assert numbers(apply(df, First, supplier="name", order_by=df.number.desc())) == [3, 4, 5]
    assert numbers(apply(df, First, order_by=[df.name.desc(), "number"])) == [3]


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (lambda row: row.number > 1, [2, 3]),
        (lambda row: row.number == 1, [1]),
        (Odd, [1, 3]),
        (Rising, [1, 2, 3]),
        (Last, [3]),
    ],
)
def test_a_null_that_may_not_be_is_refused_everywhere(
    spark: Any, filter: object, expected: list[int]
) -> None:
    df = spark.createDataFrame(
        [(1, "a"), (None, "b"), (2, "c"), (3, None)], "number int, name string"
    )
    with pytest.raises(Exception, match="field 'number': expected int, got null"):
        apply(df, filter, event_type=Numbered, order_by="name").collect()
    lost = spark.sparkContext.accumulator(0)
    found = apply(
        df.filter("number IS NULL OR number < 9"),
        filter,
        event_type=Numbered,
        order_by=df.number.asc_nulls_first(),
        on_error="skip",
        lost=lost,
    )
    assert numbers(found) == expected
    assert lost.value == 1


def test_what_comes_after_does_not_change_what_a_filter_sees(spark: Any) -> None:
    df = spark.createDataFrame([(n, n % 3) for n in (3, 1, 4, 1, 5, 9, 2, 6)], "number int, k int")
    rising = apply(df, Rising, order_by=df.number.desc())
    assert rising.groupBy("k").count().count() == 1
    assert numbers(rising.filter("number < 9")) == []
    assert numbers(rising.orderBy("k").limit(2)) == [9]


def test_exact_is_not_stateful(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    df = spark.sql("SELECT 'ab' AS name, 1 AS number")
    with caplog.at_level(logging.WARNING):
        found = apply(df, lambda row: row.name is not None and row.name.startswith("a"))
    assert numbers(found) == [1] and not caplog.records


def test_a_streaming_frame(spark: Any, tmp_path: Path) -> None:
    spark.range(10).withColumnRenamed("id", "number").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("number long").parquet(str(tmp_path / "in"))
    for filter in (Rising, Last, Marks):
        with pytest.raises(InvalidFilter, match=r"may remember events[^§]*foreachBatch"):
            apply(stream, filter)
    with pytest.raises(InvalidFilter, match="leave out"):
        apply(stream, lambda row: row.number > 7, order_by="number")
    for n, (filter, expected) in enumerate(
        [
            (lambda row: row.number > 7, [8, 9]),
            (lambda row: int(str(row.number)[::-1]) % 5 == 0, [0, 5]),
        ]
    ):
        query = (
            apply(stream, filter)
            .writeStream.format("memory")
            .queryName(f"found{n}")
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        assert numbers(spark.table(f"found{n}")) == expected


@dataclass(frozen=True)
class Seen:
    number: int
    at: Annotated[datetime, Zone("Europe/Berlin")]
    size: float


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (lambda row: row.at.hour == 0, [0]),
        (lambda row: row.at.hour == 23, []),
        (lambda row: str(row.size) == "2.0", [2]),
        (lambda row: row.size > 1.5, [2, 3]),
    ],
)
def test_fields_have_the_values_of_the_event_type(
    spark: Any, filter: object, expected: list[int]
) -> None:
    """A moment is read in the zone of its field; an integer in a field of floats is a float."""
    df = spark.sql(
        "SELECT id AS number, timestamp_seconds(1704063600 + id * 36000) AS at, int(id) AS size "
        "FROM range(4)"
    )
    assert numbers(apply(df, filter, event_type=Seen)) == expected


@dataclass(frozen=True)
class Inner:
    x: int


@dataclass(frozen=True)
class Outer:
    number: int
    r: Inner


@pytest.mark.parametrize("filter", [lambda row: row.r.x == 1, lambda row: divmod(row.r.x, 2)[1]])
def test_a_null_inside_a_field_is_refused_too(spark: Any, filter: object) -> None:
    df = spark.sql("SELECT id AS number, struct(IF(id > 1, NULL, id) AS x) AS r FROM range(3)")
    assert numbers(apply(df.filter("number < 2"), filter, event_type=Outer)) == [1]
    with pytest.raises(Exception, match=r"field 'r\.x': expected a value, got null"):
        apply(df, filter, event_type=Outer).collect()
    assert numbers(apply(df, filter, event_type=Outer, on_error="skip")) == [1]


@pytest.mark.parametrize("setting", ["spark.sql.ansi.enabled", "spark.sql.caseSensitive"])
def test_a_session_with_other_settings(spark: Any, setting: str) -> None:
    before = spark.conf.get(setting)
    spark.conf.set(setting, "false" if before == "true" else "true")
    try:
        df = spark.createDataFrame(
            [(n, 9223372036854775807 - n) for n in range(5)], "number int, big long"
        )
        assert numbers(apply(df, lambda row: row.big + row.number > 9223372036854775806)) == [
            *range(5)
        ]
        assert numbers(apply(df, lambda row: row.number % 2 == 1 and row.big // 2 > 1)) == [1, 3]
        assert numbers(apply(df, lambda row: row.number != 0 and 4 / row.number == 2)) == [2]
    finally:
        spark.conf.set(setting, before)

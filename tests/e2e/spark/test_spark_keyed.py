"""A keyed filter comes to the same at a broker, in a batch, and in a query that is started again.

Without postponed annotations: the classes travel to processes that lack this module, where names in
annotations could not be looked up.
"""

import math
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from keyed_for_tests import batch, keyed

import activebroker as ab
from activebroker.core.errors import InvalidFilter
from activebroker.spark import apply

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),  # the first one starts Spark, slow on a busy machine
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

START = datetime(2024, 3, 1, tzinfo=UTC)
SUPPLIERS = ("JFK", "ÅRN")


@dataclass(frozen=True)
class Landed:
    number: int
    origin: str
    route: str | None
    gate: float | None
    at: Annotated[datetime, ab.Zone("UTC")]
    delay: float | None


@dataclass(frozen=True)
class Told:
    route: str | None
    what: str
    at: Annotated[datetime, ab.Zone("UTC")] | None
    value: float | None


class PerGate(ab.KeyedFilter):
    """Forwards delays with their number, tells when timers run and keys expire, and takes late
    events that have no delay; on a delay that is no number it raises."""

    key = ("route", "gate")
    time = "at"
    lateness = 60.0
    ttl = 900.0
    output = Told

    def __init__(self) -> None:
        self.seen = 0
        self.total = 0.0

    def tell(self, what: str, at: Any, value: float | None) -> None:
        self.forward(Told(self.key[0], f"{what} {self.key[1]} {self.seen}", at, value))

    def enqueue(self, event: ab.Event) -> None:
        landed = event.content
        self.seen += 1
        if landed.delay is not None:
            self.total += int(landed.delay)  # of a NaN, nothing can be made
        self.tell("seen", landed.at, landed.delay)
        if landed.route != "end":
            self.set_timer(landed.at + timedelta(minutes=self.seen))

    def on_timer(self, time: datetime) -> None:
        self.tell("timer", time, self.total)

    def on_late(self, event: ab.Event) -> None:
        if event.content.delay is None:
            self.tell("late", event.content.at, None)
        else:
            super().on_late(event)

    def on_expire(self) -> None:
        self.tell("expired", None, self.total)


class Thirds(ab.KeyedFilter):
    """Forwards every third event of a route. It has no clock, and its key is a method."""

    def __init__(self) -> None:
        self.seen = 0

    def key(self, content: Any) -> tuple[str | None, bool]:
        return content.route, content.gate is None

    def enqueue(self, event: ab.Event) -> None:
        self.seen += 1
        if self.seen % 3 == 0:
            super().enqueue(event)


def landed() -> list[Landed]:
    """Of two suppliers, with times that go back now and then. The last event of each lets all
    timers run, and all other keys expire: the end, which a query lacks, changes nothing."""
    draw = random.Random(5)
    rows, minutes = [], dict.fromkeys(SUPPLIERS, 0.0)
    for number in range(240):
        origin = draw.choice(SUPPLIERS)
        minutes[origin] += draw.choice((0.1, 0.5, 0.5, 3.0, 20.0 if number % 40 == 0 else 0.2))
        back = draw.choice((0.0, 0.0, 0.5, 1.5))
        at = START + timedelta(minutes=minutes[origin] - back)
        gate = draw.choice((None, 0.0, -0.0, math.nan, 7.5))
        route = draw.choice((None, "", "LHR", "Zürich", "日本"))
        delay = draw.choice((None, math.nan, -3.0, 12.5, 40.0))
        rows.append(Landed(number, origin, route, gate, at, delay))
    for number, origin in enumerate(SUPPLIERS, 240):
        rows.append(Landed(number, origin, "end", None, START + timedelta(days=9), 0.0))
    return rows


ROWS = landed()
SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64(), False),
        pa.field("origin", pa.string(), False),
        ("route", pa.string()),
        ("gate", pa.float64()),
        pa.field("at", pa.timestamp("us", "UTC"), False),
        ("delay", pa.float64()),
    ]
)
PARTS = (90, 200, len(ROWS))  # the ends of micro-batches


def table(rows: list[Landed]) -> pa.Table:
    return pa.Table.from_pylist([vars(row) for row in rows], SCHEMA)


@pytest.fixture(scope="module")
def at_broker() -> tuple[list[str], int, list[str]]:
    """What the first filter tells, and how many events it loses; and what the second forwards."""
    with ab.Fabric(brokers=["atlanta", "dallas"]) as fabric:
        channel = fabric.channel("landed", Landed)
        derived = channel.derive(PerGate, at="atlanta")
        thirds = channel.derive(Thirds, at="dallas")
        with derived.subscribe() as events, thirds.subscribe() as others:
            suppliers = {name: channel.supplier(name) for name in SUPPLIERS}
            for row in ROWS:
                suppliers[row.origin].publish(row)
                if row.number == 100:
                    derived.move(to="dallas")
            channel.close()
            found = [repr(event.content) for event in events], [repr(e.content) for e in others]
        lost = 0
        for name in SUPPLIERS:
            own = [row for row in ROWS if row.origin == name]
            alone = keyed(PerGate, Landed).run([batch(own, name)])
            assert alone.failures and alone.late
            lost += len(alone.failures) + alone.late
        assert derived.errors.wait(lost) and len(derived.errors) == lost
    return sorted(found[0]), lost, sorted(found[1])


@pytest.fixture
def partitions(spark: Any) -> Iterator[None]:
    """Few tasks for few rows."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, "2")
    yield
    spark.conf.set(name, before)


def collected(df: Any, cls: type) -> list[str]:
    rows = df.toArrow().to_pylist()
    for row in rows:
        row["at"] = row["at"] and row["at"].astimezone(UTC)  # whatever Arrow has for that
    return sorted(repr(cls(**row)) for row in rows)


@pytest.mark.usefixtures("partitions")
def test_in_a_batch(spark: Any, at_broker: Any) -> None:
    told, lost, thirds = at_broker
    rows = spark.createDataFrame(table(random.Random(1).sample(ROWS, len(ROWS))))
    count = spark.sparkContext.accumulator(0)
    by = {"supplier": "origin", "order_by": "number"}
    df = apply(rows, PerGate, event_type=Landed, on_error="skip", lost=count, **by)
    assert collected(df, Told) == told
    assert count.value == lost
    assert collected(apply(rows, Thirds, event_type=Landed, **by), Landed) == thirds


@pytest.mark.usefixtures("partitions")
def test_in_a_streaming_query(spark: Any, at_broker: Any, tmp_path: Path) -> None:
    told, lost, thirds = at_broker
    source, first = tmp_path / "in", 0
    source.mkdir()
    count = spark.sparkContext.accumulator(0)
    by = {"event_type": Landed, "supplier": "origin", "order_by": "number"}
    for number, last in enumerate(PARTS):
        rows = ROWS[first:last]
        file, first = source / f"{number}.parquet", last
        pq.write_table(table(random.Random(1).sample(rows, len(rows))), file)
        os.utime(file, (number, number))  # they are read in the order of these times
        if number == 0:
            schema = spark.read.parquet(str(source)).schema
            continue  # the first query has two micro-batches, the next one begins with the third
        frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        for name, options in (("told", {"on_error": "skip", "lost": count}), ("thirds", {})):
            filter = PerGate if name == "told" else Thirds
            df = apply(frame.parquet(str(source)), filter, **by, **options)
            query = (
                df.writeStream.option("checkpointLocation", str(tmp_path / f"{name} so far"))
                .trigger(availableNow=True)
                .start(str(tmp_path / name))
            )
            assert query.awaitTermination(200)
    assert collected(spark.read.parquet(str(tmp_path / "told")), Told) == told
    assert count.value == lost
    assert collected(spark.read.parquet(str(tmp_path / "thirds")), Landed) == thirds


class ByPublication(PerGate):
    time = None


def test_rows_have_no_time_of_publication(spark: Any) -> None:
    rows = spark.createDataFrame(table(ROWS[:1]))
    with pytest.raises(InvalidFilter, match="goes by the time of publication"):
        apply(rows, ByPublication, event_type=Landed)

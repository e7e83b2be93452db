"""A filter on Spark does what it does in plain Python."""

from __future__ import annotations

import time
from dataclasses import fields, make_dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import filters_for_spark as samples
import numpy as np
import pytest
from filters_for_spark import Marked, Point, Sample, Side

from activebroker.core.errors import PayloadRefused
from activebroker.events import ANY, Batch, EventType, encode
from activebroker.filters import (
    FilterRunner,
    FilterSpec,
    Runner,
    RunResult,
    analyse,
    make_runner,
    pack,
    unpack,
)
from activebroker.spark import SparkRunner

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),  # the first one starts Spark, slow on a busy machine
    pytest.mark.usefixtures("spark"),
    # pyspark warns of every newer major version of pandas; nothing here uses pandas.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

KEY = b"the fabric's key"
START = datetime(2013, 1, 1)


def make_runners(filter: object, input_type: EventType) -> tuple[FilterRunner, SparkRunner]:
    spec = FilterSpec.of(filter)
    envelope = pack(spec, input_type, analyse(spec, input_type), key=KEY)
    payload = unpack(envelope, KEY)
    plain = make_runner(payload, envelope, "derived")
    return plain, SparkRunner(payload, envelope, channel="derived", key=KEY)


def sample(rng: np.random.Generator, number: int) -> Sample:
    cls = Marked if rng.random() < 0.3 else Sample
    moment = START + timedelta(minutes=int(rng.integers(0, 500_000)))
    odd = rng.random() < 0.3
    return cls(
        number=number,
        price=None
        if rng.random() < 0.2
        else float(rng.choice([rng.normal(50, 30), np.nan, 1e300])),
        name=None if odd else str(rng.choice(["", "IBM", "Überlingen", "a\0b"])),
        naive=moment,
        aware=moment.replace(tzinfo=UTC),
        amount=Decimal(number) / 100,
        side=Side.BUY if odd else Side.SELL,
        point=None if odd else Point(rng.random(), rng.integers(0, 255, 2).astype("uint8")),
        tags=["x"] * int(rng.integers(0, 3)),
        signal=rng.random(100),
        bits=None if odd else rng.random((2, 2)) < 0.5,
    )


def make_items(seed: int) -> list[Batch | str]:
    """Batches of three suppliers and two types, with the end of a stream between them."""
    rng = np.random.default_rng(seed)
    published = dict.fromkeys(("EWR", "JFK", "LGA"), seed * 1000)
    items: list[Batch | str] = []
    for round in range(8):
        supplier = str(rng.choice(list(published)))
        contents = [sample(rng, n) for n in range(int(rng.integers(1, 30)))]
        for cls in (Sample, Marked):
            own = [content for content in contents if type(content) is cls]
            items.append(encode(EventType.of(cls), own, supplier, published[supplier], 1))
            published[supplier] += len(own)
        if round == 3:
            items.append(supplier)
    return items


def told(result: RunResult) -> tuple[list[Any], list[Any], int, bool]:
    events = [
        (event.type, event.supplier, event.seq, event.time, repr(event.content))
        for batch in result.batches
        for event in batch.events()
    ]
    failures = [(f.channel, f.filter, f.supplier, f.seq, f.error) for f in result.failures]
    return events, failures, result.late, result.stopped  # of late events, some are shown


def numbers(result: RunResult) -> list[int]:
    return [event.content.number for batch in result.batches for event in batch.events()]


FILTERS: list[object] = [
    samples.Dear,
    samples.Unanalysed,
    samples.Spectrum,
    (samples.Outlier, 30.0),
    samples.Careless,
    samples.Echo,
    samples.Pairs,
    samples.Hooked,
    samples.PerName,
    samples.Outlier(10.0),
    lambda sample: sample.name == "IBM" or sample.price > 60,
    lambda sample: sample.side is Side.BUY and sample.point is None,
]


@pytest.mark.parametrize("filter", FILTERS, ids=lambda f: FilterSpec.of(f).name)
def test_same_as_plain_python(filter: object) -> None:
    plain, spark = make_runners(filter, EventType.of(Sample))
    for seed in range(2):
        items = make_items(seed)
        expected = told(plain.run(items))
        assert told(spark.run(items)) == expected
    assert told(spark.idle()) == told(plain.idle())
    assert told(spark.end_all()) == told(plain.end_all())


def test_channel_without_a_type() -> None:
    plain, spark = make_runners(samples.Rows, ANY)
    rng = np.random.default_rng(0)
    rows = [{"number": number, "signal": rng.random(number)} for number in range(20)]
    items = [encode(ANY, rows, supplier, 0, 1) for supplier in ("EWR", "JFK")]
    expected = told(plain.run(items))
    assert len(expected[0]) == 40
    assert told(spark.run(items)) == expected


def test_events_of_an_earlier_version_of_the_class() -> None:
    """Those that lack a field have its default, also before Spark's own filter."""
    before = make_dataclass("Sample", [(f.name, f.type) for f in fields(Sample)][1:])
    older = EventType.of(before)
    newer = EventType.of(
        make_dataclass("Sample", [("number", int, 7)], bases=(before,), kw_only=True)
    )
    rng = np.random.default_rng(0)
    values = [vars(sample(rng, number)) for number in range(30)]
    contents = [
        before(**{k: v for k, v in each.items() if k in older.schema.names}) for each in values
    ]
    for filter in (lambda sample: sample.number == 7, lambda sample: sample.number > 7):
        plain, spark = make_runners(filter, newer)
        items = [encode(older, contents, "EWR", 0, 1)]
        expected = told(plain.run(items))
        assert len(expected[0]) in (0, 30) and not expected[1]
        assert told(spark.run(items)) == expected


def test_stops_at_the_first_error() -> None:
    plain, spark = make_runners(samples.Strict, EventType.of(Sample))
    items = make_items(0)
    expected = told(plain.run(items))
    assert expected[3]
    assert told(spark.run(items)) == expected


@pytest.mark.parametrize(
    "filter",
    [(samples.Outlier, 30.0), samples.Pairs, samples.Hooked, samples.PerName],
    ids=lambda f: FilterSpec.of(f).name,
)
def test_moves_with_its_state(filter: object) -> None:
    plain, spark = make_runners(filter, EventType.of(Sample))
    reference, _ = make_runners(filter, EventType.of(Sample))
    here: Runner = plain
    there: Runner = spark
    for seed in range(4):
        items = make_items(seed)
        assert told(here.run(items)) == told(reference.run(items))
        there.restore(here.snapshot())
        here.close()
        here, there = there, here
    assert spark.snapshot() == {}


def test_parameters_are_reconfigured() -> None:
    runners = make_runners(samples.Above, EventType.of(Sample))
    for seed, least in enumerate((3, 6, 0)):
        spec = FilterSpec.of(samples.Above).reconfigured({"least": least})
        type_ = EventType.of(Sample)
        envelope = pack(spec, type_, analyse(spec, type_), key=KEY)
        for runner in runners:
            runner.reconfigure(unpack(envelope, KEY), envelope)
        items = make_items(seed)
        expected, found = (told(runner.run(items)) for runner in runners)
        assert expected[0] and found == expected
    assert min(numbers(runners[0].run(make_items(4)))) == 0


def test_a_filter_that_cannot_be_made_loses_the_events() -> None:
    _, spark = make_runners(samples.Broken, EventType.of(Sample))
    result = spark.run(make_items(0))
    assert not result.batches
    assert {failure.error for failure in result.failures} == {"RuntimeError: no such model"}


def test_a_dead_executor_loses_its_events_and_is_told() -> None:
    _, spark = make_runners(samples.Deadly, EventType.of(Sample))
    rng = np.random.default_rng(0)
    event_type = EventType.of(Sample)
    first = [encode(event_type, [_plain(rng, n) for n in range(5, 9)], "JFK", 10, 1)]
    lost = spark.run(first)
    assert [failure.seq for failure in lost.failures] == [10, 11, 12, 13]
    assert "Spark job failed" in lost.failures[0].error
    after = spark.run([encode(event_type, [_plain(rng, n) for n in range(3)], "JFK", 14, 1)])
    assert numbers(after) == [0, 1, 2]


def _plain(rng: np.random.Generator, number: int) -> Sample:
    while type(made := sample(rng, number)) is not Sample:
        pass
    return made


def test_a_state_that_cannot_travel_is_told() -> None:
    _, spark = make_runners(samples.Locked, EventType.of(Sample))
    result = spark.run(make_items(0))
    assert "FilterNotPicklable" in result.failures[0].traceback
    assert "Define snapshot and restore" in result.failures[0].traceback


def test_executors_refuse_a_wrong_signature() -> None:
    plain, _ = make_runners(samples.Dear, EventType.of(Sample))
    spec = FilterSpec.of(samples.Dear)
    type = EventType.of(Sample)
    envelope = pack(spec, type, analyse(spec, type), key=b"another key")
    spark = SparkRunner(plain._payload, envelope, channel="derived", key=KEY)
    result = spark.run(make_items(0))
    assert result.failures[0].error.startswith(
        f"Spark job failed: {PayloadRefused.__module__}.{PayloadRefused.__name__}: "
    )


def test_nothing_to_do() -> None:
    _, spark = make_runners(samples.Hooked, EventType.of(Sample))
    empty = encode(EventType.of(Sample), [], "JFK", 0, 1)
    for result in (spark.run([]), spark.run([empty, "JFK"]), spark.idle(), spark.end_all()):
        assert told(result) == ([], [], 0, False)


def test_the_trigger_sets_the_time_between_jobs(
    spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def seconds_for_two_jobs(trigger: str) -> float:
        spark.conf.set("spark.activebroker.trigger", trigger)
        _, runner = make_runners(samples.Echo, EventType.of(Sample))
        contents = [sample(np.random.default_rng(0), 1)]
        started = time.monotonic()
        for seq in range(2):
            batch = encode(EventType.of(type(contents[0])), contents, "EWR", seq, 1)
            assert not runner.run([batch]).failures
        return time.monotonic() - started

    try:
        assert seconds_for_two_jobs("4000ms") >= 4.0
        seconds_for_two_jobs("soon")
        assert "expected a time such as '500ms' or '2s', got 'soon'" in caplog.text
    finally:
        spark.conf.unset("spark.activebroker.trigger")

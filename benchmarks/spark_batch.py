"""One filter class over years of flights on Spark, beside the same work written for Spark by hand.

The flights of 2013, once for each of 60 years (20.2 million rows, a row group a year), are read
from Parquet by a plain local session of two cores. Each work is done in turns by all its peers, to
a sink that keeps nothing; the medians count. Before that, each peer's rows are counted.

    uv run --group bench python benchmarks/spark_batch.py
    uv run --group bench python benchmarks/spark_batch.py --years 14 --rounds 1    # a look
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from rich.progress import Progress
from tables import Figures, write

import activebroker as ab
from activebroker.cli.demo.flights import ORIGINS, days
from activebroker.spark import apply, transpile_udfs
from activebroker.spark.java import java_home

Frame = Any
Way = Callable[[Frame], Frame]
LAST = 2013  # of the years


@dataclass(frozen=True)
class Work:
    """What is to be done, and by whom: this package, then its peers; the last peer named in
    `bounds` limits the ratio to it."""

    name: str
    ours: Way
    peers: dict[str, Way]
    bounds: dict[str, float]


class Late(ab.FIFOFilter):
    def enqueue(self, event: ab.Event) -> None:
        f = event.content
        if f.dep_delay is not None and f.dep_delay > 60 and f.origin == "JFK":
            super().enqueue(event)


def checksum(text: str) -> int:
    return zlib.crc32(text.encode())


class Chosen(ab.FIFOFilter):
    """No analysis sees through it; it forwards about 1 % of the flights."""

    def enqueue(self, event: ab.Event) -> None:
        tail = event.content.tailnum
        if tail is not None and checksum(tail) % 100 == 0:
            super().enqueue(event)


class ChosenLate(ab.FIFOFilter):
    """The same, after a condition that the analysis reads."""

    def enqueue(self, event: ab.Event) -> None:
        f = event.content
        if f.dep_delay is None or f.dep_delay <= 60 or f.tailnum is None:
            return
        if checksum(f.tailnum) % 100 == 0:
            super().enqueue(event)


class Worst(ab.FIFOFilter):
    """Forwards a carrier's flight that is later than all before."""

    def __init__(self) -> None:
        self.worst = 0.0

    def enqueue(self, event: ab.Event) -> None:
        delay = event.content.dep_delay
        if delay is not None and delay > self.worst:
            self.worst = delay
            super().enqueue(event)


@dataclass(frozen=True)
class Signal:
    flight: int
    signal: Annotated[np.ndarray, ab.Shape(128)]


class Spectrum(ab.FIFOFilter):
    """Forwards signals whose strongest frequency is a low one."""

    def enqueue(self, event: ab.Event) -> None:
        if strongest(event.content.signal) < 3:
            super().enqueue(event)


def strongest(signal: np.ndarray) -> int:
    return int(np.abs(np.fft.rfft(signal)[1:]).argmax())


def by_sql(condition: str) -> Way:
    return lambda df: df.filter(condition)


def by_pandas(function: Callable[[Any], bool], *columns: str) -> Way:
    from pyspark.sql.functions import pandas_udf

    def decided(values: pd.Series) -> pd.Series:
        return values.map(function)

    def decided_by_two(one: pd.Series, two: pd.Series) -> pd.Series:
        return pd.Series([function(*pair) for pair in zip(one, two, strict=True)])

    return lambda df: df.filter(
        pandas_udf(decided if len(columns) == 1 else decided_by_two, "boolean")(*columns)
    )


def by_transpiler(name: str, function: Callable[..., Any], *columns: str) -> Way:
    """A plain UDF that a transpiler of Spark's makes a column of; see that it does."""
    from pyspark.sql.functions import udf

    def way(df: Frame) -> Frame:
        session = df.sparkSession
        transpile_udfs(session)
        session.conf.set("spark.sql.experimental.optimizer.pyTranspilers", name)
        found = df.filter(udf(function, "boolean", useArrow=False)(*columns))
        if "Python" in found._jdf.queryExecution().executedPlan().toString():
            raise SystemExit(f"{function.__name__} is not transpiled")
        return found

    return way


def is_jfk(origin: str) -> bool:
    return origin == "JFK"


def in_2000(year: int) -> bool:
    return year == 2000


def neither(origin: str, dest: str) -> bool:
    return not (origin == "JFK" or dest == "LAX")


# In a filter, Spark leaves those to Python that may raise: its own form of `x > 1` does on a null.
TRANSPILED: tuple[tuple[Callable[..., Any], tuple[str, ...], Callable[..., Any]], ...] = (
    (is_jfk, ("origin",), lambda x: x.origin == "JFK"),
    (in_2000, ("year",), lambda x: x.year == 2000),
    (neither, ("origin", "dest"), lambda x: not (x.origin == "JFK" or x.dest == "LAX")),
)


def transpiled() -> Iterator[Work]:
    """What Spark's own transpiler takes: by `apply`, and as the same UDF by ours."""
    for function, columns, filter in TRANSPILED:
        peers = {"Spark's transpiler": by_transpiler("catalyst", function, *columns)}
        bounds = {"Spark's transpiler": 1.1}
        name = f"UDF {function.__name__}"
        yield Work(f"{name}, by apply", lambda df, f=filter: apply(df, f), peers, bounds)
        yield Work(name, by_transpiler("activebroker", function, *columns), peers, bounds)


def works() -> Iterator[Work]:
    from pyspark.sql import functions as f
    from pyspark.sql.functions import pandas_udf

    late = "dep_delay > 60 AND origin = 'JFK'"

    def grouped(way: Way) -> Way:
        return lambda df: way(df).groupBy("dest").count()

    def python_late(delay: Any, origin: Any) -> bool:
        return delay is not None and delay > 60 and origin == "JFK"

    def python_chosen(tail: Any) -> bool:
        return tail is not None and zlib.crc32(tail.encode()) % 100 == 0

    def by_groups(df: Frame) -> Frame:
        def worst(table: pa.Table) -> pa.Table:
            table = table.sort_by([("time_hour", "ascending"), ("flight", "ascending")])
            kept, so_far = [], 0.0
            for delay in table.column("dep_delay").to_pylist():
                kept.append(delay is not None and delay > so_far)
                so_far = delay if kept[-1] else so_far
            return table.filter(pa.array(kept))

        return df.groupBy("carrier").applyInArrow(worst, df.schema)

    def low(signals: pd.Series) -> pd.Series:
        return pd.Series([strongest(signal) < 3 for signal in signals])

    pandas_late = by_pandas(python_late, "dep_delay", "origin")
    yield Work(
        "origin == 'JFK'",
        lambda df: apply(df, lambda x: x.origin == "JFK"),
        {"SQL": by_sql("origin = 'JFK'")},
        {"SQL": 1.15},
    )
    yield Work(
        "guarded: delay > 60 and origin",
        lambda df: apply(df, Late),
        {"SQL": by_sql(late), "pandas UDF": pandas_late},
        {"SQL": 1.15, "pandas UDF": 1 / 8},
    )
    yield Work(
        "guarded, then groupBy",
        grouped(lambda df: apply(df, Late)),
        {"SQL": grouped(by_sql(late)), "pandas UDF": grouped(pandas_late)},
        {"SQL": 1.15, "pandas UDF": 1 / 8},
    )
    yield Work(
        "year >= 2010",
        lambda df: apply(df, lambda x: x.year >= 2010),
        {"SQL": by_sql("year >= 2010"), "pandas UDF": by_pandas(lambda x: x >= 2010, "year")},
        {"SQL": 1.15},
    )
    yield Work(
        "year == 2000",
        lambda df: apply(df, lambda x: x.year == 2000),
        {"SQL": by_sql("year = 2000"), "pandas UDF": by_pandas(lambda x: x == 2000, "year")},
        {"SQL": 1.15, "pandas UDF": 1 / 8},
    )
    yield Work(
        "dest.startswith('S')",
        lambda df: apply(df, lambda x: x.dest.startswith("S")),
        {
            "SQL": by_sql("startswith(dest, 'S')"),
            "pandas UDF": by_pandas(lambda x: x.startswith("S"), "dest"),
        },
        {"SQL": 1.15},
    )
    yield from transpiled()
    yield Work(
        "opaque, 1 %",
        lambda df: apply(df, Chosen),
        {"pandas UDF": by_pandas(python_chosen, "tailnum")},
        {"pandas UDF": 1.2},
    )
    yield Work(
        "opaque after a predicate",
        lambda df: apply(df, ChosenLate),
        {"SQL + UDF": lambda df: by_pandas(python_chosen, "tailnum")(df.filter("dep_delay > 60"))},
        {"SQL + UDF": 1.15},
    )
    yield Work(
        "keyed and ordered",
        lambda df: apply(df, Worst, supplier="carrier", order_by=["time_hour", "flight"]),
        {"applyInArrow": by_groups},
        {"applyInArrow": 1.2},
    )
    signals = f.expr(
        "transform(sequence(0, 127), i -> sin(i * (1 + flight % 20) / 20.0D) + flight)"
    )

    def with_signals(way: Way) -> Way:
        return lambda df: way(df.filter("year = 2000").select("flight", signals.alias("signal")))

    yield Work(
        "numpy FFT",
        with_signals(lambda df: apply(df, Spectrum, event_type=Signal)),
        {"pandas UDF": with_signals(lambda df: df.filter(pandas_udf(low, "boolean")("signal")))},
        {"pandas UDF": 1.05},
    )


def data(years: int, folder: Path) -> str:
    """Write the flights, a row group a year."""
    parts = [table for origin in ORIGINS for table in days(origin, 12)]
    flights = pa.concat_tables(parts)
    place = flights.schema.get_field_index("year")
    with pq.ParquetWriter(folder / "flights.parquet", flights.schema) as writer:
        for year in range(LAST - years + 1, LAST + 1):
            column = pa.array(np.full(len(flights), year), flights.schema.field("year").type)
            writer.write_table(
                flights.set_column(place, "year", column), row_group_size=len(flights)
            )
    return str(folder / "flights.parquet")


def plain_session(folder: Path) -> Any:
    """As a user makes one."""
    from pyspark.sql import SparkSession

    os.environ |= {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable}
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .getOrCreate()
    )


def seconds(frame: Frame) -> float:
    began = perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return perf_counter() - began


def measured(work: Work, df: Frame, rounds: int, without: str) -> dict[str, float]:
    """The median time of each way, which are first seen to find the same rows."""
    ways = {"ours": work.ours} | {p: w for p, w in work.peers.items() if without not in p}
    counts = {name: way(df).count() for name, way in ways.items()}
    if len(set(counts.values())) > 1:
        raise SystemExit(f"{work.name}: {counts} rows")
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name, way in list(ways.items())[:: -1 if number % 2 else 1]:  # none is always first
            times[name].append(seconds(way(df)))
    return {name: statistics.median(each) for name, each in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--years", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--only", default="", help="works whose names have one of these in them, a,b"
    )
    parser.add_argument("--without", default="none", help="peers whose names have this in them")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="spark-batch-"))
    rows, found = [], {}
    try:
        spark = plain_session(folder)
        df = spark.read.parquet(data(options.years, folder))
        some = options.only.split(",")
        wanted = [w for w in works() if any(part in w.name for part in some)]
        with Progress() as progress:
            for work in progress.track(wanted):
                times = measured(work, df, options.rounds, options.without)
                found[work.name] = times
                for peer in times.keys() - {"ours"}:
                    bound = work.bounds.get(peer)
                    rows.append(
                        (
                            work.name,
                            peer,
                            f"{times['ours']:.2f} s",
                            f"{times[peer]:.2f} s",
                            f"{times['ours'] / times[peer]:.2f}",
                            "" if bound is None else f"{bound:.2f}",
                        )
                    )
        spark.stop()
    finally:
        shutil.rmtree(folder)
    title = f"{options.years} years of flights, medians of {options.rounds}"
    figures = Figures(title, ("work", "peer", "apply", "peer's time", "ratio", "at most"), rows)
    figures.show()
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))
    if options.markdown:
        write([figures], options.markdown)


if __name__ == "__main__":
    main()

"""Our own Spark session beside a plain one: how soon it works, and how fast.

Plain is `SparkSession.builder.master("local[2]")` without the web page, in a process of its own; so
is ours, from `activebroker.spark.session()`. In each round both start anew, one after the other,
until a first small job is done. Then they take turns with each query, on the flights of 2013 once
for each of 60 years (20.2 million rows in Parquet), and with the micro-batches of a filter on a
channel. The first turn of each round is not counted. The medians of all rounds count. Both
processes import this package first, as programs do that use filters.

    uv run --group bench python benchmarks/spark_session.py
    uv run --group bench python benchmarks/spark_session.py --years 10 --rounds 1    # a look
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import activebroker as ab
from activebroker.events import Batch, EventType, encode
from activebroker.filters import FilterSpec, analyse, pack, unpack

PEERS = ("ours", "plain")
TURNS = {"micro-batch": 10, "micro-batch, keyed": 10}  # others: 3
KEY = b"benchmark"


@dataclass(frozen=True)
class Sample:
    number: int
    name: str


class Chosen(ab.FIFOFilter):
    def enqueue(self, event: ab.Event) -> None:
        if zlib.crc32(event.content.name.encode()) % 3 == 0:
            super().enqueue(event)


class Third(ab.FIFOFilter):
    """Has a state for each supplier."""

    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event: ab.Event) -> None:
        self.seen += 1
        if self.seen % 3 == 0:
            super().enqueue(event)


def session(peer: str) -> Any:
    if peer == "ours":
        from activebroker.spark import session

        return session()
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def queries(df: Any) -> dict[str, Callable[[], Any]]:
    from pyspark.sql import functions as f

    def joined() -> Any:
        some = df.filter("year >= 2004")
        worst = some.groupBy("tailnum", "year").agg(f.max("dep_delay").alias("worst"))
        return some.join(worst, ["tailnum", "year"]).filter("dep_delay = worst").count()

    few = df.groupBy("carrier", "dest").agg(f.avg("dep_delay"), f.count("*"))
    many = df.groupBy("tailnum", "year").agg(f.max("dep_delay"))
    return {
        "filter, count": df.filter("dep_delay > 60 AND origin = 'JFK'").count,
        "groupBy, 300 groups": few.count,
        "groupBy, 240,000 groups": many.count,
        "join": joined,
    }


def micro_batches(filter: type[ab.FIFOFilter]) -> Callable[[], Any]:
    """Jobs of 99 events from each of three suppliers."""
    from activebroker.spark import SparkRunner

    type_, spec = EventType.of(Sample), FilterSpec.of(filter)
    envelope = pack(spec, type_, analyse(spec, type_), key=KEY)
    runner = SparkRunner(unpack(envelope, KEY), envelope, channel="samples", key=KEY)
    samples = [Sample(n, str(n)) for n in range(99)]
    seq = 0

    def job() -> int:
        nonlocal seq
        items: list[Batch | str] = [encode(type_, samples, s, seq, 1) for s in ("a", "b", "c")]
        seq += len(samples)
        result = runner.run(items)
        if result.failures:
            raise SystemExit(result.failures[0].traceback)
        return sum(batch.num_rows for batch in result.batches)

    return job


def serve(peer: str, file: str) -> None:
    """In a peer's process: do each work whose name comes in, and tell how long it took."""

    def tell(*what: object) -> None:
        print(json.dumps(what), flush=True)

    spark = session(peer)
    spark.range(1000).count()
    tell(0)
    works = {
        **queries(spark.read.parquet(file)),
        "micro-batch": micro_batches(Chosen),
        "micro-batch, keyed": micro_batches(Third),
    }
    tell(*works)
    for line in sys.stdin:
        began = perf_counter()
        result = works[line.strip()]()
        tell(perf_counter() - began, result)


class Peer:
    def __init__(self, name: str, file: str, folder: str) -> None:
        began = perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", name, file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=folder,
        )
        self.hear()
        self.start = perf_counter() - began
        self.works = self.hear()

    def hear(self) -> list[Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("A peer has ended.")
        heard: list[Any] = json.loads(line)
        return heard

    def do(self, work: str) -> list[Any]:
        assert self.process.stdin is not None
        print(work, file=self.process.stdin, flush=True)
        return self.hear()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def play(peers: tuple[str, ...], number: int, file: str, folder: str, found: Times) -> None:
    """One round; each goes first as often as the others."""
    order = peers[number % len(peers) :] + peers[: number % len(peers)]
    with ExitStack() as stack:
        living = {}
        for name in order:
            living[name] = Peer(name, file, folder)
            stack.callback(living[name].close)
            found["start"][name].append(living[name].start)
        for work in living[order[0]].works:
            results = set()
            for turn in range(1 + TURNS.get(work, 3)):
                for name, peer in list(living.items())[:: 1 if turn % 2 else -1]:
                    seconds, result = peer.do(work)
                    results.add(result)
                    if turn:
                        found.setdefault(work, {p: [] for p in peers})[name].append(seconds)
            if len(results) > 1:
                raise SystemExit(f"{work}: different results: {results}")


Times = dict[str, dict[str, list[float]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--years", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(*options.serve)
        return
    from rich.progress import track
    from spark_batch import data
    from tables import Figures, write

    from activebroker.spark.java import java_home

    os.environ |= {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable}
    found: Times = {"start": {peer: [] for peer in PEERS}}
    folder = tempfile.mkdtemp(prefix="spark-session-")
    try:
        file = data(options.years, Path(folder))
        for number in track(range(options.rounds)):
            play(PEERS, number, file, folder, found)
    finally:
        shutil.rmtree(folder)
    medians = {work: {peer: median(times[peer]) for peer in PEERS} for work, times in found.items()}
    rows = [
        (work, f"{m['ours']:.2f} s", f"{m['plain']:.2f} s", f"{m['ours'] / m['plain']:.2f}")
        for work, m in medians.items()
    ]
    title = f"a Spark session, {options.years} years of flights, medians of {options.rounds} rounds"
    figures = Figures(title, ("work", "ours", "plain", "ratio"), rows)
    figures.show()
    if options.json:
        options.json.write_text(json.dumps({"medians": medians, "times": found}, indent=2))
    if options.markdown:
        write([figures], options.markdown)


if __name__ == "__main__":
    main()

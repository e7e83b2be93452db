"""The log of a channel: how fast it appends, beside plain writes of the same bytes.

Batches of 1,000 events of 100 bytes, and of 8 events of 32 KB, are appended and committed: after
each batch, and once 1 MiB has come together. They are given with their bytes, as a node has them
that sends them on, and without, so that the log serialises them. The plain writes put the same
bytes into another file, with one write and one fsync for each commit. The two take turns, a few
commits each, on the same disk; of several rounds the median counts. Then: how fast a log is read,
with all its events checked, beside plain reads of its files; and how long it takes to open a log
of 1 GB after a crash, and to find a place in it. All that is read is compared with what was
appended. Run it with

    uv run python benchmarks/event_log.py [--rounds N] [--mib N] [--directory PATH] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from report import verdict
from rich.console import Console
from rich.table import Table

from activebroker.events import Batch, EventType, dump, encode
from activebroker.log import Log, Reader, Record

TURN = 8  # commits of the one, then of the other
GOAL = 0.7  # of the rate of plain writes
MIB = 1 << 20


@dataclass(frozen=True)
class Quote:
    number: int
    volume: int
    bid: float
    ask: float
    symbol: str
    venue: str


@dataclass(frozen=True)
class Image:
    number: int
    pixels: bytes


def quotes(first: int) -> Batch:
    numbers = range(first, first + 1000)
    contents = [
        Quote(n, n * 1000, n * 0.25, n * 0.5, f"SYM{n % 500:05}", "XNAS " + "v" * 50)
        for n in numbers
    ]
    return encode(EventType.of(Quote), contents, "NYSE", first, 1)


def images(first: int) -> Batch:
    pixels = os.urandom(32 << 10)
    contents = [Image(n, pixels) for n in range(first, first + 8)]
    return encode(EventType.of(Image), contents, "camera", first, 1)


KINDS: dict[str, Callable[[int], Batch]] = {
    "1,000 events of 100 B": quotes,
    "8 events of 32 KB": images,
}


def records(kind: Callable[[int], Batch], nbytes: int) -> list[Record]:
    made, size, first = [], 0, 0
    while size < nbytes:
        batch = kind(first)
        first += len(batch)
        size += batch.nbytes
        made.append(Record(batch.supplier, (1, first), batch))
    return made


def in_commits(made: list[Record], nbytes: int) -> list[list[Record]]:
    """The records in parts of at least so many bytes."""
    parts: list[list[Record]] = [[]]
    size = 0
    for record in made:
        if size >= nbytes:
            parts.append([])
            size = 0
        parts[-1].append(record)
        size += record.batch.nbytes if record.batch else 0
    return parts


def files_of(path: Path) -> list[Path]:
    return sorted(path.glob("*.log"))


def commit(log: Log, part: list[Record]) -> None:
    log.append(part)
    log.commit()


def bytes_of(path: Path, commits: list[list[Record]]) -> list[memoryview]:
    """What each commit writes."""
    with Log.open(path, type_of(commits[0]), segment_bytes=2**40) as log:
        (file,) = files_of(path)
        ends = [file.stat().st_size]
        for part in commits:
            commit(log, part)
            ends.append(file.stat().st_size)
    whole = memoryview(file.read_bytes())
    shutil.rmtree(path)
    return [whole[begin:end] for begin, end in pairwise(ends)]


def type_of(records: list[Record]) -> EventType:
    assert records[0].batch
    return records[0].batch.type


def appended(
    directory: Path, commits: list[list[Record]], blocks: list[memoryview]
) -> tuple[float, float]:
    """Seconds that the log took, and plain writes."""
    path, ours, theirs = directory / "log", 0.0, 0.0
    with Log.open(path, type_of(commits[0])) as log, (directory / "plain").open("wb", 0) as plain:

        def log_turn(first: int) -> float:
            start = time.perf_counter()
            for part in commits[first : first + TURN]:
                commit(log, part)
            return time.perf_counter() - start

        def plain_turn(first: int) -> float:
            start = time.perf_counter()
            for block in blocks[first : first + TURN]:
                plain.write(block)
                os.fdatasync(plain.fileno())
            return time.perf_counter() - start

        for first in range(0, len(commits), TURN):
            if first // TURN % 2:
                ours += log_turn(first)
                theirs += plain_turn(first)
            else:
                theirs += plain_turn(first)
                ours += log_turn(first)
    check(path, [record for part in commits for record in part])
    shutil.rmtree(path)
    (directory / "plain").unlink()
    return ours, theirs


def check(path: Path, made: list[Record]) -> None:
    with Reader(path, type_of(made)) as reader:
        found = []
        while entries := reader.read():
            found += [record for _, record in entries]
    if found != made:
        raise SystemExit("what was read is not what was appended")


def read_rates(directory: Path, kind: Callable[[int], Batch], nbytes: int, rounds: int) -> Any:
    """Of a log, and of plain reads of its files, in bytes/s, and in events/s."""
    path, made = directory / "log", records(kind, nbytes)
    with Log.open(path, type_of(made)) as log:
        commit(log, made)
    size = sum(file.stat().st_size for file in files_of(path))
    ours, theirs = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        with Reader(path, type_of(made)) as reader:
            while reader.read():
                pass
            events = reader.position
        ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        for file in files_of(path):
            with file.open("rb", 0) as plain:
                while plain.read(MIB):
                    pass
        theirs.append(time.perf_counter() - start)
    check(path, made)
    shutil.rmtree(path)
    spent = median(ours)
    return {"bytes/s": size / spent, "plain": size / median(theirs), "events/s": events / spent}


def opened(directory: Path, nbytes: int) -> dict[str, float]:
    """Milliseconds to open a log of this size, its last segment nearly full, and to find places."""
    path, some, first = directory / "log", records(quotes, 8 * MIB), 0
    log = Log.open(path, type_of(some))
    while (
        sum(file.stat().st_size for file in files_of(path)) < nbytes
        or files_of(path)[-1].stat().st_size < 50 * MIB
    ):
        for record in some:
            assert record.batch
            first += len(record.batch)
            log.append([Record("NYSE", (1, first), record.batch)])
        log.commit()
    events = log.committed
    log._release()  # as a process that is killed
    found = {}

    def timed(what: str, step: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = step()
        found[what] = (time.perf_counter() - start) * 1e3
        return result

    def forget() -> None:
        for file in files_of(path):
            with file.open("rb", 0) as plain:
                os.posix_fadvise(plain.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    type = type_of(some)
    timed("open after a crash", lambda: Log.open(path, type)).close()
    forget()
    timed("open after a crash, from the disk", lambda: Log.open(path, type)).close()
    with Reader(path, type) as reader:
        for what in ("find a position", "find a position again"):
            timed(what, lambda: reader.seek(events // 2 + 12_345))
        timed("find an offset", lambda: reader.position_after({"NYSE": (1, events // 2)}))
        timed("find a time", lambda: reader.position_of(2))
        if reader.read()[0].position != events // 2 + 12_345:
            raise SystemExit("another position was found")
    shutil.rmtree(path)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mib", type=int, default=32, help="MiB that are appended each round")
    parser.add_argument("--directory", type=Path, help="where the files are written")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    console = Console()
    figures: dict[str, Any] = {"append": {}, "read": {}}
    with tempfile.TemporaryDirectory(dir=options.directory) as place:
        directory = Path(place)
        table = Table(title=f"Append and commit, median of {options.rounds} rounds")
        for column in ("batches of", "given as", "a commit each"):
            table.add_column(column)
        for column in ("log MB/s", "plain MB/s", "ratio", "least", "most"):
            table.add_column(column, justify="right")
        for name, kind in KINDS.items():
            made = records(kind, options.mib * MIB)
            ready = [replace(each, buffers=dump(each.batch)) for each in made if each.batch]
            for given, some in (("bytes", ready), ("events", made)):
                for when, nbytes in (("batch", 1), ("MiB", MIB)):
                    commits = in_commits(some, nbytes)
                    blocks = bytes_of(directory / "log", commits)
                    rounds = [appended(directory, commits, blocks) for _ in range(options.rounds)]
                    size = sum(map(len, blocks))
                    rates = [size / median(each) / 1e6 for each in zip(*rounds, strict=True)]
                    ratios = sorted(theirs / ours for ours, theirs in rounds)
                    figures["append"][f"{name}, {given}, {when}"] = {"ratio": ratios, "MB/s": rates}
                    shown = [f"{rate:.0f}" for rate in rates]
                    shown += [f"{ratio:.2f}" for ratio in (median(ratios), ratios[0], ratios[-1])]
                    table.add_row(name, given, when, *shown)
        console.print(table)
        for name, kind in KINDS.items():
            rates = figures["read"][name] = read_rates(directory, kind, 256 * MIB, options.rounds)
            console.print(
                f"read, {name}: {rates['bytes/s'] / 1e6:,.0f} MB/s, {rates['events/s']:,.0f} "
                f"events/s; plain reads {rates['plain'] / 1e6:,.0f} MB/s",
                highlight=False,
            )
        figures["ms in a log of 1 GB"] = opened(directory, 10**9)
        for what, spent in figures["ms in a log of 1 GB"].items():
            console.print(f"{what}, in a log of 1 GB: {spent:,.1f} ms", highlight=False)
    for name, found in figures["append"].items():
        verdict(f"{name}: part of the rate of plain writes", median(found["ratio"]), GOAL)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()

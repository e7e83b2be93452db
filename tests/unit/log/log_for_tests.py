"""Records for logs, and logs read back as plain values."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from activebroker.events import ANY, EventType, encode
from activebroker.log import Log, Offset, Reader, Record


@dataclass(frozen=True)
class Tick:
    number: int
    text: str


TICK = EventType.of(Tick)

Plain = tuple[int, str, Offset, list[tuple[int, int, Any]], bool]
"""Position, supplier, offset, events (number, time, content), whether the stream ended."""


def ticks(
    supplier: str,
    first: int,
    count: int,
    times: int | list[int] = 0,
    stream: int = 1,
    type: EventType = TICK,
    text: str = "abcdefg",
) -> Record:
    """Events of a supplier, the first one of that number; few of them are lists, others columns."""
    contents: list[Any] = [
        n if type is ANY else type.cls(n, text[: n % 8]) for n in range(first, first + count)
    ]
    batch = encode(type, contents, supplier, first, times)
    return Record(supplier, (stream, first + count), batch)


def moved(supplier: str, upto: int, stream: int = 1) -> Record:
    return Record(supplier, (stream, upto))


def ended(supplier: str, upto: int, stream: int = 1) -> Record:
    return Record(supplier, (stream, upto), ended=True)


def plain(position: int, record: Record) -> Plain:
    events = record.batch.events() if record.batch else []
    return (
        position,
        record.supplier,
        record.upto,
        [(event.seq, event.time, event.content) for event in events],
        record.ended,
    )


def placed(records: Iterable[Record], position: int = 0) -> list[Plain]:
    """What a log has that these records were appended to."""
    result = []
    for record in records:
        result.append(plain(position, record))
        position += record.events
    return result


def rest(reader: Reader, upto: int | None = None, most_bytes: int = 1 << 20) -> list[Plain]:
    """What a reader has still to read."""
    result: list[Plain] = []
    while entries := reader.read(upto, most_bytes):
        result += [plain(*entry) for entry in entries]
    return result


def stored(path: Path, position: int | None = None, type: EventType = TICK) -> list[Plain]:
    """All that a log has from a position on."""
    with Reader(path, type, position) as reader:
        return rest(reader)


def write_log(path: Path, commits: Iterable[Iterable[Record]], **options: Any) -> list[Plain]:
    """Make a log with these records, and close it."""
    records: list[Record] = []
    with Log.open(path, TICK, **options) as log:
        for commit in commits:
            some = list(commit)
            log.append(some)
            log.commit()
            records += some
    return placed(records)


def crash(log: Log) -> None:
    """Leave a log as a process does that is killed, after it has written what waited."""
    log._tail._write()
    log._release()


def copied(path: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    return Path(shutil.copytree(path, to))


def flipped(path: Path, byte: int, bit: int = 1) -> None:
    """Change a bit of a file."""
    with path.open("r+b") as file:
        file.seek(byte)
        (value,) = file.read(1)
        file.seek(byte)
        file.write(bytes([value ^ bit]))


def segments_of(path: Path) -> list[Path]:
    return sorted(path.glob("*.log"))

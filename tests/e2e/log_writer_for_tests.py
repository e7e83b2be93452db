"""Writes logs until it is killed. For each line that it gets, a seed and a path, it forks a writer,
which tells its process id and, after each commit, how far the log is. When that writer is dead, it
says so.
"""

from __future__ import annotations

import json
import os
import random
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from activebroker.events import EventType, encode
from activebroker.log import Log, Record

SEGMENT_BYTES = 100_000


@dataclass(frozen=True)
class Item:
    number: int
    text: str


ITEM = EventType.of(Item)


def item(supplier: str, stream: int, number: int) -> Item:
    """An event that could be no other."""
    return Item(number, f"{supplier}{stream}" * (0, 1, 10, 50)[number * stream % 4])


def open_log(path: Path) -> Log:
    return Log.open(path, ITEM, segment_bytes=SEGMENT_BYTES)


def write(path: Path, drawn: random.Random) -> None:
    say("writer", os.getpid())
    log = open_log(path)
    say("committed", log.commit(), log.offsets)
    offsets = log.offsets
    while True:
        for _ in range(drawn.choice([1, 1, 3, 10])):
            supplier = drawn.choice("ABC")
            stream, number = offsets.get(supplier, (1, 0))
            record: Record
            match drawn.random():
                case chance if chance < 0.05:
                    record = Record(supplier, (stream, number + 1), ended=True)
                    stream, number = stream + 1, 0
                case chance if chance < 0.1:
                    number += drawn.randrange(1, 9)
                    record = Record(supplier, (stream, number))
                case _:
                    count = drawn.choice([1, 1, 5, 20, 200])
                    items = [item(supplier, stream, n) for n in range(number, number + count)]
                    batch = encode(ITEM, items, supplier, number, 0)
                    number += count
                    record = Record(supplier, (stream, number), batch)
            log.append([record])
            offsets[supplier] = stream, number
        say("committed", log.commit(), log.offsets)


def say(*words: object) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")


def main() -> None:
    pa.array([0])  # imports pandas, once for all writers
    for line in sys.stdin:
        seed, path = line.split()
        if (child := os.fork()) == 0:
            write(Path(path), random.Random(int(seed)))
        os.waitpid(child, 0)
        say("dead")


if __name__ == "__main__":
    main()

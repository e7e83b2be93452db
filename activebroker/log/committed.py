"""How far a log is committed, in a file of its own.

It is written after each fsync of a segment: readers go no further, and whoever opens the log again
knows that all before was durable. It is not synced itself, except with a new segment and when the
log is closed; so after a power failure it may tell less than was committed, and never more.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

from xxhash import xxh3_64_intdigest as checksum

from activebroker.core.errors import LogDamaged
from activebroker.log.disk import reading, sync_file

NAME = "committed"
_FORM = struct.Struct("<8sQQQ")
_CHECK = struct.Struct("<Q")
_MAGIC = b"ABLOG\x00C\x01"
_SIZE = _FORM.size + _CHECK.size
_TRIES = 1000  # of a reader that meets writes


class Committed(NamedTuple):
    """The end of what is committed."""

    segment: int
    bytes: int  # of that segment
    position: int  # after the last event


class CommittedFile:
    """The file, open to write; it is made where it is missing."""

    def __init__(self, directory: Path) -> None:
        path = directory / NAME
        path.touch()
        self._file = path.open("r+b", buffering=0)

    def write(self, committed: Committed, sync: bool = False) -> None:
        data = _FORM.pack(_MAGIC, *committed)
        os.pwrite(self._file.fileno(), data + _CHECK.pack(checksum(data)), 0)
        if sync:
            sync_file(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read_committed(directory: Path) -> Committed:
    """Raises LogDamaged, or FileNotFoundError."""
    path = directory / NAME
    with reading(path), path.open("rb", buffering=0) as file:
        for _ in range(_TRIES):  # one may read half of what is being written
            data = os.pread(file.fileno(), _SIZE, 0)
            if len(data) == _SIZE and data[-_CHECK.size :] == _CHECK.pack(
                checksum(data[: _FORM.size])
            ):
                magic, *numbers = _FORM.unpack_from(data)
                if magic == _MAGIC:
                    return Committed(*numbers)
    raise LogDamaged(
        f"{path} does not hold how far the log is committed. Open the log once to write it: that "
        "finds it again.",
    )

"""How far a log is committed, in a file of its own.

It is written after each fsync of a segment: readers go no further, and whoever opens the log again
knows that all before was durable. It is not synced itself, except with a new segment and when the
log is closed; so after a power failure it may tell less than was committed, and never more.
"""

from __future__ import annotations

import os
import struct
import time
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
_TRIES, _PAUSE = 100, 0.001  # of a reader that meets a write


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
    """Raises LogDamaged, or FileNotFoundError where the file was never written."""
    path = directory / NAME
    with reading(path), path.open("rb", buffering=0) as file:
        for _ in range(_TRIES):
            data = os.pread(file.fileno(), _SIZE, 0)
            if not data:
                raise FileNotFoundError(f"{path} is empty")
            if (committed := _parse(data)) is not None:
                return committed
            time.sleep(_PAUSE)  # this may be half of what is being written
    raise LogDamaged(
        f"{path} does not hold how far the log is committed. Open the log once to write it: that "
        "finds it again.",
    )


def _parse(data: bytes) -> Committed | None:
    body, check = data[: _FORM.size], data[_FORM.size :]
    if check != _CHECK.pack(checksum(body)) or body[: len(_MAGIC)] != _MAGIC:
        return None
    return Committed(*_FORM.unpack(body)[1:])

"""What a log does to a disk. Errors of the system become our own; whoever writes says what else."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from activebroker.core.errors import LogUnavailable

_BUFFERS = 1024  # that a system takes at once

# The bytes and the size of a file, without its times; elsewhere that comes with the rest.
sync_file = getattr(os, "fdatasync", os.fsync)


def write(descriptor: int, buffers: Sequence[bytes | memoryview]) -> None:
    """Write all of the buffers at the end of a file."""
    for first in range(0, len(buffers), _BUFFERS):
        some = buffers[first : first + _BUFFERS]
        written = os.writev(descriptor, some)
        if written < sum(map(len, some)):  # a disk that is nearly full takes a part
            rest = memoryview(b"".join(some))[written:]
            while rest:
                rest = rest[os.write(descriptor, rest) :]


def sync_directory(path: Path) -> None:
    """Make durable which files are in a directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a directory, and those above it, durable when this returns."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync_directory(each.parent)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Around what reads a file: an error of the system names it. That it is missing is for the
    caller to judge."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise LogUnavailable(f"{path} cannot be read: {error}.") from error

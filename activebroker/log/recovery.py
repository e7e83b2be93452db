"""Opening a log again: what its last segment holds, and what becomes of its end.

Only the last segment can have an end that was not committed. Where its records stop being as they
were written, that is either a write that a crash has torn, and is cut off, or damage to what was
committed, and an error. It is damage where one of these tells that the place was durable once:

- the file `committed`, which is exact unless the power failed after the last commit;
- a later record, since each tells how much was durable when it was written, and a disk may lose
  what was written after that, in any order, but not what was before.

So what cannot be told from a torn write is damage to the last commit before a power failure.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

from activebroker.core.errors import LogDamaged
from activebroker.events import TypeDescription
from activebroker.log.committed import Committed, read_committed
from activebroker.log.frames import EARLIEST, TYPE
from activebroker.log.records import Offsets
from activebroker.log.segments import Header, Segment, damage, path_of, read_header

log = logging.getLogger(__name__)
_PIECE = 1 << 20


@dataclass
class End:
    """The state of a log at the end of its last segment, to go on from."""

    header: Header
    begin: int  # the byte of the first frame
    size: int  # of the segment
    position: int  # after the last event
    latest: int = EARLIEST
    offsets: Offsets = field(default_factory=dict)
    versions: list[TypeDescription] = field(default_factory=list)
    types: dict[str, int] = field(default_factory=dict)  # fingerprint: where it is described


def recover(directory: Path, numbers: list[int], name: str) -> End:
    """Bring a log into order and return the end of it. `name` is that of its event type.

    Raises LogDamaged for damage to what was committed, as far as that is in the last segment.
    """
    committed = _committed(directory)
    last = max(numbers[-1], committed.segment if committed else 0)
    if missing := set(range(numbers[0], last + 1)).difference(numbers):
        raise damage(path_of(directory, min(missing)), 0, "the segment is missing")
    segment = Segment(directory, last)
    try:
        if last > numbers[0]:
            _check_before(directory, segment)
        durable = committed.bytes if committed and committed.segment == last else segment.begin
        end, durable = _read(segment, durable, name)
        _make_durable(segment.path, durable, end.size)
        return end
    finally:
        segment.close()


def check_empty(directory: Path) -> None:
    """Raise LogDamaged where the segments of a log are missing, all of them."""
    try:
        committed = read_committed(directory)
    except FileNotFoundError:
        return
    raise damage(path_of(directory, committed.segment), 0, "the segment is missing")


def _committed(directory: Path) -> Committed | None:
    try:
        return read_committed(directory)
    except FileNotFoundError:
        log.warning("%s: the file that tells how far the log is committed is missing", directory)
    except LogDamaged as damaged:
        log.warning("%s", damaged)
    return None


def _check_before(directory: Path, segment: Segment) -> None:
    """The segment before is as long as it was when it was left."""
    before = read_header(directory, segment.header.number - 1)
    path = path_of(directory, segment.header.number - 1)
    expected = segment.header.bytes_before - before.bytes_before
    if path.stat().st_size != expected:
        size = path.stat().st_size
        raise damage(path, min(size, expected), f"it has {size:,} bytes, {expected:,} were written")


def _read(segment: Segment, durable: int, name: str) -> tuple[End, int]:
    """What a segment holds, and how much of it was durable for sure. `durable` is known already."""
    header, size = segment.header, segment.size
    end = End(header, segment.begin, segment.begin, header.position)
    end.offsets.update(header.offsets)
    end.versions.extend(header.versions)
    confirmed = durable
    try:
        for frame, payload in segment.walk(segment.begin, size):
            if frame.position != end.position:
                raise segment.damage(frame.at, f"the record there begins at {frame.position}")
            if frame.kind == TYPE:
                description = segment.description(frame, payload)
                end.types[description.fingerprint] = frame.at
                if description.name == name and description not in end.versions:
                    end.versions.append(description)
            else:
                end.offsets[frame.supplier] = frame.upto
            end.size, end.latest = frame.end, frame.latest
            end.position += frame.events
            confirmed = max(confirmed, frame.committed)
    except LogDamaged as damaged:
        if damaged.byte < durable or _is_durable(segment, damaged.byte, size):
            raise
        log.warning(
            "%s: cut at byte %d, %d bytes before its end: the rest was not written whole",
            segment.path,
            damaged.byte,
            size - damaged.byte,
        )
    if end.size < durable:
        raise segment.damage(end.size, f"the file ends there, {durable:,} bytes were committed")
    return end, confirmed


def _is_durable(segment: Segment, byte: int, size: int) -> bool:
    """Whether a later record tells that all up to a byte was durable when it was written."""
    at = byte + 1
    while frame := segment.find(at, size):
        if frame.committed > byte:
            return True
        at = frame.end
    return False


def _make_durable(path: Path, durable: int, size: int) -> None:
    """Cut a segment's file, and write what may not be durable once more.

    If an fsync has failed, the system may take for written what the disk does not have; another
    fsync then succeeds and changes nothing.
    """
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.ftruncate(descriptor, size)
        while durable < size:
            data = os.pread(descriptor, min(_PIECE, size - durable), durable)
            durable += os.pwrite(descriptor, data, durable)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""A frame: the unit in which a segment is written and checked.

It is a header of fixed size, a supplier's name, and a payload; name and payload are filled up to
multiples of 8 bytes. The header has a checksum of itself with the name, and one of the payload,
both with the segment's salt. It tells the byte at which it stands. So a header can be recognised
anywhere in a segment, by bytes alone, and what an old file has left on the disk is not taken for
one.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from xxhash import xxh3_64_intdigest as checksum

from activebroker.core.errors import ProtocolError

MAGIC = b"\xabLog"
# Magic and check, then the fields of `Frame` but for the name.
_HEADER = struct.Struct("<4sIQIIQQQqqqQBxH")
_CHECK = struct.Struct("<I")
_CHECKED = 8  # where the bytes that the header's check covers begin
LEAST = _HEADER.size
MOST_NAME = 2**16 - 1
MOST_HEADER = LEAST + MOST_NAME + 7
EARLIEST = -(2**63)  # before any time

EVENTS, MOVED, ENDED, TYPE = range(4)  # the kinds; `MOVED` has an offset only, `TYPE` describes one


class Frame(NamedTuple):
    """A frame's header."""

    at: int  # the byte of the segment where the frame begins
    size: int  # of the payload
    events: int
    check: int  # of the payload
    position: int  # events before it since the log began
    committed: int  # bytes of the segment that were durable when it was written
    latest: int  # the largest time of an event in the segment, up to here
    stream: int
    reached: int  # with the stream, the supplier's offset after it
    type_at: int  # the byte of the segment where the frame is that describes the events' type
    kind: int
    name_size: int
    supplier: str

    @property
    def length(self) -> int:
        """The bytes of the frame."""
        return self.header_size + _padded(self.size)

    @property
    def end(self) -> int:
        """The byte after it, where the next one begins."""
        return self.at + self.length

    @property
    def header_size(self) -> int:
        return _padded(LEAST + self.name_size)

    @property
    def upto(self) -> tuple[int, int]:
        """The supplier's offset."""
        return self.stream, self.reached


def pack(frame: Frame, payload: memoryview, salt: int) -> list[bytes | memoryview]:
    """The buffers of a frame, to be written one after another."""
    if frame.size >= 2**32:
        raise ProtocolError(f"a record of {frame.size:,} bytes: a frame holds less than 4 GiB")
    *fields, supplier = frame
    name = supplier.encode()
    checked = _HEADER.pack(MAGIC, 0, *fields)[_CHECKED:] + name
    front = MAGIC + _check(checked, salt) + checked + bytes(-(LEAST + len(name)) % 8)
    return [front, payload, bytes(-frame.size % 8)]


def parse(data: memoryview, start: int, at: int, salt: int) -> Frame | None:
    """The frame whose header is in `data` from `start` on, if one is there, whole, that belongs at
    byte `at`."""
    if start + LEAST > len(data):
        return None
    magic, _, *fields = _HEADER.unpack_from(data, start)
    if magic != MAGIC or fields[0] != at:
        return None
    begin, name = start + _CHECKED, start + LEAST
    end = name + fields[-1]
    if end > len(data) or data[begin - _CHECK.size : begin] != _check(data[begin:end], salt):
        return None
    try:
        return Frame._make([*fields, str(data[name:end], "utf-8")])
    except UnicodeDecodeError:
        return None


def _check(checked: bytes | memoryview, salt: int) -> bytes:
    return _CHECK.pack(checksum(checked, salt) & 0xFFFFFFFF)


def _padded(size: int) -> int:
    return size + -size % 8

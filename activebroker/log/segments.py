"""Segments: the files of a log, each with a header and frames after it.

A header tells what a reader would otherwise have to read all earlier segments for. A segment is
found under its final name only once its header is durable.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from xxhash import xxh3_64_intdigest as checksum

from activebroker.core.decoding import UNDECODABLE
from activebroker.core.errors import LogDamaged, ProtocolError
from activebroker.events import Batch, EventType, TypeDescription, TypeRegistry, load
from activebroker.log.disk import reading, sync_directory, sync_file, write
from activebroker.log.frames import MAGIC, MOST_HEADER, TYPE, Frame, parse
from activebroker.log.records import Offsets

_PREFIX = struct.Struct("<8sQQ")  # magic, size of the header, its checksum
_MAGIC = b"ABLOG\x00\x00\x01"  # the last byte is the version of the format
_PIECE = 1 << 20  # bytes that are read at once
_NEAR = 1 << 18  # bytes that are read through rather than searched by halves
_NAME = "{:012}.log"
UNFINISHED = ".new"  # the suffix of one that is being made


class Header(msgspec.Struct, frozen=True):
    """What a segment begins with: the state of the log at its first byte."""

    number: int  # of the segment, by one higher than that of the one before
    position: int  # events before it since the log began
    bytes_before: int  # of all segments before it since the log began
    created: int  # nanoseconds since the Unix epoch
    latest: int  # the largest time of an event in the segment before it
    salt: int  # with which the checksums of the segment's frames begin
    versions: tuple[TypeDescription, ...]  # of the log's type, as they have come
    offsets: Offsets  # of all suppliers


_header = msgspec.msgpack.Decoder(Header)
_description = msgspec.msgpack.Decoder(TypeDescription)


class Gone(Exception):
    """A segment is not there, or not any more."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Segment:
    """A segment, open for reading. `begin` is the byte of its first frame."""

    def __init__(self, directory: Path, number: int) -> None:
        self.path = path_of(directory, number)
        self._types: dict[int, EventType] = {}  # by the byte where they are described
        try:
            with reading(self.path):
                self.file = self.path.open("rb", buffering=0)
        except FileNotFoundError as error:
            raise Gone(number) from error
        try:
            self.header, self.begin = self._read_header()
            if self.header.number != number:
                raise self.damage(0, f"its header is that of segment {self.header.number}")
        except BaseException:
            self.file.close()
            raise

    def _read_header(self) -> tuple[Header, int]:
        prefix = self.read(0, _PREFIX.size)
        if len(prefix) < _PREFIX.size:
            raise self.damage(0, f"it ends after {len(prefix)} bytes")
        magic, size, check = _PREFIX.unpack(prefix)
        if magic != _MAGIC:
            raise self.damage(0, f"it begins with {magic!r}, not with {_MAGIC!r}")
        end = _PREFIX.size + size
        data = self.read(_PREFIX.size, size) if end <= self.size else b""
        if len(data) < size or checksum(data) != check:
            raise self.damage(_PREFIX.size, "its header's checksum is another")
        try:
            return _header.decode(data), end + -end % 8
        except UNDECODABLE as error:
            raise self.damage(_PREFIX.size, f"its header is malformed: {error}") from error

    @property
    def size(self) -> int:
        """The bytes of the file."""
        with reading(self.path):
            return os.fstat(self.file.fileno()).st_size

    def close(self) -> None:
        self.file.close()

    def damage(self, byte: int, what: str) -> LogDamaged:
        """The error for what is not as it was written."""
        return damage(self.path, byte, what)

    def read(self, at: int, size: int) -> bytes:
        """The bytes from `at` on, fewer where the file ends."""
        with reading(self.path):
            data = os.pread(self.file.fileno(), size, at)
            while len(data) < size and (
                more := os.pread(self.file.fileno(), size - len(data), at + len(data))
            ):
                data += more  # a system reads 2 GiB at once
            return data

    def walk(self, at: int, end: int, piece: int = _PIECE) -> Iterator[tuple[Frame, memoryview]]:
        """The frames from byte `at` to byte `end`, each with its payload; about `piece` bytes are
        read at once.

        Raises LogDamaged where the bytes are not the frames that were written.
        """
        piece = max(piece, MOST_HEADER)
        while at < end:
            data, start = memoryview(self.read(at, min(piece, end - at))), 0
            if (frame := parse(data, 0, at, self.header.salt)) is None:
                raise self.damage(at, "no record begins there")
            if frame.end > end:
                raise self.damage(at, f"the record there ends after byte {end:,}, where all do")
            if frame.length > len(data):
                data = memoryview(self.read(at, frame.length))
            while frame is not None and (length := frame.length) <= len(data) - start:
                payload = data[start + frame.header_size :][: frame.size]
                if checksum(payload, self.header.salt) != frame.check:
                    raise self.damage(frame.at, "the checksum of the record there is another")
                yield frame, payload
                start += length
                at += length
                frame = parse(data, start, at, self.header.salt)
            if start == 0:
                raise self.damage(at, "the file ends in the record that begins there")

    def description(self, frame: Frame, payload: memoryview) -> TypeDescription:
        """What a frame of kind TYPE describes."""
        try:
            return _description.decode(payload)
        except UNDECODABLE as error:
            raise self.damage(frame.at, f"no type is described there: {error}") from error

    def batch(self, frame: Frame, payload: memoryview, types: TypeRegistry) -> Batch:
        """The events of a frame, checked like a batch from another process."""
        try:
            batch = load(self._type(frame, types), frame.supplier, [payload])
        except ProtocolError as error:
            raise self.damage(frame.at, str(error)) from error
        if len(batch) != frame.events:
            raise self.damage(frame.at, f"{frame.events} events are {len(batch)}")
        return batch

    def _type(self, frame: Frame, types: TypeRegistry) -> EventType:
        if (known := self._types.get(frame.type_at)) is not None:
            return known
        described = next(self.walk(frame.type_at, frame.at), None)
        if described is None or described[0].kind != TYPE:
            raise self.damage(frame.at, f"the type of the record there is not at {frame.type_at:,}")
        type = self._types[frame.type_at] = types.resolve(self.description(*described))
        return type

    def find(self, at: int, end: int) -> Frame | None:
        """The first frame that begins at byte `at` or later, and before byte `end`."""
        while at < end:
            data = self.read(at, min(_NEAR + MOST_HEADER, end - at))
            start = data.find(MAGIC)
            while start >= 0:
                if frame := parse(memoryview(data), start, at + start, self.header.salt):
                    return frame
                start = data.find(MAGIC, start + 1)
            if len(data) <= MOST_HEADER:
                return None
            at += len(data) - MOST_HEADER
        return None

    def last_before(self, end: int, is_before: Callable[[Frame], bool]) -> int:
        """The byte of a frame for which `is_before` is true, near the last one; of the first one if
        it is true for none. It must not be true for a frame after one for which it is false."""
        low = found = self.begin
        high = end
        while high - low > _NEAR:
            middle = (low + high) // 2
            frame = self.find(middle, high)
            if frame is None or not is_before(frame):
                high = middle
            else:
                low = found = frame.at
        return found


def damage(path: Path, byte: int, what: str) -> LogDamaged:
    """The error for a file that does not hold what was written to it."""
    return LogDamaged(
        f"{path}, byte {byte:,}: {what}. What is before in the log can be read. Restore the file "
        "from a copy, or begin a log in another directory.",
        byte,
    )


def numbers(directory: Path) -> list[int]:
    """The numbers of the segments that are there, in order."""
    with reading(directory):
        names = {path.name for path in directory.iterdir() if path.suffix == ".log"}
    found = (int(name[:-4]) for name in names if name[:-4].isdecimal())
    return sorted(number for number in found if _NAME.format(number) in names)


def path_of(directory: Path, number: int) -> Path:
    return directory / _NAME.format(number)


def read_header(directory: Path, number: int) -> Header:
    """The header of a segment; raises Gone if it is not there."""
    segment = Segment(directory, number)
    segment.close()
    return segment.header


def create(directory: Path, header: Header) -> int:
    """Make a segment without frames, durable when this returns; the byte where they will begin."""
    data = msgspec.msgpack.encode(header)
    front = _PREFIX.pack(_MAGIC, len(data), checksum(data))
    path = path_of(directory, header.number)
    unfinished = path.with_suffix(UNFINISHED)
    with unfinished.open("wb", buffering=0) as file:
        write(file.fileno(), [front, data, bytes(-(len(front) + len(data)) % 8)])
        sync_file(file.fileno())
        begin = file.tell()
    unfinished.rename(path)
    sync_directory(directory)
    return begin

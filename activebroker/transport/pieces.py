"""Large frames in pieces, over a transport that delivers messages whole.

On a thin link a large frame takes longer than a peer may be silent. In pieces it is heard of while
it comes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from activebroker.transport.wire import FRAME_BYTES, Malformed, laid_out, parts_of

MARK = b"+"  # in place of a frame's head
WHOLE = 64 << 10  # bytes; a frame up to that size goes in one message
PIECE = 32 << 10  # bytes
PLACE = struct.Struct("=QQQ")  # which frame, where in it, and its size


class Cutter:
    """The sending end of a connection."""

    def __init__(self) -> None:
        self._frame = 0

    def messages(self, parts: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """A frame as one message, or as several."""
        if sum(memoryview(part).nbytes for part in parts) <= WHOLE:
            yield parts
            return
        views = laid_out(parts)
        size = sum(map(len, views))
        self._frame += 1
        at = 0
        while at < size:
            piece: list[memoryview] = []
            room = PIECE
            while views and room:
                piece.append(views[0][:room])
                rest = views[0][room:]
                room -= len(piece[-1])
                views[:1] = [rest] if len(rest) else []
            yield [MARK, PLACE.pack(self._frame, at, size), *piece]
            at += PIECE - room


class Joiner:
    """The receiving end. Where pieces are lost with a connection, their frame is."""

    def __init__(self) -> None:
        self._frame = 0
        self._came = 0
        self._buffer = np.empty(0, np.uint8).data

    def take(self, place: bytes | memoryview, piece: Sequence[Any]) -> list[memoryview] | None:
        """The next piece; returns the frame when it is whole. Raises Malformed."""
        try:
            frame, at, size = PLACE.unpack(place)
        except struct.error as error:
            raise Malformed(f"a piece whose place {error}") from error
        if size > FRAME_BYTES:
            raise Malformed(f"a frame of {size} bytes")
        if at == 0:
            self._frame, self._came = frame, 0
            self._buffer = np.empty(size, np.uint8).data
        if (frame, at, size) != (self._frame, self._came, len(self._buffer)):
            return None
        for part in piece:
            view = memoryview(part).cast("B")
            end = self._came + len(view)
            if end > size:
                raise Malformed("pieces of more than their frame")
            self._buffer[self._came : end] = view
            self._came = end
        if self._came < size:
            return None
        whole, self._buffer = self._buffer, np.empty(0, np.uint8).data
        self._came = 0
        return parts_of(whole)

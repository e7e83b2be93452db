"""Messages over a stream socket that never blocks: several parts each, read without copying.

A message is the number of its parts and their sizes, then the parts. All of it is in steps of
eight bytes, so that columns stay aligned.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

FRAME_BYTES = 1 << 31  # that a frame may have; nobody is asked for memory for more
MOST_PARTS = 1 << 20
CHUNK = 64 << 10  # bytes asked for at once; a larger message gets a buffer of its own
ROOM = 4 << 20  # bytes on their way, if the system allows as many
JOINED = 4 << 10  # bytes; a smaller message is copied into one view
VIEWS = 512  # given to one system call, which takes 1,024
STEP = 8
PADDING = bytes(STEP)
SIZE = struct.Struct("=Q")


class Disconnected(Exception):
    """The other end has closed, or died."""


class Malformed(Exception):
    """The other end has sent what is no message."""


class Wire:
    """One connection. Sends what it can at once, the rest at each `flush`."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        # Both ends work at the same time only if a large message fits.
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)
        self.socket = connected
        self.waiting = False  # the socket takes no more at the moment
        self._unsent: deque[memoryview] = deque()
        self._buffer: memoryview | None = None  # for the rest of a message, as far as that is known
        self._filled = 0

    def send(self, parts: Sequence[Any]) -> None:
        """Put a message in the queue; `flush` sends it."""
        self._unsent.extend(laid_out(parts))

    def flush(self) -> None:
        """Send what the socket takes. Raises Disconnected."""
        unsent = self._unsent
        while unsent:
            try:
                if len(unsent) == 1:
                    sent = self.socket.send(unsent[0])
                else:
                    sent = self.socket.sendmsg(list(islice(unsent, VIEWS)))
            except BlockingIOError:
                self.waiting = True
                return
            except OSError as error:
                raise Disconnected from error
            while sent and sent >= len(unsent[0]):
                sent -= len(unsent.popleft())
            if sent:
                unsent[0] = unsent[0][sent:]
        self.waiting = False

    def receive(self) -> list[list[memoryview]]:
        """The messages that have come, possibly none. Raises Disconnected, Malformed."""
        try:
            if self._buffer is not None:
                return self._fill(self._buffer)
            data = self.socket.recv(CHUNK)
        except BlockingIOError:
            return []
        except OSError as error:
            raise Disconnected from error
        if not data:
            raise Disconnected
        return self._split(memoryview(data))

    def _fill(self, buffer: memoryview) -> list[list[memoryview]]:
        count = self.socket.recv_into(buffer[self._filled :])
        if not count:
            raise Disconnected
        self._filled += count
        if self._filled < len(buffer):
            return []
        self._buffer = None
        return self._split(buffer)

    def _split(self, data: memoryview) -> list[list[memoryview]]:
        messages = []
        while data:
            end, sizes = _extent(data)
            if end > len(data):
                self._buffer = memoryview(pa.allocate_buffer(end)).cast("B")
                self._buffer[: len(data)] = data
                self._filled = len(data)
                break
            messages.append(_parts(data, sizes))
            data = data[end:]
        return messages


def laid_out(parts: Sequence[Any]) -> list[memoryview]:
    """A message as it goes, in views of its parts; in one, where copying them costs less."""
    views = [memoryview(part).cast("B") for part in parts]
    sizes = [len(view) for view in views]
    message = [memoryview(struct.pack(f"={len(sizes) + 1}Q", len(sizes), *sizes))]
    for view, size in zip(views, sizes, strict=True):
        if size:
            message.append(view)
        if size % STEP:
            message.append(memoryview(PADDING)[size % STEP :])
    return [memoryview(b"".join(message))] if sum(sizes) < JOINED else message


def parts_of(message: memoryview) -> list[memoryview]:
    """The parts of a whole message. Raises Malformed."""
    end, sizes = _extent(message)
    if end != len(message):
        raise Malformed(f"a message of {len(message)} bytes that says it has {end}")
    return _parts(message, sizes)


def _parts(data: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    """The parts of the message at the begin, which is all there."""
    at = STEP * (len(sizes) + 1)
    parts = []
    for size in sizes:
        parts.append(data[at : at + size])
        at += -size % STEP + size
    return parts


def _extent(data: memoryview) -> tuple[int, tuple[int, ...]]:
    """The bytes of the message that begins here, and the sizes of its parts; the bytes of its begin
    only, while that is not all there.

    Raises Malformed where it is larger than a frame may be.
    """
    if len(data) < STEP:
        return STEP, ()
    (count,) = SIZE.unpack_from(data)
    if count > MOST_PARTS:
        raise Malformed(f"a message of {count} parts")
    end: int = STEP * (count + 1)
    if len(data) < end:
        return end, ()
    sizes = struct.unpack_from(f"={count}Q", data, STEP)
    end += sum([-size % STEP + size for size in sizes])
    if end > FRAME_BYTES:
        raise Malformed(f"a message of {end} bytes")
    return end, sizes

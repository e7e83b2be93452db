"""What somebody may send to a node: with the fabric's key, without it, from the same machine."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import zmq

from activebroker.protocol.frame import PROTOCOL_VERSION, Frame, encode
from activebroker.protocol.messages import Heard
from activebroker.transport.pieces import MARK, PLACE, WHOLE
from activebroker.transport.same_machine import peer_socket
from activebroker.transport.wire import laid_out
from activebroker.transport.zeromq import WHO_ARE_YOU, _client_socket, _key_pair

Parts = list[bytes]
GREETING = encode(Frame(PROTOCOL_VERSION, "hostile", 7, 0, 0, 0, (), Heard()))
TIB = 1 << 40


def size(random: random.Random) -> int:
    """A number that somebody may say, and seldom means."""
    return random.choice(
        [0, 1, random.randrange(1 << 16), 1 << 31, 1 << 32, TIB, (1 << 63) - 1, (1 << 64) - 1]
    )


def noise(random: random.Random, most: int = 100) -> bytes:
    return random.randbytes(random.randrange(most))


def place(random: random.Random, at: int | None = None) -> bytes:
    return PLACE.pack(random.randrange(3), size(random) if at is None else at, size(random))


def stream(parts: Parts) -> bytes:
    return b"".join(map(bytes, laid_out(parts)))


# A message of ZeroMQ, from one who has the key. Named, for who looks for the one that failed.
MESSAGES: dict[str, Callable[[random.Random], Parts]] = {
    "nothing": lambda r: [b""],
    "noise": lambda r: [noise(r) for _ in range(r.randrange(1, 5))],
    "a mark alone": lambda r: [MARK],
    "a mark and noise": lambda r: [MARK, *(noise(r) for _ in range(r.randrange(4)))],
    "a place that lies": lambda r: [MARK, place(r), noise(r)],
    "a first piece that lies": lambda r: [MARK, place(r, 0), noise(r)],
    "more than announced": lambda r: [MARK, PLACE.pack(1, 0, 8), bytes(64)],
    "a size of nothing": lambda r: [MARK, PLACE.pack(1, 0, 0)],
    "a whole frame of noise": lambda r: _pieces(noise(r, 4000)),
    "a frame whose sizes lie": lambda r: _pieces(struct.pack("=3Q", 2, size(r), size(r))),
    "a frame of no parts": lambda r: _pieces(stream([])),
    "a frame with a count that lies": lambda r: _pieces(struct.pack("=2Q", size(r), 8)),
    "a part that is too large": lambda r: [bytes(3 * WHOLE)],
    "many parts": lambda r: [b"x"] * r.randrange(1, 2000),
    "a frame that is damaged": lambda r: [damaged(r, GREETING), noise(r)],
    "a frame that is nested": lambda r: _pieces(stream([deep(r)])),
    "half a frame": lambda r: [GREETING[: r.randrange(len(GREETING))]],
    "a frame in pieces, damaged": lambda r: _pieces(damaged(r, stream([GREETING, noise(r)]))),
    "a question with an odd claim": lambda r: [WHO_ARE_YOU, noise(r), noise(r)],
    "a good frame": lambda r: [GREETING],
}


def deep(random: random.Random) -> bytes:
    """A frame whose body is nested more deeply than anything is read."""
    return b"\x98" + b"\x91" * random.randrange(1, 100_000 // 2)


def damaged(random: random.Random, good: bytes) -> bytes:
    spoilt = bytearray(good)
    for _ in range(random.randrange(1, 4)):
        spoilt[random.randrange(len(spoilt))] = random.randrange(256)
    return bytes(spoilt)


def _pieces(whole: bytes) -> Parts:
    return [MARK, PLACE.pack(1, 0, len(whole)), whole]


# What comes over a Unix socket.
NAME = stream([b"hostile"])
STREAMS: dict[str, Callable[[random.Random], bytes]] = {
    "nothing": lambda r: b"",
    "noise": lambda r: noise(r, 5000),
    "a name, and noise": lambda r: NAME + noise(r, 5000),
    "a name of no parts": lambda r: stream([]),
    "a name of two parts": lambda r: stream([b"a", b"b"]),
    "a long name": lambda r: stream([bytes(5000)]),
    "a name that is no text": lambda r: stream([noise(r)]) + stream([GREETING]),
    "no parts": lambda r: NAME + stream([]),
    "a count that lies": lambda r: NAME + struct.pack("=Q", size(r)) + noise(r),
    "a size that lies": lambda r: NAME + struct.pack("=2Q", 1, size(r)) + noise(r),
    "sizes that lie": lambda r: NAME + struct.pack("=4Q", 3, *(size(r) for _ in "abc")) + noise(r),
    "a length of 1 TiB": lambda r: NAME + struct.pack("=2Q", 1, TIB) + bytes(4096),
    "half a message": lambda r: (NAME + stream([GREETING]))[: r.randrange(60)],
    "a frame that is damaged": lambda r: NAME + damaged(r, stream([GREETING, noise(r)])),
    "all of it damaged": lambda r: damaged(r, NAME + stream([GREETING, noise(r)])),
    "good frames": lambda r: NAME + stream([GREETING]) * r.randrange(9),
}


class Member:
    """One who has the key, and sends messages that no node would."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: str,
        key: str,
        name: str = "hostile",
        pause: int = 1,  # milliseconds before it connects again
    ) -> None:
        self._socket = _client_socket(context, *_key_pair(key))
        self._socket.maxmsgsize = -1
        self._socket.reconnect_ivl = pause
        self._socket.routing_id = name.encode()
        self._socket.connect(address)

    def send(self, parts: Parts) -> None:
        self._socket.send_multipart(parts)

    def hears(self) -> bool:
        """Ask once more, for what was sent may have cost the connection; whether the node answers,
        and so has had all."""
        answered = False
        while self._socket.poll(0):
            self._socket.recv_multipart()
            answered = True
        if not answered:
            self.ask()
        return answered

    def ask(self) -> None:
        self._socket.send(WHO_ARE_YOU)

    def answered(self) -> bool:
        return bool(self._socket.poll(0))

    def close(self) -> None:
        self._socket.close(linger=0)


def send_all(members: list[Member], messages: list[Parts]) -> None:
    """Let each member send one, and wait until the node has had them: it answers what comes after.

    What takes the time is to connect again, which all do at once.
    """
    waiting = list(members)
    for member, parts in zip(members, messages, strict=True):
        member.send(parts)
    for _ in range(10_000):
        waiting = [member for member in waiting if not member.hears()]
        if not waiting:
            return
        time.sleep(0.003)
    raise AssertionError("the node answers no more")


def play_stream(address: str, key: str, data: bytes) -> None:
    """Send it to the node's Unix socket, and wait until the node has had it or hung up."""
    path = peer_socket(key, address)
    assert path is not None
    with socket.socket(socket.AF_UNIX) as connected:
        connected.settimeout(10.0)
        connected.connect(str(path))
        try:
            connected.sendall(data)
            connected.shutdown(socket.SHUT_WR)
            while connected.recv(1 << 16):
                pass
        except ConnectionError:
            pass  # it has hung up


@contextmanager
def half_open(address: str, count: int) -> Iterator[None]:
    """Connections by TCP that say nothing."""
    port = int(address.rsplit(":", 1)[1])
    opened = []
    try:
        for _ in range(count):
            opened.append(socket.socket())
            opened[-1].setblocking(False)
            opened[-1].connect_ex(("127.0.0.1", port))
        yield
    finally:
        for each in opened:
            each.close()


@contextmanager
def nameless(address: str, key: str, count: int) -> Iterator[None]:
    """Connections from the same machine that say nothing."""
    path: Path | None = peer_socket(key, address)
    assert path is not None
    opened = []
    try:
        for _ in range(count):
            opened.append(socket.socket(socket.AF_UNIX))
            opened[-1].setblocking(False)
            opened[-1].connect_ex(str(path))
        yield
    finally:
        for each in opened:
            each.close()

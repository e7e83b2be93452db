"""Connections over Unix sockets: all of one node's, those it dialled and those that dialled it."""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from activebroker.transport.base import Arrival, Outgoing
from activebroker.transport.complaints import Complaints
from activebroker.transport.newcomers import TOO_MANY, Newcomers
from activebroker.transport.watching import Watch
from activebroker.transport.wire import Disconnected, Malformed, Wire

log = logging.getLogger(__name__)
LONGEST_NAME = 1 << 10  # bytes
REST = 0.1  # seconds without accepting connections, after one could not be
HUNG_UP_KEPT = 4096


class UnixSockets:
    """`watch` has all sockets that are to be waited for. `newcomers` are those of all kinds of
    connections.

    Who dials says its name first. Each peer has at most one connection in use for sending, the last
    one made; a connection that breaks, or brings what is no message, is dropped with what waited in
    it. A peer that has hung up has ended if nobody listens any more where it is dialled then: one
    that lives, however slow, goes on listening.
    """

    def __init__(self, name: str, watch: Watch, newcomers: Newcomers) -> None:
        self._name = name
        self._watch = watch
        self._listener: socket.socket | None = None
        self._path: Path | None = None
        self._wires: dict[int, Wire] = {}  # by file descriptor
        self._peers: dict[int, str] = {}  # who is at the other end, as soon as it has said so
        self._used: dict[str, Wire] = {}  # by peer
        self._hung_up: dict[str, None] = {}  # who has, and was not seen again
        self._news: list[str] = []  # those of them of whom nobody has been told
        self._ended: list[str] = []
        self._newcomers = newcomers
        self._rests_until = math.inf  # while it accepts no connections
        self._complaints = Complaints(log)

    def listen(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        path.unlink(missing_ok=True)  # of a process that was killed and had our address before
        self._listener.bind(str(path))
        self._path = path
        self._listener.listen(128)
        self._watch.add(self._listener)

    def dial(self, peer: str, path: Path) -> bool:
        """Whether there is a connection now."""
        try:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        except OSError as error:
            self._complaints.say("dial", f"Cannot connect to {peer!r}: {error}")
            return False
        connected.setblocking(False)  # a peer that accepts nothing must not stop us
        try:
            connected.connect(str(path))
        except OSError as error:
            connected.close()
            if isinstance(error, ConnectionRefusedError) and peer in self._hung_up:
                del self._hung_up[peer]
                self._ended.append(peer)
            return False
        wire = self._add(connected)
        self._use(peer, wire)
        wire.send([self._name.encode()])
        return True

    def transmit(self, peer: str, frames: Sequence[Outgoing]) -> bool:
        """Send; False where there is no connection."""
        if (wire := self._used.get(peer)) is None:
            return False
        for head, buffers in frames:
            wire.send([head, *buffers])
        self._flush(wire)
        return True

    def ready(self, descriptor: int, arrivals: list[Arrival]) -> None:
        """Take what has come at a watched socket, and send what waited for it."""
        if self._listener is not None and descriptor == self._listener.fileno():
            self._accept(self._listener)
        elif (wire := self._wires.get(descriptor)) is not None:
            try:
                arrivals += self._taken(wire)
            except Disconnected:
                self._hang_up(wire)
            except (Malformed, MemoryError) as error:
                peer = self._peers.get(descriptor, "a process of this user")
                self._complaints.say(peer, f"Dropped a connection: {peer!r} sent {error}")
                self._drop(wire)
            else:
                self._flush(wire)

    def cut(self, descriptor: int) -> bool:
        """End a connection; False if it is none of these."""
        if (wire := self._wires.get(descriptor)) is None:
            return False
        self._drop(wire)
        return True

    def rest(self, timeout: float | None) -> float | None:
        """Accept connections again when it is time to; the seconds until then, or `timeout`."""
        if self._rests_until == math.inf:
            return timeout
        left = self._rests_until - time.monotonic()
        if left <= 0 and self._listener is not None:
            self._rests_until = math.inf
            self._watch.add(self._listener)
            return timeout
        return left if timeout is None else min(left, timeout)

    def hung_up(self) -> list[str]:
        """The peers that have no connection any more, as far as this was not told before."""
        news, self._news = self._news, []
        return news

    def ended(self) -> list[str]:
        """The peers that have ended, as far as this was not told before."""
        ended, self._ended = self._ended, []
        return ended

    def forget(self, peer: str) -> None:
        self._hung_up.pop(peer, None)
        for descriptor, name in list(self._peers.items()):
            if name == peer:
                self._drop(self._wires[descriptor])

    def close(self) -> None:
        for wire in list(self._wires.values()):
            self._drop(wire)
        if self._listener is not None and self._path is not None:
            if self._rests_until == math.inf:
                self._watch.remove(self._listener)
            self._listener.close()
            self._path.unlink(missing_ok=True)
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        try:
            connected, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            return  # it has hung up already
        except OSError as error:
            # It would be told at once again that somebody waits.
            self._complaints.say("accept", f"Cannot accept connections: {error}")
            self._rests_until = time.monotonic() + REST
            self._watch.remove(listener)
            return
        self._newcomers.came(self._add(connected).socket.fileno())
        if cut := self._newcomers.make_room():
            self._complaints.say("room", f"{cut} connections were {TOO_MANY}")

    def _taken(self, wire: Wire) -> list[Arrival]:
        """The frames that have come. Raises Disconnected, Malformed."""
        messages = wire.receive()
        descriptor = wire.socket.fileno()
        if messages and descriptor not in self._peers:
            name = messages.pop(0)
            if len(name) != 1 or len(name[0]) > LONGEST_NAME:
                raise Malformed("no name, first of all")
            if not self._newcomers.stays(descriptor):
                return []
            self._use(str(name[0], errors="replace"), wire)
        if not all(messages):
            raise Malformed("a message without parts")
        return [(self._peers[descriptor], head, buffers) for head, *buffers in messages]

    def _use(self, peer: str, wire: Wire) -> None:
        """From now on; it may be another process of that name."""
        self._peers[wire.socket.fileno()] = peer
        self._used[peer] = wire
        self._hung_up.pop(peer, None)

    def _add(self, connected: socket.socket) -> Wire:
        wire = self._wires[connected.fileno()] = Wire(connected)
        self._watch.add(connected)
        return wire

    def _flush(self, wire: Wire) -> None:
        was_waiting = wire.waiting
        try:
            wire.flush()
        except Disconnected:
            self._hang_up(wire)
            return
        if wire.waiting != was_waiting:
            self._watch.add(wire.socket, wire.waiting)

    def _hang_up(self, wire: Wire) -> None:
        """The other end has ended a connection."""
        peer = self._peers.get(wire.socket.fileno())
        self._drop(wire)
        if peer is not None and peer not in self._used:
            self._hung_up[peer] = None
            self._news.append(peer)
            if len(self._hung_up) > HUNG_UP_KEPT:
                del self._hung_up[next(iter(self._hung_up))]

    def _drop(self, wire: Wire) -> None:
        descriptor = wire.socket.fileno()
        del self._wires[descriptor]
        self._newcomers.closed(descriptor)
        peer = self._peers.pop(descriptor, None)
        if peer is not None and self._used.get(peer) is wire:
            del self._used[peer]
            others = (each for each, name in self._peers.items() if name == peer)
            if (other := next(others, None)) is not None:
                self._used[peer] = self._wires[other]
        self._watch.remove(wire.socket)
        wire.socket.close()

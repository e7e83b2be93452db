"""Connections over Unix sockets: all of one node's, those it dialled and those that dialled it."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from activebroker.transport.base import Arrival
from activebroker.transport.wire import Disconnected, Wire

log = logging.getLogger(__name__)


class UnixSockets:
    """`watch(socket, writable)` is called when a socket is to be waited for, to be read and
    perhaps to be written; `unwatch(socket)` when it is not any more.

    Who dials says its name first. Each peer has at most one connection in use for sending, the last
    one made; a connection that breaks is dropped with what waited in it.
    """

    def __init__(
        self,
        name: str,
        watch: Callable[[socket.socket, bool], None],
        unwatch: Callable[[socket.socket], None],
    ) -> None:
        self._name = name
        self._watch = watch
        self._unwatch = unwatch
        self._listener: socket.socket | None = None
        self._path: Path | None = None
        self._wires: dict[int, Wire] = {}  # by file descriptor
        self._peers: dict[int, str] = {}  # who is at the other end, as soon as it has said so
        self._used: dict[str, Wire] = {}  # by peer

    def listen(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        path.unlink(missing_ok=True)  # of a process that was killed and had our address before
        self._listener.bind(str(path))
        self._path = path
        self._listener.listen(128)
        self._watch(self._listener, False)

    def dial(self, peer: str, path: Path) -> bool:
        """Whether there is a connection now."""
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.setblocking(False)  # a peer that accepts nothing must not stop us
        try:
            connected.connect(str(path))
        except OSError:
            connected.close()
            return False
        wire = self._add(connected)
        self._peers[connected.fileno()] = peer
        self._used[peer] = wire
        wire.send([self._name.encode()])
        return True

    def transmit(self, peer: str, frames: Sequence[Arrival]) -> bool:
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
            with suppress(OSError):  # it has hung up already
                self._add(self._listener.accept()[0])
        elif (wire := self._wires.get(descriptor)) is not None:
            try:
                messages = wire.receive()
            except Disconnected:
                self._drop(wire)
                return
            if messages and descriptor not in self._peers:
                (name,) = messages.pop(0)
                peer = self._peers[descriptor] = str(name, errors="replace")
                self._used[peer] = wire  # it may be another process of that name
            arrivals.extend((head, buffers) for head, *buffers in messages)
            self._flush(wire)

    def forget(self, peer: str) -> None:
        for descriptor, name in list(self._peers.items()):
            if name == peer:
                self._drop(self._wires[descriptor])

    def close(self) -> None:
        for wire in list(self._wires.values()):
            self._drop(wire)
        if self._listener is not None and self._path is not None:
            self._unwatch(self._listener)
            self._listener.close()
            self._path.unlink(missing_ok=True)
            self._listener = None

    def _add(self, connected: socket.socket) -> Wire:
        wire = self._wires[connected.fileno()] = Wire(connected)
        self._watch(connected, False)
        return wire

    def _flush(self, wire: Wire) -> None:
        was_waiting = wire.waiting
        try:
            wire.flush()
        except Disconnected:
            self._drop(wire)
            return
        if wire.waiting != was_waiting:
            self._watch(wire.socket, wire.waiting)

    def _drop(self, wire: Wire) -> None:
        descriptor = wire.socket.fileno()
        del self._wires[descriptor]
        peer = self._peers.pop(descriptor, None)
        if peer is not None and self._used.get(peer) is wire:
            del self._used[peer]
            others = (each for each, name in self._peers.items() if name == peer)
            if (other := next(others, None)) is not None:
                self._used[peer] = self._wires[other]
        self._unwatch(wire.socket)
        wire.socket.close()

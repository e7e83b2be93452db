"""What a node waits for: file descriptors, and sockets of ZeroMQ.

The system is told of each once (epoll, kqueue), so that a thousand that are quiet cost nothing.
Behind a socket of ZeroMQ is a descriptor that tells only that something may have happened to it,
and whatever is done with the socket may swallow that. So one with which something was done is asked
itself, until it says that there is nothing.
"""

from __future__ import annotations

import selectors
import socket
from typing import Any

import zmq

READ, READ_WRITE = selectors.EVENT_READ, selectors.EVENT_READ | selectors.EVENT_WRITE
# Plain ints: operations on pyzmq's enums cost a microsecond each.
EVENTS, POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)

Source = zmq.Socket[Any]


class Watch:
    """The descriptors and sockets of one node, for its thread. Raises OSError where the system has
    no room for one more."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._unsure: dict[Source, None] = {}  # in order, so that all get their turn

    def add(self, source: Source | socket.socket, writable: bool = False) -> None:
        """Watch, or watch for something else: whether there is something to read, or also whether a
        plain socket takes something."""
        if isinstance(source, zmq.Socket):
            self._selector.register(_descriptor(source), READ, source)
            self._unsure[source] = None
            return
        events = READ_WRITE if writable else READ
        try:
            self._selector.register(source, events)
        except KeyError:
            self._selector.modify(source, events)

    def remove(self, source: Source | socket.socket) -> None:
        """Watch it no more; it must not be closed yet."""
        if isinstance(source, zmq.Socket):
            self._unsure.pop(source, None)
            self._selector.unregister(_descriptor(source))
        else:
            self._selector.unregister(source)

    def used(self, source: Source) -> None:
        """Something was sent by a socket of ZeroMQ."""
        self._unsure[source] = None

    def wait(self, timeout: float | None) -> list[int | Source]:
        """The descriptors that are ready, and the sockets of ZeroMQ with something to read, after
        `timeout` seconds at the latest (None: when there are any)."""
        ready: list[int | Source] = []
        if self._unsure:
            asked = [each for each in self._unsure if is_readable(each)]
            self._unsure = dict.fromkeys(asked)
            ready += asked
        for key, _ in self._selector.select(0.0 if ready else timeout):
            source: Source | None = key.data
            if source is None:
                ready.append(key.fd)
            elif source not in self._unsure:
                self._unsure[source] = None
                if is_readable(source):
                    ready.append(source)
        return ready

    def close(self) -> None:
        self._selector.close()


def is_readable(source: Source) -> bool:
    """Whether a message has come; cheaper than the exception of a `recv` that finds none."""
    return bool(int(source.getsockopt(EVENTS)) & POLLIN)


def _descriptor(source: Source) -> int:
    return int(source.getsockopt(zmq.FD))

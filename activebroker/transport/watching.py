"""What a node waits for: file descriptors, and sockets of ZeroMQ.

The system is told of each once (epoll, kqueue), so that a thousand that are quiet cost nothing.
Behind a socket of ZeroMQ is a descriptor that tells only that something may have happened to it,
and whatever is done with the socket may swallow that. So one with which something was done is asked
itself, until it says that there is nothing.
"""

from __future__ import annotations

import select
import selectors
import socket
import struct
from typing import Any

import zmq

# Plain ints: operations on pyzmq's enums cost a microsecond each.
EVENTS, POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)

Source = zmq.Socket[Any]


class Watch:
    """The descriptors and sockets of one node, for its thread. Raises OSError where the system has
    no room for one more."""

    def __init__(self) -> None:
        self._descriptors = _Epoll() if hasattr(select, "epoll") else _Selector()
        self._sources: dict[int, Source] = {}  # by descriptor
        self._unsure: dict[Source, None] = {}  # in order, so that all get their turn

    def add(self, source: Source | socket.socket, writable: bool = False) -> None:
        """Watch, or watch for something else: whether there is something to read, or also whether a
        plain socket takes something."""
        if isinstance(source, zmq.Socket):
            descriptor = _descriptor(source)
            self._descriptors.watch(descriptor, False)
            self._sources[descriptor] = source
            self._unsure[source] = None
        else:
            self._descriptors.watch(source.fileno(), writable)

    def remove(self, source: Source | socket.socket) -> None:
        """Watch it no more; it must not be closed yet."""
        if isinstance(source, zmq.Socket):
            self._unsure.pop(source, None)
            descriptor = _descriptor(source)
            del self._sources[descriptor]
        else:
            descriptor = source.fileno()
        self._descriptors.forget(descriptor)

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
        for descriptor in self._descriptors.wait(0.0 if ready else timeout):
            if (source := self._sources.get(descriptor)) is None:
                ready.append(descriptor)
            elif source not in self._unsure:
                self._unsure[source] = None
                if is_readable(source):
                    ready.append(source)
        return ready

    def close(self) -> None:
        self._descriptors.close()


class _Selector:
    """What the system has, whatever that is."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def watch(self, descriptor: int, writable: bool) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writable else 0)
        try:
            self._selector.register(descriptor, events)
        except KeyError:
            self._selector.modify(descriptor, events)

    def forget(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)

    def wait(self, timeout: float | None) -> list[int]:
        return [key.fd for key, _ in self._selector.select(timeout)]

    def close(self) -> None:
        self._selector.close()


class _Epoll:
    """The same on Linux, in half the time: each event comes by here, in each process."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: set[int] = set()

    def watch(self, descriptor: int, writable: bool) -> None:
        events = select.EPOLLIN | (select.EPOLLOUT if writable else 0)
        if descriptor in self._watched:
            self._epoll.modify(descriptor, events)
        else:
            self._epoll.register(descriptor, events)
            self._watched.add(descriptor)

    def forget(self, descriptor: int) -> None:
        self._watched.remove(descriptor)
        self._epoll.unregister(descriptor)

    def wait(self, timeout: float | None) -> list[int]:
        # `maxevents` has to be above 0, also where there is nothing to watch.
        return [each for each, _ in self._epoll.poll(timeout, len(self._watched) + 1)]

    def close(self) -> None:
        self._epoll.close()


def told_by(monitor: Source) -> tuple[int, int]:
    """The event and the value of a monitor's message. `zmq.utils.monitor` has this too, but imports
    asyncio, which takes long where the program does not."""
    event, value = struct.unpack("=Hi", monitor.recv_multipart()[0])
    return event, value


def is_readable(source: Source) -> bool:
    """Whether a message has come; cheaper than the exception of a `recv` that finds none."""
    return bool(int(source.getsockopt(EVENTS)) & POLLIN)


def _descriptor(source: Source) -> int:
    return int(source.getsockopt(zmq.FD))

"""Frames between nodes of one process."""

from __future__ import annotations

import queue
from collections.abc import Iterable, Sequence

from activebroker.transport.base import Arrival, Outgoing


class LocalHub:
    """The nodes of one process, by name."""

    def __init__(self) -> None:
        self.queues: dict[str, queue.SimpleQueue[Arrival | None]] = {}


class LocalTransport:
    """A node's place at a hub."""

    def __init__(self, name: str, hub: LocalHub) -> None:
        self.address: str | None = f"local://{name}"
        self._name = name
        self._hub = hub
        self._queue: queue.SimpleQueue[Arrival | None] = queue.SimpleQueue()
        hub.queues[name] = self._queue

    def receive(self, timeout: float | None) -> list[Arrival]:
        arrivals: list[Arrival] = []
        try:
            item = self._queue.get(timeout=timeout)
            while True:
                if item is not None:
                    arrivals.append(item)
                item = self._queue.get_nowait()
        except queue.Empty:
            return arrivals

    def transmit(self, peer: str, address: str | None, frames: Sequence[Outgoing]) -> None:
        if (target := self._hub.queues.get(peer)) is not None:
            for head, buffers in frames:
                target.put((self._name, head, buffers))

    def heard(self) -> Iterable[str]:
        return ()

    def hung_up(self) -> Iterable[str]:
        return ()

    def ended(self) -> Iterable[str]:
        return ()

    def knock(self, peer: str, address: str) -> None:
        pass

    def absent(self) -> Iterable[str]:
        return ()

    def forget(self, peer: str) -> None:
        pass

    def wake(self) -> None:
        self._queue.put(None)

    def close(self) -> None:
        self._hub.queues.pop(self._name, None)

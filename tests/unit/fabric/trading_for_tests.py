"""Trades, and what the tests of the user's objects do with them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import activebroker as ab
from activebroker import Event, FIFOFilter

PATIENCE = 30.0  # seconds; a deadline for slow machines, no pace


@dataclass(frozen=True)
class Trade:
    name: str
    price: float


class Dear(FIFOFilter):
    def __init__(self, limit: float = 100) -> None:
        self.limit = limit

    def enqueue(self, event: Event) -> None:
        if event.content.price > self.limit:
            super().enqueue(event)


@dataclass(frozen=True)
class Counted:
    """A price, and how many the filter had seen by then."""

    price: float
    count: int


class Count(FIFOFilter):
    """Keeps state: a lost, repeated or reordered event, or a lost state, shows in the counts."""

    output = Counted

    def __init__(self) -> None:
        self.count = 0

    def enqueue(self, event: Event) -> None:
        self.count += 1
        super().enqueue(event.replace(Counted(event.content.price, self.count)))


class Stuck(FIFOFilter):
    """Does not return from an event as long as there is the file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def enqueue(self, event: Event) -> None:
        while self.file.exists():
            time.sleep(0.005)


def trades(*prices: float) -> list[Trade]:
    return [Trade("IBM", float(price)) for price in prices]


def prices(events: Iterable[Event]) -> list[float]:
    return [event.content.price for event in events]


def by_supplier(events: Iterable[Event]) -> dict[str, list[Any]]:
    """The contents that each supplier's stream brought, in order."""
    streams: dict[str, list[Any]] = {}
    for event in events:
        streams.setdefault(event.supplier, []).append(event.content)
    return streams


def eventually(look: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


class Publishing(AbstractContextManager["Publishing"]):
    """A thread that publishes trades with the prices 0, 1, 2… until the block ends."""

    def __init__(self, *suppliers: ab.Supplier) -> None:
        self._suppliers = suppliers
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._publish, name="publishing")
        self.count = 0

    def __enter__(self) -> Publishing:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._enough.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def go_on(self, events: int = 200) -> None:
        """Wait until so many more events of each supplier were published."""
        goal = self.count + events
        eventually(lambda: self.count >= goal, "nothing is published any more")

    def _publish(self) -> None:
        while not self._enough.is_set():
            for supplier in self._suppliers:
                supplier.publish(Trade("IBM", float(self.count)), PATIENCE)
            self.count += 1
            if self.count % 50 == 0:
                self._enough.wait(0.001)  # leave the processor to the others

"""Trades, runners and two filters for the tests of filters over batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from activebroker.events import ANY, Batch, Event, EventType, encode
from activebroker.filters import (
    FIFOFilter,
    FilterRunner,
    FilterSpec,
    RunResult,
    analyse,
    pack,
    unpack,
)

KEY = b"key"


@dataclass(frozen=True)
class Trade:
    name: str
    price: float


@dataclass(frozen=True)
class Name:
    name: str


def runner(
    given: object, cls: type = Trade, *, shared: bool = False, stop: bool = False
) -> FilterRunner:
    spec, type_ = FilterSpec.of(given), ANY if cls is object else EventType.of(cls)
    payload = unpack(pack(spec, type_, analyse(spec, type_), key=KEY), KEY)
    return FilterRunner(payload, channel="derived", name="F", shared=shared, stop_on_error=stop)


def batch(*contents: Any, supplier: str = "NYSE", first: int = 0, cls: type | None = None) -> Batch:
    type_ = ANY if cls is object else EventType.of(cls or type(contents[0]))
    times = [1000 + first + row for row in range(len(contents))]
    return encode(type_, list(contents), supplier, first, times)


def trades(*prices: float, supplier: str = "NYSE", first: int = 0) -> Batch:
    return batch(*(Trade("IBM", price) for price in prices), supplier=supplier, first=first)


def contents(result: RunResult) -> list[Any]:
    return [content for batch in result.batches for content in batch.contents()]


def seqs(result: RunResult) -> list[int]:
    return [seq for batch in result.batches for seq in batch.seqs.tolist()]


def lost(result: RunResult) -> list[tuple[str, int]]:
    return [(failure.supplier, failure.seq) for failure in result.failures]


class Dear(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if event.content.price > 100:
            super().enqueue(event)


class Pairs(FIFOFilter):
    """Forwards two events at every second one, and keeps the first for that long."""

    def on_start(self) -> None:
        self.first: Event | None = None

    def enqueue(self, event: Event) -> None:
        if self.first is None:
            self.first = event
        else:
            super().enqueue(self.first)
            super().enqueue(event)
            self.first = None

    def on_end(self) -> None:
        if self.first is not None:
            super().enqueue(self.first)

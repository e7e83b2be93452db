"""Event types and filters for the comparison of Spark with plain Python.

Without postponed annotations: the classes travel to processes that lack this module, where names in
annotations could not be looked up.
"""

import os
import threading
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated

import numpy as np

from activebroker.events import Event, Precision, Shape, Zone
from activebroker.filters import FIFOFilter, KeyedFilter


class Side(Enum):
    BUY = 1
    SELL = 2


@dataclass(frozen=True)
class Point:
    x: float
    weights: Annotated[np.ndarray, Shape(2, dtype="uint8")]


@dataclass(frozen=True)
class Sample:
    number: int
    price: float | None
    name: str | None
    naive: datetime
    aware: Annotated[datetime, Zone("Europe/Berlin")]
    amount: Annotated[Decimal, Precision(10, 2)]
    side: Side
    point: Point | None
    tags: list[str]
    signal: Annotated[np.ndarray, Shape(100)]
    bits: Annotated[np.ndarray, Shape(2, 2, dtype="bool")] | None


@dataclass(frozen=True)
class Marked(Sample):
    mark: str = ""


@dataclass(frozen=True)
class Energy:
    number: int
    value: float


@dataclass(frozen=True)
class Peak(Energy):
    where: int = 0


class Dear(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if event.content.price is not None and event.content.price > 50:
            super().enqueue(event)


class Above(FIFOFilter):
    """Its predicate is native in Spark, and its parameter can be reconfigured."""

    parameters = ("least",)

    def __init__(self) -> None:
        self.least = 3
        self.seen = 0

    def enqueue(self, event: Event) -> None:
        if event.content.number >= self.least:
            self.seen += 1
            super().enqueue(event.replace(replace(event.content, name=str(self.seen))))


class Unanalysed(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if len(event.content.name or "") % 3 or event.content.number % 2:
            super().enqueue(event)


class Spectrum(FIFOFilter):
    output = Energy

    def enqueue(self, event: Event) -> None:
        power = np.abs(np.fft.rfft(event.content.signal)) ** 2
        if event.content.number % 3 == 0:
            where = int(power.argmax())
            found: Energy = Peak(event.content.number, float(power.max()), where)
        else:
            found = Energy(event.content.number, float(power.sum()))
        super().enqueue(event.replace(found))


class Outlier(FIFOFilter):
    """Forwards what is far from the running mean."""

    def __init__(self, distance: float) -> None:
        self.distance = distance
        self.count = 0
        self.mean = 0.0

    def enqueue(self, event: Event) -> None:
        price = event.content.price
        if price is None:
            return
        self.count += 1
        self.mean += (price - self.mean) / self.count
        if abs(price - self.mean) > self.distance:
            super().enqueue(event)


class Careless(FIFOFilter):
    """Raises where the price is missing, after it has forwarded."""

    def enqueue(self, event: Event) -> None:
        super().enqueue(event)
        if event.content.price < 10:
            raise SystemExit("cheap")


class Strict(Careless):
    on_error = "stop"

    def enqueue(self, event: Event) -> None:
        super().enqueue(event)


class Echo(FIFOFilter):
    """Forwards nothing, or the last two events again, out of order."""

    def __init__(self) -> None:
        self.last: Event | None = None

    def enqueue(self, event: Event) -> None:
        if event.content.number % 2 and self.last is not None:
            super().enqueue(event)
            super().enqueue(self.last)
        self.last = event


class Pairs(Echo):
    shared = True


class Hooked(FIFOFilter):
    """Counts with the hooks, and forwards at the end of a stream and when idle."""

    output = Energy
    idle_after = 1.0

    def on_start(self) -> None:
        self.held: list[Event] = []

    def enqueue(self, event: Event) -> None:
        self.held.append(event)
        if len(self.held) > 20:
            self._release()

    def on_idle(self) -> None:
        self._release()

    on_end = on_idle

    def _release(self) -> None:
        total = float(sum(event.content.number for event in self.held))
        for event in self.held[-1:]:
            super().enqueue(event.replace(Energy(len(self.held), total)))
        self.held = []


class PerName(KeyedFilter):
    """Its state is by name and side. The times of samples are in no order."""

    key = ("name", "side")
    time = "naive"
    lateness = 50 * 86_400.0
    ttl = 100 * 86_400.0
    output = Energy

    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event: Event) -> None:
        self.seen += 1
        self.set_timer(event.content.naive + timedelta(days=60))
        if self.seen % 2:
            self.forward(Energy(self.seen, event.content.price or 0.0))

    def on_timer(self, time: datetime) -> None:
        self.forward(Energy(-self.seen, float(time.day)))

    def on_expire(self) -> None:
        self.forward(Energy(self.seen, -1.0))

    on_end = on_expire


class Broken(FIFOFilter):
    def __init__(self) -> None:
        raise RuntimeError("no such model")

    def enqueue(self, event: Event) -> None:
        super().enqueue(event)


class Rows(FIFOFilter):
    """Counts rows of any kind."""

    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event: Event) -> None:
        self.seen += len(event.content["signal"])
        if event.content["number"] % 2:
            super().enqueue(event)
            super().enqueue(event.replace({"seen": self.seen}))


class Deadly(FIFOFilter):
    """Ends the process in which it runs."""

    def enqueue(self, event: Event) -> None:
        if event.content.number == 7:
            os._exit(3)
        super().enqueue(event)


class Locked(FIFOFilter):
    """Has a state that cannot be pickled, and was not made by on_start."""

    def enqueue(self, event: Event) -> None:
        self.lock = threading.Lock()
        super().enqueue(event)

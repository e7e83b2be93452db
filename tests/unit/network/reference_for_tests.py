"""What consumers must see: the channels and filters again, without any network.

The reference runs every filter at once on what suppliers hand over, one supplier at a time, and
keeps what each channel consists of. A subscription must have seen a gapless run of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from virtual_network_for_tests import KEY, Intake

import activebroker as ab
from activebroker.events import Batch, Event, EventType
from activebroker.filters import Envelope, FIFOFilter, FilterSpec, analyse, pack

Seen = tuple[int, int, str]  # what identifies a forwarded event: its number, group and trace


@dataclass(frozen=True)
class Item:
    """`n` counts a supplier's events; `trace` tells what filters made of it."""

    n: int
    group: int
    trace: str
    blob: bytes

    def marked(self, mark: object) -> Item:
        return Item(self.n, self.group, f"{self.trace}/{mark}", self.blob)


ITEM = EventType.of(Item)


class Few(ab.FIFOFilter):
    """Stateless, and its predicate is exact."""

    def enqueue(self, event: Event) -> None:
        if event.content.group != 1:
            super().enqueue(event)


class Some(ab.FIFOFilter):
    """Stateless, decided in part by its predicate."""

    def enqueue(self, event: Event) -> None:
        if event.content.group > 0 and len(event.content.trace) % 3 != 1:
            super().enqueue(event)


class Count(ab.FIFOFilter):
    """Stateful: numbers what it has seen of a supplier."""

    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event: Event) -> None:
        self.seen += 1
        super().enqueue(event.replace(event.content.marked(self.seen)))


class CountAll(ab.FIFOFilter):
    """Stateful, one instance for all suppliers."""

    shared = True

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def enqueue(self, event: Event) -> None:
        count = self.seen[event.supplier] = self.seen.get(event.supplier, 0) + 1
        super().enqueue(event.replace(event.content.marked(count)))


class Twice(ab.FIFOFilter):
    """Several forwards of one event."""

    def enqueue(self, event: Event) -> None:
        super().enqueue(event)
        if event.content.group != 2:
            super().enqueue(event.replace(event.content.marked("again")))


class HoldBack(ab.FIFOFilter):
    """Stateful: forwards the event before this one; the end of the stream sets the last free."""

    def __init__(self) -> None:
        self.held: Event | None = None

    def enqueue(self, event: Event) -> None:
        if self.held is not None:
            super().enqueue(self.held)
        self.held = event

    def on_end(self) -> None:
        if self.held is not None:
            super().enqueue(self.held)


class Faulty(ab.FIFOFilter):
    """Stateful; raises now and then, after it has forwarded something."""

    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event: Event) -> None:
        self.seen += 1
        super().enqueue(event.replace(event.content.marked(self.seen)))
        if event.content.group == 3:
            raise ValueError(f"planted, on {event.content.n}")


FILTERS: tuple[type[FIFOFilter], ...] = (Few, Some, Count, CountAll, Twice, HoldBack, Faulty)


@cache
def envelope_of(cls: type[FIFOFilter]) -> Envelope:
    spec = FilterSpec.of(cls)
    return pack(spec, ITEM, analyse(spec, ITEM), key=KEY)


@dataclass
class Reference:
    """One channel: all it consists of, by supplier."""

    filter: type[FIFOFilter] | None = None
    events: dict[str, list[Seen]] = field(default_factory=dict)
    children: list[Reference] = field(default_factory=list)
    closed: bool = False
    _instances: dict[str, FIFOFilter] = field(default_factory=dict)

    def derive(self, filter: type[FIFOFilter]) -> Reference:
        child = Reference(filter)
        self.children.append(child)
        return child

    def publish(self, batch: Batch) -> None:
        for event in batch.events():
            self._forward(event)

    def end(self, supplier: str) -> None:
        """A supplier's stream is complete."""
        instance = self._instances.pop(supplier, None)
        if instance is not None and not self.closed:
            instance.on_end()
            for event in instance._take():
                self._forward(event)
        for child in self.children:
            child.end(supplier)

    def close(self) -> None:
        """The channel and all below it end."""
        if self.closed:
            return
        for supplier in list(self._instances):
            self.end(supplier)
        self.closed = True
        for child in self.children:
            child.close()

    def lengths(self) -> dict[str, int]:
        return {supplier: len(events) for supplier, events in self.events.items()}

    def _forward(self, event: Event) -> None:
        item = event.content
        seen = (item.n, item.group, item.trace)
        self.events.setdefault(event.supplier, []).append(seen)
        for child in self.children:
            child._take(event)

    def _take(self, event: Event) -> None:
        if self.closed:
            return
        assert self.filter is not None
        key = "" if self.filter.shared else event.supplier
        if (instance := self._instances.get(key)) is None:
            instance = self._instances[key] = self.filter()
        try:
            instance.enqueue(event)
        except ValueError:
            instance._take()
        for forwarded in instance._take():
            self._forward(forwarded)


def seen_by(intake: Intake) -> dict[str, list[Seen]]:
    """What a subscription got, by supplier."""
    seen: dict[str, list[Seen]] = {}
    for batch in intake.batches:
        for event in batch.events():
            item = event.content
            seen.setdefault(event.supplier, []).append((item.n, item.group, item.trace))
    return seen


def violations(
    intake: Intake,
    whole: Reference,
    latest_start: dict[str, int],
    complete: Callable[[str], bool],
) -> Iterator[str]:
    """How what was seen breaks the contract.

    It must be a run without gaps of what the channel consists of, that begins not after
    `latest_start` and, where it is `complete`, goes to the end; all this by supplier.
    """
    got: dict[str, list[Any]] = dict(seen_by(intake))
    for supplier, events in whole.events.items():
        seen = got.pop(supplier, [])
        latest = latest_start.get(supplier, 0)
        if not seen:
            if complete(supplier) and latest < len(events):
                yield f"{supplier}: nothing was seen, expected {events[latest:]}"
            continue
        if seen[0] not in events:
            yield f"{supplier}: {seen[0]} is not of this channel: {events}"
            continue
        first = events.index(seen[0])
        if first > latest:
            yield f"{supplier}: starts with {seen[0]}, {events[latest:first]} are missing"
        end = None if complete(supplier) else first + len(seen)
        expected = events[first:end]
        if seen != expected:
            yield f"{supplier}: expected {expected}, got {seen}"
    for supplier, seen in got.items():
        yield f"{supplier}: unexpected {seen}"

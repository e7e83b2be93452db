"""The events and the filters of a simulation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from activebroker.events import Event, EventType
from activebroker.filters import (
    Envelope,
    FIFOFilter,
    FilterSpec,
    KeyedFilter,
    Payload,
    analyse,
    pack,
    unpack,
)

KEY = b"k" * 32
UNREADABLE = "no such event"  # what a class raises that refuses to be built
REASON = f"LookupError: {UNREADABLE}"
KILLS = "kills its process"  # what the simulation takes a filter for that raises it
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


def group_of(n: int) -> int:
    """Of an event, by its number: any of four, in no simple order."""
    return (n * 2654435761 >> 8) % 4


class Few(FIFOFilter):
    """Stateless, and its predicate is exact."""

    def enqueue(self, event: Event) -> None:
        if event.content.group != 1:
            super().enqueue(event)


class All(FIFOFilter):
    """What a log keeps."""

    def enqueue(self, event: Event) -> None:
        super().enqueue(event)


class Some(FIFOFilter):
    """Stateless, decided in part by its predicate."""

    def enqueue(self, event: Event) -> None:
        if event.content.group > 0 and len(event.content.trace) % 3 != 1:
            super().enqueue(event)


class Count(FIFOFilter):
    """Stateful: numbers what it has seen of a supplier."""

    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event: Event) -> None:
        self.seen += 1
        super().enqueue(event.replace(event.content.marked(self.seen)))


class CountAll(FIFOFilter):
    """Stateful, one instance for all suppliers."""

    shared = True

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def enqueue(self, event: Event) -> None:
        count = self.seen.get(event.supplier, 0) + 1
        self.seen = {**self.seen, event.supplier: count}
        super().enqueue(event.replace(event.content.marked(count)))


class Twice(FIFOFilter):
    """Several forwards of one event."""

    def enqueue(self, event: Event) -> None:
        super().enqueue(event)
        if event.content.group != 2:
            super().enqueue(event.replace(event.content.marked("again")))


class HoldBack(FIFOFilter):
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


class Faulty(FIFOFilter):
    """Stateful; raises now and then, after it has forwarded something."""

    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event: Event) -> None:
        self.seen += 1
        super().enqueue(event.replace(event.content.marked(self.seen)))
        if event.content.group == 3:
            raise ValueError(f"planted, on {event.content.n}")


class Rated(FIFOFilter):
    """Stateless, its predicate is exact, and raises now and then."""

    def enqueue(self, event: Event) -> None:
        if 6 // (3 - event.content.group) >= 3:
            super().enqueue(event)


class Deadly(FIFOFilter):
    """Stateful; one kind of event kills the process that runs it."""

    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event: Event) -> None:
        if event.content.group == 3:
            raise RuntimeError(KILLS)
        self.seen += 1
        super().enqueue(event.replace(event.content.marked(self.seen)))


class Above(FIFOFilter):
    """Stateless, its predicate is exact, and its parameter can be reconfigured."""

    parameters = ("groups",)

    def __init__(self) -> None:
        self.groups: tuple[int, ...] = (0, 1)

    def enqueue(self, event: Event) -> None:
        if event.content.group in self.groups:
            super().enqueue(event)


class CountAbove(FIFOFilter):
    """Stateful: numbers what it has forwarded of a supplier; its parameter can be reconfigured."""

    parameters = ("groups",)

    def __init__(self) -> None:
        self.groups: tuple[int, ...] = (0, 1)
        self.seen = 0

    def enqueue(self, event: Event) -> None:
        if event.content.group in self.groups:
            self.seen += 1
            super().enqueue(event.replace(event.content.marked(self.seen)))


class Grouped(KeyedFilter):
    """Keyed: numbers what it has seen of a group. By the numbers of events, a timer runs two after
    the first of a group, and a group expires that none has come of for five."""

    key: Any = "group"
    time = "n"
    ttl = 5

    def __init__(self) -> None:
        self.seen = self.last = 0

    def enqueue(self, event: Event) -> None:
        item = event.content
        self.seen, self.last = self.seen + 1, item.n
        if self.seen == 1:
            self.set_timer(item.n + 2)
        super().enqueue(event.replace(item.marked(f"g{self.seen}")))

    def on_timer(self, time: int) -> None:
        self.forward(Item(time, self.key, f"/timer{self.seen}", b""))

    def on_expire(self) -> None:
        self.forward(Item(self.last, self.key, f"/gone{self.seen}", b""))

    def on_end(self) -> None:
        self.forward(Item(self.last, self.key, f"/end{self.seen}", b""))


class GroupedByHand(FIFOFilter):
    """What `Grouped` comes to, with all groups in one instance."""

    def __init__(self) -> None:
        self.newest = -1
        # In the order in which groups came: seen, last, newest, and the timer if it is set. Made
        # anew, and never changed in place.
        self.groups: dict[int, tuple[int, int, int, int | None]] = {}

    def enqueue(self, event: Event) -> None:
        item = event.content
        self.newest = max(self.newest, item.n)
        while due := min(self._due(), default=None):
            self._run(event, *due)
        seen, _, newest, timer = self.groups.get(item.group, (0, 0, item.n, item.n + 2))
        self.groups = {**self.groups, item.group: (seen + 1, item.n, max(newest, item.n), timer)}
        super().enqueue(event.replace(item.marked(f"g{seen + 1}")))
        self.event = event
        while due := min(self._due(), default=None):
            self._run(event, *due)

    def on_end(self) -> None:
        timers = [
            (timer, 0, place, group)
            for place, (group, (_, _, _, timer)) in enumerate(self.groups.items())
            if timer is not None
        ]
        for timer, what, place, group in sorted(timers):
            self._run(self.event, timer, what, place, group)
        for group, (seen, last, _, _) in self.groups.items():
            super().enqueue(self.event.replace(Item(last, group, f"/end{seen}", b"")))

    def _due(self) -> Iterator[tuple[int, int, int, int]]:
        for place, (group, (_, _, newest, timer)) in enumerate(self.groups.items()):
            if timer is not None and timer <= self.newest:
                yield timer, 0, place, group
            if newest + 5 <= self.newest:
                yield newest + 5, 1, place, group

    def _run(self, event: Event, at: int, what: int, _place: int, group: int) -> None:
        seen, last, newest, _ = self.groups[group]
        if what == 0:
            self.groups = {**self.groups, group: (seen, last, newest, None)}
            super().enqueue(event.replace(Item(at, group, f"/timer{seen}", b"")))
        else:
            self.groups = {key: kept for key, kept in self.groups.items() if key != group}
            super().enqueue(event.replace(Item(last, group, f"/gone{seen}", b"")))


# By what a keyed filter is checked.
BY_HAND: dict[type[FIFOFilter], type[FIFOFilter]] = {Grouped: GroupedByHand}


GROUPS = ((0, 1), (2, 3), (1, 2), (0,), (1, 2, 3))
RECONFIGURED: tuple[type[FIFOFilter], ...] = (Above, CountAbove)
RAISING: tuple[type[FIFOFilter], ...] = (Rated,)
DEADLY: tuple[type[FIFOFilter], ...] = (Deadly,)
KEYED: tuple[type[FIFOFilter], ...] = (Grouped,)
FILTERS: tuple[type[FIFOFilter], ...] = (Count, Few, HoldBack, Twice, Count, Some, CountAll, Faulty)


_envelopes: dict[tuple[type[FIFOFilter], tuple[int, ...] | None], Envelope] = {}


def envelope_of(cls: type[FIFOFilter], groups: tuple[int, ...] | None = None) -> Envelope:
    """A filter ready to be shipped, with its parameter; analysed and packed once a process, for
    speed."""
    if (envelope := _envelopes.get((cls, groups))) is None:
        spec = FilterSpec.of(cls)
        spec = spec if groups is None else spec.reconfigured({"groups": groups})
        envelope = pack(spec, ITEM, analyse(spec, ITEM), key=KEY)
        _envelopes[cls, groups] = envelope
    return envelope


@lru_cache(maxsize=256)
def payload_of(envelope: Envelope) -> Payload:
    """What an envelope holds; verified and unpickled once a process, for speed."""
    return unpack(envelope, KEY)

"""The events and the filters of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from activebroker.events import Event, EventType
from activebroker.filters import Envelope, FIFOFilter, FilterSpec, Payload, analyse, pack, unpack

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


GROUPS = ((0, 1), (2, 3), (1, 2), (0,), (1, 2, 3))
RECONFIGURED: tuple[type[FIFOFilter], ...] = (Above, CountAbove)
RAISING: tuple[type[FIFOFilter], ...] = (Rated,)
DEADLY: tuple[type[FIFOFilter], ...] = (Deadly,)
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

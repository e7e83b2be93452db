"""What consumers must see: the filters again, without any network.

The content of a channel is worked out, one supplier at a time, from what its suppliers handed over.
Where a channel was derived or closed while events were under way, there are several contents that
are right: it begins, and ends, at one event within what was under way.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
        count = self.seen[event.supplier] = self.seen.get(event.supplier, 0) + 1
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


@dataclass(frozen=True, slots=True)
class Element:
    """One event of a channel; `event` None: the end of the supplier's stream.

    `raw` is how much of what the supplier handed over, ends included, it takes to make it. One that
    is not `readable` is an event to nobody who has to decode it.
    """

    raw: int
    event: Event | None
    readable: bool = True

    @property
    def seen(self) -> Seen:
        assert self.event is not None
        item = self.event.content
        trace = item.trace if self.readable else REASON
        return item.n, item.group, trace


Stream = list[Element]


def forwarded(
    filter: type[FIFOFilter],
    stream: Stream,
    start: int,
    end: int | None,
    changes: Sequence[tuple[int, tuple[int, ...]]] = (),
) -> Stream:
    """What a filter makes of a stream that it sees from raw position `start` on, to `end` if its
    channel was closed then; with other parameters behind each of `changes`."""
    out: Stream = []
    ahead = deque(changes)
    groups: tuple[int, ...] | None = None
    instance: FIFOFilter | None = None
    for element in stream:
        while ahead and element.raw > ahead[0][0]:
            _, groups = ahead.popleft()
            if instance is not None:
                instance.groups = groups  # type: ignore[attr-defined]
        if element.raw <= start:
            continue
        if end is not None and element.raw > end:
            break
        if element.event is None:
            if instance is not None and not filter.shared:
                instance.on_end()
                out += [Element(element.raw, event) for event in instance._take()]
                instance = None
            out.append(element)
            continue
        if not (element.readable or envelope_of(filter).exact):
            continue  # lost here
        if instance is None:
            instance = filter()
            if groups is not None:
                instance.groups = groups  # type: ignore[attr-defined]
        try:
            instance.enqueue(element.event)
        except (ValueError, ZeroDivisionError):
            instance._take()  # the event is lost, with what it had forwarded
        except RuntimeError:
            return out  # no process gets over this event
        made = instance._take()
        out += [Element(element.raw, event, element.readable) for event in made]
    if end is not None:
        if instance is not None:
            instance.on_end()
            out += [Element(end, event) for event in instance._take()]
        out.append(Element(end, None))  # for what is derived from it
    return out


@dataclass(slots=True)
class Change:
    """Other parameters of a filter, behind a raw position from `since` to `until` of each supplier;
    None: nobody knows how far it may be. It `may_fail`: perhaps it never came to that."""

    groups: tuple[int, ...]
    since: dict[str, int]
    until: dict[str, int] | None = None
    may_fail: bool = True


@dataclass(slots=True)
class Content:
    """One channel. `raw`: what suppliers handed over, at a root.

    A derived channel begins, of each supplier, at a raw position from `since` to `until`, and, if
    it was closed by itself, ends at one from `closed_since` to `closed_until`; suppliers that are
    not named there came later.
    """

    filter: type[FIFOFilter] | None = None
    parent: Content | None = None
    raw: dict[str, Stream] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)
    until: dict[str, int] = field(default_factory=dict)
    closed_since: dict[str, int] | None = None
    closed_until: dict[str, int] | None = None
    settled: dict[str, list[Stream]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    @property
    def root(self) -> Content:
        return self if self.parent is None else self.parent.root

    @property
    def sure(self) -> bool:
        """Whether it is known which filters have decoded its events: exact ones do where their
        predicate raises, or while they change."""
        if self.parent is None or self.filter is None:
            return True
        return self.parent.sure and self.filter not in (*RAISING, *RECONFIGURED)

    def lengths(self) -> dict[str, int]:
        """The raw positions now, by supplier."""
        return {supplier: len(stream) for supplier, stream in self.root.raw.items()}

    def hand_over(self, supplier: str, event: Event | None, readable: bool = True) -> None:
        """A supplier of this root hands an event over, or ends."""
        stream = self.raw.setdefault(supplier, [])
        stream.append(Element(len(stream) + 1, event, readable))

    def possible(self, supplier: str) -> Iterator[Stream]:
        """The contents that are right, each once a way to come about."""
        if self.filter is None or self.parent is None:
            yield self.raw.get(supplier, [])
            return
        if supplier in self.settled:
            yield from self.settled[supplier]
            return
        starts = range(self.since.get(supplier, 0), self.until.get(supplier, 0) + 1)
        ends: list[int | None] = [None]
        if self.closed_since is not None:
            told = self.closed_until is not None
            last = (self.closed_until if told else self.lengths()) or {}
            first = self.closed_since.get(supplier, 0)
            ends = [*([] if told else [None]), *range(first, last.get(supplier, 0) + 1)]
        known: set[tuple[tuple[int, Seen | None], ...]] = set()
        ways = itertools.product(
            self.parent.possible(supplier), starts, ends, self._changes(supplier)
        )
        for above, start, end, changes in ways:
            stream = forwarded(self.filter, above, start, end, changes)
            shape = tuple((each.raw, each.seen if each.event else None) for each in stream)
            if shape not in known:
                known.add(shape)
                yield stream

    def _changes(self, supplier: str) -> list[list[tuple[int, tuple[int, ...]]]]:
        """Behind which raw positions the parameters may have changed."""
        found: list[list[tuple[int, tuple[int, ...]]]] = [[]]
        for change in self.changes:
            last = (change.until if change.until is not None else self.lengths()).get(supplier, 0)
            places = range(change.since.get(supplier, 0), last + 1)
            found = [
                *(found if change.may_fail else ()),
                *(
                    [*before, (place, change.groups)]
                    for before in found
                    for place in places
                    if not before or place >= before[-1][0]
                ),
            ]
        return found

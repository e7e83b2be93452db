"""What consumers must see: the filters again, without any network.

The content of a channel is worked out, one supplier at a time, from what its suppliers handed over.
Where a channel was derived, closed or reconfigured while events were under way, there are several
contents that are right: it begins, changes and ends at events within what was under way. All these
ways are gone at once, in step through the stream, and those that come to the same are one.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from activebroker.events import Event
from activebroker.filters import FIFOFilter
from activebroker.simulation.reference import (
    BY_HAND,
    RAISING,
    REASON,
    RECONFIGURED,
    Seen,
    envelope_of,
)


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
# Whether an event may be the next one in a stream, after another one (None: as the first).
Fits = Callable[[Element | None, Element], bool]


def _anything(_before: Element | None, _after: Element) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Span:
    """Something comes after a raw offset from `first` to `last`."""

    first: int
    last: int

    def between(self, before: int, raw: int) -> range:
        """The offsets after which it may come that lie between two elements."""
        return range(max(self.first, before), min(self.last, raw - 1) + 1)


@dataclass(frozen=True, slots=True)
class Changed:
    """Other parameters of a filter from somewhere on."""

    span: Span
    groups: tuple[int, ...]


class Path:
    """What a filter has forwarded so far: one object for what is equal, however it came about."""

    __slots__ = ("_after", "_before", "_element", "latest")

    def __init__(self, before: Path | None = None, element: Element | None = None) -> None:
        self._before = before
        self._element = element
        self._after: dict[tuple[int, Seen | None], Path] = {}
        self.latest: Element | None = before.latest if before is not None else None  # event
        if element is not None and element.event is not None:
            self.latest = element

    def then(self, element: Element) -> Path:
        key = element.raw, element.seen if element.event is not None else None
        if (after := self._after.get(key)) is None:
            after = self._after[key] = Path(self, element)
        return after

    def stream(self) -> Stream:
        found: Stream = []
        path: Path | None = self
        while path is not None and path._element is not None:
            found.append(path._element)
            path = path._before
        return found[::-1]


@dataclass(slots=True)
class Way:
    """How a filter may have gone through a stream so far."""

    path: Path
    ahead: tuple[Changed, ...] = ()
    groups: tuple[int, ...] | None = None
    begun: bool = False
    instance: FIFOFilter | None = None
    fits: bool = True

    def fork(self) -> Way:
        # What filters keep is never changed in place.
        forked = copy.copy(self)
        if self.instance is not None:
            forked.instance = copy.copy(self.instance)
            forked.instance._take()
        return forked

    def begin(self) -> Way:
        forked = self.fork()
        forked.begun = True
        return forked

    def change(self) -> Way:
        forked = self.fork()
        forked.groups = self.ahead[0].groups
        forked.ahead = self.ahead[1:]
        if forked.instance is not None:
            forked.instance.groups = forked.groups  # type: ignore[attr-defined]
        return forked

    @property
    def key(self) -> object:
        """Equal where all that follows is."""
        state = None if self.instance is None else repr(vars(self.instance))
        return self.path, self.begun, len(self.ahead), state


class Ways:
    """The ways of a filter through one stream. It begins within `start` and ends within `end`, or,
    if it may be `endless`, not at all. `fits` tells which need not be gone to their end: where none
    fits, one is, to tell by it how it doesn't."""

    def __init__(
        self, filter: type[FIFOFilter], start: Span, end: Span, endless: bool, fits: Fits
    ) -> None:
        self._filter = filter
        self._start = start
        self._end = end
        self._endless = endless
        self._fits = fits
        self._over: list[Way] = []

    def go(self, stream: Stream, root: Path, changes: tuple[Changed, ...]) -> list[Path]:
        ways = [Way(root, changes)]
        before = 0
        for element in stream:
            if element.raw > before:
                ways = self._merged(self._choices(ways, before, element.raw))
                before = element.raw
            ways = [way for way in ways if not self._take(way, element)]
            ways = [way for way in ways if way.fits] or ways[:1]
        self._close(ways, before, self._end.last + 1)
        over = self._over + (ways if self._endless else [])
        over = [way for way in over if way.fits] or over[:1]
        return [way.path for way in over]

    def _choices(self, ways: Sequence[Way], before: int, raw: int) -> Iterator[Way]:
        """What may have come to pass between two elements."""
        self._close(ways, before, raw)
        if not self._endless and self._end.last < raw:
            return
        for way in ways:
            if not way.begun and self._start.between(before, raw):
                yield from self._changes(way.begin(), before, raw)
            if way.begun or self._start.last >= raw:
                yield from self._changes(way, before, raw)

    def _changes(self, way: Way, before: int, raw: int) -> Iterator[Way]:
        while way.ahead and way.ahead[0].span.between(before, raw):
            if way.ahead[0].span.last >= raw:
                yield way
            way = way.change()
        if not way.ahead or way.ahead[0].span.last >= raw:
            yield way

    def _close(self, ways: Sequence[Way], before: int, raw: int) -> None:
        for way, end in itertools.product(ways, self._end.between(before, raw)):
            closed = way.fork()
            if closed.instance is not None:
                closed.instance.on_end()
                self._forward(closed, end)
            closed.path = closed.path.then(Element(end, None))  # for what is derived from it
            self._over.append(closed)

    def _merged(self, ways: Iterator[Way]) -> list[Way]:
        found = list(ways)
        return found if len(found) < 2 else list({way.key: way for way in found}.values())

    def _take(self, way: Way, element: Element) -> bool:
        """Take an element; whether the way is over, as no process gets over it."""
        if not way.begun:
            return False
        instance = way.instance
        if element.event is None:
            if instance is not None and not self._filter.shared:
                instance.on_end()
                self._forward(way, element.raw)
                way.instance = None
            way.path = way.path.then(element)
            return False
        if not (element.readable or envelope_of(self._filter).exact):
            return False  # lost here
        if instance is None:
            instance = way.instance = BY_HAND.get(self._filter, self._filter)()
            if way.groups is not None:
                instance.groups = way.groups  # type: ignore[attr-defined]
        try:
            instance.enqueue(element.event)
        except (ValueError, ZeroDivisionError):
            instance._take()  # the event is lost, with what it had forwarded
        except RuntimeError:
            self._over.append(way)
            return True
        self._forward(way, element.raw, element.readable)
        return False

    def _forward(self, way: Way, raw: int, readable: bool = True) -> None:
        assert way.instance is not None
        for event in way.instance._take():
            element = Element(raw, event, readable)
            way.fits = way.fits and self._fits(way.path.latest, element)
            way.path = way.path.then(element)


@dataclass(slots=True)
class Change:
    """Other parameters of a filter, after a raw offset from `since` to `until` of each supplier;
    None: nobody knows how far it may be. It `may_fail`: perhaps it never came to that."""

    groups: tuple[int, ...]
    since: dict[str, int]
    until: dict[str, int] | None = None
    may_fail: bool = True


@dataclass(slots=True)
class Content:
    """One channel. `raw`: what suppliers handed over, at a root.

    A derived channel begins, of each supplier, at a raw offset from `since` to `until`, and, if
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
        """The raw offsets now, by supplier."""
        return {supplier: len(stream) for supplier, stream in self.root.raw.items()}

    def hand_over(self, supplier: str, event: Event | None, readable: bool = True) -> None:
        """A supplier of this root hands an event over, or ends."""
        stream = self.raw.setdefault(supplier, [])
        stream.append(Element(len(stream) + 1, event, readable))

    def possible(self, supplier: str, fits: Fits = _anything) -> Iterator[Stream]:
        """The contents that are right, each once, and perhaps some that do not fit."""
        if self.filter is None or self.parent is None:
            yield self.raw.get(supplier, [])
            return
        if supplier in self.settled:
            yield from self.settled[supplier]
            return
        start = Span(self.since.get(supplier, 0), self.until.get(supplier, 0))
        end, endless = Span(1, 0), True
        if self.closed_since is not None:
            endless = self.closed_until is None
            last = self.lengths() if self.closed_until is None else self.closed_until
            end = Span(self.closed_since.get(supplier, 0), last.get(supplier, 0))
        root, known = Path(), set[Path]()
        for above in self.parent.possible(supplier):
            for changes in self._changed(supplier):
                ways = Ways(self.filter, start, end, endless, fits)
                for path in ways.go(above, root, changes):
                    if path not in known:
                        known.add(path)
                        yield path.stream()

    def _changed(self, supplier: str) -> Iterator[tuple[Changed, ...]]:
        """Which changes there may have been of the parameters, none after a later one."""
        for happened in itertools.product(
            *((False, True) if change.may_fail else (True,) for change in self.changes)
        ):
            changes = list(itertools.compress(self.changes, happened))
            untils = [self.lengths() if each.until is None else each.until for each in changes]
            first = itertools.accumulate((each.since.get(supplier, 0) for each in changes), max)
            last = itertools.accumulate((each.get(supplier, 0) for each in untils[::-1]), min)
            spans = list(map(Span, first, list(last)[::-1]))
            if all(span.first <= span.last for span in spans):
                yield tuple(map(Changed, spans, (each.groups for each in changes)))

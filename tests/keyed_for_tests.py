"""A keyed filter that tells what happens to it, and the same without any runtime: a plain model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from activebroker.events import Batch, Event, EventType, encode
from activebroker.filters import (
    FilterSpec,
    KeyedFilter,
    KeyedRunner,
    RunResult,
    analyse,
    make_runner,
    pack,
    unpack,
)

KEY = b"key"


@dataclass(frozen=True)
class Asked:
    """At `at`, key `key` is asked to `do` something, mostly with a time that is `by` later."""

    key: str | None
    at: int
    do: str = "pass"  # pass, set, cancel, raise
    by: int = 0


@dataclass(frozen=True)
class Told:
    """What an instance tells: its key, the hook, the time that is about, and how many events it
    has seen."""

    key: str | None
    hook: str
    at: int
    seen: int


class Teller(KeyedFilter):
    """Tells all that happens to it; a timer that runs sets another one, once."""

    key = "key"
    time = "at"
    lateness = 10
    ttl = 50
    output = Told

    def __init__(self) -> None:
        self.seen = 0
        self.again = 0

    def tell(self, hook: str, at: int) -> None:
        self.forward(Told(self.key, hook, at, self.seen))

    def on_start(self) -> None:
        self.tell("start", 0)

    def enqueue(self, event: Event) -> None:
        asked = event.content
        self.seen += 1
        self.tell(asked.do, asked.at)
        match asked.do:
            case "set":
                self.again = asked.by
                self.set_timer(asked.at + asked.by)
            case "cancel":
                self.cancel_timer(asked.at + asked.by)
            case "raise":
                raise ValueError("asked to")

    def on_timer(self, time: int) -> None:
        self.tell("timer", time)
        if self.again > 0:
            self.set_timer(time + self.again)
            self.again = 0

    def on_late(self, event: Event) -> None:
        self.tell("late", event.content.at)
        if event.content.do == "raise":
            raise ValueError("asked to")

    def on_expire(self) -> None:
        self.tell("expire", self.seen)

    def on_end(self) -> None:
        self.tell("end", self.seen)


@dataclass
class Kept:
    """Of one key of the model."""

    number: int
    last: int
    seen: int = 0
    again: int = 0
    timers: dict[int, int] = field(default_factory=dict)


class Model:
    """`Teller` over the stream of one supplier: at each event, whatever is due is looked for among
    all there is."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.lost = 0
        self._kept: dict[str | None, Kept] = {}
        self._newest: int | None = None
        self._number = 0

    def run(self, events: Iterable[Asked]) -> Model:
        for asked in events:
            self._newest = asked.at if self._newest is None else max(asked.at, self._newest)
            clock = self._newest - Teller.lateness
            self._run_due(clock)
            before = len(self.told)
            kept = self._kept.get(asked.key)
            if kept is None:
                kept = self._kept[asked.key] = Kept(self._next(), asked.at)
                self._tell(asked.key, "start", 0)
            kept.last = max(kept.last, asked.at)
            if asked.at < clock:
                self._tell(asked.key, "late", asked.at)
            else:
                self._enqueue(asked, kept)
            if asked.do == "raise":
                self.lost += 1
                del self.told[before:]
            self._run_due(clock)
        return self

    def end(self) -> list[Told]:
        """What was told, when the stream has ended too."""
        timers = sorted(
            (at, number, str(key), key)
            for key, kept in self._kept.items()
            for at, number in kept.timers.items()
        )
        for at, number, _, key in timers:
            if self._kept[key].timers.get(at) == number:
                self._timer(key, at)
        for key, kept in sorted(self._kept.items(), key=lambda each: each[1].number):
            self._tell(key, "end", kept.seen)
        return self.told

    def _run_due(self, clock: int) -> None:
        while due := min(self._due(clock), key=lambda each: each[:3], default=None):
            self._run(*due)

    def _due(self, clock: int) -> Iterable[tuple[int, int, int, str | None]]:
        for key, kept in self._kept.items():
            yield from ((at, 0, number, key) for at, number in kept.timers.items() if at <= clock)
            if kept.last + Teller.ttl <= clock:
                yield kept.last + Teller.ttl, 1, kept.number, key

    def _run(self, at: int, what: int, _number: int, key: str | None) -> None:
        if what == 0:
            self._timer(key, at)
        else:
            self._tell(key, "expire", self._kept[key].seen)
            del self._kept[key]

    def _timer(self, key: str | None, at: int) -> None:
        kept = self._kept[key]
        del kept.timers[at]
        self._tell(key, "timer", at)
        if kept.again > 0:
            kept.timers.setdefault(at + kept.again, self._next())
            kept.again = 0

    def _enqueue(self, asked: Asked, kept: Kept) -> None:
        kept.seen += 1
        self._tell(asked.key, asked.do, asked.at)
        if asked.do == "set":
            kept.again = asked.by
            if asked.at + asked.by not in kept.timers:
                kept.timers[asked.at + asked.by] = self._next()
        elif asked.do == "cancel":
            kept.timers.pop(asked.at + asked.by, None)

    def _tell(self, key: str | None, hook: str, at: int) -> None:
        self.told.append(Told(key, hook, at, self._kept[key].seen))

    def _next(self) -> int:
        self._number += 1
        return self._number


def keyed(given: object, cls: type = Asked, *, shared: bool = False) -> KeyedRunner:
    """A runner of a keyed filter, as a broker makes it."""
    spec, type_ = FilterSpec.of(given), EventType.of(cls)
    envelope = pack(spec, type_, analyse(spec, type_), key=KEY)
    runner = make_runner(unpack(envelope, KEY), envelope, "derived")
    assert isinstance(runner, KeyedRunner)
    return runner


def batch(events: Sequence[Any], supplier: str = "JFK", first: int = 0) -> Batch:
    """A batch as a supplier publishes it, one event each millisecond."""
    times = [(first + row) * 1_000_000 for row in range(len(events))]
    return encode(EventType.of(type(events[0])), list(events), supplier, first, times)


def told(*results: RunResult) -> list[Any]:
    """What was forwarded."""
    return [each for result in results for part in result.batches for each in part.contents()]

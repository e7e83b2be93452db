"""Parties of a fabric in which processes come and go, as they are in their processes: each does as
it is told, checks what it sees, and tells at once what is not as it was promised."""

from __future__ import annotations

import gc
import logging
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import activebroker as ab
from activebroker.cli import main
from activebroker.core.errors import ActiveBrokerError
from activebroker.fabric import serve

PAGE = 5  # events that a supplier publishes at once, ...
PAUSE = 0.02  # ... and the seconds until it publishes the next ones
LEASE = 2.0  # seconds that what a process derived outlives it
MOVING = 5.0  # seconds that a move gives a phase
OURS = ("activebroker.", "derivation.", "predicate_extract.")


@dataclass(frozen=True)
class Numbered:
    """`life` tells the processes of one name apart."""

    life: int
    number: int


@dataclass(frozen=True)
class Counted:
    life: int
    number: int
    count: int


class Count(ab.FIFOFilter):
    """Numbers the events of each supplier: that shows whether its state went with it."""

    output = Counted

    def __init__(self) -> None:
        self.count = 0

    def enqueue(self, event: ab.Event) -> None:
        self.count += 1
        content = event.content
        super().enqueue(event.replace(Counted(content.life, content.number, self.count)))


def third(event: Numbered) -> bool:
    return event.number % 3 == 0


FILTERS = {"numbers": (None, 1), "third": (third, 3), "count": (Count, 1)}  # and how numbers step


@dataclass(frozen=True)
class Note:
    """What a consumer did not expect: a `gap` of `missing` events, a `reset` of a filter's count,
    what came `again`, the `error` with which it ended."""

    kind: str
    channel: str
    supplier: str
    life: int
    text: str
    missing: int = 0


@dataclass
class Stream:
    first: int
    last: int
    offset: int  # by which a filter's count is ahead of the number


@dataclass
class Seen:
    """What one subscription has seen, by supplier and life."""

    channel: str
    step: int
    note: Callable[[Note], None]
    events: int = 0
    streams: dict[tuple[str, int], Stream] = field(default_factory=dict)

    def take(self, event: ab.Event) -> None:
        self.events += 1
        content = event.content
        number, key = content.number, (event.supplier, content.life)
        offset = content.count - number if isinstance(content, Counted) else 0
        if (stream := self.streams.get(key)) is None:
            self.streams[key] = Stream(number, number, offset)
            return
        due = stream.last + self.step
        if number < due:
            self._note("again", event, f"{number} came where {due} was due")
            return
        if number > due:
            missing = (number - due) // self.step
            self._note("gap", event, f"{number} came where {due} was due", missing)
        if offset != stream.offset:
            self._note("reset", event, f"{content} after an offset of {stream.offset}")
        stream.last, stream.offset = number, offset

    def _note(self, kind: str, event: ab.Event, text: str, missing: int = 0) -> None:
        life = event.content.life
        self.note(Note(kind, self.channel, event.supplier, life, text, missing))

    def told(self) -> dict[tuple[str, int], tuple[int, int]]:
        return {key: (each.first, each.last) for key, each in self.streams.items()}


@dataclass(frozen=True)
class Report:
    """By channel, supplier and life the first and the last event; and how many events did not come,
    as the log tells, since this process was cut off."""

    streams: dict[str, dict[tuple[str, int], tuple[int, int]]]
    missed: int


class Listener(logging.Handler):
    """What the log tells of this process's time outside of the fabric."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.missed: Counter[str] = Counter()  # events, by supplier
        logging.getLogger("activebroker").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if found := re.match(r"(\d+) events of supplier '(.*)' did not come", text):
            self.missed[found[2]] += int(found[1])


def census() -> Counter[str]:
    """The objects of our classes in this process."""
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    return Counter(
        f"{kind.__module__}.{kind.__qualname__}"
        for kind in kinds
        if str(kind.__module__).startswith(OURS)
    )


def play(pipe: Connection, log: str, role: Callable[..., Any], *details: Any) -> None:
    """A process from its begin to its end; what it says is in a file."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for output in (sys.stdout, sys.stderr):
        os.dup2(file, output.fileno())
    os.close(file)
    role(pipe, *details)


def command(_: Connection, key: str, *arguments: str) -> None:
    """The program `activebroker`, but for the start of an interpreter."""
    os.environ["ACTIVEBROKER_KEY"] = key
    sys.argv = ["activebroker", *arguments]
    main()


class Part:
    """A party's end of its pipe: does what it is told, until it is told to leave."""

    def __init__(self, pipe: Connection) -> None:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
        logging.getLogger("activebroker").setLevel(logging.INFO)
        self._pipe = pipe
        self._lock = threading.Lock()

    def say(self, *what: Any) -> None:
        with self._lock:
            self._pipe.send(what)

    def note(self, note: Note) -> None:
        self.say("note", note)

    def report(self) -> Any:
        """What there is to say at the end."""

    def play(self, wait: float | None = None, meanwhile: Callable[[], None] | None = None) -> None:
        self.say("ready")
        while True:
            if not self._pipe.poll(wait):
                assert meanwhile is not None
                meanwhile()
                continue
            what, *details = self._pipe.recv()
            if what == "leave":
                self.say("bye", self.report())
                return
            if what == "census":
                answer: Any = census()
            else:
                try:
                    answer = getattr(self, what)(*details)
                except ActiveBrokerError as error:
                    answer = error_text(error)
            self.say("answer", what, answer)


def error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class Broker(Part):
    def __init__(self, pipe: Connection, key: str, name: str, join: str | None) -> None:
        super().__init__(pipe)
        node = serve(name, "tcp://127.0.0.1:*", key, join_address=join)
        try:
            self.say("at", node.transport.address)
            self.play()
        finally:
            node.stop()


class Supplier(Part):
    """Publishes all the time, unless it is paused."""

    def __init__(self, pipe: Connection, key: str, name: str, join: str, life: int) -> None:
        super().__init__(pipe)
        self._name, self._life, self._error, self._paused = name, life, "", False
        try:
            with (
                ab.connect(join, key, name=f"process of {name}", lease=LEASE) as fabric,
                fabric.channel("numbers", Numbered).supplier(name) as self._supplier,
            ):
                self.play(PAUSE, self._publish)
        except ActiveBrokerError as error:
            self._failed(error)

    def _publish(self) -> None:
        if self._paused or self._error:
            return
        first = self._supplier.published
        try:
            self._supplier.publish_batch([Numbered(self._life, first + n) for n in range(PAGE)])
        except ActiveBrokerError as error:
            self._failed(error)

    def _failed(self, error: ActiveBrokerError) -> None:
        self._error = error_text(error)
        self.note(Note("error", "numbers", self._name, self._life, self._error))

    def pause(self) -> int:
        self._paused = True
        self._supplier.flush()
        return self._supplier.published

    def go_on(self) -> None:
        self._paused = False

    def report(self) -> int:
        return self._supplier.published

    def offload(self, to: str) -> None:
        self._supplier.offload(to, timeout=MOVING)


class Subscriber(Part):
    """Takes channels, each in a thread."""

    def __init__(self, pipe: Connection, name: str) -> None:
        super().__init__(pipe)
        self._name = name
        self._listener = Listener()
        self._taken: dict[str, tuple[Seen, ab.Subscription, threading.Thread]] = {}

    def _take(self, channel: ab.Channel, step: int) -> None:
        seen, events = Seen(channel.name, step, self.note), channel.subscribe()
        thread = threading.Thread(target=self._iterate, args=(seen, events), daemon=True)
        thread.start()
        self._taken[channel.name] = seen, events, thread

    def _iterate(self, seen: Seen, events: ab.Subscription) -> None:
        try:
            for event in events:
                seen.take(event)
        except ActiveBrokerError as error:
            self.note(Note("error", seen.channel, "", 0, error_text(error)))

    def report(self) -> Report:
        streams = {name: seen.told() for name, (seen, _, _) in self._taken.items()}
        return Report(streams, sum(self._listener.missed.values()))


class Consumer(Subscriber):
    """Takes one channel; with a `kind`, one that it derives."""

    def __init__(self, pipe: Connection, key: str, name: str, join: str, kind: str) -> None:
        super().__init__(pipe, name)
        with ab.connect(join, key, name=name, lease=LEASE) as fabric:
            channel = fabric.channel("numbers", Numbered)
            filter_, step = FILTERS[kind]
            if filter_ is not None:
                channel = channel.derive(filter_, at="boston", name=f"{kind} of {name}")
            self._take(channel, step)
            self.play()


class Analyst(Subscriber):
    """Derives, moves and closes channels."""

    def __init__(self, pipe: Connection, key: str, name: str, join: str) -> None:
        super().__init__(pipe, name)
        self._derived: dict[str, ab.Channel] = {}
        with ab.connect(join, key, name=name, lease=LEASE) as self._fabric:
            self.play()

    def derive(self, name: str, kind: str, at: str) -> None:
        filter_, step = FILTERS[kind]
        numbers = self._fabric.channel("numbers", Numbered)
        channel = self._derived[name] = numbers.derive(filter_, at=at, name=name)
        self._take(channel, step)

    def move(self, name: str, to: str) -> None:
        self._derived[name].move(to, timeout=MOVING)

    def close(self, name: str) -> None:
        _, events, thread = self._taken.pop(name)
        events.close()
        self._derived.pop(name).close()
        thread.join(60)
        assert not thread.is_alive()

"""A steady stream to measure pauses in: its supplier, its consumer, and filters for its way."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pyarrow as pa

import activebroker as ab
from activebroker.fabric import serve

RATE = 20_000  # events a second
BEAT = 0.002  # seconds between batches


@dataclass(frozen=True)
class Reading:
    number: int


@dataclass(frozen=True)
class Counted:
    number: int
    count: int


class Passing(ab.FIFOFilter):
    """Has no state. Its condition is no predicate, so that it runs for every event."""

    output = Counted

    def enqueue(self, event: ab.Event) -> None:
        number = event.content.number
        if hash(number) >= 0:
            super().enqueue(event.replace(Counted(number, number + 1)))


class Counting(ab.FIFOFilter):
    """Its state is the number of events so far, and as many bytes as asked for."""

    output = Counted

    def __init__(self, nbytes: int) -> None:
        self.count = 0
        self.ballast = bytes(nbytes)

    def enqueue(self, event: ab.Event) -> None:
        self.count += 1
        super().enqueue(event.replace(Counted(event.content.number, self.count)))


@dataclass(frozen=True)
class Span:
    """What came to a consumer within a span of time: the largest pause before an event of it, in
    seconds, and how many events."""

    largest_gap: float
    events: int


class Arrivals:
    """Checks each event, and notes when batches arrive."""

    def __init__(self) -> None:
        self.expected = 0
        self.missing = 0
        self.broken: list[str] = []
        self._times: list[float] = []
        self._counts: list[int] = []
        self._lock = threading.Lock()

    def take(self, batch: Any, gaps: bool = False) -> None:
        now = time.monotonic()
        numbers = batch.columns["number"].to_numpy()
        counts = batch.columns["count"].to_numpy()
        first = int(numbers[0])
        if gaps and first > self.expected:
            self.missing += first - self.expected
            self.expected = first
        right = np.arange(self.expected, self.expected + len(numbers))
        if not np.array_equal(numbers, right):
            self.broken.append(f"expected {self.expected}, came {numbers[:3]}")
        if not gaps and not np.array_equal(counts, right + 1):
            self.broken.append(f"event {self.expected} has count {counts[0]}")
        self.expected = int(numbers[-1]) + 1
        with self._lock:
            self._times.append(now)
            self._counts.append(len(numbers))

    def between(self, start: float, end: float) -> Span:
        """Times are seconds of the monotonic clock."""
        with self._lock:
            times, counts = np.array(self._times), np.array(self._counts)
        inside = (times >= start) & (times <= end)
        before = times[times < start][-1:]
        pauses = np.diff(np.concatenate([before, times[inside]]))
        return Span(float(pauses.max(initial=0.0)), int(counts[inside].sum()))


def supply(pipe: Connection, address: str, key: str, channel: str) -> None:
    """Publish at a steady rate from when told to until told to end; then say how much."""
    rows = round(RATE * BEAT)
    with (
        ab.connect(address, key, name=f"supplier of {channel}") as fabric,
        fabric.channel(channel, Reading).supplier("meter") as meter,
    ):
        pipe.send("ready")
        pipe.recv()
        begun = time.monotonic()
        for beat in itertools.count():
            if pipe.poll():
                break
            first = beat * rows
            numbers = pa.array(range(first, first + rows), pa.int64())
            meter.publish_batch(pa.record_batch({"number": numbers}))
            time.sleep(max(0.0, begun + (beat + 1) * BEAT - time.monotonic()))
        pipe.recv()
        meter.flush()
        pipe.send(meter.published)
        pipe.recv()


def consume(pipe: Connection, address: str, key: str, channel: str, restarts: bool) -> None:
    """Answer (start, end) with the span between them. A name: take that channel from now on. None:
    tell what is wrong, how far it came and, where it `restarts`, how many events it has missed,
    when the channel has ended."""
    arrivals = Arrivals()

    def take(events: ab.Subscription) -> None:
        for batch in events.batches():
            arrivals.take(batch, restarts)

    with ab.connect(address, key, name=f"consumer of {channel}") as fabric:

        def begin(channel: str) -> threading.Thread:
            events = fabric.channel(channel).subscribe()
            thread = threading.Thread(target=take, args=(events,), daemon=True)
            thread.start()
            return thread

        taking = begin(channel)
        pipe.send("ready")
        while (asked := pipe.recv()) is not None:
            if isinstance(asked, str):
                taking.join()  # the channel before has ended
                taking = begin(asked)
                pipe.send("ready")
            else:
                pipe.send(arrivals.between(*asked))
        taking.join()
        pipe.send((arrivals.broken, arrivals.expected, arrivals.missing))


def broker(pipe: Connection, key: str, name: str, join: str | None) -> None:
    """A broker; it says its address."""
    runtime = serve(name, "tcp://127.0.0.1:*", key, join_address=join)
    pipe.send(runtime.transport.address)
    pipe.recv()
    runtime.stop()

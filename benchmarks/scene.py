"""One supplier, consumers and brokers, each a process on a host of its own; what they are told.

Events are numbered from 0, and have 100 float64. Every consumer checks that it gets each event
once and in order, and notes when.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from namespaces import Host, inside, network
from processes import Worker, workers

import activebroker as ab
from activebroker.fabric import serve
from activebroker.node.dataplane.outlet import WINDOW

FLOATS = 100  # of an event
EVENT_BYTES = FLOATS * 8 + 2 * 8  # with the two columns of the header
PATIENCE = 120.0  # seconds that a process may take to answer, and a consumer waits for an event
PRELOAD = ("activebroker.fabric", "activebroker.transport.zeromq", "pandas")
DIRECTORY, SUPPLIER = "directory", "supplier"


@dataclass(frozen=True)
class Sample:
    values: Annotated[np.ndarray, ab.Shape(FLOATS)]


@dataclass(frozen=True)
class Trace:
    """What a consumer saw of a channel: at `times` (seconds, monotonic) it had `counts` events."""

    times: np.ndarray
    counts: np.ndarray

    def at(self, time: float) -> float:
        """How many events it had by then; a batch comes in evenly since the one before."""
        return float(np.interp(time, self.times, self.counts))

    @property
    def seen(self) -> int:
        return int(self.counts[-1])


# --- what the supplier is told ------------------------------------------------------------------


@dataclass(frozen=True)
class Open:
    """Open a channel; answered when it is there."""

    channel: str


@dataclass(frozen=True)
class Derive:
    """Derive a channel that forwards everything at each broker, from that of its feeder (None: the
    supplier's own); answered when they are there."""

    feeders: dict[str, str | None]


@dataclass(frozen=True)
class Flow:
    """Publish `events` of them, or until Stop, as fast as they are accepted, in tables of so many
    rows. Answered with the time (seconds, monotonic) just before the first."""

    events: int | None = None
    rows: int = 128  # small, so that relays pass them on soon


@dataclass(frozen=True)
class Offload:
    """Hand consumers over while events flow; answered with the seconds that it took."""

    to: str
    consumers: tuple[str, ...]


@dataclass(frozen=True)
class Stop:
    """Close the channel; answered with the number of events published."""


# --- the processes ------------------------------------------------------------------------------


def broker(pipe: Connection, host: Host, key: str, join_address: str | None) -> None:
    """A broker; it says its address. Without one to join it keeps the directory."""
    runtime = serve(host.name, f"tcp://{host.address}:*", key, join_address=join_address)
    pipe.send(runtime.transport.address)
    pipe.recv()
    runtime.stop()


def supply(pipe: Connection, address: str, key: str) -> None:
    with ab.connect(address, key, name=SUPPLIER) as fabric:
        pipe.send("ready")
        while (order := pipe.recv()) is not None:
            assert isinstance(order, Open)
            channel = fabric.channel(order.channel, Sample)
            supplier = channel.supplier(SUPPLIER)
            pipe.send("ready")
            obey(pipe, channel, supplier)
            supplier.flush()
            channel.close()
            pipe.send(supplier.published)


def obey(pipe: Connection, channel: ab.Channel, supplier: ab.Supplier) -> None:
    """Do what a supplier is told, until Stop."""
    stopped = threading.Event()
    publishers: list[threading.Thread] = []
    while not isinstance(order := pipe.recv(), Stop):
        start = time.monotonic()
        if isinstance(order, Flow):
            publishers.append(threading.Thread(target=publish, args=(supplier, order, stopped)))
            pipe.send(start)
            publishers[-1].start()
        elif isinstance(order, Derive):
            derive(channel, order.feeders)
            pipe.send("ready")
        else:
            supplier.offload(to=order.to, consumers=order.consumers)
            pipe.send(time.monotonic() - start)
    stopped.set()
    for publisher in publishers:
        publisher.join()


def derive(channel: ab.Channel, feeders: dict[str, str | None]) -> None:
    made: dict[str | None, ab.Channel] = {None: channel}
    for at, feeder in feeders.items():
        name = derived_name(channel.name, at)
        made[at] = made[feeder].derive(lambda sample: True, at=at, name=name)


def derived_name(channel: str, broker: str | None) -> str:
    return channel if broker is None else f"{channel} at {broker}"


def publish(supplier: ab.Supplier, flow: Flow, stopped: threading.Event) -> None:
    table = sample_table(flow.rows)
    left = math.inf if flow.events is None else flow.events
    while left > 0 and not (flow.events is None and stopped.is_set()):
        left -= supplier.publish_batch(table.slice(0, int(min(flow.rows, left))))
        # What waits in this process is no load on the links, and has to be drained in the end.
        supplier.flush()


def sample_table(rows: int) -> pa.RecordBatch:
    """Random values: zeros would be cheaper for whoever compresses."""
    values = np.random.default_rng(1).random(rows * FLOATS)
    return pa.RecordBatch.from_arrays(
        [pa.FixedSizeListArray.from_arrays(pa.array(values), FLOATS)], names=["values"]
    )


def consume(pipe: Connection, host: Host, address: str, key: str) -> None:
    """Take one channel after the other, and answer with a Trace at the end of each."""
    with ab.connect(address, key, name=host.name) as fabric:
        pipe.send("ready")
        while (channel := pipe.recv()) is not None:
            with fabric.channel(channel).subscribe(timeout=PATIENCE) as events:
                pipe.send("ready")
                pipe.send(trace(events))


def trace(events: ab.Subscription) -> Trace:
    times, counts = [time.monotonic()], [0]
    for batch in events.batches():
        times.append(time.monotonic())
        expected = np.arange(counts[-1], counts[-1] + len(batch))
        if not np.array_equal(batch.seqs, expected):
            raise SystemExit(f"{batch.seqs} came where {expected} was due")
        counts.append(counts[-1] + len(batch))
    return Trace(np.array(times), np.array(counts))


# --- the scene ----------------------------------------------------------------------------------


@dataclass
class Scene:
    """The processes, and one channel at a time between the supplier and some consumers."""

    supplier: Worker
    consumers: list[Worker]
    _channels: int = field(default=0, init=False)
    _taking: list[Worker] = field(default_factory=list, init=False)

    def open(self, consumers: int) -> None:
        """Open a channel that the first so many consumers take."""
        self._subscribe([self._open()] * consumers)

    def open_levels(self, feeders: dict[str, str | None], served: dict[str | None, int]) -> None:
        """Open a channel, and derive from it at brokers; each (None: the supplier) serves so many
        consumers."""
        channel = self._open()
        self.tell_supplier(Derive(feeders))
        self._subscribe(
            [derived_name(channel, at) for at, count in served.items() for _ in range(count)]
        )

    def tell_supplier(self, order: Open | Derive | Flow | Offload | Stop) -> Any:
        """Return the answer."""
        self.supplier.tell(order)
        return self.supplier.hear(PATIENCE)

    def spread(self, direct: int, relayed: dict[str, int]) -> float:
        """Offload all but the first `direct` consumers, so many to each broker; return how many
        seconds that took."""
        names = iter([consumer.name for consumer in self._taking][direct:])
        return sum(
            self.tell_supplier(Offload(to, tuple(next(names) for _ in range(count))))
            for to, count in relayed.items()
        )

    def close(self) -> list[Trace]:
        """End the channel; what each consumer saw. Every one has seen all, or the program ends."""
        published = self.tell_supplier(Stop())
        traces = [consumer.hear(PATIENCE) for consumer in self._taking]
        for consumer, each in zip(self._taking, traces, strict=True):
            if each.seen != published:
                raise SystemExit(f"{consumer.name} got {each.seen} events of {published}")
        return traces

    def _open(self) -> str:
        self._channels += 1
        channel = f"channel-{self._channels}"
        self.tell_supplier(Open(channel))
        return channel

    def _subscribe(self, channels: list[str]) -> None:
        self._taking = self.consumers[: len(channels)]
        for consumer, channel in zip(self._taking, channels, strict=True):
            consumer.tell(channel)
        for consumer in self._taking:
            consumer.hear(PATIENCE)


@contextmanager
def scene(links: dict[str, float], brokers: Sequence[str], consumers: int) -> Iterator[Scene]:
    """A scene with a fabric of its own. `links`: the Mbit/s of "supplier" and "other" hosts."""
    names = [f"c{number}" for number in range(1, consumers + 1)]
    rates = dict.fromkeys((DIRECTORY, *brokers, *names), links["other"])
    key = ab.generate_key()
    with network({SUPPLIER: links["supplier"], **rates}) as hosts, workers(PRELOAD) as start:

        def start_in(name: str, role: Callable[..., None], *arguments: Any) -> Worker:
            return start(name, inside, hosts[name], role, *arguments)

        address = start_in(DIRECTORY, broker, hosts[DIRECTORY], key, None).hear()
        roles = {
            **{name: (broker, hosts[name], key, address) for name in brokers},
            SUPPLIER: (supply, address, key),
            **{name: (consume, hosts[name], address, key) for name in names},
        }
        started: dict[str, Worker] = {}
        # A few at a time: all at once would be so slow that they give up.
        for some in batched(roles, os.cpu_count() or 1):
            started |= {name: start_in(name, *roles[name]) for name in some}
            for name in some:
                started[name].hear()
        subscribers = [started[name] for name in names]
        yield Scene(started[SUPPLIER], subscribers)


def batched(names: Iterable[str], size: int) -> Iterator[list[str]]:
    """The names, so many at a time."""
    remaining = iter(names)
    while some := list(islice(remaining, size)):
        yield some


def settling(streams: int, bandwidth: float) -> float:
    """Seconds until every stream's window has been through a link of so many bytes a second."""
    return streams * WINDOW / bandwidth

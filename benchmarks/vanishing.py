"""How long a stream pauses when the host of its filter vanishes; and whether any is lost for less.

Each process is on a host (a network namespace) of its own. 20,000 events a second go from a
supplier through a filter at b1 to a consumer. Then b1's network goes down without a word: no socket
is closed, and nobody is told. The filter goes on from its last checkpoint at b2. The pause is the
largest gap between events at the consumer; that nothing is lost, comes twice or out of order is
checked for every event.

`--calm MINUTES`: nothing vanishes, but the processors are busy, and one broker after the other
stands still for a second (SIGSTOP), every few seconds. None may be taken for lost.

    uv run python benchmarks/vanishing.py [--rounds N] [--calm MINUTES] [--json PATH]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from namespaces import Host, inside, network
from processes import Worker, workers
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scene import broker
from steady import Counting, Passing, Reading, Span, consume, supply

import activebroker as ab

FILTERS: dict[str, Any] = {"stateless": Passing, "stateful": (Counting, 0)}
MBIT = 1000.0
HOSTS = ("hub", "b1", "b2", "supplier", "consumer", "user")
BROKERS = ("hub", "b1", "b2")
WARM = 2.0  # seconds of the stream before the host vanishes
PATIENCE = 60.0  # seconds
STILL = 1.0  # seconds that a broker stands still

Start = Callable[..., Worker]


@contextmanager
def fabric() -> Iterator[tuple[dict[str, Host], Start, dict[str, Worker], str, str]]:
    """Hosts; what starts a role in one; the brokers; the fabric's address and key."""
    key = ab.generate_key()
    links = dict.fromkeys(HOSTS, MBIT)
    with network(links) as hosts, workers() as start:

        def start_in(name: str, role: Callable[..., None], *arguments: Any) -> Worker:
            return start(name, inside, hosts[name], role, *arguments)

        brokers, address = dict[str, Worker](), None
        for name in BROKERS:
            brokers[name] = start_in(name, broker, hosts[name], key, address)
            heard = brokers[name].hear()
            address = address or heard
        assert address is not None
        yield hosts, start_in, brokers, address, key


def derive(pipe: Connection, address: str, key: str) -> None:
    """Open a channel and derive from it, by names and filter, at b1; or tell who there is."""
    with ab.connect(address, key, name="user") as user:
        pipe.send("ready")
        while (order := pipe.recv()) is not None:
            if order == "members":
                pipe.send([each["name"] for each in user.status()["members"]])
                continue
            source, derived, filter = order
            user.channel(source, Reading).derive(filter, at="b1", name=derived)
            pipe.send("ready")


def vanish(host: Host) -> float:
    """Cut a host off without a word; when, by the monotonic clock."""
    down = ["ip", "-n", host.namespace, "link", "set", "eth0", "down"]
    subprocess.run(down, check=True)
    return time.monotonic()


def pause(filter: Any) -> float:
    """One host vanishes: the seconds without an event."""
    with fabric() as (hosts, start_in, _, address, key):
        user = start_in("user", derive, address, key)
        user.hear()
        user.tell(("readings", "counted", filter))
        user.hear()
        consumer = start_in("consumer", consume, address, key, "counted", False)
        supplier = start_in("supplier", supply, address, key, "readings")
        for worker in (consumer, supplier):
            worker.hear()
        supplier.tell("go")
        time.sleep(WARM)
        gone = vanish(hosts["b1"])
        while time.monotonic() < gone + PATIENCE:
            time.sleep(0.5)
            now = time.monotonic()
            consumer.tell((now - 0.4, now))
            latest: Span = consumer.hear()
            if now > gone + 1.0 and latest.events:
                break
        consumer.tell((gone, time.monotonic()))
        span: Span = consumer.hear()
        supplier.tell("end")
        published = supplier.hear()
        consumer.tell(None)
        user.tell(None)
        broken, came, _ = finished(consumer, address, key, start_in)
        if broken or came != published:
            raise SystemExit(f"{published} published, {came} came; {broken[:3]}")
        return span.largest_gap


def finished(
    consumer: Worker, address: str, key: str, start_in: Start
) -> tuple[list[str], int, int]:
    """What the consumer has to tell when the channel is closed."""
    start_in("hub", close, address, key, "readings").hear()
    told: tuple[list[str], int, int] = consumer.hear()
    return told


def close(pipe: Connection, address: str, key: str, channel: str) -> None:
    with ab.connect(address, key, name="closer") as user:
        user.channel(channel).close()
    pipe.send("closed")


def calm(minutes: float) -> int:
    """Nothing vanishes on a busy machine: how often a broker stood still. Raises SystemExit where
    one was taken for lost."""
    busy = [
        subprocess.Popen(["python3", "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)
    ]
    stops = 0
    try:
        with fabric() as (_, start_in, brokers, address, key):
            user = start_in("user", derive, address, key)
            user.hear()
            end = time.monotonic() + 60 * minutes
            for name in itertools.takewhile(
                lambda _: time.monotonic() < end, itertools.cycle(("b1", "b2"))
            ):
                pid = brokers[name].pid
                os.kill(pid, signal.SIGSTOP)
                time.sleep(STILL)
                os.kill(pid, signal.SIGCONT)
                stops += 1
                time.sleep(2.0)
                user.tell("members")
                if missing := set(BROKERS) - set(user.hear()):
                    raise SystemExit(f"{missing} were taken for lost, after {stops} stops")
            user.tell(None)
    finally:
        for each in busy:
            each.kill()
    return stops


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="hosts of each filter that vanish")
    parser.add_argument("--calm", type=float, help="minutes in which none does")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    if options.calm is not None:
        print(f"brokers stood still {calm(options.calm)} times, and none was taken for lost")
        return
    figures = {
        what: [pause(filter) for _ in track(range(options.rounds), what)]
        for what, filter in FILTERS.items()
    }
    table = Table(title="seconds without an event when the filter's host vanishes")
    for column in ("filter", "median", "least", "most"):
        table.add_column(column)
    for what, found in figures.items():
        table.add_row(what, *(f"{each:.2f}" for each in (median(found), min(found), max(found))))
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()

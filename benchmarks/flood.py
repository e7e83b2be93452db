"""Whether a broker serves its members while strangers flood it with connections.

One process holds thousands of connections to the broker's port: a third say nothing, a third send
garbage, a third send the begin of a handshake byte by byte; each that is cut is made again. Beside
that a supplier publishes at a steady rate to a consumer and to a filter at the broker, and every
few seconds a new process joins, subscribes, and leaves. The broker may open only so many files.

    uv run python benchmarks/flood.py [--seconds N] [--rate N] [--strangers N] [--files N]
        [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import selectors
import socket
import time
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from processes import Quote, broker, quote_table, workers
from rich.console import Console
from rich.table import Table

import activebroker as ab

TICK = 0.01  # seconds between the supplier's bursts
JOIN_EVERY = 5.0  # seconds
JOINED_WITHIN = 5.0  # seconds: what this benchmark is to show
GREETING = b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00CURVE" + bytes(47)


# --- the processes ------------------------------------------------------------------------------


def limited_broker(pipe: Connection, key: str, files: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    broker(pipe, key)


def flood(pipe: Connection, address: str, strangers: int) -> None:
    """Hold connections of all three kinds until told to stop; send how many were made."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    port = int(address.rsplit(":", 1)[1])
    selector, chosen, made = selectors.DefaultSelector(), random.Random(1), 0
    slow: dict[socket.socket, int] = {}
    due: list[int] = list(range(strangers))  # kinds of connections to be made

    def connect(kind: int) -> None:
        nonlocal made
        made += 1
        stranger = socket.socket()
        stranger.setblocking(False)
        stranger.connect_ex(("127.0.0.1", port))
        selector.register(stranger, selectors.EVENT_READ, kind)
        if kind % 3 == 2:
            slow[stranger] = 0

    while not pipe.poll():
        for kind in due[:200]:
            connect(kind)
        del due[:200]
        for key_, _ in selector.select(0.02):
            stranger, kind = key_.fileobj, key_.data
            assert isinstance(stranger, socket.socket)
            try:
                closed = stranger.recv(1 << 16) == b""
                if not closed and kind % 3 == 1:
                    stranger.send(chosen.randbytes(200))
            except OSError:
                closed = True
            if closed:
                selector.unregister(stranger)
                slow.pop(stranger, None)
                stranger.close()
                due.append(kind)
        for stranger, at in list(slow.items()):
            if chosen.random() < 0.02:  # a byte a second
                slow[stranger] = at + 1
                with suppress(OSError):  # it is found closed above
                    stranger.send(GREETING[at % len(GREETING) :][:1])
        time.sleep(0.02)
    pipe.send(made)
    pipe.recv()


def supply(pipe: Connection, address: str, key: str, rate: int) -> None:
    with ab.connect(address, key) as fabric:
        channel = fabric.channel("quotes", Quote)
        supplier = channel.supplier("NYSE")
        burst = int(rate * TICK)
        pipe.send("ready")
        pipe.recv()  # when the consumers are there
        page, due = quote_table(burst), time.monotonic()
        while not pipe.poll():
            first = supplier.published
            numbers = pa.array(range(first, first + burst), pa.int64())
            supplier.publish_batch(page.set_column(0, "number", numbers))
            due = max(due + TICK, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
        channel.close()
        pipe.send(supplier.published)
        pipe.recv()


def consume(pipe: Connection, address: str, key: str, channel: str, every: int) -> None:
    """Check that each event comes, once and in order."""
    with ab.connect(address, key) as fabric, fabric.channel(channel).subscribe() as events:
        pipe.send("ready")
        seen = 0
        for batch in events.batches():
            numbers = batch.columns.column("number").to_numpy()
            expected = every * (seen + len(batch) - 1)
            if numbers[0] != every * seen or numbers[-1] != expected:
                raise SystemExit(f"{channel}: events are missing, or came twice")
            seen += len(batch)
        pipe.send(seen)
        pipe.recv()


def join(pipe: Connection, address: str, key: str) -> None:
    """Each time one is told to: a new member, until it has had its first event; send how long."""
    ab.Fabric().close()  # what a first fabric imports takes seconds
    pipe.send("ready")
    while pipe.recv():
        begin = time.monotonic()
        fabric = ab.connect(address, key)
        with fabric, fabric.channel("quotes").subscribe(timeout=60) as events:
            next(iter(events))
            pipe.send(time.monotonic() - begin)


# --- the run ------------------------------------------------------------------------------------


def run(seconds: float, rate: int, strangers: int, files: int) -> dict[str, Any]:
    key = ab.generate_key()
    with workers() as start, ExitStack() as stack:
        node = start("broker", limited_broker, key, files)
        address = node.hear()
        fabric = stack.enter_context(ab.connect(address, key))
        quotes = fabric.channel("quotes", Quote)
        quotes.derive(lambda quote: quote.number % 2 == 0, at="broker", name="even")
        source = start("supplier", supply, address, key, rate)
        source.hear()
        consumers = [
            start("consumer", consume, address, key, "quotes", 1),
            start("filter's consumer", consume, address, key, "even", 2),
        ]
        for consumer in consumers:
            consumer.hear()
        newcomer = start("new member", join, address, key)
        newcomer.hear(60.0)
        strange = start("strangers", flood, address, strangers)
        process = psutil.Process(node.pid)
        memory = process.memory_info().rss
        source.tell("go")
        begin = time.monotonic()
        joined, files_open = [], []
        while time.monotonic() - begin < seconds:
            time.sleep(JOIN_EVERY)
            newcomer.tell(True)
            joined.append(newcomer.hear(90.0))
            files_open.append(process.num_fds())
        source.tell("stop")
        published = source.hear(120.0)
        took = time.monotonic() - begin
        seen = [consumer.hear(120.0) for consumer in consumers]
        strange.tell("stop")
        made = strange.hear(60.0)
        grown = process.memory_info().rss - memory
    return {
        "seconds": took,
        "connections": made,
        "published": published,
        "published_per_second": published / took,
        "complete": seen == [published, (published + 1) // 2],
        "joined_seconds": joined,
        "most_files_open": max(files_open),
        "files": files,
        "memory_growth_mb": grown / 2**20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=20_000, help="events offered a second")
    parser.add_argument("--strangers", type=int, default=2_000, help="connections at once")
    parser.add_argument("--files", type=int, default=1_024, help="that the broker may open")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    figures = run(options.seconds, options.rate, options.strangers, options.files)

    table = Table(title=f"{options.strangers:,} strangers for {options.seconds:g} s")
    table.add_column("figure")
    table.add_column("", justify="right")
    table.add_row("connections made", f"{figures['connections']:,}")
    table.add_row("events a second", f"{figures['published_per_second']:,.0f}")
    table.add_row("new members, slowest", f"{max(figures['joined_seconds']):.2f} s")
    table.add_row("files open", f"{figures['most_files_open']:,} of {options.files:,}")
    table.add_row("the broker's memory", f"{figures['memory_growth_mb']:+.1f} MB")
    console = Console()
    console.print(table)
    console.print("every event came, once" if figures["complete"] else "events are missing")
    in_time = max(figures["joined_seconds"]) <= JOINED_WITHIN
    console.print("new members are in at once" if in_time else "new members wait too long")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))
    raise SystemExit(0 if figures["complete"] and in_time else 1)


if __name__ == "__main__":
    main()

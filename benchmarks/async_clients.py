"""Many clients of one event loop: 40 WebSockets under load, beside 500 subscriptions that wait.

A broker, a supplier, a gateway, and the clients in two, are processes. In the gateway's event loop
are 500 subscriptions to a channel without events, and one for each WebSocket client. The supplier
publishes at a steady rate, each event for all clients. A client's latency is from `publish` to the
message in its process, and it checks that it gets each event once and in order. The gateway
measures how late its loop is by a task that sleeps for a millisecond again and again: what it
sleeps longer, the loop was blocked, or the machine was. The same loop without clients and events
shows the latter.

    uv run python benchmarks/async_clients.py [--rate N] [--seconds S] [--json PATH]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from processes import PATIENCE, broker, workers
from rich.console import Console
from rich.table import Table
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

import activebroker as ab
from activebroker import aio

CLIENTS = 40
IDLE = 500
CLIENT_PROCESSES = 2


@dataclass(frozen=True)
class Quote:
    number: int
    at: int  # nanoseconds, monotonic
    name: str
    price: float


# --- the processes ------------------------------------------------------------------------------


def supply(pipe: Connection, address: str, key: str) -> None:
    with ab.connect(address, key) as fabric:
        quotes = fabric.channel("quotes", Quote)
        fabric.channel("silence", Quote)
        with quotes.supplier("NYSE") as nyse:
            pipe.send("ready")
            rate, seconds = pipe.recv()
            start = time.monotonic()
            for number in range(int(rate * seconds)):
                if (early := start + number / rate - time.monotonic()) > 0:
                    time.sleep(early)
                nyse.publish(Quote(number, time.monotonic_ns(), "IBM", number / 8))
            quotes.close()
        pipe.send(number + 1)
        pipe.recv()


def gate(pipe: Connection, address: str, key: str) -> None:
    asyncio.run(gateway(pipe, address, key))


async def gateway(pipe: Connection, address: str, key: str) -> None:
    async with aio.connect(address, key) as fabric:
        quotes = await fabric.channel("quotes", Quote)
        silence = await fabric.channel("silence", Quote)

        async def serve_client(socket: ServerConnection) -> None:
            async with quotes.subscribe(when_slow="drop_oldest") as events:
                await socket.send("ready")
                async for event in events:
                    await socket.send(json.dumps([event.content.number, event.content.at]))
            assert events.dropped == 0

        before = lateness_of(await late(seconds=2.0))
        idle = [await silence.subscribe() for _ in range(IDLE)]
        waiting = [asyncio.create_task(anext(each)) for each in idle]
        async with serve(serve_client, "127.0.0.1", 0, compression=None) as server:
            pipe.send(server.sockets[0].getsockname()[1])
            steps = timed_steps()
            stop = asyncio.Event()
            asyncio.get_running_loop().add_reader(pipe.fileno(), stop.set)
            measuring = asyncio.create_task(late(stop))
            await stop.wait()
            asyncio.get_running_loop().remove_reader(pipe.fileno())
            pipe.recv()
            lates, longest = lateness_of(await measuring), max(steps)
        for task in waiting:
            task.cancel()
        pipe.send((before, lates, longest * 1000))
        pipe.recv()


def timed_steps() -> list[float]:
    """How many seconds each step of event loops takes, from now on."""
    run_step, steps = asyncio.Handle._run, [0.0]

    def run(handle: asyncio.Handle) -> None:
        begin = time.monotonic()
        run_step(handle)
        steps.append(time.monotonic() - begin)

    asyncio.Handle._run = run  # type: ignore[method-assign]
    return steps


async def late(stop: asyncio.Event | None = None, seconds: float = PATIENCE) -> list[float]:
    """How many seconds too long each sleep of a millisecond took."""
    lates: list[float] = []
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end and not (stop and stop.is_set()):
        await asyncio.sleep(0.001)
        lates.append(time.monotonic() - now - 0.001)
    return lates


def lateness_of(lates: list[float]) -> dict[str, float]:
    milliseconds = np.array(lates) * 1000
    p50, p99 = np.percentile(milliseconds, [50, 99])
    over = int((milliseconds > 10).sum())
    return {
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "max_ms": float(milliseconds.max()),
        "over_10_ms": over,
        "sleeps": len(lates),
    }


def take(pipe: Connection, port: int, clients: int) -> None:
    pipe.send(asyncio.run(take_all(pipe, port, clients)))
    pipe.recv()


async def take_all(pipe: Connection, port: int, clients: int) -> list[list[int]]:
    async def client(socket: ClientConnection) -> list[int]:
        latencies: list[int] = []
        async for message in socket:
            number, at = json.loads(message)
            latencies.append(time.monotonic_ns() - at)
            if number != len(latencies) - 1:
                raise SystemExit(f"{number} came where {len(latencies) - 1} was due")
        return latencies

    sockets = [await connect(f"ws://127.0.0.1:{port}/") for _ in range(clients)]
    for socket in sockets:
        assert await socket.recv() == "ready"
    pipe.send("ready")
    return await asyncio.gather(*map(client, sockets))


# --- the benchmark ------------------------------------------------------------------------------


def measure(rate: float, seconds: float) -> dict[str, Any]:
    key = ab.generate_key()
    with workers() as start:
        address = start("broker", broker, key).hear()
        supplier = start("supplier", supply, address, key)
        supplier.hear(PATIENCE)
        gateway_ = start("gateway", gate, address, key)
        port = gateway_.hear(PATIENCE)
        each = CLIENTS // CLIENT_PROCESSES
        subscribers = [start(f"clients {n}", take, port, each) for n in range(CLIENT_PROCESSES)]
        for subscriber in subscribers:
            subscriber.hear(PATIENCE)
        supplier.tell((rate, seconds))
        published = supplier.hear(seconds + PATIENCE)
        latencies = [client for subscriber in subscribers for client in subscriber.hear(PATIENCE)]
        gateway_.tell("stop")
        before, lates, longest = gateway_.hear(PATIENCE)
    if [len(client) for client in latencies] != [published] * CLIENTS:
        raise SystemExit(f"of {published} events clients got {[len(c) for c in latencies]}")
    milliseconds = np.concatenate([np.array(client) for client in latencies]) / 1e6
    p50, p99 = np.percentile(milliseconds, [50, 99])
    return {
        "messages_per_second": rate * CLIENTS,
        "latency": {
            "p50_ms": float(p50),
            "p99_ms": float(p99),
            "max_ms": float(milliseconds.max()),
        },
        "loop_before": before,
        "loop": lates,
        "longest_step_ms": longest,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=100, help="events a second, to all clients")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    figures = measure(options.rate, options.seconds)
    latency, before, loop = figures["latency"], figures["loop_before"], figures["loop"]
    table = Table(
        title=f"{CLIENTS} WebSocket clients, {figures['messages_per_second']:,.0f} messages/s, "
        f"{IDLE} idle subscriptions, {os.cpu_count()} cores"
    )
    for column in ("", "p50", "p99", "longest", "target", ""):
        table.add_column(column, justify="left" if not column else "right")
    longest = figures["longest_step_ms"]
    met = {
        "latency": latency["p50_ms"] < 5,
        "loop": loop["max_ms"] <= 10,
        "steps": longest <= 10,
    }
    rows: list[tuple[str, dict[str, float], str, bool | None]] = [
        ("from publish to the client", latency, "p50 < 5 ms", met["latency"]),
        ("the loop is late", loop, "≤ 10 ms", met["loop"]),
        ("the same, before all this", before, "", None),
    ]
    for name, each, target, is_met in rows:
        shown = [f"{each[key]:.2f} ms" for key in ("p50_ms", "p99_ms", "max_ms")]
        verdict = "" if is_met is None else "[green]met[/]" if is_met else "[red]missed[/]"
        table.add_row(name, *shown, target, verdict)
    Console().print(table)
    Console().print(f"longest step of the loop: {longest:.2f} ms")
    late = f"{loop['over_10_ms']} of {loop['sleeps']:,}"
    Console().print(f"late by more than 10 ms: {late} sleeps, {before['over_10_ms']} before")
    if options.json:
        options.json.write_text(json.dumps({**figures, "met": met}, indent=2))


if __name__ == "__main__":
    main()

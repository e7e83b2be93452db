"""One supplier process to one consumer process on this machine, beside a hand-written loop.

Small typed events (six columns, about 100 bytes) go from process to process: whole batches, one
by one, and at a steady thousand a second for the latency. The peer is what one would write by
hand: a pyzmq PUSH/PULL pair over TCP that carries Arrow IPC batches, or one pickle an event, and
that knows no acknowledgement, credit, type check or encryption. Ours takes Unix sockets where both
ends are one user's, and joins batches that wait to be sent. Both run in turns, so that what else
the machine does hits both. Every count, and the order, is checked.

    uv run python benchmarks/loopback.py [--rounds N] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import zmq
from processes import Quote, Worker, broker, quote_table, quotes, workers
from rich.console import Console
from rich.table import Table

import activebroker as ab

BATCH_SIZES = (1_000, 10_000)
BATCHED_EVENTS = 3_000_000  # a round
SINGLE_EVENTS = 300_000  # a round
RATE = 1_000  # events a second, for the latency
PACED_EVENTS = 2_000  # a round


@dataclass(frozen=True)
class Task:
    """`how`: "batches" of `rows` rows, "singly", or "paced"; `events` of them in all."""

    how: str
    events: int
    rows: int = 1

    @property
    def messages(self) -> int:
        return self.events // self.rows


# --- ours ---------------------------------------------------------------------------------------


def supply(pipe: Connection, address: str, key: str) -> None:
    with ab.connect(address, key) as fabric:
        supplier = fabric.channel("quotes", Quote).supplier("NYSE")
        pipe.send("ready")
        while (task := pipe.recv()) is not None:
            if task.how == "batches":
                table = quote_table(task.rows)
                pipe.send(time.monotonic_ns())
                for _ in range(task.messages):
                    supplier.publish_batch(table)
            elif task.how == "singly":
                contents = quotes(task.events)
                pipe.send(time.monotonic_ns())
                for content in contents:
                    supplier.publish(content)
            else:
                pipe.send(time.monotonic_ns())
                for content in paced(task.events):
                    supplier.publish(content)


def consume(pipe: Connection, address: str, key: str) -> None:
    with ab.connect(address, key) as fabric, fabric.channel("quotes", Quote).subscribe() as events:
        pipe.send("ready")
        first = 0  # the sequence number of the task's first event
        while (task := pipe.recv()) is not None:
            seen, latencies = 0, []
            if task.how == "batches":
                for batch in events.batches():
                    expect(int(batch.seqs[0]), first + seen)
                    seen += len(batch)
                    if seen >= task.events:
                        break
            else:
                for event in events:
                    if task.how == "paced":
                        latencies.append(time.monotonic_ns() - event.content.number)
                    else:
                        expect(event.content.number, seen)
                    expect(event.seq, first + seen)
                    seen += 1
                    if seen == task.events:
                        break
            pipe.send((seen, time.monotonic_ns(), latencies))
            first += seen


# --- by hand ------------------------------------------------------------------------------------


def push(pipe: Connection, address: str) -> None:
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.connect(address)
        pipe.send("ready")
        while (task := pipe.recv()) is not None:
            if task.how == "batches":
                table = quote_table(task.rows)
                pipe.send(time.monotonic_ns())
                for _ in range(task.messages):
                    socket.send(table.serialize(), copy=False)
            else:
                contents = paced(task.events) if task.how == "paced" else quotes(task.events)
                pipe.send(time.monotonic_ns())
                for content in contents:
                    socket.send(pickle.dumps(content, protocol=5))


def pull(pipe: Connection) -> None:
    schema = quote_table(1).schema
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        pipe.send(f"tcp://127.0.0.1:{port}")
        while (task := pipe.recv()) is not None:
            seen, latencies = 0, []
            for _ in range(task.messages):
                if task.how == "batches":
                    buffer = pa.py_buffer(socket.recv(copy=False).buffer)
                    seen += pa.ipc.read_record_batch(buffer, schema).num_rows
                    continue
                content = pickle.loads(socket.recv())
                if task.how == "paced":
                    latencies.append(time.monotonic_ns() - content.number)
                else:
                    expect(content.number, seen)
                seen += 1
            pipe.send((seen, time.monotonic_ns(), latencies))


# --- both ---------------------------------------------------------------------------------------


def paced(count: int) -> Any:
    """Quotes at RATE, numbered with the time they are made at."""
    due = time.monotonic()
    for quote in quotes(count):
        due += 1 / RATE
        time.sleep(max(0.0, due - time.monotonic()))
        yield Quote(
            time.monotonic_ns(), quote.volume, quote.bid, quote.ask, quote.symbol, quote.venue
        )


def expect(found: int, expected: int) -> None:
    if found != expected:
        raise SystemExit(f"event {found} came where {expected} was due")


def run(task: Task, source: Worker, sink: Worker) -> tuple[float, list[int]]:
    """Events a second, and latencies in nanoseconds."""
    sink.tell(task)
    source.tell(task)
    start = source.hear()
    seen, end, latencies = sink.hear()
    if seen != task.events:
        raise SystemExit(f"{sink.name} got {seen} events instead of {task.events}")
    return seen / (end - start) * 1e9, latencies


def measure(rounds: int) -> dict[str, Any]:
    """All figures: for each task, the median of the rounds for ours and by hand."""
    tasks = {
        **{f"batches of {n:,}": Task("batches", BATCHED_EVENTS, n) for n in BATCH_SIZES},
        "one by one": Task("singly", SINGLE_EVENTS),
        "paced": Task("paced", PACED_EVENTS),
    }
    key = ab.generate_key()
    with workers() as start:
        address = start("the broker", broker, key).hear()
        sink = start("our consumer", consume, address, key)
        sink.hear()
        source = start("our supplier", supply, address, key)
        source.hear()
        puller = start("the hand-written consumer", pull)
        pusher = start("the hand-written supplier", push, puller.hear())
        pusher.hear()
        pairs = {"ours": (source, sink), "by hand": (pusher, puller)}
        figures: dict[str, Any] = {}
        for name, task in tasks.items():
            found: dict[str, list[tuple[float, list[int]]]] = {"ours": [], "by hand": []}
            for _ in range(rounds + 1):
                for who, pair in pairs.items():
                    found[who].append(run(task, *pair))
            # The first round fills caches and tells the peers about each other.
            figures[name] = {who: summary(task, each[1:]) for who, each in found.items()}
    return figures


def summary(task: Task, results: list[tuple[float, list[int]]]) -> dict[str, Any]:
    if task.how == "paced":
        microseconds = np.concatenate([latencies for _, latencies in results]) / 1000
        p50, p99 = np.percentile(microseconds, [50, 99])
        return {"p50_us": float(p50), "p99_us": float(p99)}
    rates = [rate for rate, _ in results]
    return {"events_per_second": median(rates), "rounds": rates}


def rows_of(figures: dict[str, Any]) -> list[tuple[str, str, str, str, str, bool]]:
    """(what, ours, by hand, ratio, target, met) for the table and the JSON."""
    rows = []
    for name, figure in figures.items():
        ours, theirs = figure["ours"], figure["by hand"]
        if name == "paced":
            p50 = ours["p50_us"]
            shown = [f"{each['p50_us']:.0f} / {each['p99_us']:.0f} µs" for each in (ours, theirs)]
            what, ratio = f"latency at {RATE:,}/s, p50 / p99", p50 / theirs["p50_us"]
            rows.append((what, *shown, f"{ratio:.2f}", "p50 ≤ 300 µs", p50 <= 300))
            continue
        rate, ratio = ours["events_per_second"], ours["events_per_second"]
        ratio /= theirs["events_per_second"]
        shown = [f"{each['events_per_second']:,.0f} events/s" for each in (ours, theirs)]
        single = name == "one by one"
        target = "≥ 150,000 events/s" if single else "ratio ≥ 0.5"
        met = rate >= 150_000 if single else ratio >= 0.5
        rows.append((name, *shown, f"{ratio:.2f}", target, met))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds of each task")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    figures = measure(options.rounds)
    rows = rows_of(figures)
    table = Table(title=f"process to process, {os.cpu_count()} cores")
    for column in ("", "activebroker", "by hand", "ratio", "target", ""):
        table.add_column(column, justify="left" if not column else "right")
    for *cells, met in rows:
        table.add_row(*cells, "[green]met[/]" if met else "[red]missed[/]")
    Console().print(table)
    if options.json:
        met_by = {what: met for what, *_, met in rows}
        options.json.write_text(json.dumps({"figures": figures, "met": met_by}, indent=2))


if __name__ == "__main__":
    main()

"""What an event costs on its way through the codec, in nanoseconds.

Six columns, about 100 bytes an event: two ints, two floats, two strings. Each step is repeated and
the best run counts, since other processes only ever add. `load` looks at everything before it is
read, for less than Arrow's own check of the same. Run it with

    uv run python benchmarks/event_codec.py [--rows N] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from timeit import repeat

from pyarrow.ipc import read_record_batch
from rich.console import Console
from rich.table import Table

from activebroker.events import Event, EventType, dump, encode, load


@dataclass(frozen=True)
class Quote:
    number: int
    volume: int
    bid: float
    ask: float
    symbol: str
    venue: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000, help="events a batch")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    rows = options.rows

    quote = EventType.of(Quote)
    quotes = [
        Quote(i, i * 1000, i * 0.25, i * 0.5, f"SYM{i % 500:05}", "XNAS " + "v" * 50)
        for i in range(rows)
    ]
    batch = encode(quote, quotes, "NYSE", 0, 1)
    buffers = dump(batch)
    if load(quote, "NYSE", buffers).contents() != quotes:
        raise SystemExit("decoded events differ from the encoded ones")

    steps: dict[str, Callable[[], object]] = {
        "check": lambda: [quote.check(q, "quotes") for q in quotes],
        "encode": lambda: encode(quote, quotes, "NYSE", 0, 1),
        "dump": lambda: dump(batch),
        "load": lambda: load(quote, "NYSE", buffers),
        "(of it, without a check)": lambda: read_record_batch(buffers[0], quote.batch_schema),
        "(Arrow's own check)": lambda: batch.columns.validate(full=True),
        "decode": batch.events,
        "decode, contents only": batch.contents,
        "(the constructor)": lambda: [Quote(1, 2, 0.5, 0.25, "a", "b") for _ in range(rows)],
        "(the header)": lambda: [Event(None, "Quote", "NYSE", i, 1) for i in range(rows)],
    }
    figures = {
        name: min(repeat(step, number=1, repeat=15)) / rows * 1e9 for name, step in steps.items()
    }

    table = Table(title=f"{rows} events a batch, {batch.nbytes / rows:.0f} bytes an event")
    table.add_column("step")
    table.add_column("ns/event", justify="right")
    for name, nanoseconds in figures.items():
        table.add_row(name, f"{nanoseconds:.1f}")
    Console().print(table)
    if options.json:
        options.json.write_text(
            json.dumps(
                {"rows": rows, "bytes_per_event": batch.nbytes / rows, "ns_per_event": figures}
            )
        )


if __name__ == "__main__":
    main()

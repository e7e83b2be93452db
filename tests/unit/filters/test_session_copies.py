"""A filter typed into a session, in the process of the session itself."""

from __future__ import annotations

import subprocess
import sys

TYPED = """
import activebroker as ab
from dataclasses import dataclass

@dataclass(frozen=True)
class Trade:
    name: str
    price: int

LIMIT = 100

def is_dear(trade):
    return trade.price > LIMIT

class Dear(ab.FIFOFilter):
    def enqueue(self, event):
        if is_dear(event.content):
            super().enqueue(event)

class Counts(Dear):
    seen = 0
    def enqueue(self, event):
        self.seen += 1
        super().enqueue(event)

with ab.Fabric(brokers=["atlanta"]) as fabric:
    trades = fabric.channel("trades", Trade)
    for filter, at in ((Dear(), "atlanta"), (Counts, "supplier"), (is_dear, "supplier")):
        LIMIT = 100
        derived = trades.derive(filter, at=at)
        with derived.subscribe(timeout=30) as events, trades.supplier() as supplier:
            LIMIT = 5000
            supplier.publish_batch([Trade("IBM", price) for price in (99, 101, 4999, 5001)])
            got = [next(iter(events)) for _ in range(3)]
        assert all(type(event.content) is Trade for event in got)
        print(derived.extraction.predicate, [event.content.price for event in got])
"""


def test_its_globals_are_those_of_the_moment_it_was_derived() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TYPED], capture_output=True, text=True, timeout=60, check=False
    )
    dear, counts, function = done.stdout.splitlines() or [done.stderr] * 3
    assert dear == function == "price > 100 [101, 4999, 5001]"
    assert counts == "TRUE [101, 4999, 5001]"

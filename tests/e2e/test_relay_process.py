"""The broker of a relay is killed, and nothing is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest
from processes_for_tests import PATIENCE, Programs

import activebroker as ab

KEY = ab.generate_key()


@dataclass(frozen=True)
class Trade:
    name: str
    price: float


@dataclass(frozen=True)
class Counted:
    price: float
    count: int


class Count(ab.FIFOFilter):
    output = Counted

    def __init__(self) -> None:
        self.count = 0

    def enqueue(self, event: ab.Event) -> None:
        self.count += 1
        super().enqueue(event.replace(Counted(event.content.price, self.count)))


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with Programs(tmp_path, KEY) as programs:
        yield programs


CONSUMER = """
fabric = ab.connect(sys.argv[1], name="consumer")
events = fabric.channel("trades").subscribe(timeout=60)
say("ready")
say(json.dumps([event.content.price for event in events]))
"""


@pytest.mark.timeout(90)
def test_the_broker_of_a_relay_is_killed(programs: Programs) -> None:
    """What waits in it, and what comes before it is found lost, arrives by way of another."""
    _, address = programs.broker("atlanta")
    dallas, _ = programs.broker("dallas", join=address)
    with ab.connect(address, KEY, name="exchange") as fabric:
        trades = fabric.channel("trades", Trade)
        counted = trades.derive(Count, at="atlanta")
        consumer = programs.run(CONSUMER, address)
        assert consumer.line() == "ready"
        with trades.supplier("NYSE") as nyse, counted.subscribe(timeout=PATIENCE) as events:
            nyse.publish(Trade("IBM", 0.0))
            nyse.offload(to="dallas", consumers=["atlanta", "consumer"])
            for first in range(1, 5000, 100):
                if first == 2501:
                    dallas.kill()
                nyse.publish_batch([Trade("IBM", float(first + each)) for each in range(100)])
            (relay,) = fabric.status()["channels"][0]["relays"]
            assert relay["subscribers"][0] == "trades.Count"
            received = [event.content for event in islice(events, nyse.published)]
        trades.close()
        prices = [float(number) for number in range(5001)]
        assert received == [Counted(price, number + 1) for number, price in enumerate(prices)]
        assert consumer.line() == str(prices)

"""A fabric of several processes on one machine: its normal run, and deaths in it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes_for_tests import PATIENCE, Programs

import activebroker as ab
from activebroker.core.errors import AccessDenied, DeadlineExceeded, NameTaken, Unreachable
from activebroker.fabric import hosting

KEY = ab.generate_key()


@dataclass(frozen=True)
class Trade:
    name: str
    price: float


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with Programs(tmp_path, KEY) as programs:
        yield programs


SUPPLIER = """
import threading

address, name = sys.argv[1:]
enough = threading.Event()

def listen():
    sys.stdin.readline()
    enough.set()

with ab.connect(address, name=f"process of {name}") as fabric:
    with fabric.channel("trades", Trade).supplier(name) as supplier:
        say("ready")
        sys.stdin.readline()
        threading.Thread(target=listen, daemon=True).start()
        while not enough.is_set():
            supplier.publish(Trade("IBM", 1.0))
            if supplier.published % 100 == 0:
                enough.wait(0.001)
            if supplier.published == 1000:
                say("flowing")
        say(supplier.published)
"""
CONSUMER = """
with ab.connect(sys.argv[1], name="consumer's process") as fabric:
    counted = fabric.channel("trades", Trade).derive(Count, at="dallas", name="counted")
    with counted.subscribe(timeout=60) as events:
        say("ready")
        streams = {}
        for event in events:
            assert type(event.content) is Counted
            streams.setdefault(event.supplier, []).append((event.seq, event.content.count))
    assert not counted.errors
for stream in streams.values():
    assert stream == [(number, number + 1) for number in range(len(stream))]
say(json.dumps({name: len(stream) for name, stream in streams.items()}))
"""


def test_a_filter_moves_between_processes_while_events_flow(programs: Programs) -> None:
    _, address = programs.broker("atlanta")
    programs.broker("dallas", join=address)
    with ab.connect(address, KEY, name="operator") as fabric:
        trades = fabric.channel("trades", Trade)
        consumer = programs.run(CONSUMER, address)
        suppliers = {name: programs.run(SUPPLIER, address, name) for name in ("NYSE", "LSE")}
        for program in (consumer, *suppliers.values()):
            assert program.line() == "ready"
        for supplier in suppliers.values():
            supplier.tell()
            assert supplier.line() == "flowing"
        counted = fabric.channel("counted")
        for place in ("atlanta", "supplier", "consumer", "dallas"):
            counted.move(to=place)
        for supplier in suppliers.values():
            supplier.tell()
        published = {name: int(supplier.line()) for name, supplier in suppliers.items()}
        for supplier in suppliers.values():
            assert supplier.finish() == (0, "", "")
        trades.close()
        assert json.loads(consumer.line()) == published
        assert consumer.finish() == (0, "", "")


NEWER = """
@dataclass(frozen=True)
class Trade:
    name: str
    price: float
    venue: str = "XETRA"

with ab.connect(sys.argv[1], name="newer") as fabric:
    trades = fabric.channel("trades", Trade)
    there = trades.derive(lambda trade: trade.venue == "XETRA", name="there")
    with there.subscribe(timeout=60) as events, trades.supplier("newer") as supplier:
        supplier.publish(Trade("SAP", 2.0, "NYSE"))
        supplier.publish(Trade("SAP", 3.0))
        say("ready")
        for event in events:
            assert type(event.content) is Trade
            say(event.content)
"""


def test_processes_have_several_versions_of_a_class(programs: Programs) -> None:
    """A filter that reads the new field runs in the process that supplies events without it."""
    _, address = programs.broker("atlanta")
    with ab.connect(address, KEY, name="older") as fabric:
        trades = fabric.channel("trades", Trade)
        events = trades.subscribe(timeout=PATIENCE)
        newer = programs.run(NEWER, address)
        assert newer.line() == "ready"
        trades.supplier("older").publish_batch([Trade("IBM", 1.0)] * 20)
        assert [next(iter(events)).content for _ in range(22)].count(Trade("IBM", 1.0)) == 20
        seen = sorted(newer.line() for _ in range(21))
        fabric.channel("there").move(to="atlanta")
        trades.close()
    assert not list(events)
    assert seen == [
        *["Trade(name='IBM', price=1.0, venue='XETRA')"] * 20,
        "Trade(name='SAP', price=3.0, venue='XETRA')",
    ]
    assert newer.finish() == (0, "", "")


def test_who_may_join_and_who_not(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    _, address = programs.broker("atlanta")
    with pytest.raises(AccessDenied, match="refused this key"):
        ab.connect(address, ab.generate_key())
    with ab.connect(address, KEY, name="exchange") as fabric:
        with pytest.raises(NameTaken, match="A node named 'atlanta' is in the fabric already"):
            ab.connect(address, KEY, name="atlanta")
        assert [each["name"] for each in fabric.status()["members"]] == ["atlanta", "exchange"]
    with ab.connect(address, KEY, name="exchange"):
        pass  # a name is free again when its bearer has left
    with socket.create_server(("127.0.0.1", 0)) as free:
        nowhere = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr(hosting, "PATIENCE", 0.2)
    with pytest.raises(Unreachable, match=f"Nothing answered at {nowhere}"):
        ab.connect(nowhere, KEY)


IDLE_CONSUMER = """
with ab.connect(sys.argv[1], name="idle") as fabric:
    events = fabric.channel("trades", Trade).subscribe()
    say("ready")
    sys.stdin.readline()
"""


WATCHER = """
from itertools import repeat
always = repeat(Trade("IBM", 2.0))
fabric = ab.connect(sys.argv[1], name="watcher", reconnect=False)
trades = fabric.channel("trades", Trade)
events = trades.subscribe(timeout=60)
nyse = trades.supplier("NYSE")
nyse.publish(Trade("IBM", 1.0))
assert next(iter(events)).content.price == 1.0
say("ready")
for end in (lambda: next(iter(events)), lambda: [nyse.publish(trade) for trade in always]):
    try:
        end()
    except ab.ActiveBrokerError as error:
        say(type(error).__name__, error)
sys.stdin.readline()
"""


@pytest.mark.timeout(90)
def test_who_dies_is_found_lost_and_the_survivors_go_on(programs: Programs) -> None:
    """One wait for three deaths: of a consumer, of a broker, and of another fabric's directory."""
    _, address = programs.broker("atlanta")
    dallas, _ = programs.broker("dallas", join=address)
    hub, hub_address = programs.broker("hub")
    idle, watcher = programs.run(IDLE_CONSUMER, address), programs.run(WATCHER, hub_address)
    with ab.connect(address, KEY, name="exchange") as fabric:
        trades = fabric.channel("trades", Trade)
        dear = trades.derive(lambda trade: trade.price > 100, at="dallas", name="dear")
        cheap = trades.derive(lambda trade: trade.price < 100, at="atlanta", name="cheap")
        for program in (idle, watcher):
            assert program.line() == "ready"
        seen: list[int] = []
        with (
            dear.subscribe(timeout=PATIENCE) as at_dallas,
            cheap.subscribe(lambda event: seen.append(event.seq)) as at_atlanta,
            trades.supplier("NYSE") as nyse,
        ):
            nyse.publish(Trade("IBM", 120.0))
            assert next(iter(at_dallas)).content.price == 120.0
            page = [Trade("x" * 1000, 1.0)] * 1000
            with pytest.raises(DeadlineExceeded):  # the idle consumer holds the supplier up
                for _ in range(1000):
                    nyse.publish_batch(page, timeout=0.5)
            for program in (idle, dallas, hub):
                program.kill()
            again = nyse.published
            nyse.publish(Trade("IBM", 130.0), timeout=PATIENCE)
            event = next(iter(at_dallas))  # from where the filter goes on
            assert (event.seq, event.content.price) == (again, 130.0)
            nyse.publish_batch(page, timeout=PATIENCE)
            cheap.close()
            at_atlanta.join(PATIENCE)
            assert seen == [seq for seq in range(nyse.published) if seq not in (0, again)]
        assert [each["name"] for each in fabric.status()["members"]] == ["atlanta", "exchange"]
    assert watcher.line().startswith("Unreachable The fabric's directory at 'hub'")
    assert watcher.line().startswith("Unreachable ")

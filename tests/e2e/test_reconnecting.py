"""Programs that go on when their fabric was lost: its broker restarts under load."""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from processes_for_tests import Programs

import activebroker as ab
from activebroker.cli.broker import join_anew
from activebroker.core.errors import DeadlineExceeded, Unreachable
from activebroker.fabric import hosting
from activebroker.fabric.closing import within
from activebroker.fabric.hosting import serve
from activebroker.node.links import peers

KEY = ab.generate_key()
PATIENCE = 60.0


class Broker:
    """A plain broker that can be restarted, at one address."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self.start()

    def start(self) -> None:
        self.runtime = serve("hub", self.address, KEY)

    def die(self) -> None:
        """As with SIGKILL: without a word."""
        self.runtime.stop()


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.die()


class Feeding:
    """Publishes 0, 1, 2… from a thread until the block ends."""

    def __init__(self, supplier: ab.Supplier, rate: float = 5000.0) -> None:
        self.supplier, self.count, self.rate = supplier, 0, rate
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._feed)

    def __enter__(self) -> Feeding:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join(PATIENCE)

    def wait_for(self, more: int) -> None:
        goal, end = self.count + more, time.monotonic() + PATIENCE
        while self.count < goal:
            assert time.monotonic() < end, "nothing is published any more"
            time.sleep(0.002)

    def _feed(self) -> None:
        while not self._enough.wait(0.01):
            for _ in range(int(self.rate / 100)):
                self.supplier.publish(self.count)
                self.count += 1


class Cut:
    """Nothing comes to these processes, and nothing leaves them, in this block."""

    def __init__(self, *parties: ab.Fabric) -> None:
        self._transports = [each._membership._runtime.transport for each in parties]

    def __enter__(self) -> None:
        for each in self._transports:
            receive = each.receive

            def nothing(timeout: float | None, receive: Any = receive) -> list[Any]:
                receive(timeout)
                return []

            vars(each).update(
                receive=nothing, heard=list, transmit=lambda peer, address, frames: None
            )

    def __exit__(self, *_: object) -> None:
        for each in self._transports:
            for name in ("receive", "heard", "transmit"):
                vars(each).pop(name, None)


def eventually(look: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < end
        time.sleep(0.005)


def even(number: int) -> bool:
    return number % 2 == 0


@pytest.mark.parametrize("at", ["supplier", "consumer"])
def test_a_restarted_broker_costs_no_event(broker: Broker, at: str) -> None:
    with (
        ab.connect(broker.address, KEY, name="sink") as sink,
        ab.connect(broker.address, KEY, name="source") as source,
    ):
        plain, filtered = [], []
        channel = sink.channel("numbers", object)
        derived = channel.derive(even, at=at)
        one = channel.subscribe(lambda event: plain.append(event.content))
        two = derived.subscribe(lambda event: filtered.append(event.content))
        supplier = source.channel("numbers", object).supplier("S")
        with Feeding(supplier) as feeding:
            for _ in range(3):
                feeding.wait_for(500)
                broker.die()
                broker.start()
                feeding.wait_for(200)
            feeding.wait_for(500)
        # A channel that was closed before its consumer is back is none any more.
        eventually(lambda: plain[-1] == feeding.count - 1 and filtered[-1] in plain[-2:])
        source.channel("numbers").close()
        one.join(PATIENCE)
        two.join(PATIENCE)
    assert plain == list(range(feeding.count))
    assert filtered == plain[::2]


def play_cuts(broker: Broker, *names: str) -> tuple[list[int], int]:
    """What a consumer sees while some of two processes are cut off twice, and how many there were;
    frames are on their way then."""
    seen: list[int] = []
    with (
        ab.connect(broker.address, KEY, name="sink") as sink,
        ab.connect(broker.address, KEY, name="source") as source,
    ):
        events = sink.channel("numbers", object).subscribe(lambda event: seen.append(event.content))
        supplier = source.channel("numbers", object).supplier("S")
        parties = [each for each in (sink, source) if each.node in names]
        with Feeding(supplier) as feeding:
            for _ in range(2):
                feeding.wait_for(500)
                with Cut(*parties):
                    eventually(lambda: all(each._membership._runtime.orphaned for each in parties))
                eventually(lambda: not any(each._membership._runtime.orphaned for each in parties))
                eventually(lambda goal=feeding.count: seen[-1] >= goal)
        source.channel("numbers").close()
        events.join(PATIENCE)
    return seen, feeding.count


@pytest.mark.parametrize("names", [("source",), ("source", "sink")])
def test_what_a_supplier_had_under_way_when_it_was_cut_off_comes_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    monkeypatch.setattr(peers, "LOST_AFTER", 1.5)
    seen, count = play_cuts(broker, *names)
    assert seen == list(range(count))


def test_what_waited_for_a_consumer_that_takes_nothing_comes_when_it_does(broker: Broker) -> None:
    """More than may be under way: a part of it is in the node that loses its fabric."""
    with (
        ab.connect(broker.address, KEY, name="sink") as sink,
        ab.connect(broker.address, KEY, name="source") as source,
    ):
        events = sink.channel("numbers", object).subscribe(timeout=PATIENCE)
        supplier = source.channel("numbers", object).supplier("S")
        outlet = next(iter(source._membership._runtime._node.plane.outlets.values()))
        count = 0
        while outlet.ready:
            supplier.publish((count, bytes(1 << 19)))
            count += 1
            time.sleep(0.01)
        broker.die()
        broker.start()
        supplier.publish((count, b""), timeout=PATIENCE)
        eventually(
            lambda: (
                not source._membership._runtime.orphaned and not sink._membership._runtime.orphaned
            )
        )
        assert [next(iter(events)).content[0] for _ in range(count + 1)] == list(range(count + 1))


def test_one_that_is_closed_waits_no_longer_than_it_may_for_who_is_gone(broker: Broker) -> None:
    with (
        ab.connect(broker.address, KEY, name="source") as source,
        ab.connect(broker.address, KEY, name="sink") as sink,
    ):
        gone = ab.connect(broker.address, KEY, name="gone", reconnect=False)
        numbers = gone.channel("numbers", object)
        numbers.subscribe()
        events = sink.channel("numbers", object).subscribe(timeout=PATIENCE)
        supplier = source.channel("numbers", object).supplier("S")
        supplier.publish(0)
        with Cut(gone):
            broker.die()
            broker.start()
            eventually(
                lambda: (
                    not source._membership._runtime.orphaned
                    and not sink._membership._runtime.orphaned
                )
            )
            supplier.publish_batch([1, 2, 3])
            supplier.close()
            assert [next(iter(events)).content for _ in range(4)] == [0, 1, 2, 3]
            gone.close()


def test_what_a_consumer_misses_while_it_is_cut_off_is_told(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(peers, "LOST_AFTER", 1.5)
    seen, count = play_cuts(broker, "sink")
    assert seen == sorted(set(seen)) and seen[-1] == count - 1
    told = [
        re.match(r"(\d+) events of supplier 'S' did not come", each) for each in caplog.messages
    ]
    assert sum(int(each.group(1)) for each in told if each) == count - len(seen)


def test_what_a_supplier_had_under_way_when_it_was_closed_comes(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was cut off, which nobody has found yet."""
    monkeypatch.setattr(peers, "LOST_AFTER", 1.5)
    with (
        ab.connect(broker.address, KEY, name="sink") as sink,
        ab.connect(broker.address, KEY, name="source") as source,
    ):
        events = sink.channel("numbers", object).subscribe(timeout=PATIENCE)
        supplier = source.channel("numbers", object).supplier("S")
        supplier.publish(0)
        assert next(iter(events)).content == 0
        closing = threading.Thread(target=supplier.close)
        with Cut(source):
            supplier.publish_batch([1, 2, 3])
            closing.start()
            eventually(lambda: source._membership._runtime.orphaned)
        assert [next(iter(events)).content for _ in range(3)] == [1, 2, 3]
        closing.join(PATIENCE)
        assert not source.status()["channels"][0]["suppliers"]


def test_one_that_is_gone_for_good_is_waited_for_no_longer_than_said(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "LOST_AFTER", 1.5)
    with (
        ab.connect(broker.address, KEY, name="sink") as sink,
        ab.connect(broker.address, KEY, name="firm", reconnect=False) as firm,
    ):
        events = sink.channel("numbers", object).subscribe(timeout=0.1)
        others = firm.channel("numbers", object).subscribe(timeout=PATIENCE)
        broker.die()
        with pytest.raises(DeadlineExceeded):
            next(iter(events))
        with pytest.raises(Unreachable, match="does not answer any more"):
            next(iter(others))
        with within(0.5):
            sink.close()


def test_a_broker_comes_back_though_the_fabric_is_not_there_at_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hosting, "PATIENCE", 0.2)
    caplog.set_level(logging.INFO, "activebroker")
    broker.die()
    with ThreadPoolExecutor(1) as pool:
        back = pool.submit(join_anew, "dallas", "tcp://127.0.0.1:*", KEY, broker.address)
        eventually(lambda: "not back in the fabric yet: Nothing answered" in caplog.text)
        broker.start()
        back.result(PATIENCE).stop()


def test_who_cannot_come_back_is_told(broker: Broker) -> None:
    """Its name is another's when it comes back: a supplier, and a whole process."""
    with ab.connect(broker.address, KEY, name="source") as source:
        supplier = source.channel("numbers", object).supplier("S")
        events = source.channel("numbers").subscribe(timeout=PATIENCE)
        broker.die()
        broker.start()
        other = ab.connect(broker.address, KEY, name="source")
        with other.channel("numbers", object).supplier("S"):
            for ask in (lambda: next(iter(events)), lambda: supplier.publish(1), source.status):
                with pytest.raises(
                    Unreachable, match=r"join its fabric again: A node named 'source'"
                ):
                    ask()
        other.close()


def test_what_waits_for_a_filter_at_a_supplier_that_leaves_is_filtered_first(
    broker: Broker,
) -> None:
    def slow(number: int) -> bool:
        time.sleep(0.001)
        return True

    seen: list[int] = []
    with ab.connect(broker.address, KEY) as sink:
        derived = sink.channel("numbers", object).derive(slow)
        events = derived.subscribe(lambda event: seen.append(event.content))
        with (
            ab.connect(broker.address, KEY) as source,
            source.channel("numbers").supplier("S") as supplier,
        ):
            for number in range(400):
                supplier.publish_batch([3 * number, 3 * number + 1, 3 * number + 2])
        sink.channel("numbers").close()
        events.join(PATIENCE)
    assert seen == list(range(1200))


def test_a_filter_waits_for_its_broker_which_is_back_later(broker: Broker) -> None:
    dallas = serve("dallas", "tcp://127.0.0.1:*", KEY, join_address=broker.address)
    try:
        with ab.connect(broker.address, KEY, name="sink") as sink:
            numbers = sink.channel("numbers", object)
            events = numbers.derive(even, at="dallas", name="even").subscribe(timeout=PATIENCE)
            broker.die()
            eventually(lambda: dallas.orphaned)
            dallas.stop()
            broker.start()
            eventually(lambda: broker.runtime.member("sink"))
            dallas = join_anew("dallas", "tcp://127.0.0.1:*", KEY, broker.address)
            with numbers.supplier("S") as supplier:
                supplier.publish_batch([1, 2])
                assert next(iter(events)).content == 2
            places = {each["name"]: each["at"] for each in sink.status()["channels"]}
            assert places["even"] == "dallas"
    finally:
        dallas.stop()


# --- in processes, with real kills ----------------------------------------------------------------

SUPPLIER = """
import threading, time
enough = threading.Event()
def listen():
    sys.stdin.readline()
    enough.set()
with ab.connect(sys.argv[1], name="source") as fabric:
    with fabric.channel("numbers", object).supplier("S") as supplier:
        say("ready")
        sys.stdin.readline()
        threading.Thread(target=listen, daemon=True).start()
        begin, count = time.monotonic(), 0
        while not enough.is_set():
            due = int((time.monotonic() - begin) * 5000)
            for count in range(count, due):
                supplier.publish(count)
            count = max(count, due)
            enough.wait(0.01)
        supplier.flush()
        fabric.channel("numbers").close()
    say(count)
"""
CONSUMER = """
with ab.connect(sys.argv[1], name="sink") as fabric:
    numbers = fabric.channel("numbers", object)
    filtered = numbers.derive(lambda number: number % 2 == 0)
    even = []
    calls = filtered.subscribe(lambda event: even.append(event.content))
    with numbers.subscribe(timeout=60) as events:
        say("ready")
        count = 0
        for event in events:
            if event.content != count:
                say("expected", count, "got", event.content)
                sys.exit(1)
            count += 1
            if count % 2500 == 0:
                say(count)
    calls.join(60)
    say("end", count, sorted(set(range(0, count, 2)) - set(even))[:9], len(even) - len(set(even)))
"""


@pytest.mark.table
def test_a_broker_that_is_killed_time_and_again(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    rounds = pytestconfig.getoption("rounds")
    with Programs(tmp_path, KEY) as programs:
        hub, address = programs.broker("hub")
        source, sink = programs.run(SUPPLIER, address), programs.run(CONSUMER, address)
        assert {source.line(), sink.line()} == {"ready"}
        source.tell()
        for _ in range(rounds):
            assert sink.line().isdigit()
            hub.kill()
            hub, _ = programs.broker("hub", listen=address)
        assert sink.line().isdigit()
        source.tell()
        published = source.line()
        while (told := sink.line()).isdigit():
            pass
        assert told == f"end {published} [] 0"  # none is missing, none came twice

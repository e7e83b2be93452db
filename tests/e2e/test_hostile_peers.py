"""A broker among peers that send anything, or nothing: it stays, and serves those who are good.

5,000 messages and 500 streams; `--rounds 50000` makes them 50,000 and 5,000.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import zmq
from hostile_for_tests import MESSAGES, STREAMS, Member, half_open, nameless, play_stream, send_all
from processes_for_tests import PATIENCE, Program, Programs

import activebroker as ab

KEY = ab.generate_key()
MOST_MEMORY = 64 << 20  # bytes that a broker may grow by
EVENTS = 2000
MEMBERS = 20  # who send at a time


@dataclass(frozen=True)
class Tick:
    n: int


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with Programs(tmp_path, KEY) as programs:
        yield programs


class Good:
    """A supplier, a filter at the broker, and its consumer: each event has to come once."""

    def __init__(self, address: str) -> None:
        self._fabric = ab.connect(address, KEY, name="good")
        channel = self._fabric.channel("ticks", Tick)
        self._supplier = channel.supplier("A")
        derived = channel.derive(lambda tick: tick.n % 2 == 0, at="hub")
        self._events = derived.subscribe(timeout=PATIENCE)
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._publish)

    def __enter__(self) -> Good:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._enough.set()
        self._thread.join(PATIENCE)
        try:
            if kind is None:
                self._supplier.flush()
                expected = range(0, self._supplier.published, 2)
                taken = iter(self._events)
                assert [next(taken).content.n for _ in expected] == list(expected)
        finally:
            self._fabric.close()

    def _publish(self) -> None:
        while not self._enough.wait(0.01) or self._supplier.published < EVENTS:
            self._supplier.publish(Tick(self._supplier.published), PATIENCE)


def well(hub: Program, before: int) -> None:
    """Ends the broker: it was there, has not grown, and found no fault of its own."""
    memory = hub.process.memory_info().rss
    hub.interrupt()
    code, _, said = hub.finish()
    assert code == 0
    assert "CRITICAL" not in said and "Traceback" not in said, said[-3000:]
    assert memory - before < MOST_MEMORY


@pytest.mark.timeout(900)  # each connection is encrypted anew, which a busy machine is slow at
def test_whatever_is_sent_costs_its_sender_the_connection(
    programs: Programs, request: pytest.FixtureRequest
) -> None:
    rounds = request.config.getoption("rounds") or 5000
    chosen = random.Random(rounds)
    hub, address = programs.broker("hub")
    before = hub.process.memory_info().rss
    with Good(address), zmq.Context() as context:
        with ExitStack() as stack:
            members = [
                stack.enter_context(closing(Member(context, address, KEY, f"hostile {number}")))
                for number in range(MEMBERS)
            ]
            for _ in range(rounds // MEMBERS):
                names = chosen.choices(list(MESSAGES), k=MEMBERS)
                send_all(members, [MESSAGES[name](chosen) for name in names])
                assert hub.runs, names
        for _ in range(rounds // 10):
            name = chosen.choice(list(STREAMS))
            play_stream(address, KEY, STREAMS[name](chosen))
            assert hub.runs, name
    well(hub, before)


def test_connections_that_say_nothing_lock_nobody_out(programs: Programs) -> None:
    hub, address = programs.broker("hub", files=128)
    before = hub.process.memory_info().rss
    ab.Fabric().close()  # what a first fabric imports takes seconds
    with half_open(address, 300), nameless(address, KEY, 300):
        began = time.monotonic()
        with Good(address):
            assert time.monotonic() - began < 5
    well(hub, before)


def test_members_that_are_too_many_are_refused_aloud_and_cost_nothing(programs: Programs) -> None:
    hub, address = programs.broker("hub", files=64)
    before = hub.process.memory_info().rss
    process = hub.process
    with Good(address), ExitStack() as stack:
        context = stack.enter_context(zmq.Context())
        members = [
            stack.enter_context(closing(Member(context, address, KEY, f"m{number}", 100)))
            for number in range(60)
        ]
        deadline = time.monotonic() + PATIENCE
        while sum(member.answered() for member in members) < 20:
            assert time.monotonic() < deadline
            for member in members:
                member.ask()
            time.sleep(0.1)
        used = sum(process.cpu_times()[:2])
        time.sleep(0.5)
        assert sum(process.cpu_times()[:2]) - used < 0.35, "it spins"
        deadline = time.monotonic() + PATIENCE
        while process.num_fds() > 64 - 64 // 8:  # some who try may be there for a moment
            assert time.monotonic() < deadline
        assert sum(member.answered() for member in members) < 60
    hub.interrupt()
    code, _, said = hub.finish()
    assert code == 0 and "as many files open as it may" in said
    assert "CRITICAL" not in said and before

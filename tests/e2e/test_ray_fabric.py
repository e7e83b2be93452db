"""The fabric on a real Ray cluster of three nodes."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import psutil
import pytest
from brokers_for_tests import OnRay
from numbered_for_tests import Numbered, Trade

import activebroker as ab
from activebroker.core.errors import NotPicklable, UnknownPlace
from ray_deploy import Placement, RayFabric

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]

SUPPLIER = """
import sys
from dataclasses import dataclass
import activebroker as ab

@dataclass(frozen=True)
class Trade:
    name: str
    price: float

address, key, count = sys.argv[1:]
with ab.connect(address, key) as fabric:
    with fabric.channel("moved trades", Trade).supplier("NYSE") as nyse:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(int(count)):
            nyse.publish(Trade("IBM", float(number)))
        sys.stdin.readline()
assert "ray" not in sys.modules and "pyspark" not in sys.modules
"""


def test_a_process_outside_the_cluster_supplies_while_the_filter_moves(
    ray_fabric: RayFabric,
) -> None:
    count = 40_000
    trades = ray_fabric.channel("moved trades", Trade)
    numbered = trades.derive(Numbered, at="consumer")
    arguments = [ray_fabric.address, ray_fabric.key, str(count)]
    with (
        numbered.subscribe(timeout=60) as events,
        subprocess.Popen(
            [sys.executable, "-c", SUPPLIER, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as supplier,
    ):
        assert supplier.stdout is not None and supplier.stdin is not None
        assert supplier.stdout.readline() == "ready\n"
        supplier.stdin.write("go\n")
        supplier.stdin.flush()
        got: list[ab.Event] = []
        places = iter(["atlanta", "dallas", "supplier", "consumer"])
        for event in events:
            got.append(event)
            if len(got) % (count // 5) == 0 and (place := next(places, None)):
                numbered.move(to=place)
            if len(got) == count:
                break
        supplier.stdin.write("done\n")
        supplier.stdin.flush()
        assert supplier.wait(30) == 0
    assert [event.seq for event in got] == list(range(count))
    assert [event.content.price for event in got] == [float(n) for n in range(count)]
    assert not numbered.errors


def test_offload_to_a_broker_on_another_node(ray_fabric: RayFabric) -> None:
    trades = ray_fabric.channel("offloaded trades", Trade)
    with (
        ab.connect(ray_fabric.address, ray_fabric.key) as elsewhere,
        elsewhere.channel("offloaded trades").subscribe(timeout=30) as events,
        trades.supplier("NYSE") as nyse,
    ):
        for number in range(100):
            nyse.publish(Trade("IBM", float(number)))
        nyse.offload(to="dallas")
        for number in range(100, 200):
            nyse.publish(Trade("IBM", float(number)))
        trades.close()
        assert [event.seq for event in events] == list(range(200))


class Every(ab.FIFOFilter):
    parameters = ("rest",)

    def __init__(self) -> None:
        self.rest = 0

    def enqueue(self, event: ab.Event) -> None:
        if event.content.price % 3 == self.rest:
            super().enqueue(event)


def test_a_filter_on_another_node_is_reconfigured(ray_fabric: RayFabric) -> None:
    trades = ray_fabric.channel("reconfigured trades", Trade)
    every = trades.derive(Every, at="dallas")
    with every.subscribe(timeout=60) as events, trades.supplier("NYSE") as nyse:
        for rest in (0, 2, 1):
            every.reconfigure(rest=rest)
            nyse.publish_batch([Trade("IBM", float(price)) for price in range(6)])
            nyse.flush()
        trades.close()
        assert [event.content.price for event in events] == [0, 3, 2, 5, 1, 4]


def test_half_of_what_a_broker_does_goes_to_another_node(ray_fabric: RayFabric) -> None:
    trades = ray_fabric.channel("split trades", Trade)
    first = trades.derive(Numbered, at="atlanta", name="split first")
    second = first.derive(Numbered, at="atlanta", name="split second")
    with second.subscribe(timeout=30) as events, trades.supplier("NYSE") as nyse:
        nyse.publish_batch([Trade("IBM", 7.0)] * 1000)
        got = [event for _, event in zip(range(1000), events, strict=False)]
        assert ray_fabric.split("atlanta", to="dallas") == ["split second"]
        nyse.publish_batch([Trade("IBM", 7.0)] * 1000)
        trades.close()
        got += events
    assert [event.seq for event in got] == list(range(2000))
    assert [event.content.price for event in got] == [float(n) for n in range(2000)]


def test_brokers_are_where_they_were_asked_to_be_until_it_is_closed(ray_fabric: RayFabric) -> None:
    """Beside another fabric, that has brokers of the same names."""
    import ray

    places = {
        "atlanta": Placement(resources={"east": 0.1}),
        "dallas": Placement(labels={"side": "west"}),
        "home": Placement(node=ray.nodes()[0]["NodeID"]),
    }
    with RayFabric(brokers=places) as fabric:
        brokers = OnRay(fabric)
        here = [
            brokers.ask(name, lambda actor: __import__("ray").get_runtime_context().get_node_id())
            for name in places
        ]
        processes = [psutil.Process(brokers.pid(name)) for name in places]
        listed = [each for each in ray.util.list_named_actors() if "of fabric" in each]
        for each, names in ((fabric, set(places)), (ray_fabric, {"atlanta", "dallas"})):
            assert {n.split()[0] for n in listed if each._ray._fabric in n} >= names
    by_id = {node["NodeID"]: node for node in ray.nodes()}
    assert "east" in by_id[here[0]]["Resources"]
    assert by_id[here[1]]["Labels"]["side"] == "west"
    assert here[2] == ray.nodes()[0]["NodeID"]
    assert psutil.wait_procs(processes, timeout=30)[1] == []


def test_a_place_that_the_cluster_lacks_is_named(ray_cluster: Any) -> None:
    with pytest.raises(UnknownPlace, match="no live node 'mars'"):
        RayFabric(brokers={"a": Placement(node="mars")})
    with pytest.raises(UnknownPlace, match=r"has all of gold=1"):
        RayFabric(brokers={"a": Placement(resources={"gold": 1})})


def test_what_is_given_to_a_task_but_belongs_to_its_process(ray_fabric: RayFabric) -> None:
    import ray

    trades = ray_fabric.channel("kept trades", Trade)
    task = ray.remote(lambda given: None)
    match = f"belongs to this process.*connect\\('{re.escape(ray_fabric.address)}', key"
    with trades.supplier("NYSE") as nyse, trades.subscribe() as events:
        for kept in (ray_fabric, trades, nyse, events):
            with pytest.raises(NotPicklable, match=match):
                task.remote(kept)
            with pytest.raises(NotPicklable, match=match):
                ray.remote(lambda kept=kept: kept).remote()
            with pytest.raises(NotPicklable, match=match):
                ray.put([kept])

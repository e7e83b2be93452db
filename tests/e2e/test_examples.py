"""Every file of examples/ runs, embedded and on Ray, and does what it says."""

import asyncio
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from websockets.asyncio.client import connect

import activebroker as ab
from activebroker import aio

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    # As a module of a user's own: its classes travel by value.
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def paper_example(module: ModuleType, got: Any) -> None:
    assert got == [module.Trade("IBM", 90.0), module.Trade("HP", 120.0)]


def stateful(module: ModuleType, got: Any) -> None:
    assert got == {"Rhine": [3.0, 3.75, 4.5, 5.25], "Elbe": [2.0]}


def keyed(module: ModuleType, got: Any) -> None:
    means, late = got
    assert late == 1
    door = [("door", 60.0, 2.5), ("door", 120.0, 8.5), ("door", 180.0, 14.5)]
    roof = [("roof", until, 20.0) for until in (0.0, 60.0, 120.0, 180.0)]
    assert sorted((each.sensor, each.until, each.celsius) for each in means) == door + roof


def move(module: ModuleType, got: Any) -> None:
    assert len(got) >= 2000
    assert got == list(range(9, got[-1] + 1, 10))


def reconfigure(module: ModuleType, got: Any) -> None:
    came, dearest = got
    assert dearest == list(range(990, 1000))
    prices = [number * 7919 % 1000 for number in range(1000)]
    expected: list[int] = []
    for start in range(0, 1000, 100):
        limit = min(sorted(prices[:start])[-10:], default=-1)
        expected += [price for price in prices[start : start + 100] if price > limit]
    assert came == expected


def transform(module: ModuleType, got: Any) -> None:
    assert got == [module.Peak("north", 50.0), module.Peak("north", 230.0)]


def untyped(module: ModuleType, got: Any) -> None:
    assert got == [{"level": "alert", "text": "too hot", "where": ("hall", 3)}]


def errors(module: ModuleType, got: Any) -> None:
    forwarded, lost = got
    assert forwarded == [20.0]
    assert lost == ["ZeroDivisionError: float division by zero"]


CHECKS = [paper_example, stateful, keyed, move, reconfigure, transform, untyped, errors]
each_example = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
HOT = [108.0, 108.5, 109.0, 109.5]


@each_example
def test_embedded(check: Callable[[ModuleType, Any], None]) -> None:
    module = load(check.__name__)
    with ab.Fabric(brokers=["atlanta", "dallas"]) as fabric:
        check(module, module.run(fabric))


@pytest.mark.ray
@each_example
def test_on_ray(check: Callable[[ModuleType, Any], None], ray_fabric: Any) -> None:
    module = load(check.__name__)
    check(module, module.run(ray_fabric))


def test_a_device_joins_a_broker() -> None:
    assert load("device").main() == HOT


@pytest.mark.ray
def test_a_device_joins_brokers_on_ray(ray_fabric: Any) -> None:
    assert load("device").run(ray_fabric.address, ray_fabric.key) == HOT


@pytest.mark.spark
@pytest.mark.timeout(300)  # the first one starts Spark, slow on a busy machine
@pytest.mark.usefixtures("spark")
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_a_filter_over_history_and_live() -> None:
    batch, sql, live = load("spark_flights").main(months=1)
    assert batch == sql == 10 * live > 0


def test_a_gateway_serves_its_clients() -> None:
    got = asyncio.run(load("websocket_gateway").main())
    assert got == {"IBM": [80.0 + step for step in range(10)], "KO": [60.0 + s for s in range(10)]}


def test_a_gateway_s_clients_may_be_slow_or_go() -> None:
    module = load("websocket_gateway")

    async def main() -> None:
        async with aio.open(ab.Fabric) as fabric:
            quotes = await fabric.channel("quotes", module.Quote)
            server = await module.gateway(quotes)
            host, port = server.sockets[0].getsockname()
            one = {"name": "IBM", "price": 1.0}
            large = module.Quote("X" * 8_000, 2.0)  # more than sockets hold
            async with server, quotes.supplier("NYSE") as nyse:
                gone = await connect(f"ws://{host}:{port}/IBM")
                slow = await connect(
                    f"ws://{host}:{port}/{large.name}", max_queue=1, compression=None
                )
                quick = await connect(f"ws://{host}:{port}/IBM")
                for client in (gone, slow, quick):
                    assert "ready" in json.loads(await client.recv())
                await nyse.publish(module.Quote("IBM", 1.0))
                assert json.loads(await gone.recv()) == json.loads(await quick.recv()) == one
                await gone.close()
                # The slow one takes nothing, and holds up nobody.
                for number in range(3000):
                    await nyse.publish(large)
                    if number % 100 == 0:
                        await nyse.publish(module.Quote("IBM", 1.0))
                        assert json.loads(await quick.recv()) == one
                await quotes.close()
                came = [json.loads(message) async for message in slow]
                assert sum("price" in each for each in came) < 3000
                assert sum(each.get("missed", 1) for each in came) == 3000
                await quick.wait_closed()
                while [each for each in (await fabric.status())["channels"] if not each["closed"]]:
                    await asyncio.sleep(0.01)

    asyncio.run(main())


def test_none_is_forgotten() -> None:
    tested = {check.__name__ for check in CHECKS} | {"device", "websocket_gateway", "spark_flights"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested

"""What is given as a name, or as a place, but is none is told before anybody else gets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import activebroker as ab
from activebroker.core.errors import InvalidName


@dataclass(frozen=True)
class Trade:
    price: float


CALLS: dict[str, Callable[[ab.Fabric, ab.Channel, Any], object]] = {
    "channel": lambda fabric, trades, name: fabric.channel(name, Trade),
    "open": lambda fabric, trades, name: fabric.channel(name),
    "supplier": lambda fabric, trades, name: trades.supplier(name or [name]),
    "derive": lambda fabric, trades, name: trades.derive(len, name="" if name is None else name),
    "at": lambda fabric, trades, name: trades.derive(lambda trade: True, at=name),
    "move": lambda fabric, trades, name: trades.derive(lambda trade: True).move(to=name),
    "offload": lambda fabric, trades, name: trades.supplier().offload(to=name),
    "story": lambda fabric, trades, name: fabric.story(name),
    "brokers": lambda fabric, trades, name: ab.Fabric(brokers=[name]),
}


@pytest.fixture(scope="module")
def fabric() -> Any:
    with ab.Fabric(brokers=["atlanta"]) as fabric:
        yield fabric


@pytest.mark.parametrize("name", ["", 5, None, Trade, b"x", ["atlanta"]], ids=repr)
@pytest.mark.parametrize("call", CALLS)
def test_it_is_told(fabric: ab.Fabric, call: str, name: Any) -> None:
    trades = fabric.channel("trades", Trade)
    with pytest.raises(InvalidName, match="expected a text that is not empty, got"):
        CALLS[call](fabric, trades, name)


def test_one_broker_may_be_given_as_it_is() -> None:
    with ab.Fabric(brokers="atlanta") as fabric:
        assert {member["name"] for member in fabric.status()["members"]} == {"local", "atlanta"}


def test_who_gives_an_address_for_a_broker_wants_to_connect() -> None:
    with pytest.raises(InvalidName, match=r"use connect\('tcp://127.0.0.1:5555'\)"):
        ab.Fabric("tcp://127.0.0.1:5555")

"""What belongs to its process says so when it is to leave it, and what to pass instead."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import cloudpickle
import pytest

import activebroker as ab
from activebroker.core.errors import FilterNotPicklable, NotPicklable


@dataclass(frozen=True)
class Trade:
    price: float


@pytest.fixture(scope="module")
def things() -> Iterator[dict[str, Any]]:
    with ab.Fabric() as fabric:
        trades = fabric.channel("trades", Trade)
        yield {
            "fabric": fabric,
            "channel": trades,
            "derived": trades.derive(lambda trade: trade.price > 1),
            "supplier": trades.supplier("NYSE"),
            "subscription": trades.subscribe(),
            "balancing": fabric.balance(),
        }


@pytest.fixture(params=["fabric", "channel", "derived", "supplier", "subscription", "balancing"])
def bound(request: pytest.FixtureRequest, things: dict[str, Any]) -> Any:
    return things[request.param]


def to_process(thing: object) -> None:
    multiprocessing.get_context("spawn").Process(target=print, args=(thing,)).start()


@pytest.mark.parametrize(
    "take",
    [pickle.dumps, cloudpickle.dumps, copy.copy, copy.deepcopy, to_process],
    ids=["pickle", "cloudpickle", "copy", "deepcopy", "process"],
)
def test_it_is_named_with_what_to_do(bound: Any, take: Callable[[object], object]) -> None:
    with pytest.raises(NotPicklable, match=r"<.*> belongs to this process.*embedded fabric"):
        take(bound)


def test_so_is_what_holds_it(bound: Any) -> None:
    for holder in (lambda: bound, [bound], {"it": (bound,)}):
        with pytest.raises(NotPicklable, match="belongs to this process"):
            cloudpickle.dumps(holder)


def test_a_filter_that_holds_it_is_refused_so(fabric: ab.Fabric, bound: Any) -> None:
    with pytest.raises(FilterNotPicklable, match="belongs to this process"):
        fabric.channel("others", Trade).derive(lambda trade: bound is None)


def test_where_others_can_join_the_address_is_told(
    fabric: ab.Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fabric._membership._host, "address", "tcp://10.0.0.5:7400")
    with pytest.raises(
        NotPicklable, match=r"`activebroker\.connect\('tcp://10.0.0.5:7400', key\)`"
    ):
        pickle.dumps(fabric)

"""Where a lost filter or relay can go on, and whether it can at all."""

from __future__ import annotations

from typing import Any

import pytest
from outside_for_tests import Fabric
from picture_for_tests import Trade

from activebroker.directory.parts import SUPPLIER
from activebroker.directory.recovery import Recovery
from activebroker.protocol.specs import Checkpoint

SAVED = Checkpoint({"A": b"state"}, {"A": (1, 9)}, {"A": (1, 8)})


class Bench(Fabric):
    """The filter of x.Late is at b1."""

    def __init__(self) -> None:
        super().__init__()
        self.trade = Trade(self.graph)
        self.late = self.trade.late
        self.recovery = Recovery(self.context, self.wiring)


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize(
    ("late", "asked", "places"),
    [
        ({}, {}, ["b1", "b2", "hub", "c"]),
        ({"at": "b9"}, {}, ["b2", "b1", "hub", "c"]),  # the least laden first
        ({"owner": "b2"}, {}, ["b1", "b2", "hub", "c"]),
        ({}, {"avoid": ["b1", "c"]}, ["b2", "hub"]),
        ({}, {"died": True}, ["b1", "b2", "c"]),
        ({"owner": "hub"}, {"died": True}, ["b1", "b2", "c", "hub"]),
        ({}, {"died": True, "suspect": True}, ["b1", "b2"]),
    ],
    ids=str,
)
def test_where_a_filter_can_go_on(
    bench: Bench, late: dict[str, str], asked: dict[str, Any], places: list[str]
) -> None:
    for name, value in late.items():
        setattr(bench.late, name, value)
    assert bench.recovery.candidates(bench.late, **asked) == places


def test_who_takes_it_is_a_place_if_it_is_there(bench: Bench) -> None:
    bench.trade.subscribe(902, "a", bench.late)
    assert bench.recovery.candidates(bench.late) == ["b1", "b2", "hub", "c", "a"]
    bench.gone("b2", "c")
    assert bench.recovery.candidates(bench.late) == ["b1", "hub", "a"]


def test_a_filter_first_goes_where_another_is_beside_it(bench: Bench) -> None:
    beside = bench.trade.derive("x.Late.Late", SUPPLIER, bench.late)
    bench.trade.put(beside, "b2")
    assert bench.recovery.candidates(bench.late) == ["b2", "b1", "hub", "c"]


def test_a_relay_goes_to_its_supplier_as_a_last_resort(bench: Bench) -> None:
    bench.trade.subscribe(902, "c", bench.trade.x)
    bench.trade.connect()
    relay = bench.trade.offload("b2")
    assert bench.recovery.candidates(relay) == ["b2", "b1", "hub", "c", "a"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, ""),
        ({"fresh": False}, "there is no checkpoint of it"),
        ({"fresh": False, "checkpoint": SAVED}, ""),
        ({"stopped": True}, "it has been stopped"),
        ({"closed": True}, "it has been stopped"),
        ({"at": SUPPLIER}, "it has been lost with its supplier"),
        ({"at": SUPPLIER, "returning": True}, ""),
    ],
    ids=str,
)
def test_what_cannot_go_on_anywhere(bench: Bench, change: dict[str, object], why: str) -> None:
    for name, value in change.items():
        setattr(bench.late, name, value)
    assert bench.recovery.impossible(bench.late) == why


def test_a_relay_cannot_go_on_without_its_supplier(bench: Bench) -> None:
    relay = bench.trade.offload("b2")
    assert bench.recovery.impossible(relay) == ""
    bench.gone("a")
    assert bench.recovery.impossible(relay) == "its supplier is gone"

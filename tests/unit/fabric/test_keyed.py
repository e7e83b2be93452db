"""Keyed filters on channels: the same at every place, through moves, and in the status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from keyed_for_tests import batch, keyed, told

import activebroker as ab


@dataclass(frozen=True)
class Landed:
    route: str
    at: int
    delay: float


@dataclass(frozen=True)
class Delays:
    route: str
    until: int
    worst: float


class Worst(ab.KeyedFilter):
    """The worst delay of each route in each ten minutes, if it is bad enough."""

    key = "route"
    time = "at"
    lateness = 3
    ttl = 40
    output = Delays
    parameters = ("least",)

    def __init__(self) -> None:
        self.least = 0.0
        self.worst: dict[int, float] = {}

    def enqueue(self, event: ab.Event) -> None:
        landed = event.content
        until = landed.at // 10 * 10 + 10
        self.worst[until] = max(self.worst.get(until, 0.0), landed.delay)
        self.set_timer(until)

    def on_timer(self, time: int) -> None:
        if (worst := self.worst.pop(time)) > self.least:
            self.forward(Delays(self.key, time, worst))

    def on_expire(self) -> None:
        self.forward(Delays(self.key, -1, 0.0))


ROUTES = ("LHR", "CDG", "ÅRN", "")
LANDED = [
    Landed(ROUTES[number % (4 if number < 100 else 2)], number - number % 5, number * 7 % 31 / 1.0)
    for number in range(300)
]


def expected() -> list[Delays]:
    runner = keyed(Worst, Landed)
    return told(runner.run([batch(LANDED), "JFK"]))


@pytest.mark.parametrize("at", ["supplier", "consumer", "atlanta", "moving"])
def test_it_comes_to_the_same_at_every_place(fabric: ab.Fabric, at: str) -> None:
    landed = fabric.channel("landed", Landed)
    worst = landed.derive(Worst, at="atlanta" if at == "moving" else at)
    places = iter(("dallas", "supplier", "consumer", "atlanta"))
    with worst.subscribe() as events, landed.supplier("JFK") as jfk, landed.supplier("EWR") as ewr:
        for number, each in enumerate(LANDED):
            for supplier in (jfk, ewr):
                supplier.publish(each)
            if at == "moving" and number % 70 == 35:
                worst.move(to=next(places))
        landed.close()
        came: dict[str, list[Any]] = {"JFK": [], "EWR": []}
        for event in events:
            came[event.supplier].append(event.content)
    assert came["JFK"] == came["EWR"] == expected()
    assert {-1, 100} <= {each.until for each in came["JFK"]} and not worst.errors


def test_keys_and_late_events_are_counted(fabric: ab.Fabric) -> None:
    landed = fabric.channel("landed", Landed)
    worst = landed.derive(Worst, at="atlanta")
    with worst.subscribe() as events, landed.supplier("JFK") as jfk:
        jfk.publish_batch([*LANDED[:100], Landed("LHR", 3, 1.0), Landed("CDG", 4, 1.0)])
        jfk.publish(LANDED[130])
        for event in events:
            if event.content.until == 100:
                break
        assert worst.errors.wait(2)
        (stage,) = fabric.status()["nodes"]["atlanta"]["stages"]
        assert (stage["keys"], stage["lost_events"], stage["late_events"]) == (4, 2, 2)
        failure, _ = worst.errors
        assert "LateEvent" in failure.error and "at=3" in failure.content


def test_all_keys_get_other_parameters(fabric: ab.Fabric) -> None:
    landed = fabric.channel("landed", Landed)
    worst = landed.derive(Worst, at="atlanta")
    with worst.subscribe() as events, landed.supplier("JFK") as jfk:
        jfk.publish_batch(LANDED[:100])
        worst.reconfigure(least=29.0)
        worst.move(to="dallas")
        jfk.publish_batch(LANDED[100:])
        landed.close()
        came = [event.content for event in events]
    before = [each for each in expected() if each.until < 100]
    after = [each for each in expected() if each.until >= 100 and each.worst > 29.0]
    assert [each for each in came if each.until != -1 and each.until < 100] == [
        each for each in before if each.until != -1
    ]
    assert [each for each in came if each.until >= 100] == after != []

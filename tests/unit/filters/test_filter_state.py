"""What of a filter's state goes along to another place, and what is made anew there."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest
from running_for_tests import Trade, contents, runner, trades

import activebroker as ab
from activebroker.core.errors import FilterNotPicklable, InvalidFilter
from activebroker.events import Event
from activebroker.filters import FIFOFilter, FilterRunner

STARTED: list[str] = []


class Numbered(FIFOFilter):
    """Counts, and lets through what it has counted up to."""

    seen = 0

    def enqueue(self, event: Event) -> None:
        self.seen += 1
        if event.content.price <= self.seen:
            super().enqueue(event)


class Client:
    """It holds a lock, and what it is given."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.given: list[int] = []


def made(where: str, make: Callable[[], Any]) -> type[FIFOFilter]:
    """A filter with something of its own, made in `__init__` or in `on_start`."""

    class Made(Numbered):
        def __init__(self) -> None:
            self.tool = make() if where == "__init__" else None
            self.seen = 0

        def on_start(self) -> None:
            STARTED.append(where)
            if where == "on_start":
                self.tool = make()

        def enqueue(self, event: Event) -> None:
            assert self.tool is not None
            super().enqueue(event)

    return Made


def handed_over(filter: type[FIFOFilter], states: dict[str, bytes]) -> FilterRunner:
    there = runner(filter)
    there.restore(states)
    return there


class Connection(sqlite3.Connection):
    def __del__(self) -> None:  # the filters that have them are dropped, and Python 3.13 tells
        self.close()


TOOLS: list[Callable[[], Any]] = [
    threading.Lock,
    threading.Condition,
    threading.local,
    lambda: sqlite3.connect(":memory:", check_same_thread=False, factory=Connection),
    lambda: (number for number in range(3)),
    Client,
]


@pytest.fixture(autouse=True)
def forget() -> None:
    STARTED.clear()


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("where", ["__init__", "on_start"])
def test_what_cannot_be_pickled_is_made_anew_and_the_rest_goes_along(
    where: str, tool: Callable[[], Any]
) -> None:
    filter = made(where, tool)
    here = runner(filter)
    here.run([trades(9, 9, 9), trades(9, supplier="LSE")])
    there = handed_over(filter, here.snapshot())
    again = handed_over(filter, there.snapshot())  # and once more, before it has had an event
    result = again.run([trades(4, 9, first=3), trades(3, first=1, supplier="LSE")])
    assert not result.failures
    assert [each.price for each in contents(result)] == [4]
    assert len(STARTED) == (2 if where == "__init__" else 6), "only where there was need of it"


def test_without_such_things_on_start_runs_once() -> None:
    filter = made("__init__", list)
    here = runner(filter)
    here.run([trades(1)])
    assert contents(handed_over(filter, here.snapshot()).run([trades(2, first=1)])) != []
    assert len(STARTED) == 1


class Lazy(Numbered):
    def enqueue(self, event: Event) -> None:
        self.lock = threading.Lock()


class InContainer(Numbered):
    def on_start(self) -> None:
        self.parts = {"lock": threading.Lock(), "count": 0}

    def enqueue(self, event: Event) -> None:
        self.parts["count"] += 1  # type: ignore[operator]


@pytest.mark.parametrize(("filter", "name"), [(Lazy, "lock"), (InContainer, "parts")])
def test_what_would_be_lost_in_silence_is_told(filter: type[FIFOFilter], name: str) -> None:
    here = runner(filter)
    here.run([trades(1)])
    with pytest.raises(FilterNotPicklable, match=rf"{filter.__name__} .*: {name}: .*on_start"):
        here.snapshot()


def test_what_has_come_into_an_object_that_is_made_anew_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = runner(made("on_start", Client))
    here.run([trades(1)])
    with caplog.at_level(logging.WARNING):
        here.snapshot()
        here.snapshot()
    (told,) = caplog.messages
    assert "Made.tool" in told and "Client" in told and "made anew" in told


class OnceOnly(Numbered):
    made = 0

    def on_start(self) -> None:
        if OnceOnly.made == 0:
            self.lock = threading.Lock()
        OnceOnly.made += 1


def test_an_on_start_that_makes_something_else_is_told_and_others_go_on() -> None:
    OnceOnly.made = 0
    here = runner(OnceOnly)
    here.run([trades(9)])
    states = {**here.snapshot(), "LSE": Numbered().snapshot()}
    there = runner(OnceOnly)
    with pytest.raises(InvalidFilter, match="OnceOnly was moved without lock"):
        there.restore(states)
    assert list(there.snapshot()) == ["LSE"]


class Nine(Numbered):
    """As it is told to do: the lock is made in on_start."""

    def on_start(self) -> None:
        self.lock = threading.Lock()

    def enqueue(self, event: Event) -> None:
        with self.lock:
            super().enqueue(event)


def test_a_lock_of_on_start_moves_with_a_filter(anywhere: ab.Fabric) -> None:
    channel = anywhere.channel("trades", Trade)
    supplier = channel.supplier("A")
    derived = channel.derive(Nine, at="atlanta")
    with derived.subscribe(timeout=20) as events:
        for round, to in enumerate(["dallas", "supplier", "atlanta"]):
            for price in range(3 * round, 3 * round + 3):
                supplier.publish(Trade("IBM", price + 1.0))
            supplier.flush()
            derived.move(to)
        came = [event.content.price for _, event in zip(range(9), events, strict=False)]
    assert came == [n + 1.0 for n in range(9)]
    assert not list(derived.errors)

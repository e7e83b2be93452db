"""Changes of the fabric: one at a time, in order, past those that have to wait."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from outside_for_tests import Fabric

from activebroker.core.errors import (
    ActiveBrokerError,
    DeadlineExceeded,
    MoveFailed,
    Unreachable,
)
from activebroker.directory.context import PATIENCE, Done
from activebroker.directory.requests import Attempt, Change, RequestQueue
from activebroker.protocol.orders import ReportNode

CALL = ReportNode()


class Bench:
    """The queue, the calls that its changes make, and what came of them."""

    def __init__(self) -> None:
        self.fabric = Fabric()
        self.queue = RequestQueue(self.fabric.context)
        self.log: list[str] = []
        self.ends: dict[str, Any] = {}
        self.in_the_way: str | None = "x is still moving"

    def change(self, name: str, *nodes: str) -> Change:
        """A change that calls one node after the other."""

        def carry_out() -> Change:
            self.log.append(f"begin {name}")
            answers = []
            for node in nodes:
                self.log.append(f"call {node}")
                answers += yield [(node, CALL)]
            self.log.append(f"end {name}")
            return answers

        return carry_out()

    def submit(self, name: str, *nodes: str, waits: bool = False) -> None:
        change, obstacle = self.change(name, *nodes), lambda: self.in_the_way if waits else None
        self.queue.submit(change, self._done(name), obstacle)
        self.settle()

    def _done(self, name: str) -> Done:
        def done(result: Any, error: ActiveBrokerError | None) -> None:
            self.log.append(f"done {name}")
            self.ends[name] = result if error is None else error

        return done

    def answer(self, result: Any = None, error: ActiveBrokerError | None = None) -> None:
        self.fabric.answer(result, error)
        self.settle()

    def settle(self) -> None:
        """As the directory does after each input."""
        while self.queue.facts:
            self.queue.facts.clear()
            self.queue.go_on()

    def submit_alone(self, change: Change, name: str) -> None:
        self.queue.submit(change, self._done(name))
        self.settle()

    def happens(self, change: Change) -> None:
        self.queue.submit_first(change)
        self.settle()

    def go_on(self) -> None:
        self.queue.go_on()
        self.settle()

    def expire(self) -> None:
        self.queue.expire()
        self.settle()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_one_change_after_the_other(bench: Bench) -> None:
    bench.submit("first", "a", "c")
    bench.submit("second")
    assert bench.log == ["begin first", "call a"]
    bench.answer(1)
    bench.answer(2)
    assert bench.log[2:4] == ["call c", "end first"]
    assert bench.log[4:] == ["done first", "begin second", "end second", "done second"]
    assert bench.ends == {"first": [1, 2], "second": []}


def test_what_has_happened_goes_before_what_is_only_asked_for(bench: Bench) -> None:
    bench.submit("first", "a")
    bench.submit("second")
    bench.happens(bench.change("loss"))
    bench.answer()
    begun = [line for line in bench.log if line.startswith("begin")]
    assert begun == ["begin first", "begin loss", "begin second"]


def test_what_has_happened_since_a_change_began_comes_into_it(bench: Bench) -> None:
    def looks() -> Change:
        behind = []
        for node in "ac":
            bench.log.append(f"call {node}")
            yield [(node, CALL)]
            behind.append((yield from bench.queue.catch_up()))
        return behind

    bench.submit_alone(looks(), "first")
    bench.submit("second")
    bench.happens(bench.change("loss", "b1"))
    bench.answer()
    assert bench.log == ["call a", "begin loss", "call b1"]
    bench.answer()
    bench.answer()
    assert bench.ends == {"first": [True, False], "second": []}
    assert bench.log[3:5] == ["end loss", "call c"], "and it comes once"


def test_a_change_whose_way_is_not_clear_lets_others_pass(bench: Bench) -> None:
    bench.submit("waits", waits=True)
    bench.submit("waits too", waits=True)
    bench.submit("passes")
    assert list(bench.ends) == ["passes"]
    bench.in_the_way = None
    bench.go_on()
    assert list(bench.ends) == ["passes", "waits", "waits too"], "in the order they were asked for"


def test_an_obstacle_that_comes_while_it_waits_its_turn_counts(bench: Bench) -> None:
    bench.in_the_way = None
    bench.submit("first", "a")
    bench.submit("second", waits=True)
    bench.in_the_way = "x is still moving"
    bench.answer()
    assert list(bench.ends) == ["first"]


def test_who_has_waited_too_long_is_told_for_what(bench: Bench) -> None:
    bench.submit("waits", waits=True)
    bench.fabric.time = PATIENCE
    bench.expire()
    assert bench.ends == {}
    bench.fabric.time = PATIENCE + 1
    bench.submit("later", waits=True)
    bench.expire()
    assert list(bench.ends) == ["waits"]
    assert isinstance(bench.ends["waits"], DeadlineExceeded)
    assert str(bench.ends["waits"]) == "x is still moving, for more than 10 s."
    assert "begin waits" not in bench.log
    bench.in_the_way = None
    bench.go_on()
    assert bench.ends["later"] == []


def test_the_time_behind_others_does_not_count(bench: Bench) -> None:
    bench.submit("first", "a")
    bench.submit("second", waits=True)
    bench.fabric.time = PATIENCE + 1
    bench.expire()
    assert bench.ends == {}, "its turn has not come"
    bench.answer()
    bench.fabric.time += PATIENCE
    bench.expire()
    bench.in_the_way = None
    bench.expire()  # for a moment its way is clear, though nobody looks
    bench.in_the_way = "x is moving again"
    bench.fabric.time += 1
    bench.expire()
    assert list(bench.ends) == ["first"]


def test_behind_a_change_that_takes_long_nobody_is_refused(bench: Bench) -> None:
    bench.in_the_way = None
    bench.submit("long", "a")
    bench.submit("waits", waits=True)
    bench.fabric.time = PATIENCE + 1
    bench.expire()
    assert bench.ends == {}
    bench.answer()
    assert list(bench.ends) == ["long", "waits"]


def test_what_has_happened_never_expires(bench: Bench) -> None:
    bench.submit("first", "a")
    bench.happens(bench.change("loss"))
    bench.fabric.time = 1e9
    bench.expire()
    bench.answer()
    assert "end loss" in bench.log


def test_an_error_of_a_node_ends_the_change_when_all_have_answered(bench: Bench) -> None:
    def change() -> Change:
        yield [("a", CALL), ("b1", CALL)]

    bench.submit_alone(change(), "first")
    error = Unreachable("a is gone")
    bench.answer(error=error)
    assert bench.ends == {}
    bench.answer(1)
    assert bench.ends == {"first": error}


def test_an_attempt_has_no_answer_of_who_is_gone(bench: Bench) -> None:
    def change() -> Change:
        return (yield Attempt([("a", CALL), ("b1", CALL), ("c", CALL)]))

    bench.submit_alone(change(), "first")
    bench.answer(error=Unreachable("a is gone"))
    bench.answer(2)
    bench.answer(error=DeadlineExceeded("c did not answer"))
    assert bench.ends == {"first": [None, 2, None]}


def test_an_attempt_does_not_hide_other_errors(bench: Bench) -> None:
    def change() -> Change:
        return (yield Attempt([("a", CALL), ("b1", CALL)]))

    bench.submit_alone(change(), "first")
    bench.answer(error=Unreachable("a is gone"))
    error = MoveFailed("no")
    bench.answer(error=error)
    assert bench.ends == {"first": error}


def test_a_fault_of_the_directory_is_told_and_the_others_are_served(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Change:
        yield []
        raise KeyError("planted")

    with caplog.at_level(logging.ERROR, "activebroker.directory"):  # which a simulation hushes
        bench.submit_alone(broken(), "broken")
        bench.submit("next")
    assert type(bench.ends["broken"]) is ActiveBrokerError
    assert "planted" in str(bench.ends["broken"]) and "planted" in caplog.text
    assert bench.ends["next"] == []

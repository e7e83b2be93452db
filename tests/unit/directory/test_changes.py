"""Changes of the fabric: one at a time, in order, past those that have to wait."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from activebroker.core.errors import (
    ActiveBrokerError,
    DeadlineExceeded,
    MoveFailed,
    Unreachable,
)
from activebroker.directory.changes import PATIENCE, Attempt, Change, Changes, Done
from activebroker.directory.migration import Migration
from activebroker.protocol.messages import Body, CallBody, ReportNode

CALL = ReportNode()


class Bench:
    """Changes, the calls they make, and what came of them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Done]] = []
        self.log: list[str] = []
        self.ends: dict[str, Any] = {}
        self.time = 0.0
        self.changes = Changes(
            self._call, self._tell, self._deadline, lambda: self.time, self._late, self._late
        )
        self.in_the_way: str | None = "x is still moving"

    def _call(self, node: str, body: CallBody, patience: float, done: Done) -> None:
        self.log.append(f"call {node}")
        self.calls.append((node, done))

    def _tell(self, node: str, body: Body) -> None:
        raise NotImplementedError

    def _deadline(self, derivation: int, at: float | None) -> None:
        raise NotImplementedError

    def _late(self, migration: Migration, reason: str) -> None:
        raise NotImplementedError

    def change(self, name: str, *nodes: str) -> Change:
        """A change that calls one node after the other."""

        def carry_out() -> Change:
            self.log.append(f"begin {name}")
            answers = []
            for node in nodes:
                answers += yield [(node, CALL)]
            self.log.append(f"end {name}")
            return answers

        return carry_out()

    def submit(self, name: str, *nodes: str, waits: bool = False) -> None:
        change = self.change(name, *nodes)
        if waits:
            self.changes.submit(change, self._done(name), lambda: self.in_the_way)
        else:
            self.changes.submit(change, self._done(name))

    def _done(self, name: str) -> Done:
        def done(result: Any, error: ActiveBrokerError | None) -> None:
            self.log.append(f"done {name}")
            self.ends[name] = result if error is None else error

        return done

    def answer(self, result: Any = None, error: ActiveBrokerError | None = None) -> None:
        """Answer the oldest call."""
        _, done = self.calls.pop(0)
        done(result, error)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_one_change_after_the_other(bench: Bench) -> None:
    bench.submit("first", "a", "b")
    bench.submit("second")
    assert bench.log == ["begin first", "call a"]
    bench.answer(1)
    bench.answer(2)
    assert bench.log[2:4] == ["call b", "end first"]
    assert bench.log[4:] == ["done first", "begin second", "end second", "done second"]
    assert bench.ends == {"first": [1, 2], "second": []}


def test_what_has_happened_goes_before_what_is_only_asked_for(bench: Bench) -> None:
    bench.submit("first", "a")
    bench.submit("second")
    bench.changes.submit_first(bench.change("loss"))
    bench.answer()
    begun = [line for line in bench.log if line.startswith("begin")]
    assert begun == ["begin first", "begin loss", "begin second"]


def test_what_has_happened_since_a_change_began_comes_into_it(bench: Bench) -> None:
    def looks() -> Change:
        behind = []
        for node in "ab":
            yield [(node, CALL)]
            behind.append((yield from bench.changes.catch_up()))
        return behind

    bench.changes.submit(looks(), bench._done("first"))
    bench.submit("second")
    bench.changes.submit_first(bench.change("loss", "c"))
    bench.answer()
    assert bench.log == ["call a", "begin loss", "call c"]
    bench.answer()
    bench.answer()
    assert bench.ends == {"first": [True, False], "second": []}
    assert bench.log[3:5] == ["end loss", "call b"], "and it comes once"


def test_a_change_whose_way_is_not_clear_lets_others_pass(bench: Bench) -> None:
    bench.submit("waits", waits=True)
    bench.submit("waits too", waits=True)
    bench.submit("passes")
    assert list(bench.ends) == ["passes"]
    bench.in_the_way = None
    bench.changes.go_on()
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
    bench.time = PATIENCE
    bench.changes.expire()
    assert bench.ends == {}
    bench.time = PATIENCE + 1
    bench.submit("later", waits=True)
    bench.changes.expire()
    assert list(bench.ends) == ["waits"]
    assert isinstance(bench.ends["waits"], DeadlineExceeded)
    assert str(bench.ends["waits"]) == "x is still moving, for more than 10 s."
    assert "begin waits" not in bench.log
    bench.in_the_way = None
    bench.changes.go_on()
    assert bench.ends["later"] == []


def test_the_time_behind_others_does_not_count(bench: Bench) -> None:
    bench.submit("first", "a")
    bench.submit("second", waits=True)
    bench.time = PATIENCE + 1
    bench.changes.expire()
    assert bench.ends == {}, "its turn has not come"
    bench.answer()
    bench.time += PATIENCE
    bench.changes.expire()
    bench.in_the_way = None
    bench.changes.expire()  # for a moment its way is clear, though nobody looks
    bench.in_the_way = "x is moving again"
    bench.time += 1
    bench.changes.expire()
    assert list(bench.ends) == ["first"]


def test_behind_a_change_that_takes_long_nobody_is_refused(bench: Bench) -> None:
    bench.in_the_way = None
    bench.submit("long", "a")
    bench.submit("waits", waits=True)
    bench.time = PATIENCE + 1
    bench.changes.expire()
    assert bench.ends == {}
    bench.answer()
    assert list(bench.ends) == ["long", "waits"]


def test_what_has_happened_never_expires(bench: Bench) -> None:
    bench.submit("first", "a")
    bench.changes.submit_first(bench.change("loss"))
    bench.time = 1e9
    bench.changes.expire()
    bench.answer()
    assert "end loss" in bench.log


def test_an_error_of_a_node_ends_the_change_when_all_have_answered(bench: Bench) -> None:
    def change() -> Change:
        yield [("a", CALL), ("b", CALL)]

    bench.changes.submit(change(), bench._done("first"))
    error = Unreachable("a is gone")
    bench.answer(error=error)
    assert bench.ends == {}
    bench.answer(1)
    assert bench.ends == {"first": error}


def test_an_attempt_has_no_answer_of_who_is_gone(bench: Bench) -> None:
    def change() -> Change:
        return (yield Attempt([("a", CALL), ("b", CALL), ("c", CALL)]))

    bench.changes.submit(change(), bench._done("first"))
    bench.answer(error=Unreachable("a is gone"))
    bench.answer(2)
    bench.answer(error=DeadlineExceeded("c did not answer"))
    assert bench.ends == {"first": [None, 2, None]}


def test_an_attempt_does_not_hide_other_errors(bench: Bench) -> None:
    def change() -> Change:
        return (yield Attempt([("a", CALL), ("b", CALL)]))

    bench.changes.submit(change(), bench._done("first"))
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
        bench.changes.submit(broken(), bench._done("broken"))
        bench.submit("next")
    assert type(bench.ends["broken"]) is ActiveBrokerError
    assert "planted" in str(bench.ends["broken"]) and "planted" in caplog.text
    assert bench.ends["next"] == []

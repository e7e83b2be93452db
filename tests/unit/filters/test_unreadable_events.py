"""An event that cannot be decoded, or encoded again, is lost alone, counted and shown."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pytest
from running_for_tests import batch, contents, lost, runner, seqs

from activebroker.events import ANY, Batch, Event
from activebroker.filters import FIFOFilter

ROWS = 1009
BAD = 753


@dataclass(frozen=True)
class Reading:
    """Here only readings of sensors that are known; a few come as lists, many as Arrow."""

    sensor: int
    value: float

    def __post_init__(self) -> None:
        if self.sensor == BAD:
            raise LookupError(f"no sensor {self.sensor}")


def unchecked(sensor: int) -> Reading:
    """As a process makes it that has no such check."""
    made: Reading = object.__new__(Reading)
    made.__dict__.update(sensor=sensor, value=0.5)
    return made


def readings(count: int) -> Batch:
    return batch(*map(unchecked, range(BAD - 3, BAD - 3 + count)), cls=Reading)


class Exits:
    def __setstate__(self, state: object) -> None:
        raise SystemExit(3)

    def __init__(self) -> None:
        self.name = "exits"


class Gone:
    """Not to be found where it is unpickled."""

    def __init__(self, name: str) -> None:
        self.name = name


class All(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        super().enqueue(event)


class Stops(All):
    on_error = "stop"


class Shy:
    def __repr__(self) -> str:
        raise SystemExit(3)


def test_a_content_that_does_not_show_is_counted_too() -> None:
    def fragile(content: Any) -> bool:
        raise ValueError("no")

    (failure,) = runner(fragile, object).run([batch(Shy(), cls=object)]).failures
    assert failure.content == "<a Shy, whose repr raises SystemExit>"


@pytest.mark.parametrize("count", [10, ROWS])
def test_a_row_whose_class_refuses_it_is_lost_alone(count: int) -> None:
    result = runner(All, Reading).run([readings(count)])
    assert seqs(result) == [n for n in range(count) if n != 3]
    assert lost(result) == [("NYSE", 3)]
    (failure,) = result.failures
    assert failure.error == f"LookupError: no sensor {BAD}"
    assert failure.content == f"Reading(sensor={BAD}, value=0.5)"
    assert "__post_init__" in failure.traceback


def test_untyped_rows_are_lost_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = [1, Gone("a"), 2, Exits(), 3, Gone("b"), 4]
    came = batch(*given, cls=object)
    monkeypatch.delitem(globals(), "Gone")
    result = runner(All, object).run([came])
    assert contents(result) == [1, 2, 3, 4]
    assert lost(result) == [("NYSE", 1), ("NYSE", 3), ("NYSE", 5)]
    assert [each.content for each in result.failures][::2] == ["Gone(name='a')", "Gone(name='b')"]
    assert "SystemExit" in result.failures[1].error
    assert "pickle of" in result.failures[1].content


def test_with_the_policy_to_stop_what_came_before_it_is_forwarded() -> None:
    result = runner(Stops, Reading, stop=True).run([readings(ROWS), readings(5)])
    assert seqs(result) == [0, 1, 2]
    assert lost(result) == [("NYSE", 3)] and result.stopped


class Once:
    """Can be pickled once: it fits, and then it cannot be encoded."""

    def __init__(self) -> None:
        self.pickled = False

    def __reduce__(self) -> Any:
        if self.pickled:
            raise pickle.PicklingError("never again")
        self.pickled = True
        return Once, ()


class Replaces(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        super().enqueue(event.replace(Once() if event.content == 7 else event.content))


def test_what_a_filter_makes_and_cannot_be_encoded_is_lost_alone() -> None:
    result = runner(Replaces, object).run([batch(*range(ROWS), cls=object)])
    assert seqs(result) == [n for n in range(ROWS) if n != 7]
    assert lost(result) == [("NYSE", 7)]
    assert "never again" in result.failures[0].error


def test_what_an_error_quotes_is_shortened() -> None:
    def fragile(text: Any) -> bool:
        raise ValueError(text)

    result = runner(fragile, object).run([batch("x" * 10_000_000, cls=object)])
    (failure,) = result.failures
    assert len(failure.error) < 5_000
    assert len(failure.traceback) < 20_000
    assert len(failure.content) < 2_000


def test_the_batch_that_is_passed_on_has_the_same_rows() -> None:
    """Also where the filter forwards some of it, unchanged."""

    class Odd(FIFOFilter):
        def enqueue(self, event: Event) -> None:
            if event.content.sensor % 2 == 0:
                super().enqueue(event)

    result = runner(Odd, Reading).run([readings(ROWS)])
    (forwarded,) = result.batches
    assert forwarded.type is not ANY
    even = [n for n in range(ROWS) if (BAD - 3 + n) % 2 == 0]
    assert forwarded.seqs.tolist() == even

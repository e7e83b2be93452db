"""Of the filters at a host that died, which are blamed for its death."""

from __future__ import annotations

import pytest

from activebroker.directory.deaths import Budget, Record, acquit
from activebroker.protocol.specs import Offsets

BUDGET = Budget(by_one_event=3, in_a_minute=5)
BEGIN: Offsets = {"s": (1, 0)}
LATER: Offsets = {"s": (1, 7)}


class Host:
    """Where the filters of a test are, whenever it dies."""

    def __init__(self, *names: str) -> None:
        self.records = {name: Record() for name in names}
        self.inputs = dict.fromkeys(names, BEGIN)
        self.now = 0.0

    def dies(self, *busy: str) -> None:
        """With something to do for the filters `busy`."""
        self.now += 1.0
        for name, record in self.records.items():
            record.died("atlanta", self.now, self.inputs[name] if name in busy else {})
            record.placed = self.now
        died = [(record, self.inputs[name]) for name, record in self.records.items()]
        acquit(died, self.records.values(), BUDGET, self.now)

    def spent(self) -> list[str]:
        """Who is not to go on."""
        return [n for n, each in self.records.items() if each.spent(BUDGET, self.inputs[n], 5.0)]


def test_what_is_idle_is_not_blamed_for_what_is_beside_it() -> None:
    host = Host("busy", "idle")
    for number in range(5):
        host.inputs["busy"] = {"s": (1, number)}  # by no one event
        host.dies("busy")
    assert host.spent() == ["busy"]
    assert not host.records["idle"].times


def test_what_is_idle_is_blamed_where_all_are() -> None:
    host = Host("one", "other")
    for _ in range(5):
        host.dies()
    assert host.spent() == ["one", "other"]


@pytest.mark.parametrize("first", [0, 2])
def test_what_was_beside_the_cause_is_not_blamed_once_that_is_found(first: int) -> None:
    host = Host("good", "bad")
    for number in range(first):  # which it may well have caused as well
        host.inputs = {name: {"s": (1, number)} for name in host.inputs}
        host.dies("good", "bad")
    for number in range(3):
        host.inputs = {"good": {"s": (1, 5 + number)}, "bad": LATER}
        host.dies("good", "bad")
    assert host.spent() == ["bad"]
    assert host.records["good"].pause(host.now) == 0.0


def test_what_died_elsewhere_is_blamed_still() -> None:
    host = Host("good", "bad")
    other = Record()
    host.records["other"], host.inputs["other"] = other, BEGIN
    for number in range(3):
        host.inputs["good"] = {"s": (1, number)}
        host.dies("good", "bad")
    other.died("dallas", 3.5, BEGIN)
    acquit([(other, BEGIN)], host.records.values(), BUDGET, 3.5)
    assert other.times == [3.5] and host.spent() == ["bad"]

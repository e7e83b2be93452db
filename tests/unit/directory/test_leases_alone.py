"""A derived channel lives as long as its owner or somebody who takes it, and a while more."""

from __future__ import annotations

import pytest
from outside_for_tests import Fabric
from picture_for_tests import Trade


class Bench(Fabric):
    """x.Late is `c`'s, with a lease of 5 s, and `c` takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.trade = Trade(self.graph)
        self.late = self.trade.late
        self.late.lease = 5.0

    def nobody_holds_it(self) -> None:
        self.leases.disown("c")
        self.graph.remove_inlet(self.late, 901)
        self.leases.review()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_lease_begins_when_nobody_holds_the_channel(bench: Bench) -> None:
    bench.time = 10.0
    bench.nobody_holds_it()
    assert bench.timers == {"lease x.Late": 15.0} and bench.late.runs_out == 15.0
    assert bench.leases.has_run_out(bench.late).endswith("nobody has taken it for 5 s.")


def test_it_does_not_begin_while_somebody_does(bench: Bench) -> None:
    bench.leases.review()
    assert bench.timers == {} and bench.late.runs_out is None


def test_it_does_not_begin_anew_with_each_change(bench: Bench) -> None:
    bench.nobody_holds_it()
    bench.time = 3.0
    bench.leases.review()
    assert bench.late.runs_out == 5.0


@pytest.mark.parametrize("holder", ["owner", "subscription", "derived channel"])
def test_one_holder_is_enough(bench: Bench, holder: str) -> None:
    bench.nobody_holds_it()
    match holder:
        case "owner":
            bench.late.owned = True
        case "subscription":
            bench.trade.subscribe(902, "a", bench.late)
        case _:
            bench.trade.derive("x.Late.Late", "b2", bench.late)
    bench.leases.review()
    assert bench.timers == {} and bench.leases.has_run_out(bench.late) == ""


def test_what_is_derived_and_closed_holds_nothing(bench: Bench) -> None:
    bench.trade.derive("x.Late.Late", "b2", bench.late).closed = True
    bench.nobody_holds_it()
    assert bench.late.runs_out == 5.0


def test_a_channel_without_a_lease_lives_until_it_is_closed(bench: Bench) -> None:
    bench.late.lease = None
    bench.nobody_holds_it()
    assert bench.timers == {}


def test_a_closed_channel_has_no_lease_any_more(bench: Bench) -> None:
    bench.nobody_holds_it()
    bench.late.closed = True
    bench.leases.review()
    assert bench.timers == {}


def test_only_the_owner_disowns(bench: Bench) -> None:
    bench.leases.disown("a")
    assert bench.late.owned

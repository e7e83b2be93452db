"""Which of those at a host that died was the cause comes out by placing them apart."""

from __future__ import annotations

import pytest
from deaths_for_tests import NAME, Deaths
from picture_for_tests import ANY_TYPE

from activebroker.core.errors import DeadlineExceeded
from activebroker.directory.parts import Derived, Relay, Root
from activebroker.directory.recoveries import TOGETHER, TRIAL
from activebroker.protocol.orders import ReportSent
from activebroker.protocol.specs import Checkpoint


@pytest.fixture
def bench() -> Deaths:
    return Deaths()


def two_filters(bench: Deaths) -> Derived:
    other = bench.trade.derive("x.Other", "b1")
    bench.trade.put(other, "b1")
    bench.trade.connect()
    return other


def test_a_suspect_goes_where_no_other_is(bench: Deaths) -> None:
    other = two_filters(bench)
    bench.dies("b1", back=False)
    bench.recover(other)
    assert (bench.place(), bench.place(other)) == ("b2", "b2")
    bench.members["b1"] = bench.member("b1")
    bench.dies("b2")  # with both
    bench.recover(other)
    bench.time += 1.0
    bench.recover()
    bench.recover(other)
    assert {bench.place(), bench.place(other)} == {"b1", "b2"}


def test_others_wait_while_a_suspect_is_tried(bench: Deaths) -> None:
    other = two_filters(bench)
    bench.dies("b1", back=False)
    bench.recover(other)
    bench.dies("b2", back=False)
    bench.members["b1"] = bench.member("b1")  # the only one now
    bench.recover(other)
    bench.time += 1.0
    bench.recover()
    bench.recover(other)
    assert bench.place() == "b1" and bench.recoveries.waits("x.Other")
    bench.time += TRIAL
    bench.recover(other)
    assert bench.place(other) == "b1"


def test_who_was_tried_without_a_death_is_not_blamed_for_the_next_one(bench: Deaths) -> None:
    """It may not have got further: it waits for a subscriber that is lost, too."""
    other = two_filters(bench)
    bench.dies("b1", back=False)
    bench.recover(other)
    bench.dies("b2", back=False)
    bench.members["b1"] = bench.member("b1")  # the only one now
    bench.time += 1.0
    bench.recover()
    bench.time += TRIAL
    bench.recover(other)
    assert (bench.place(), bench.place(other)) == ("b1", "b1")
    assert bench.dies("b1") == "" and bench.recoveries._records[NAME].count == 2
    assert "quarantine: 3 processes died with it" in bench.recover(other)


def test_what_had_nothing_to_do_is_not_blamed(bench: Deaths) -> None:
    idle = two_filters(bench)
    idle.checkpoint = Checkpoint({}, {"A": (1, 100)}, {})
    bench.dies("b1", back=False)
    bench.recover(idle)
    bench.dies("b2")
    bench.members["b1"] = bench.member("b1")
    bench.recover(idle)
    assert bench.recoveries.waits(NAME) and not bench.recoveries.waits("x.Other")


@pytest.mark.parametrize(("between", "deaths"), [(0.0, 1), (TOGETHER - 1, 1), (TOGETHER + 1, 0)])
def test_a_filter_is_blamed_though_its_supplier_died_just_before(
    bench: Deaths, between: float, deaths: int
) -> None:
    bench.carry_out(bench.endings.lose("a", died=True))
    bench.time += between
    bench.gone("b1")
    bench.carry_out(bench.recoveries.died("b1"))
    assert bench.recoveries._records[NAME].count == deaths
    bench.carry_out(bench.recoveries.died("b1"))
    assert "A" not in bench.recoveries._records[NAME].stuck, "nobody can send those events again"


def test_a_source_that_does_not_tell_may_have_sent_anything(bench: Deaths) -> None:
    y = bench.graph.channels["y"] = Root("y", ANY_TYPE)
    source = bench.trade.supplier("B", "c", y)
    busy = bench.trade.derive("y.Busy", "b1", y)
    bench.trade.put(busy, "b1")
    bench.trade.connect()
    bench.replies["c", ReportSent] = {"B": (source.id, 1)}
    for node in ("b1", "b2"):
        bench.replies["a", ReportSent] = DeadlineExceeded("a did not answer")
        bench.gone(node)
        bench.carry_out(bench.recoveries.died(node))
        bench.recover()
        bench.recover(busy)
    assert bench.recoveries.waits(NAME)


def test_what_is_fed_by_a_filter_beside_it_may_have_had_to_do_what_that_had(
    bench: Deaths,
) -> None:
    below = bench.trade.derive("x.Late.Late", "b1", bench.late)
    bench.trade.put(below, "b1")
    bench.trade.connect()
    for node in ("b1", "b2"):
        bench.dies(node, back=False)
        bench.recover(below)
    assert bench.recoveries.waits("x.Late.Late")


def test_a_relay_runs_no_code_that_could_be_the_cause(bench: Deaths) -> None:
    relay: Relay = bench.trade.offload("b1")
    for node in ("b1", "b2") * 3:
        assert relay.at == node
        bench.gone(node)
        bench.carry_out(bench.recoveries.died(node))
        assert bench.recover(relay) == "" and not bench.recoveries.waits(relay.name)
        bench.members[node] = bench.member(node)

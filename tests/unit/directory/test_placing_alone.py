"""Filters at their suppliers: put beside each, and at one other place if one cannot run them."""

from __future__ import annotations

import pytest
from outside_for_tests import Fabric
from picture_for_tests import Trade

from activebroker.core.errors import DeadlineExceeded, PayloadRefused
from activebroker.directory.parts import SUPPLIER
from activebroker.protocol.messages import CallBody, PrepareMove
from activebroker.protocol.orders import AbandonInlet, Deploy, OpenFlow, ReportSent
from derivation.protocol import Prepared, Started


class Bench(Fabric):
    """x has a supplier at `a`; x.Beside is to be at its suppliers, and taken by `c`."""

    def __init__(self) -> None:
        super().__init__()
        self.trade = Trade(self.graph)
        self.beside = self.trade.derive("x.Beside", SUPPLIER)
        self.beside.owner = "b2"
        self.trade.subscribe(902, "c", self.beside)

    def connect(self) -> None:
        self.carry_out(self.placing.connect(self.trade.x))

    def places(self) -> list[str]:
        return [stage.node for stage in self.beside.stages.values()]

    def asked_for(self, kind: type[CallBody]) -> list[str]:
        return [node for node, body in self.asked if type(body) is kind]

    def refuses(self, *nodes: str) -> None:
        for node in nodes:
            self.replies[node, Deploy] = PayloadRefused(f"no numpy at {node}")


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_filter_is_put_beside_each_supplier(bench: Bench) -> None:
    bench.trade.supplier("B", "hub")
    bench.connect()
    assert bench.asked_for(Deploy) == bench.places() == ["a", "hub"]
    inputs = [flow for id in bench.beside.stages for flow in bench.graph.into(id)]
    assert [(flow.outlet.node, flow.inlet.node) for flow in inputs] == [("a", "a"), ("hub", "hub")]


def test_two_suppliers_in_one_process_share_it(bench: Bench) -> None:
    bench.trade.supplier("B", "a")
    bench.connect()
    assert bench.asked_for(Deploy) == ["a"]


def test_what_is_there_is_not_put_there_again(bench: Bench) -> None:
    bench.connect()
    bench.asked.clear()
    bench.connect()
    assert bench.asked == []


def test_what_is_derived_at_its_supplier_is_put_beside_that_first(bench: Bench) -> None:
    bench.trade.derive("x.Beside.Beside", SUPPLIER, bench.beside)
    bench.connect()
    deployed = [body.stage.channel for _, body in bench.asked if isinstance(body, Deploy)]
    assert deployed == ["x.Beside", "x.Beside.Beside"]
    flows = [body.spec for _, body in bench.asked if type(body) is OpenFlow]
    assert flows[-1].outlet == bench.trade.own.id, "subscribers are connected before they are fed"


def test_beside_a_filter_that_waits_for_a_place_nothing_is_put(bench: Bench) -> None:
    late = bench.trade.late
    below = bench.trade.derive("x.Late.Late", SUPPLIER, late)
    bench.gone("b1", "b2")
    bench.replies["a", ReportSent] = {"A": (1, 7)}
    bench.carry_out(bench.endings.lose("b1", died=True))
    assert bench.recoveries.waits("x.Late")
    bench.carry_out(bench.placing.connect(late))
    assert below.stages == {}


# --- where a supplier cannot run it -------------------------------------------------------------


def test_it_begins_where_it_was_derived(bench: Bench) -> None:
    bench.refuses("a")
    bench.connect()
    assert bench.asked_for(Deploy) == ["a", "b2"]
    assert (bench.beside.at, bench.places()) == ("consumer", ["b2"])
    assert (bench.beside.asked, bench.beside.instead) == (SUPPLIER, "no numpy at a")
    (into,) = [flow for id in bench.beside.stages for flow in bench.graph.into(id)]
    assert (into.outlet.node, into.inlet.predicate) == ("a", bench.beside.predicate)


def test_else_it_begins_at_a_broker(bench: Bench) -> None:
    bench.refuses("a", "b2")
    bench.connect()
    assert bench.asked_for(Deploy) == ["a", "b2", "b1"]
    assert bench.places() == ["b1"]


def test_else_its_channel_ends_with_what_the_first_said(bench: Bench) -> None:
    bench.refuses("a", "b1", "b2", "hub", "c")
    bench.connect()
    assert bench.asked_for(AbandonInlet) == ["c"]
    assert bench.beside.closed
    assert bench.beside.ended.endswith("Its filter can run nowhere: no numpy at a")


def test_a_place_that_does_not_answer_is_as_one_that_cannot_run_it(bench: Bench) -> None:
    bench.refuses("a")
    bench.replies["b2", Deploy] = DeadlineExceeded("no answer")
    bench.connect()
    assert bench.places() == ["b1"]


def test_a_place_that_suppliers_cannot_reach_is_none(bench: Bench) -> None:
    bench.refuses("a")
    bench.dials_out_only("a", "b2")
    bench.connect()
    assert bench.places() == ["b1"]


def test_who_is_lost_meanwhile_has_no_part_in_it(bench: Bench) -> None:
    other = bench.trade.supplier("B", "hub")

    def lost() -> PayloadRefused:
        bench.gone("a")
        bench.queue.submit_first(bench.endings.lose("a", died=True))
        return PayloadRefused("no numpy at a")

    bench.replies["a", Deploy] = lost
    bench.connect()
    assert bench.places() == ["b2"]
    inputs = [flow for id in bench.beside.stages for flow in bench.graph.into(id)]
    assert [flow.outlet for flow in inputs] == [other]


def test_where_it_runs_already_it_moves_with_its_state(bench: Bench) -> None:
    bench.connect()
    bench.refuses("c")
    bench.trade.supplier("B", "c")
    ending = bench.begin(bench.placing.connect(bench.trade.x))
    (planned,) = bench.queue.under_way()
    plan = planned.plan
    assert (plan.origins, plan.destinations) == (("a",), ("b2",))
    prepared = [node for node, body in bench.told if isinstance(body, PrepareMove)]
    assert prepared == ["a", "b2"]
    for node in prepared:
        bench.queue.move_on(plan.move, Prepared(plan.move, node))
    bench.queue.move_on(plan.move, Started(plan.move, "b2"))
    bench.go_on()
    assert ending.done and ending.error is None
    assert bench.places() == ["b2"]
    assert (bench.beside.asked, bench.beside.instead) == (SUPPLIER, "no numpy at c")

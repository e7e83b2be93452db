"""Inlets and filters are taken down: where nothing is sent, kept or left for them any more."""

from __future__ import annotations

import pytest
from outside_for_tests import Fabric
from picture_for_tests import Trade

from activebroker.core.errors import PayloadRefused, Unreachable
from activebroker.protocol.messages import Greet
from activebroker.protocol.orders import CloseFlow, Deploy, ForgetSubscriber, ReportNode, Undeploy
from activebroker.protocol.specs import Offsets

AT: Offsets = {"A": (1, 7)}


@pytest.fixture
def fabric() -> Fabric:
    return Fabric()


@pytest.fixture
def trade(fabric: Fabric) -> Trade:
    return Trade(fabric.graph)


def test_nothing_is_sent_to_or_kept_for_a_inlet_that_is_gone(fabric: Fabric, trade: Trade) -> None:
    left = trade.late.left[77] = trade.supplier("earlier place", "b2")
    flow, trade.late.subscribers["inlet 901"] = trade.out, AT
    fabric.carry_out(fabric.wiring.remove_inlet(trade.late, trade.inlet.id))
    assert fabric.asked == [
        ("b1", CloseFlow(trade.stage.id, flow.id, "inlet 901")),
        ("b2", ForgetSubscriber(left.id, "inlet 901")),
    ]
    assert (trade.late.inlets, trade.late.subscribers) == ({}, {})
    assert fabric.graph.into(trade.inlet.id) == []


def test_a_inlet_that_was_removed_before_is_no_fault(fabric: Fabric, trade: Trade) -> None:
    fabric.carry_out(fabric.wiring.remove_inlet(trade.late, 999))
    assert fabric.asked == []


def test_where_a_node_is_gone_there_is_nothing_to_take_down(fabric: Fabric) -> None:
    fabric.gone("b1")
    fabric.replies["a", ReportNode] = 1
    fabric.replies["b2", ReportNode] = Unreachable("b2 goes meanwhile")
    calls = [(node, ReportNode()) for node in ("a", "b1", "b2")]
    assert fabric.carry_out(fabric.wiring.tidy(calls)) == [1, None]
    assert fabric.asked == [("a", ReportNode()), ("b2", ReportNode())]


# --- places of filters --------------------------------------------------------------------------


def test_a_filter_that_one_node_cannot_load_starts_at_none(fabric: Fabric, trade: Trade) -> None:
    new = trade.derive("x.New", "b1")
    inlets = dict(trade.x.inlets)
    fabric.replies["b2", Deploy] = PayloadRefused("no numpy at b2")
    with pytest.raises(PayloadRefused, match="numpy"):
        fabric.carry_out(fabric.wiring.deploy(new, ["b1", "b2"], "python"))
    stages = [(node, body.stage.id) for node, body in fabric.asked if isinstance(body, Deploy)]
    assert [node for node, _ in stages] == ["b1", "b2"]
    assert fabric.asked[2:] == [(node, Undeploy(id)) for node, id in stages]
    assert (new.stages, new.outlets, trade.x.inlets) == ({}, {}, inlets)


def test_a_place_can_report_failures_to_who_derived_it(fabric: Fabric, trade: Trade) -> None:
    fabric.dials_out_only("c")
    new = trade.derive("x.New", "b2")
    fabric.carry_out(fabric.wiring.deploy(new, ["b2"], "python"))
    (stage,) = new.stages.values()
    assert fabric.told == [("c", Greet("b2"))]
    assert fabric.asked == [("b2", Deploy(new.stage_spec(stage, recovers=True)))]


def test_a_filter_is_taken_away_with_what_feeds_it(fabric: Fabric, trade: Trade) -> None:
    flow = trade.into
    fabric.carry_out(fabric.wiring.remove_stages(trade.late))
    assert fabric.asked == [
        ("a", CloseFlow(trade.own.id, flow.id, "x.Late")),
        ("b1", Undeploy(trade.stage.id, discard=True)),
    ]
    assert trade.late.stages == {} and trade.stage.id not in trade.x.inlets

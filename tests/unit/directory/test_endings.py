"""How channels and suppliers end, by a user or with their filter: what nodes are asked for that.

What is lost with a node is in `test_losing.py`.
"""

from __future__ import annotations

import pytest
from outside_for_tests import Fabric
from picture_for_tests import Trade

from activebroker.core.errors import DeadlineExceeded
from activebroker.directory.endings import CLOSED_KEPT
from activebroker.directory.parts import Derived, Outlet, Root
from activebroker.protocol.messages import CallBody
from activebroker.protocol.orders import (
    AbandonInlet,
    CloseFlow,
    CloseInlet,
    CloseOutlet,
    FinishFlow,
    ForgetSubscriber,
    ReportNode,
    ReportSent,
    Undeploy,
)
from activebroker.protocol.specs import Offsets

AT: Offsets = {"A": (1, 7)}


@pytest.fixture
def fabric() -> Fabric:
    return Fabric()


@pytest.fixture
def trade(fabric: Fabric) -> Trade:
    return Trade(fabric.graph)


def nothing_is_left_of(channel: Derived, trade: Trade) -> bool:
    graph = trade.graph
    parts = channel.stages, channel.outlets, channel.inlets, channel.subscribers, channel.left
    flows = [flow for flow in graph.flows.values() if flow.channel is channel]
    return channel.closed and not any(parts) and not flows and channel.checkpoint is None


# --- closed -------------------------------------------------------------------------------------


def test_a_channel_ends_at_its_suppliers_and_all_below_it_waits_for_that(
    fabric: Fabric, trade: Trade
) -> None:
    into, out = trade.into, trade.out
    fabric.carry_out(fabric.endings.close(trade.x))
    assert fabric.asked == [
        ("b1", CloseInlet(trade.stage.id, (into.id,))),
        ("c", CloseInlet(901, (out.id,))),
        ("a", CloseOutlet(trade.own.id, finished=True)),
    ]
    assert trade.x.closed and nothing_is_left_of(trade.late, trade)
    assert (trade.x.outlets, trade.x.inlets, fabric.graph.flows) == ({}, {}, {})


def test_a_derived_channel_ends_behind_what_its_filter_was_given(
    fabric: Fabric, trade: Trade
) -> None:
    other = trade.subscribe(902, "c", trade.x)
    trade.connect()
    into, out = trade.into, trade.out
    fabric.carry_out(fabric.endings.close(trade.late))
    assert fabric.asked == [
        ("c", CloseInlet(901, (out.id,))),
        ("b1", CloseInlet(trade.stage.id, (into.id,))),
        ("a", FinishFlow(trade.own.id, into.id, {})),
    ]
    assert nothing_is_left_of(trade.late, trade)
    assert [flow.inlet for flow in fabric.graph.flows.values()] == [other], "nobody else notices"


def test_what_is_on_its_way_to_a_relay_is_waited_for(fabric: Fabric, trade: Trade) -> None:
    relay = trade.offload("b2")
    served = relay.outlet
    assert served is not None
    into = trade.into
    fabric.replies["a", ReportSent] = AT
    fabric.carry_out(fabric.endings.close(trade.late))
    assert fabric.asked[0] == ("a", ReportSent(trade.own.id, relay.name))
    assert ("b2", FinishFlow(served.id, into.id, AT)) in fabric.asked
    assert ("a", ForgetSubscriber(trade.own.id, "x.Late")) in fabric.asked


def test_who_waits_for_a_first_supplier_waits_no_more(fabric: Fabric, trade: Trade) -> None:
    fabric.carry_out(fabric.endings.remove_supplier(trade.x, "A"))
    fabric.asked.clear()
    fabric.carry_out(fabric.endings.close(trade.x))
    assert ("b1", CloseInlet(trade.stage.id, ())) in fabric.asked


def test_what_is_left_of_an_earlier_place_ends_too(fabric: Fabric, trade: Trade) -> None:
    left = trade.late.left[77] = trade.supplier("earlier place", "b2")
    trade.late.subscribers["inlet 901"] = AT
    fabric.carry_out(fabric.endings.close(trade.late))
    assert ("b2", CloseOutlet(left.id, finished=True)) in fabric.asked
    assert nothing_is_left_of(trade.late, trade)


def test_what_has_ended_is_not_recovered(fabric: Fabric, trade: Trade) -> None:
    fabric.gone("b1", "b2")
    fabric.replies["a", ReportSent] = AT
    fabric.carry_out(fabric.endings.lose("b1", died=True))
    assert fabric.recoveries.waits("x.Late") and list(fabric.timers) == ["recover x.Late"]
    fabric.carry_out(fabric.endings.close(trade.late))
    assert not fabric.recoveries.waits("x.Late") and fabric.timers == {}


def test_a_relay_of_what_has_ended_is_not_recovered(fabric: Fabric, trade: Trade) -> None:
    relay = trade.offload("b2")
    for node in ("b1", "hub", "a"):
        fabric.replies[node, ReportNode] = DeadlineExceeded(f"{node} did not answer")
    fabric.gone("b2")
    fabric.carry_out(fabric.endings.lose("b2", died=True))
    assert list(fabric.timers) == [f"recover {relay.name}"]
    fabric.carry_out(fabric.endings.close(trade.x))
    assert fabric.timers == {} and not fabric.recoveries.waits(relay.name)
    assert fabric.graph.relays == {}


def test_of_the_last_that_were_closed_users_are_told(fabric: Fabric, trade: Trade) -> None:
    for number in range(CLOSED_KEPT):
        channel = fabric.graph.channels[f"y{number}"] = Root(f"y{number}", trade.x.type)
        fabric.carry_out(fabric.endings.close(channel))
    assert len(fabric.graph.channels) == CLOSED_KEPT + 2
    fabric.carry_out(fabric.endings.close(trade.late))
    assert list(fabric.graph.channels) == ["x", *(f"y{n}" for n in range(1, CLOSED_KEPT)), "x.Late"]


# --- suppliers ----------------------------------------------------------------------------------


def test_what_a_supplier_has_left_is_kept_until_it_is_drained(fabric: Fabric, trade: Trade) -> None:
    fabric.carry_out(fabric.endings.remove_supplier(trade.x, "A"))
    assert fabric.asked == [("a", CloseOutlet(trade.own.id, finished=False))]
    assert trade.x.outlets == {} and trade.x.left == {trade.own.id: trade.own}
    fabric.endings.drained(trade.own.id, stopped=False)
    assert trade.x.left == {}


@pytest.mark.parametrize("gone", [True, False])
def test_a_supplier_that_keeps_nothing_or_is_gone_leaves_nothing(
    fabric: Fabric, trade: Trade, gone: bool
) -> None:
    if gone:
        fabric.gone("a")
    else:
        fabric.endings.drained(trade.own.id, stopped=False)
    fabric.carry_out(fabric.endings.remove_supplier(trade.x, "A"))
    assert trade.x.left == {}


def test_a_supplier_that_there_is_none_of_is_no_fault(fabric: Fabric, trade: Trade) -> None:
    fabric.carry_out(fabric.endings.remove_supplier(trade.x, "B"))
    assert fabric.asked == [] and list(trade.x.outlets) == [trade.own.id]


def test_a_relay_stays_until_it_has_passed_on_all_of_its_supplier(
    fabric: Fabric, trade: Trade
) -> None:
    relay = trade.offload("b2")
    served = relay.outlet
    assert served is not None
    fabric.carry_out(fabric.endings.remove_supplier(trade.x, "A"))
    assert list(fabric.graph.relays) == [relay.name]
    fabric.endings.drained(served.id, stopped=False)
    assert fabric.graph.relays == {}


# --- drained ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("places", "goes_on"), [(["b1"], False), (["b1", "b2"], True)], ids=["the one", "one of two"]
)
def test_for_a_filter_that_was_stopped_nothing_is_kept(
    fabric: Fabric, trade: Trade, places: list[str], goes_on: bool
) -> None:
    for node in places[1:]:
        trade.put(trade.late, node)
    fabric.endings.drained(trade.stage.id, stopped=True)
    assert fabric.asked == [("a", ForgetSubscriber(trade.own.id, "x.Late"))]
    assert trade.late.stopped is not goes_on


@pytest.mark.parametrize(
    ("places", "told"), [(["b1"], ["a", "b1", "b2"]), (["b1", "b2"], ["a", "b1"])], ids=str
)
def test_what_was_kept_at_another_node_is_for_the_filter_there(
    fabric: Fabric, trade: Trade, places: list[str], told: list[str]
) -> None:
    for node in places[1:]:
        trade.put(trade.late, node)
    for id, node in ((77, "b1"), (78, "b2")):
        trade.x.left[id] = Outlet(id, node, f"left at {node}")
    fabric.endings.drained(trade.stage.id, stopped=True)
    assert [node for node, _ in fabric.asked] == told


def test_a_relay_that_was_stopped_goes_with_its_supplier(fabric: Fabric, trade: Trade) -> None:
    relay = trade.offload("b2")
    (stage_id,) = relay.stages
    fabric.endings.drained(stage_id, stopped=True)
    assert fabric.asked == [("a", ForgetSubscriber(trade.own.id, relay.name))]
    fabric.carry_out(fabric.endings.remove_supplier(trade.x, "A"))
    assert fabric.asked[-1] == ("b2", Undeploy(stage_id))
    assert fabric.graph.relays == {}


# --- abandoned ----------------------------------------------------------------------------------


def test_all_consumers_below_an_abandoned_filter_are_told_why(fabric: Fabric, trade: Trade) -> None:
    below = trade.derive("x.Late.Late", "b2", trade.late)
    stage = trade.put(below, "b2")
    trade.subscribe(902, "a", below)
    trade.connect()
    into = trade.into
    fabric.carry_out(fabric.endings.abandon(trade.late, "It is too late."))
    asked: set[tuple[str, CallBody]] = set(fabric.asked)
    assert asked >= {
        ("b1", Undeploy(trade.stage.id, discard=True)),
        ("b2", Undeploy(stage.id, discard=True)),
        ("a", CloseFlow(trade.own.id, into.id, "x.Late")),
        ("c", AbandonInlet(901, "It is too late.")),
        ("a", AbandonInlet(902, "It is too late.")),
        ("a", ForgetSubscriber(trade.own.id, "x.Late")),
    }
    for channel in (trade.late, below):
        assert nothing_is_left_of(channel, trade) and channel.ended == " It is too late."
    assert not trade.x.closed


def test_what_an_abandoned_filter_had_left_elsewhere_ends_too(fabric: Fabric, trade: Trade) -> None:
    left = trade.late.left[77] = trade.supplier("earlier place", "b2")
    fabric.carry_out(fabric.endings.abandon(trade.late, "It is too late."))
    assert ("b2", CloseOutlet(left.id, finished=True)) in fabric.asked

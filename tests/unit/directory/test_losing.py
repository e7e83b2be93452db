"""A node is lost: what others are asked for then, by what there was at it."""

from __future__ import annotations

import pytest
from outside_for_tests import Fabric
from picture_for_tests import HIGH, Trade

from activebroker.core.errors import PayloadRefused
from activebroker.directory.parts import SUPPLIER, Next
from activebroker.protocol.orders import (
    AbandonInlet,
    CloseFlow,
    CloseOutlet,
    Deploy,
    ForgetSubscriber,
    OpenFlow,
    ReleaseInlet,
    ReportNode,
    ReportSent,
    SetPredicate,
    Undeploy,
)
from activebroker.protocol.specs import Checkpoint


@pytest.fixture
def fabric() -> Fabric:
    return Fabric()


@pytest.fixture
def trade(fabric: Fabric) -> Trade:
    return Trade(fabric.graph)


def lose(fabric: Fabric, node: str) -> None:
    """As `Membership` does, for one that leaves in good order."""
    fabric.gone(node)
    fabric.carry_out(fabric.endings.lose(node, died=False))


def kinds(fabric: Fabric) -> list[tuple[str, type]]:
    return [(node, type(body)) for node, body in fabric.asked]


def test_of_a_node_with_nothing_nobody_hears(fabric: Fabric, trade: Trade) -> None:
    flows = dict(fabric.graph.flows)
    lose(fabric, "b2")
    assert fabric.asked == [] and fabric.graph.flows == flows


def test_with_a_supplier_its_flows_are_gone(fabric: Fabric, trade: Trade) -> None:
    out = trade.out
    lose(fabric, "a")
    assert fabric.asked == []
    assert trade.x.outlets == trade.x.left == {}
    assert list(fabric.graph.flows.values()) == [out], "the filter waits for another"


def test_with_a_subscription_its_flow_is_closed(fabric: Fabric, trade: Trade) -> None:
    out = trade.out
    lose(fabric, "c")
    assert fabric.asked == [("b1", CloseFlow(trade.stage.id, out.id, "inlet 901"))]
    assert trade.late.inlets == {}


def test_nothing_waits_until_a_lost_subscription_settles(fabric: Fabric, trade: Trade) -> None:
    left = trade.late.left[77] = trade.supplier("earlier place", "b2")
    fabric.endings.forget_subscriptions("c")
    assert fabric.asked == [
        ("b1", ForgetSubscriber(trade.stage.id, "inlet 901")),
        ("b2", ForgetSubscriber(left.id, "inlet 901")),
    ]
    assert list(trade.late.inlets) == [901], "it is taken out when its turn comes"


def test_what_a_lost_filter_wanted_is_kept(fabric: Fabric, trade: Trade) -> None:
    fabric.endings.forget_subscriptions("b1")
    assert fabric.asked == []


def test_a_lost_filter_goes_on_at_another_broker(fabric: Fabric, trade: Trade) -> None:
    lose(fabric, "b1")
    (stage,) = trade.late.stages.values()
    assert stage.node == trade.late.at == "b2"
    assert trade.late.instead == "The process at 'b1', where it ran, is gone."
    assert kinds(fabric) == [
        ("c", ReleaseInlet),
        ("b2", ReportNode),
        ("b2", Deploy),
        ("b2", OpenFlow),
        ("a", OpenFlow),
    ]


def test_what_is_derived_from_a_lost_filter_goes_on_before_it(fabric: Fabric, trade: Trade) -> None:
    below = trade.derive("x.Late.Late", "b1", trade.late)
    trade.put(below, "b1")
    trade.connect()
    lose(fabric, "b1")
    begun = [body.stage.channel for _, body in fabric.asked if isinstance(body, Deploy)]
    assert begun == ["x.Late.Late", "x.Late"], "when one starts, those whom it is for are there"


def test_a_filter_that_nobody_can_take_ends_with_the_reason(fabric: Fabric, trade: Trade) -> None:
    for node in ("b2", "hub", "c"):
        fabric.replies[node, Deploy] = PayloadRefused(f"no numpy at {node}.")
    lose(fabric, "b1")
    (why,) = [body.reason for _, body in fabric.asked if isinstance(body, AbandonInlet)]
    assert why == (
        "'b1', which ran the filter of channel 'x.Late', is gone, and it could not go on "
        "elsewhere: no numpy at b2; no numpy at hub; no numpy at c. "
        "Repair its filter, if it is the cause, and derive the channel again."
    )
    assert trade.late.closed


def test_a_filter_goes_on_if_what_it_had_left_elsewhere_is_lost(
    fabric: Fabric, trade: Trade
) -> None:
    trade.late.left[77] = trade.supplier("earlier place", "b2")
    trade.late.checkpoint = Checkpoint({}, {}, {})
    old = trade.stage.id
    lose(fabric, "b2")
    (stage,) = trade.late.stages.values()
    assert (stage.node, trade.late.left) == ("b1", {})
    assert ("b1", Undeploy(old, discard=True)) in fabric.asked, "it makes that again"


def test_a_filter_at_its_suppliers_is_lost_with_one_of_them(fabric: Fabric) -> None:
    trade = Trade(fabric.graph)
    late = trade.derive("x.Beside", SUPPLIER)
    trade.supplier("B", "b2")
    lost, _ = trade.put(late, "a"), trade.put(late, "b2")
    trade.subscribe(902, "c", late)
    trade.connect()
    lose(fabric, "a")
    assert [stage.node for stage in late.stages.values()] == ["b2"]
    assert fabric.asked == [("c", ReleaseInlet(902, (lost.id,)))]


def test_a_lost_relay_goes_on_at_another_broker(fabric: Fabric, trade: Trade) -> None:
    relay = trade.offload("b2")
    lose(fabric, "b2")
    assert relay.at == "b1" and fabric.graph.relays == {relay.name: relay}
    assert [node for node, kind in kinds(fabric) if kind is Deploy] == ["b1"]


def test_a_relay_that_nobody_can_take_ends_with_its_supplier(fabric: Fabric, trade: Trade) -> None:
    relay = trade.offload("b2")
    for node in ("b1", "hub", "c", "a"):
        fabric.replies[node, Deploy] = PayloadRefused("never")
    lose(fabric, "b2")
    assert fabric.asked[-2:] == [
        ("a", CloseOutlet(trade.own.id, finished=False)),
        ("a", ForgetSubscriber(trade.own.id, relay.name)),
    ]
    assert (trade.x.outlets, fabric.graph.relays) == ({}, {})


def test_a_relay_that_has_lost_its_supplier_is_left_with_what_is_on_its_way(
    fabric: Fabric, trade: Trade
) -> None:
    relay = trade.offload("b2")
    served = relay.outlet
    assert served is not None
    lose(fabric, "a")
    assert fabric.asked == [("b2", ForgetSubscriber(served.id, "x.Late"))], (
        "it cannot be sent again"
    )
    assert fabric.graph.relays == {relay.name: relay}


def test_whom_a_stopped_relay_served_end_when_it_is_lost(fabric: Fabric, trade: Trade) -> None:
    trade.subscribe(902, "c", trade.x)
    trade.connect()
    relay = trade.offload("b2")
    relay.stopped = True
    lose(fabric, "b2")
    ended = [(node, body.inlet) for node, body in fabric.asked if isinstance(body, AbandonInlet)]
    assert ended == [("c", 901), ("c", 902)]
    assert trade.late.closed and trade.x.inlets == {} and fabric.graph.relays == {}
    assert list(trade.x.outlets) == [trade.own.id], "the supplier goes on for others"


def test_who_dies_is_remembered_with_what_it_had_to_do(fabric: Fabric, trade: Trade) -> None:
    fabric.gone("b1")
    fabric.replies["a", ReportSent] = {"A": (1, 7)}
    fabric.carry_out(fabric.endings.lose("b1", died=True))
    assert fabric.asked[0] == ("a", ReportSent(trade.own.id, "x.Late"))


def test_what_a_filter_is_sent_is_narrowed_if_it_is_lost_while_it_changes(
    fabric: Fabric, trade: Trade
) -> None:

    trade.late.next = Next(5, trade.late.envelope)
    lose(fabric, "b1")
    assert trade.late.next is None, "it goes on as the checkpoint has it"
    assert fabric.asked[-1] == ("a", SetPredicate(trade.own.id, "x.Late", HIGH))


def test_what_a_supplier_had_left_at_a_lost_node_is_lost(fabric: Fabric, trade: Trade) -> None:
    trade.x.left[77] = trade.supplier("B", "b2")
    del trade.x.outlets[trade.x.left[77].id]
    lose(fabric, "b2")
    assert trade.x.left == {} and fabric.asked == []


# --- later --------------------------------------------------------------------------------------


def test_what_waits_for_a_place_is_looked_after_once_more(fabric: Fabric, trade: Trade) -> None:
    fabric.gone("b1", "b2")
    fabric.replies["a", ReportSent] = {"A": (1, 7)}
    fabric.carry_out(fabric.endings.lose("b1", died=True))
    assert list(fabric.timers) == ["recover x.Late"]
    fabric.members["b2"] = fabric.member("b2")
    fabric.carry_out(fabric.endings.go_on("x.Late"))
    assert [stage.node for stage in trade.late.stages.values()] == ["b2"]


@pytest.mark.parametrize("name", ["x.Late", "x", "gone"])
def test_what_does_not_wait_is_left_alone(fabric: Fabric, trade: Trade, name: str) -> None:
    fabric.carry_out(fabric.endings.go_on(name))
    assert fabric.asked == []

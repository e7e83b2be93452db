"""What nodes are told for the picture of the fabric to hold."""

from __future__ import annotations

import pytest
from outside_for_tests import Fabric
from picture_for_tests import HIGH, LOW, Trade, envelope

from activebroker.core.errors import DeadlineExceeded, PayloadRefused, Unreachable
from activebroker.directory.parts import Next
from activebroker.matching import union
from activebroker.protocol.messages import (
    CloseFlow,
    Deploy,
    ExpectFlow,
    ForgetTaker,
    Greet,
    OpenFlow,
    ReportNode,
    SetPredicate,
    Undeploy,
)
from activebroker.protocol.specs import Positions

AT: Positions = {"A": (1, 7)}


@pytest.fixture
def fabric() -> Fabric:
    return Fabric()


@pytest.fixture
def trade(fabric: Fabric) -> Trade:
    return Trade(fabric.graph)


# --- flows --------------------------------------------------------------------------------------


def test_a_source_opens_a_flow_of_which_the_port_has_notice(fabric: Fabric, trade: Trade) -> None:
    port = trade.subscribe(902, "c", trade.x)
    fabric.carry_out(fabric.wiring.connect(trade.x))
    (flow,) = fabric.graph.into(port.id)
    assert fabric.asked == [("a", OpenFlow(flow.spec()))]
    assert fabric.told == [("c", ExpectFlow(flow.spec(), recovers=False))]


def test_a_port_expects_that_a_filter_goes_on_elsewhere(fabric: Fabric, trade: Trade) -> None:
    port = trade.subscribe(902, "c", trade.late)
    fabric.carry_out(fabric.wiring.connect(trade.late))
    (flow,) = fabric.graph.into(port.id)
    assert fabric.asked == [("b1", OpenFlow(flow.spec()))]
    assert fabric.told == [("c", ExpectFlow(flow.spec(), recovers=True))]


def test_what_does_not_cross_is_not_to_be_expected(fabric: Fabric, trade: Trade) -> None:
    trade.subscribe(902, "a", trade.x)
    fabric.carry_out(fabric.wiring.connect(trade.x))
    assert [node for node, _ in fabric.asked] == ["a"]
    assert fabric.told == []


def test_what_flows_is_not_opened_twice(fabric: Fabric, trade: Trade) -> None:
    fabric.carry_out(fabric.wiring.connect(trade.x))
    assert fabric.asked == []


def test_the_picture_has_where_a_taker_began(fabric: Fabric, trade: Trade) -> None:
    trade.subscribe(902, "c", trade.x)
    fabric.replies["a", OpenFlow] = AT
    fabric.carry_out(fabric.wiring.connect(trade.x))
    assert trade.x.takers == {"port 902": AT}


def test_a_source_that_is_lost_meanwhile_is_no_fault_of_the_taker(
    fabric: Fabric, trade: Trade
) -> None:
    port = trade.subscribe(902, "c", trade.x)
    fabric.replies["a", OpenFlow] = Unreachable("a is gone")
    fabric.carry_out(fabric.wiring.connect(trade.x))
    assert len(fabric.graph.into(port.id)) == 1, "it goes with its supplier"


def test_two_that_dial_out_only_are_not_connected(fabric: Fabric, trade: Trade) -> None:
    fabric.dials_out_only("a", "c")
    port = trade.subscribe(902, "c", trade.x)
    with pytest.raises(Unreachable, match="put a filter at a broker between"):
        fabric.carry_out(fabric.wiring.connect(trade.x))
    assert fabric.asked == [] and fabric.graph.into(port.id) == []


@pytest.mark.parametrize("pair", [("a", "b1"), ("b1", "a"), ("a", "a"), ("a", "gone")])
def test_who_is_beside_a_broker_dialling_out_is_enough(
    fabric: Fabric, pair: tuple[str, str]
) -> None:
    fabric.dials_out_only("a", "c")
    fabric.wiring.check([pair])


def test_who_cannot_be_dialled_dials(fabric: Fabric) -> None:
    fabric.dials_out_only("c")
    fabric.wiring.greet([("b1", "c"), ("c", "b1"), ("c", "c"), ("b1", "gone")])
    assert fabric.told == [("c", Greet("b1"))]


def test_there_is_nothing_to_expect_where_one_is_gone(fabric: Fabric, trade: Trade) -> None:
    fabric.gone("b1")
    fabric.wiring.expect([trade.into, trade.out])
    assert fabric.told == []


# --- what is wanted -----------------------------------------------------------------------------


def test_a_relay_is_sent_what_its_takers_want_together(fabric: Fabric, trade: Trade) -> None:
    relay = trade.offload("b2")
    port = trade.subscribe(902, "c", trade.x, LOW)
    fabric.replies["a", SetPredicate] = AT
    fabric.carry_out(fabric.wiring.connect(trade.x))
    (flow,) = fabric.graph.into(port.id)
    assert fabric.asked == [
        ("a", SetPredicate(trade.own.id, relay.name, union([HIGH, LOW]))),
        ("b2", OpenFlow(flow.spec(since=AT))),  # before that there were holes
    ]
    fabric.asked.clear()
    fabric.carry_out(fabric.wiring.remove_port(trade.x, port.id))
    assert ("a", SetPredicate(trade.own.id, relay.name, HIGH)) in fabric.asked


def test_a_relay_whose_takers_want_the_same_is_left_alone(fabric: Fabric, trade: Trade) -> None:
    trade.offload("b2")
    fabric.carry_out(fabric.wiring.feed_relays(trade.x))
    assert fabric.asked == []


def test_a_filter_is_sent_more_from_the_positions_that_its_sources_tell(
    fabric: Fabric, trade: Trade
) -> None:
    other = trade.supplier("B", "c")
    trade.connect()
    fabric.replies |= {("a", SetPredicate): AT, ("c", SetPredicate): {"B": (2, 0)}}
    widened = fabric.carry_out(fabric.wiring.want(trade.late, None, certain=False))
    assert fabric.asked == [
        ("a", SetPredicate(trade.own.id, "x.Late", None, False)),
        ("c", SetPredicate(other.id, "x.Late", None, False)),
    ]
    assert widened == {trade.own.id: AT, other.id: {"B": (2, 0)}}
    assert [(p.predicate, p.certain) for p in fabric.graph.inlets(trade.late)] == [(None, False)]


@pytest.mark.parametrize("gone", [False, True])
def test_it_is_not_known_what_is_sent_by_who_does_not_tell(
    fabric: Fabric, trade: Trade, gone: bool
) -> None:
    fabric.replies["a", SetPredicate] = DeadlineExceeded("a did not answer")
    if gone:
        fabric.gone("a")
    assert fabric.carry_out(fabric.wiring.want(trade.late, None)) is None


def test_what_a_filter_is_sent_is_narrowed_to_its_envelope(fabric: Fabric, trade: Trade) -> None:
    fabric.carry_out(fabric.wiring.narrow(trade.late))
    assert fabric.asked == [("a", SetPredicate(trade.own.id, "x.Late", HIGH))]


@pytest.mark.parametrize("over", [True, False])
def test_it_is_not_narrowed_when_it_is_over_nor_while_it_changes(
    fabric: Fabric, trade: Trade, over: bool
) -> None:
    if over:
        trade.late.closed = True
    else:
        trade.late.next = Next(1, envelope(LOW))
    fabric.carry_out(fabric.wiring.narrow(trade.late))
    assert fabric.asked == []


# --- taken down ---------------------------------------------------------------------------------


def test_nothing_is_sent_to_or_kept_for_a_port_that_is_gone(fabric: Fabric, trade: Trade) -> None:
    left = trade.late.left[77] = trade.supplier("earlier place", "b2")
    flow, trade.late.takers["port 901"] = trade.out, AT
    fabric.carry_out(fabric.wiring.remove_port(trade.late, trade.port.id))
    assert fabric.asked == [
        ("b1", CloseFlow(trade.stage.id, flow.id, "port 901")),
        ("b2", ForgetTaker(left.id, "port 901")),
    ]
    assert (trade.late.ports, trade.late.takers) == ({}, {})
    assert fabric.graph.into(trade.port.id) == []


def test_a_port_that_was_removed_before_is_no_fault(fabric: Fabric, trade: Trade) -> None:
    fabric.carry_out(fabric.wiring.remove_port(trade.late, 999))
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
    ports = dict(trade.x.ports)
    fabric.replies["b2", Deploy] = PayloadRefused("no numpy at b2")
    with pytest.raises(PayloadRefused, match="numpy"):
        fabric.carry_out(fabric.wiring.deploy(new, ["b1", "b2"], "python"))
    stages = [(node, body.stage.id) for node, body in fabric.asked if isinstance(body, Deploy)]
    assert [node for node, _ in stages] == ["b1", "b2"]
    assert fabric.asked[2:] == [(node, Undeploy(id)) for node, id in stages]
    assert (new.stages, new.outlets, trade.x.ports) == ({}, {}, ports)


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
    assert trade.late.stages == {} and trade.stage.id not in trade.x.ports

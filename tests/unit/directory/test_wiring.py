"""What nodes are told for the picture of the fabric to hold."""

from __future__ import annotations

import pytest
from outside_for_tests import Fabric
from picture_for_tests import HIGH, LOW, Trade, envelope

from activebroker.core.errors import DeadlineExceeded, Unreachable
from activebroker.directory.parts import Next
from activebroker.matching import union
from activebroker.protocol.messages import ExpectFlow, Greet
from activebroker.protocol.orders import OpenFlow, SetPredicate
from activebroker.protocol.specs import Offsets

AT: Offsets = {"A": (1, 7)}


@pytest.fixture
def fabric() -> Fabric:
    return Fabric()


@pytest.fixture
def trade(fabric: Fabric) -> Trade:
    return Trade(fabric.graph)


# --- flows --------------------------------------------------------------------------------------


def test_a_source_opens_a_flow_of_which_the_inlet_has_notice(fabric: Fabric, trade: Trade) -> None:
    inlet = trade.subscribe(902, "c", trade.x)
    fabric.carry_out(fabric.wiring.connect(trade.x))
    (flow,) = fabric.graph.into(inlet.id)
    assert fabric.asked == [("a", OpenFlow(flow.spec()))]
    assert fabric.told == [("c", ExpectFlow(flow.spec(), recovers=False))]


def test_a_inlet_expects_that_a_filter_goes_on_elsewhere(fabric: Fabric, trade: Trade) -> None:
    inlet = trade.subscribe(902, "c", trade.late)
    fabric.carry_out(fabric.wiring.connect(trade.late))
    (flow,) = fabric.graph.into(inlet.id)
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


def test_the_picture_has_where_a_subscriber_began(fabric: Fabric, trade: Trade) -> None:
    trade.subscribe(902, "c", trade.x)
    fabric.replies["a", OpenFlow] = AT
    fabric.carry_out(fabric.wiring.connect(trade.x))
    assert trade.x.subscribers == {"inlet 902": AT}


def test_a_source_that_is_lost_meanwhile_is_no_fault_of_the_subscriber(
    fabric: Fabric, trade: Trade
) -> None:
    inlet = trade.subscribe(902, "c", trade.x)
    fabric.replies["a", OpenFlow] = Unreachable("a is gone")
    fabric.carry_out(fabric.wiring.connect(trade.x))
    assert len(fabric.graph.into(inlet.id)) == 1, "it goes with its supplier"


def test_two_that_dial_out_only_are_not_connected(fabric: Fabric, trade: Trade) -> None:
    fabric.dials_out_only("a", "c")
    inlet = trade.subscribe(902, "c", trade.x)
    with pytest.raises(Unreachable, match="put a filter at a broker between"):
        fabric.carry_out(fabric.wiring.connect(trade.x))
    assert fabric.asked == [] and fabric.graph.into(inlet.id) == []


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


def test_a_relay_is_sent_what_its_subscribers_want_together(fabric: Fabric, trade: Trade) -> None:
    relay = trade.offload("b2")
    inlet = trade.subscribe(902, "c", trade.x, LOW)
    fabric.replies["a", SetPredicate] = AT
    fabric.carry_out(fabric.wiring.connect(trade.x))
    (flow,) = fabric.graph.into(inlet.id)
    assert fabric.asked == [
        ("a", SetPredicate(trade.own.id, relay.name, union([HIGH, LOW]))),
        ("b2", OpenFlow(flow.spec(since=AT))),  # before that there were holes
    ]
    assert fabric.told == [("c", ExpectFlow(flow.spec(), recovers=True))]
    fabric.asked.clear()
    fabric.carry_out(fabric.wiring.remove_inlet(trade.x, inlet.id))
    assert ("a", SetPredicate(trade.own.id, relay.name, HIGH)) in fabric.asked


def test_a_relay_whose_subscribers_want_the_same_is_left_alone(
    fabric: Fabric, trade: Trade
) -> None:
    trade.offload("b2")
    fabric.carry_out(fabric.wiring.feed_relays(trade.x))
    assert fabric.asked == []


@pytest.mark.parametrize("why", ["silent", "gone", "left"])
def test_a_relay_without_its_supplier_is_sent_what_it_was(
    fabric: Fabric, trade: Trade, why: str
) -> None:
    trade.subscribe(902, "c", trade.x, LOW)
    trade.connect()
    relay = trade.offload("b2")
    relay.since = AT
    fabric.replies["a", SetPredicate] = DeadlineExceeded("a did not answer")
    if why == "gone":
        fabric.gone("a")
    elif why == "left":
        del trade.x.outlets[trade.own.id]
    fabric.carry_out(fabric.wiring.remove_inlet(trade.x, 902))
    asked = [node for node, body in fabric.asked if isinstance(body, SetPredicate)]
    assert asked == (["a"] if why == "silent" else []) and relay.since == AT


def test_a_filter_is_sent_more_from_the_offsets_that_its_sources_tell(
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
    assert [(p.predicate, p.certain) for p in fabric.graph.feeding_inlets(trade.late)] == [
        (None, False)
    ]


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

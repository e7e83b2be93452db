"""Moves and offloads that are refused, and why; and those for which there is nothing to do."""

from __future__ import annotations

import pytest
from outside_for_tests import Fabric
from picture_for_tests import Trade, envelope

from activebroker.core.errors import (
    ActiveBrokerError,
    Closed,
    InvalidFilter,
    MoveFailed,
    UnknownChannel,
    UnknownPlace,
    Unreachable,
)
from activebroker.directory.parts import SUPPLIER
from activebroker.protocol.orders import ReportNode
from activebroker.protocol.requests import Move, Offload

PATIENCE = 5.0


@pytest.fixture
def fabric() -> Fabric:
    return Fabric()


@pytest.fixture
def trade(fabric: Fabric) -> Trade:
    return Trade(fabric.graph)


def ask(fabric: Fabric, body: Move | Offload) -> None:
    parts = fabric.moves
    fabric.carry_out(parts.move(body) if isinstance(body, Move) else parts.offload(body))


def move(to: str = "b2", channel: str = "x.Late", node: str = "c") -> Move:
    return Move(channel, to, node, PATIENCE)


def offload(to: str = "b2", supplier: str = "A", *consumers: str, channel: str = "x") -> Offload:
    return Offload(channel, supplier, to, PATIENCE, consumers or None)


# --- refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (move(channel="z"), UnknownChannel, "no channel 'z'"),
        (move(channel="x"), InvalidFilter, r"use supplier\.offload"),
        (move("b3"), UnknownPlace, "no broker 'b3'"),
        (move("a"), UnknownPlace, "no broker 'a'"),
        (offload(channel="z"), UnknownChannel, "no channel 'z'"),
        (offload("b3"), UnknownPlace, "no broker 'b3'"),
        (offload("b2", "B"), UnknownPlace, "no supplier 'B'"),
        (offload("b2", "A", "c"), UnknownPlace, r"'c' is none of them\. It serves: 'b1'"),
        (Offload("x", "A", "b2", PATIENCE, ()), UnknownPlace, "none was named"),
    ],
)
def test_what_is_refused_goes_out_to_nobody(
    fabric: Fabric, trade: Trade, body: Move | Offload, error: type[ActiveBrokerError], text: str
) -> None:
    flows = dict(fabric.graph.flows)
    with pytest.raises(error, match=text):
        ask(fabric, body)
    assert (fabric.told, fabric.asked, fabric.graph.flows) == ([], [], flows)


def test_a_closed_channel_does_not_move(fabric: Fabric, trade: Trade) -> None:
    fabric.carry_out(fabric.endings.close(trade.late))
    with pytest.raises(Closed, match=r"'x\.Late' was closed"):
        ask(fabric, move("b2"))


def test_one_instance_for_all_suppliers_cannot_be_at_each(fabric: Fabric, trade: Trade) -> None:
    trade.late.envelope = envelope(shared=True)
    with pytest.raises(InvalidFilter, match=r"is shared"):
        ask(fabric, move(SUPPLIER))


def test_without_suppliers_there_is_no_such_place(fabric: Fabric, trade: Trade) -> None:
    fabric.carry_out(fabric.endings.remove_supplier(trade.x, "A"))
    with pytest.raises(UnknownPlace, match=r"has no supplier now"):
        ask(fabric, move(SUPPLIER))


def test_what_was_handed_over_cannot_come_back_to_the_supplier(
    fabric: Fabric, trade: Trade
) -> None:
    trade.offload("b2")
    with pytest.raises(MoveFailed, match=r"has handed it over to 'b2'"):
        ask(fabric, move(SUPPLIER))


def test_what_is_beside_a_filter_moves_before_it(fabric: Fabric, trade: Trade) -> None:
    below = trade.derive("x.Late.Late", SUPPLIER, trade.late)
    trade.put(below, "b1")
    with pytest.raises(MoveFailed, match=r"move 'x\.Late\.Late' first"):
        ask(fabric, move("b2"))


def test_a_fan_out_is_handed_over_once(fabric: Fabric, trade: Trade) -> None:
    trade.offload("b2")
    with pytest.raises(MoveFailed, match=r"to 'b2' already"):
        ask(fabric, offload("b1"))


def test_two_that_dial_out_only_cannot_meet(fabric: Fabric, trade: Trade) -> None:
    fabric.dials_out_only("b2", "c")
    with pytest.raises(Unreachable, match=r"neither reaches the other"):
        ask(fabric, move("b2"))
    fabric.dials_out_only("a")
    with pytest.raises(Unreachable, match=r"neither reaches the other"):
        ask(fabric, offload("b2"))
    assert fabric.told == [] and fabric.queue.under_way() == []


# --- nothing to do ------------------------------------------------------------------------------


def test_a_move_to_where_it_is_asks_only_whether_that_answers(fabric: Fabric, trade: Trade) -> None:
    ask(fabric, move("b1"))
    assert (fabric.asked, fabric.told, trade.late.at) == ([("b1", ReportNode())], [], "b1")
    fabric.replies["b1", ReportNode] = lambda: fabric.gone("b1")
    with pytest.raises(MoveFailed, match=r"was at 'b1' already, which does not answer"):
        ask(fabric, move("b1"))


def test_a_place_may_have_another_name(fabric: Fabric, trade: Trade) -> None:
    trade.late.owner = "b1"
    ask(fabric, move("consumer", node="b1"))
    assert (fabric.told, trade.late.at, trade.late.asked) == ([], "consumer", "consumer")


def test_an_offload_to_the_supplier_itself_asks_nobody(fabric: Fabric, trade: Trade) -> None:
    fabric.members["a"] = fabric.member("b1")  # a broker that supplies
    ask(fabric, offload("a"))
    assert fabric.told == [] and fabric.graph.relays == {}

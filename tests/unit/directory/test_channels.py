"""What users ask for of channels: what is refused, and what is asked of nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from outside_for_tests import Fabric
from picture_for_tests import Trade, envelope

from activebroker.core.errors import (
    ActiveBrokerError,
    ChannelTypeConflict,
    Closed,
    DeadlineExceeded,
    InvalidFilter,
    NameTaken,
    UnknownChannel,
    UnknownPlace,
    Unreachable,
)
from activebroker.directory.parts import SUPPLIER, Root
from activebroker.directory.requests import Change
from activebroker.events import EventType, describe
from activebroker.protocol.orders import CloseOutlet, OpenFlow, OpenOutlet
from activebroker.protocol.requests import (
    ChangeRequest,
    CloseChannel,
    CloseSupplier,
    Derive,
    OpenChannel,
    OpenSupplier,
    Subscribe,
    Unsubscribe,
)


@dataclass(frozen=True)
class Item:
    n: int


ITEM = describe(EventType.of(Item))


class Bench(Fabric):
    """x.Late is `c`'s, and `c` takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.trade = Trade(self.graph)
        self.late = self.trade.late

    def ask(self, body: ChangeRequest) -> object:
        change: dict[type, Callable[[Any], Change]] = {
            OpenChannel: self.channels.open,
            CloseChannel: self.channels.close,
            OpenSupplier: self.channels.open_supplier,
            CloseSupplier: self.channels.close_supplier,
            Subscribe: self.channels.subscribe,
            Unsubscribe: self.channels.unsubscribe,
            Derive: self.channels.derive,
        }
        return self.carry_out(change[type(body)](body))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def derive(
    channel: str = "x",
    name: str | None = None,
    at: str = "b1",
    node: str = "c",
    shared: bool = False,
) -> Derive:
    return Derive(channel, name, envelope(shared=shared), at, node)


# --- refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (OpenChannel("z", None), UnknownChannel, "Give an event type to create it"),
        (OpenChannel("x", ITEM), ChannelTypeConflict, "another channel name"),
        (CloseChannel("z"), UnknownChannel, "Known: 'x', 'x.Late'"),
        (Subscribe("x.Lade", "c", 902), UnknownChannel, "Did you mean 'x.Late'"),
        (OpenSupplier("z", "A", "a"), UnknownChannel, "no channel 'z'"),
        (OpenSupplier("x", "A", "c"), NameTaken, "in the living process 'a'"),
        (OpenSupplier("x.Late", "A", "c"), InvalidFilter, "it takes no suppliers"),
        (derive("z"), UnknownChannel, "no channel 'z'"),
        (derive(at="b3"), UnknownPlace, "no broker 'b3'"),
        (derive(at="a"), UnknownPlace, "no broker 'a'"),
        (derive(at=SUPPLIER, shared=True), InvalidFilter, "cannot run at 'supplier'"),
        (derive(name="x"), NameTaken, "choose another name"),
        (derive(name="x.Late", node="a"), NameTaken, "choose another name"),
        (derive(name="x.Late", node="c"), NameTaken, "choose another name"),
    ],
)
def test_what_is_refused_asks_nothing_and_changes_nothing(
    bench: Bench, body: ChangeRequest, error: type[ActiveBrokerError], text: str
) -> None:
    flows, names = dict(bench.graph.flows), list(bench.graph.channels)
    with pytest.raises(error, match=text):
        bench.ask(body)
    assert bench.asked == []
    assert (bench.graph.flows, list(bench.graph.channels)) == (flows, names)


@pytest.mark.parametrize(
    "body",
    [
        OpenChannel("x.Late", None),
        CloseChannel("x.Late"),
        Subscribe("x.Late", "c", 902),
        derive("x.Late"),
    ],
)
def test_of_what_is_closed_users_are_told_why(bench: Bench, body: ChangeRequest) -> None:
    bench.carry_out(bench.endings.abandon(bench.late, "Its filter was lost."))
    with pytest.raises(Closed, match=r"'x\.Late' was closed\. Its filter was lost\."):
        bench.ask(body)


@pytest.mark.parametrize("body", [CloseSupplier("z", "A"), Unsubscribe("z", 901)])
def test_what_is_given_up_of_a_channel_that_is_gone_is_no_fault(
    bench: Bench, body: ChangeRequest
) -> None:
    bench.ask(body)
    assert bench.asked == []


# --- opened -------------------------------------------------------------------------------------


def test_a_closed_channel_is_opened_anew_with_an_event_type(bench: Bench) -> None:
    bench.ask(CloseChannel("x"))
    bench.ask(OpenChannel("x", ITEM))
    x = bench.graph.channels["x"]
    assert isinstance(x, Root) and not x.closed and x.type == ITEM


def test_a_supplier_has_an_outlet_before_anything_flows(bench: Bench) -> None:
    outlet = bench.ask(OpenSupplier("x", "B", "b2"))
    (flow,) = [each for each in bench.graph.flows.values() if each.outlet.id == outlet]
    assert bench.asked == [
        ("b2", OpenOutlet(flow.outlet.id, "x", "B", flow.outlet.id)),
        ("b2", OpenFlow(flow.spec())),
    ]


def test_a_supplier_whose_node_does_not_answer_is_none(bench: Bench) -> None:
    bench.replies["b2", OpenOutlet] = DeadlineExceeded("b2 did not answer")
    with pytest.raises(DeadlineExceeded):
        bench.ask(OpenSupplier("x", "B", "b2"))
    (_, opened), closed = bench.asked
    assert isinstance(opened, OpenOutlet)
    assert closed == ("b2", CloseOutlet(opened.outlet, finished=False)), "should it come yet"
    assert list(bench.trade.x.outlets) == [bench.trade.own.id]


def test_a_supplier_that_a_filter_cannot_reach_is_none(bench: Bench) -> None:
    bench.dials_out_only("b1", "c")
    with pytest.raises(Unreachable, match="dial out only"):
        bench.ask(OpenSupplier("x", "B", "c"))
    assert type(bench.asked[-1][1]) is CloseOutlet
    assert list(bench.trade.x.outlets) == [bench.trade.own.id]


def test_a_subscription_that_cannot_be_served_is_none(bench: Bench) -> None:
    bench.dials_out_only("a", "c")
    with pytest.raises(Unreachable, match="dial out only"):
        bench.ask(Subscribe("x", "c", 902))
    assert 902 not in bench.trade.x.inlets and bench.asked == []

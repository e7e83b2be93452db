"""The picture of a supplier with relays: who is fed by which outlet."""

from __future__ import annotations

import pytest
from picture_for_tests import ANY_TYPE, HIGH, LOW, envelope, offload

from activebroker.directory.graph import Graph
from activebroker.directory.parts import Derived, Inlet, Outlet, Relay, Root
from activebroker.directory.planning import plan_move
from activebroker.matching import union
from activebroker.protocol.requests import Move
from activebroker.protocol.specs import StageSpec


class Picture:
    """Channel x; supplier A at east; subscriptions at west and home, and a filter at dallas."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.x = self.graph.channels["x"] = Root("x", ANY_TYPE)
        self.own = Outlet(self.graph.new_id(), "east", "A")
        self.x.outlets[self.own.id] = self.own
        self.west, self.home = Inlet(901, "west", HIGH), Inlet(902, "home", LOW)
        self.late = self.graph.channels["x.Late"] = Derived(
            "x.Late",
            ANY_TYPE,
            parent=self.x,
            envelope=envelope(HIGH),
            at="dallas",
            asked="dallas",
            owner="west",
        )
        self.stage = self.graph.place(self.late, "dallas")
        for inlet in (self.west, self.home):
            self.x.inlets[inlet.id] = inlet
        self.connect()

    def connect(self) -> list[tuple[str, str]]:
        """Connect what is not; return (source, target) nodes."""
        pairs = list(self.graph.missing(self.x))
        for outlet, inlet in pairs:
            self.graph.connect(self.x, outlet, inlet)
        return [(outlet.node, inlet.node) for outlet, inlet in pairs]

    def offload(self, to: str, *consumers: str) -> Relay:
        return offload(self.graph, self.own, self.x, to, *consumers)

    def fed_by(self) -> dict[str, str]:
        """By node of an inlet, the node of the one outlet that feeds it."""
        fed: dict[str, str] = {}
        for flow in self.graph.flows.values():
            assert flow.inlet.node not in fed, "fed twice"
            fed[flow.inlet.node] = flow.outlet.node
        return fed


@pytest.fixture
def picture() -> Picture:
    return Picture()


def test_each_inlet_is_fed_by_one_of_a_supplier_and_its_relays(picture: Picture) -> None:
    picture.offload("atlanta", "west")
    picture.offload("denver", "dallas")
    assert picture.fed_by() == {
        "west": "atlanta",
        "dallas": "denver",
        "home": "east",
        "atlanta": "east",
        "denver": "east",
    }
    assert picture.connect() == []


@pytest.mark.parametrize("consumers", [(), ("west",)])
def test_newcomers_are_served_by_who_took_all(picture: Picture, consumers: tuple[str, ...]) -> None:
    relay = picture.offload("atlanta", *consumers)
    assert relay.newcomers is not bool(consumers)
    picture.x.inlets[903] = Inlet(903, "new")
    assert picture.connect() == [("east" if consumers else "atlanta", "new")]


def test_the_last_who_took_all_serves_newcomers(picture: Picture) -> None:
    first = picture.offload("atlanta", "west")
    second = picture.offload("denver")
    third = picture.offload("dallas")
    assert [each.newcomers for each in (first, second, third)] == [False, False, True]


def test_who_is_offloaded_stays_with_its_relay_where_it_moves(picture: Picture) -> None:
    picture.offload("atlanta", "dallas")
    request = Move("x.Late", "denver", "west", 1.0)
    planned = plan_move(picture.graph, "hub", picture.late, ["denver"], "python", request)
    (swap,) = planned.plan.swaps
    assert (swap.source, swap.destination) == ("atlanta", "denver")
    assert planned.retained_at == ["east", "atlanta"]
    planned.commit(picture.graph)
    (relay,) = picture.graph.relays_of(picture.x)
    assert [inlet.node for inlet in relay.wanting] == ["denver"]
    assert picture.connect() == []


def test_a_relay_wants_what_its_subscribers_want_together(picture: Picture) -> None:
    relay = picture.offload("atlanta", "west", "home")
    assert relay.wanted == union([HIGH, LOW])
    assert not picture.graph.rewant(relay)
    picture.graph.remove_inlet(picture.x, 902)
    assert picture.graph.rewant(relay)
    assert relay.wanted == HIGH and list(relay.subscribers) == ["inlet 901"]
    (stage_id,) = relay.stages
    assert picture.x.inlets[stage_id].predicate == HIGH


def test_a_relay_is_placed_as_a_stage_without_a_filter(picture: Picture) -> None:
    relay = picture.offload("atlanta")
    (stage,) = relay.stages.values()
    spec = StageSpec(stage.id, "x", "python", None, "east", True, None, relay.name)
    assert relay.stage_spec(stage, True) == spec
    assert spec.makes == relay.name
    inlet, outlet = picture.x.inlets[stage.id], relay.outlets[stage.id]
    assert (inlet.subscriber, inlet.recovers, inlet.makes) == (relay.name, True, relay)
    assert picture.graph.suppliers(outlet) == ["A"]
    picture.graph.displace(relay, stage.id)
    again = picture.graph.place(relay, "denver")
    assert picture.x.inlets[again.id].subscriber == relay.name
    assert relay.outlet == Outlet(again.id, "denver", "A")


def test_what_may_keep_something_for_a_subscriber(picture: Picture) -> None:
    gone = picture.x.left[77] = Outlet(77, "north", "B")
    assert picture.graph.retaining(picture.x, "x.Late") == [gone]
    relay = picture.offload("atlanta", "dallas")
    assert picture.graph.retaining(picture.x, "x.Late") == [gone, picture.own, relay.outlet]
    assert picture.graph.retaining(picture.x, "inlet 902") == [gone, picture.own]


def test_a_relay_goes_with_its_flows(picture: Picture) -> None:
    relay = picture.offload("atlanta")
    picture.graph.remove_relay(relay)
    assert picture.graph.flows == {} and picture.graph.relays == {}
    assert list(picture.x.inlets) == [picture.stage.id, 901, 902]

"""A lost filter or relay is put together again: where, and in which order of calls."""

from __future__ import annotations

from typing import Any

import pytest
from outside_for_tests import Fabric
from picture_for_tests import Trade

from activebroker.core.errors import DeadlineExceeded, PayloadRefused
from activebroker.directory.parts import SUPPLIER, Derived, Relay
from activebroker.directory.recovery import Recovery, Refusals
from activebroker.protocol.messages import (
    CallBody,
    Deploy,
    ExpectFlow,
    OpenFlow,
    ReleaseInlet,
    ReportNode,
    Undeploy,
)
from activebroker.protocol.specs import Checkpoint, Offsets

HAD: Offsets = {"A": (1, 7)}
SAVED = Checkpoint({"A": b"state"}, {"A": (1, 9)}, {"A": (1, 8)})


class Bench(Fabric):
    """The filter of x.Late was at b1."""

    def __init__(self) -> None:
        super().__init__()
        self.trade = Trade(self.graph)
        self.late = self.trade.late
        self.recovery = Recovery(self.context, self.wiring)
        self.refusals = Refusals()

    def recover(self, *places: str, made: Derived | Relay | None = None) -> str | None:
        change = self.recovery.recover(made or self.late, list(places), self.refusals)
        node: str | None = self.carry_out(change)
        return node

    def nodes(self, kind: type[CallBody]) -> list[str]:
        return [node for node, body in self.asked if type(body) is kind]


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- where --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("late", "asked", "places"),
    [
        ({}, {}, ["b1", "b2", "hub", "c"]),
        ({"at": "b9"}, {}, ["b2", "b1", "hub", "c"]),  # the least laden first
        ({"owner": "b2"}, {}, ["b1", "b2", "hub", "c"]),
        ({}, {"avoid": ["b1", "c"]}, ["b2", "hub"]),
        ({}, {"died": True}, ["b1", "b2", "c"]),
        ({"owner": "hub"}, {"died": True}, ["b1", "b2", "c", "hub"]),
        ({}, {"died": True, "suspect": True}, ["b1", "b2"]),
    ],
    ids=str,
)
def test_where_a_filter_can_go_on(
    bench: Bench, late: dict[str, str], asked: dict[str, Any], places: list[str]
) -> None:
    for name, value in late.items():
        setattr(bench.late, name, value)
    assert bench.recovery.candidates(bench.late, **asked) == places


def test_who_takes_it_is_a_place_if_it_is_there(bench: Bench) -> None:
    bench.trade.subscribe(902, "a", bench.late)
    assert bench.recovery.candidates(bench.late) == ["b1", "b2", "hub", "c", "a"]
    bench.gone("b2", "c")
    assert bench.recovery.candidates(bench.late) == ["b1", "hub", "a"]


def test_a_filter_first_goes_where_another_is_beside_it(bench: Bench) -> None:
    beside = bench.trade.derive("x.Late.Late", SUPPLIER, bench.late)
    bench.trade.put(beside, "b2")
    assert bench.recovery.candidates(bench.late) == ["b2", "b1", "hub", "c"]


def test_a_relay_goes_to_its_supplier_as_a_last_resort(bench: Bench) -> None:
    bench.trade.subscribe(902, "c", bench.trade.x)
    bench.trade.connect()
    relay = bench.trade.offload("b2")
    assert bench.recovery.candidates(relay) == ["b2", "b1", "hub", "c", "a"]


# --- whether ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, ""),
        ({"fresh": False}, "there is no checkpoint of it"),
        ({"fresh": False, "checkpoint": SAVED}, ""),
        ({"stopped": True}, "it has been stopped"),
        ({"closed": True}, "it has been stopped"),
        ({"at": SUPPLIER}, "it has been lost with its supplier"),
        ({"at": SUPPLIER, "returning": True}, ""),
    ],
    ids=str,
)
def test_what_cannot_go_on_anywhere(bench: Bench, change: dict[str, object], why: str) -> None:
    for name, value in change.items():
        setattr(bench.late, name, value)
    assert bench.recovery.impossible(bench.late) == why


def test_a_relay_cannot_go_on_without_its_supplier(bench: Bench) -> None:
    relay = bench.trade.offload("b2")
    assert bench.recovery.impossible(relay) == ""
    bench.gone("a")
    assert bench.recovery.impossible(relay) == "its supplier is gone"


# --- how ----------------------------------------------------------------------------------------


def test_subscribers_are_connected_before_the_filter_is_fed_again(bench: Bench) -> None:
    bench.late.checkpoint = SAVED
    old = bench.trade.stage.id
    bench.replies["c", ReleaseInlet] = HAD
    assert bench.recover("b2") == "b2"
    (stage,) = bench.late.stages.values()
    spec = bench.late.stage_spec(stage, True, SAVED)
    out, into = bench.trade.out, bench.graph.into(stage.id)[0]
    assert bench.asked == [
        ("b1", Undeploy(old, discard=True)),
        ("c", ReleaseInlet(901, (old,))),
        ("b2", ReportNode()),
        ("b2", Deploy(spec)),
        ("b2", OpenFlow(out.spec(since=HAD))),
        ("a", OpenFlow(into.spec(since=SAVED.inputs, resumes=True))),
    ]
    assert bench.told == [
        ("c", ExpectFlow(out.spec(), recovers=True)),
        ("b2", ExpectFlow(into.spec(), recovers=False)),
    ]
    assert old not in bench.late.stages and old not in bench.trade.x.inlets


def test_nobody_gets_what_was_before_it_began(bench: Bench) -> None:
    bench.late.subscribers["inlet 901"] = {"A": (1, 20), "B": (2, 0)}
    bench.replies["c", ReleaseInlet] = HAD
    bench.recover("b2")
    (flow,) = [body.spec for node, body in bench.asked if type(body) is OpenFlow and node == "b2"]
    assert flow.since == {"A": (1, 20), "B": (2, 0)}


def test_what_a_place_before_has_left_comes_first(bench: Bench) -> None:
    left = bench.trade.x.left[77] = bench.trade.supplier("B", "c")
    bench.recover("b2")
    up = [(node, body.spec) for node, body in bench.asked if type(body) is OpenFlow][1:]
    assert [(node, spec.outlet) for node, spec in up] == [
        ("c", left.id),
        ("a", bench.trade.own.id),
    ]


def test_a_consumer_that_does_not_answer_has_to_go(bench: Bench) -> None:
    bench.replies["c", ReleaseInlet] = DeadlineExceeded("c did not answer")
    assert bench.recover("b2") == "b2"
    assert bench.expelled == ["c"] and bench.graph.into(901) == []


def test_the_next_place_is_asked_if_one_does_not_answer_or_refuses(bench: Bench) -> None:
    bench.replies["b1", ReportNode] = DeadlineExceeded("b1 did not answer")
    bench.replies["b2", Deploy] = PayloadRefused("no numpy")
    assert bench.recover("b1", "gone", "b2", "hub") == "hub"
    assert bench.nodes(Deploy) == ["b2", "hub"]
    assert bench.nodes(Undeploy) == ["b1", "b2"], "of where it was, and where it was not to be"
    assert not bench.refusals.final(bench.member("b1")) and bench.refusals.final(bench.member("b2"))
    assert bench.refusals.story() == "'b1' did not answer; no numpy"


def test_if_nobody_takes_it_the_picture_is_what_it_was(bench: Bench) -> None:
    flows, stages = dict(bench.graph.flows), dict(bench.late.stages)
    bench.replies["b2", Deploy] = PayloadRefused("no numpy")
    assert bench.recover("b2") is None
    assert (bench.graph.flows, bench.late.stages, bench.late.at) == (flows, stages, "b1")
    assert not bench.nodes(OpenFlow)


def test_where_it_is_lost_while_it_begins_it_is_lost_as_others_are(bench: Bench) -> None:
    bench.replies["b2", Deploy] = lambda: bench.gone("b2")
    assert bench.recover("b2", "hub") == "b2"
    (stage,) = bench.late.stages.values()
    assert stage.node == "b2" and bench.nodes(Deploy) == ["b2"]
    assert not bench.nodes(OpenFlow) and len(bench.graph.into(stage.id)) == 1


def test_what_was_stopped_by_its_last_events_does_not_begin(bench: Bench) -> None:
    def tells_why() -> None:
        bench.late.stopped = True

    bench.replies["b1", Undeploy] = tells_why
    assert bench.recover("b2") is None
    assert bench.nodes(Deploy) == []


def test_a_relay_whose_supplier_is_lost_meanwhile_is_taken_back(bench: Bench) -> None:
    relay = bench.trade.offload("b1")
    bench.replies["b2", Deploy] = lambda: [bench.gone("a")]
    assert bench.recover("b2", made=relay) is None
    assert bench.nodes(Undeploy) == ["b1", "b2"]


def test_a_relay_follows_what_its_supplier_gave_itself(bench: Bench) -> None:
    relay = bench.trade.offload("b1")
    assert bench.recover("b2", made=relay) == "b2"
    down = [body.spec for node, body in bench.asked if type(body) is OpenFlow and node == "b2"]
    assert [(flow.subscriber, flow.behind) for flow in down] == [("x.Late", True)]


def test_what_a_lost_filter_is_for_is_fed_from_the_checkpoint_of_that(bench: Bench) -> None:
    below = bench.trade.derive("x.Late.Late", "b2", bench.late)
    bench.trade.put(below, "b2")
    bench.trade.connect()
    below.checkpoint = SAVED
    bench.gone("b2")
    bench.recover("hub")
    down = [body.spec for node, body in bench.asked if type(body) is OpenFlow and node == "hub"]
    assert {flow.subscriber: flow.since for flow in down} == {
        "inlet 901": {},
        "x.Late.Late": SAVED.inputs,
    }

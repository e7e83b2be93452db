"""A lost filter or relay is put together again: in which order of calls, and what if one fails."""

from __future__ import annotations

import pytest
from outside_for_tests import Fabric
from picture_for_tests import Trade

from activebroker.core.errors import DeadlineExceeded, PayloadRefused
from activebroker.directory.parts import SUPPLIER, Derived, Outlet, Relay
from activebroker.directory.recovery import Recovery, Refusals
from activebroker.protocol.messages import CallBody, ExpectFlow, Greet
from activebroker.protocol.orders import Deploy, OpenFlow, ReleaseInlet, ReportNode, Undeploy
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


@pytest.mark.parametrize(("supplier", "follows"), [("A", True), ("B", False)])
def test_what_a_supplier_before_has_left_comes_first(
    bench: Bench, supplier: str, follows: bool
) -> None:
    left = bench.trade.x.left[77] = Outlet(77, "c", supplier)
    bench.recover("b2")
    first, second = [body.spec for _, body in bench.asked if type(body) is OpenFlow][1:]
    assert [first.outlet, second.outlet] == [left.id, bench.trade.own.id]
    assert second.after == ((first.id,) if follows else ())


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


def test_what_is_beside_a_filter_stays_where_it_is(bench: Bench) -> None:
    below = bench.trade.derive("x.Late.Late", SUPPLIER, bench.late)
    bench.trade.put(below, "b1")
    bench.recover("b2")
    assert below.at == "b1"
    assert below.instead == ("Channel 'x.Late', whose filter was beside it, goes on at 'b2'.")


def test_what_was_on_its_way_to_its_suppliers_is_not_any_more(bench: Bench) -> None:
    bench.late.returning = True
    bench.recover("b2")
    assert not bench.late.returning and bench.late.at == "b2"


def test_who_cannot_be_dialled_dials_its_new_place(bench: Bench) -> None:
    bench.dials_out_only("c")
    bench.recover("b2")
    greeted = [node for node, body in bench.told if body == Greet("b2")]
    assert set(greeted) == {"c"}


def test_a_relay_whose_supplier_is_lost_meanwhile_is_taken_back(bench: Bench) -> None:
    relay = bench.trade.offload("b1")
    bench.replies["b2", Deploy] = lambda: [bench.gone("a")]
    assert bench.recover("b2", made=relay) is None
    assert bench.nodes(Undeploy) == ["b1", "b2"]


def test_a_relay_follows_what_its_supplier_gave_itself(bench: Bench) -> None:
    relay = bench.trade.offload("b1")
    assert bench.recover("b2", made=relay) == "b2"
    down = [body.spec for node, body in bench.asked if type(body) is OpenFlow and node == "b2"]
    assert [(flow.subscriber, flow.follows) for flow in down] == [("x.Late", True)]


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

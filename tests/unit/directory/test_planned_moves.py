"""Moves and offloads under way: what goes out, and what becomes of those that fail."""

from __future__ import annotations

import pytest
from outside_for_tests import Ending, Fabric
from picture_for_tests import Trade, envelope

from activebroker.core.errors import (
    MoveFailed,
)
from activebroker.directory.parts import SUPPLIER
from activebroker.directory.planning import PlannedMove
from activebroker.directory.requests import MoveEnded
from activebroker.protocol.messages import ExpectFlow, Greet, PrepareMove, SwapFlows
from activebroker.protocol.orders import Deploy, ReportNode, Undeploy
from activebroker.protocol.requests import Move, Offload
from activebroker.protocol.status import NodeStatus, PartStatus
from derivation.initiator import DeadlinePassed
from derivation.protocol import Cancel, End, Prepared, Proceed, Refused, Started

PATIENCE = 5.0
OFFLOAD = Offload("x", "A", "b2", PATIENCE)


class Bench(Fabric):
    """x.Late is at b1."""

    def __init__(self) -> None:
        super().__init__()
        self.trade = Trade(self.graph)
        self.late = self.trade.late

    def ask(self, body: Move | Offload) -> Ending:
        moves = self.moves
        return self.begin(moves.move(body) if isinstance(body, Move) else moves.offload(body))

    def move(self, to: str) -> Ending:
        return self.ask(Move("x.Late", to, "c", PATIENCE))

    @property
    def planned(self) -> PlannedMove:
        (planned,) = self.queue.under_way()
        return planned

    def input(self, *inputs: Prepared | Refused | Started | DeadlinePassed) -> None:
        move = self.planned.plan.move
        for each in inputs:
            self.queue.move_on(move, each)

    def prepared(self) -> None:
        """Phase one begins: from now on nothing is taken back."""
        plan = self.planned.plan
        parties = dict.fromkeys((*plan.origins, *plan.destinations))
        self.input(*(Prepared(plan.move, node) for node in parties))

    def started(self, node: str) -> Started:
        return Started(self.planned.plan.move, node)

    def refused(self, node: str) -> Refused:
        return Refused(self.planned.plan.move, node, "no numpy")

    def places(self) -> list[str]:
        return [stage.node for stage in self.late.stages.values()]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def why_not(ending: Ending) -> str:
    assert ending.done and isinstance(ending.error, MoveFailed)
    return str(ending.error)


# --- carried out --------------------------------------------------------------------------------


def test_the_plan_goes_out_and_changes_nothing_before_all_are_prepared(bench: Bench) -> None:
    flows = dict(bench.graph.flows)
    ending = bench.move("b2")
    assert [(node, type(body)) for node, body in bench.told] == [
        ("b1", PrepareMove),
        ("b2", PrepareMove),
    ]
    plan = bench.planned.plan
    assert (plan.initiator, plan.origins, plan.destinations) == ("hub", ("b1",), ("b2",))
    assert [(swap.source, swap.origin) for swap in plan.swaps] == [("a", "b1")]
    assert list(bench.timers) == [f"move {plan.move}"]
    assert not ending.done and bench.places() == ["b1"] and bench.graph.flows == flows


def test_when_all_are_prepared_sources_swap_and_origins_hand_over(bench: Bench) -> None:
    bench.move("b2")
    move = bench.planned.plan.move
    bench.told.clear()
    bench.prepared()
    assert bench.told[0] == ("b1", Proceed(move))
    assert [(node, type(body)) for node, body in bench.told[1:]] == [("a", SwapFlows)]


def test_when_it_has_started_the_picture_is_the_new_one(bench: Bench) -> None:
    ending, old = bench.move("b2"), bench.late.outlets[bench.trade.stage.id]
    bench.prepared()
    bench.told.clear()
    bench.input(bench.started("b2"))
    assert ending.done and ending.error is None
    assert (bench.places(), bench.late.at) == (["b2"], "b2")
    assert bench.late.left == {old.id: old}, "what it made there may have to be sent again"
    assert [(node, type(body)) for node, body in bench.told] == [
        ("b1", End),
        ("b2", End),
        ("a", End),
        ("b2", ExpectFlow),
        ("c", ExpectFlow),
    ]
    assert bench.timers == {}


def test_who_cannot_be_dialled_dials_those_it_will_have_to_do_with(bench: Bench) -> None:
    bench.dials_out_only("b2")
    bench.move("b2")
    greeted = {body.peer for node, body in bench.told if isinstance(body, Greet) and node == "b2"}
    assert greeted == {"a", "b1"}


def test_one_instance_for_all_suppliers_moves_to_a_broker(bench: Bench) -> None:
    bench.late.envelope = envelope(shared=True)
    assert bench.move("b2").error is None and bench.planned.plan.destinations == ("b2",)


@pytest.mark.parametrize(("at", "closed"), [("b1", False), (SUPPLIER, True)])
def test_what_is_derived_elsewhere_or_closed_does_not_bind_a_filter(
    bench: Bench, at: str, closed: bool
) -> None:
    bench.trade.derive("x.Late.Late", at, bench.late).closed = closed
    assert bench.move("b2").error is None and bench.queue.under_way()


def test_what_runs_beside_a_supplier_is_not_handed_over(bench: Bench) -> None:
    bench.trade.subscribe(902, "a", bench.trade.x)
    bench.trade.connect()
    (beside,) = bench.graph.into(902)
    bench.ask(OFFLOAD)
    (swap,) = bench.planned.plan.swaps
    assert beside.id not in swap.old and swap.old == (bench.trade.into.id,)


def test_a_relay_that_cannot_be_dialled_dials_the_supplier(bench: Bench) -> None:
    bench.dials_out_only("b2")
    bench.ask(OFFLOAD)
    assert ("b2", Greet("a")) in bench.told


def test_an_offload_puts_a_relay_between(bench: Bench) -> None:
    ending = bench.ask(OFFLOAD)
    bench.prepared()
    bench.input(bench.started("b2"))
    assert ending.done and ending.error is None
    (relay,) = bench.graph.relays.values()
    assert relay.newcomers and bench.trade.into.outlet is relay.outlet


# --- which fail ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("why", "text"),
    [
        ("refused", "'b2' refused: no numpy"),
        ("late", "no answer from 'b1', 'b2' within 5 s"),
        ("lost", "'b2' was lost"),
    ],
)
def test_before_the_swaps_all_stays_as_it_was(bench: Bench, why: str, text: str) -> None:
    flows, ending = dict(bench.graph.flows), bench.move("b2")
    bench.told.clear()
    if why == "lost":
        bench.queue.lost("b2")
    else:
        bench.input(bench.refused("b2") if why == "refused" else DeadlinePassed())
    assert why_not(ending) == f"Channel 'x.Late' stays where it was: {text}."
    assert [type(body) for _, body in bench.told] == [Cancel, Cancel]
    assert (bench.graph.flows, bench.places(), bench.late.left) == (flows, ["b1"], {})


def test_what_fails_after_the_swaps_goes_on_from_its_checkpoint(bench: Bench) -> None:
    ending, old = bench.move("b2"), bench.trade.stage.id
    bench.prepared()
    bench.input(bench.refused("b2"))
    bench.go_on()
    assert why_not(ending) == (
        "Channel 'x.Late' could not complete the switch-over: at 'b2': no numpy; "
        "its filter goes on at 'b2'."
    )
    assert ("b1", Undeploy(old, discard=True)) in bench.asked
    assert [node for node, body in bench.asked if type(body) is Deploy] == bench.places() == ["b2"]


def test_what_fails_after_the_swaps_and_cannot_go_on_is_nowhere(bench: Bench) -> None:
    old, bench.late.fresh = bench.trade.stage.id, False
    ending = bench.move("b2")
    bench.prepared()
    bench.input(bench.refused("b2"))
    bench.go_on()
    assert why_not(ending).endswith("at 'b2': no numpy; it has ended.")
    assert ("b1", Undeploy(old, discard=True)) in bench.asked and bench.late.closed


def test_what_takes_too_long_arrives_and_the_user_hears_who_holds_it_up(bench: Bench) -> None:
    ending = bench.move("b2")
    bench.prepared()
    part = PartStatus(bench.planned.plan.move, "destination", "", ["b1"], 0, 0)
    waits_for_a = PartStatus(bench.planned.plan.move, "origin", "", ["a"], 0, 0)
    bench.replies["b2", ReportNode] = NodeStatus(moves=[part])
    bench.replies["b1", ReportNode] = NodeStatus(moves=[waits_for_a])
    bench.replies["a", ReportNode] = NodeStatus()
    bench.input(DeadlinePassed())
    bench.go_on()
    assert why_not(ending) == (
        "Channel 'x.Late' is still moving: the switch-over waits for 'b2', held up by 'a'."
    )
    assert bench.places() == ["b2"] and bench.queue.overdue() == [bench.planned]


def test_one_that_fails_after_it_was_overdue_is_recovered_too(bench: Bench) -> None:
    for node in ("a", "b1", "b2"):
        bench.replies[node, ReportNode] = NodeStatus()
    bench.move("b2")
    bench.prepared()
    bench.input(DeadlinePassed())
    bench.go_on()
    bench.gone("b2")
    bench.queue.lost("b2")
    (fact,) = [each for each in bench.queue.facts if isinstance(each, MoveEnded)]
    assert fact.late
    bench.moves.ended_late(fact.planned, fact.finish)
    bench.go_on()
    assert bench.places() == ["b1"]

"""Channels are derived, adopted by who derived them before, and end when nobody holds them."""

from __future__ import annotations

import pytest
from outside_for_tests import Fabric
from picture_for_tests import LOW, Trade, envelope

from activebroker.core.errors import NameTaken, PayloadRefused, Unreachable
from activebroker.directory.parts import SUPPLIER, Derived
from activebroker.filters import Envelope
from activebroker.protocol.orders import Deploy, OpenFlow, Undeploy
from activebroker.protocol.requests import Derive


class Bench(Fabric):
    """x.Late is `c`'s, and `c` takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.trade = Trade(self.graph)
        self.late = self.trade.late

    def derive(
        self,
        name: str | None = None,
        at: str = "b1",
        node: str = "c",
        filter: Envelope | None = None,
        lease: float | None = None,
    ) -> Derived:
        body = Derive("x", name, filter or envelope(), at, node, lease)
        info = self.carry_out(self.channels.derive(body))
        channel = self.graph.channels[info.name]
        assert isinstance(channel, Derived)
        return channel

    def orphan(self, lease: float | None = 5.0) -> None:
        """Whoever derived x.Late is gone, and so is its subscription."""
        self.late.owned, self.late.lease = False, lease
        self.graph.remove_inlet(self.late, 901)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_filter_is_there_before_it_is_fed(bench: Bench) -> None:
    new = bench.derive("x.New", at="b2")
    (stage,) = new.stages.values()
    (flow,) = bench.graph.into(stage.id)
    assert bench.asked == [
        ("b2", Deploy(new.stage_spec(stage, recovers=True))),
        ("a", OpenFlow(flow.spec())),
    ]


def test_what_nobody_names_has_a_free_name(bench: Bench) -> None:
    assert [bench.derive().name, bench.derive().name] == ["x.Late-2", "x.Late-3"]


@pytest.mark.parametrize(
    ("at", "node", "engine"),
    [
        ("b2", "b2", "python"),
        ("consumer", "c", "python"),
        ("spark", "c", "spark"),
        (SUPPLIER, "a", "python"),
    ],
)
def test_a_place_is_a_node(bench: Bench, at: str, node: str, engine: str) -> None:
    (stage,) = bench.derive("x.New", at).stages.values()
    assert (stage.node, stage.engine) == (node, engine)


def test_one_instance_for_all_suppliers_can_be_at_a_broker(bench: Bench) -> None:
    new = bench.derive("x.New", "b2", filter=envelope(shared=True))
    assert [stage.node for stage in new.stages.values()] == ["b2"]


def test_the_name_of_a_closed_channel_is_free(bench: Bench) -> None:
    bench.carry_out(bench.endings.close(bench.late))
    assert bench.derive("x.Late") is not bench.late


def test_of_a_filter_that_cannot_be_loaded_nothing_is_left(bench: Bench) -> None:
    bench.replies["b2", Deploy] = PayloadRefused("no numpy")
    with pytest.raises(PayloadRefused, match="numpy"):
        bench.derive("x.New", at="b2")
    assert "x.New" not in bench.graph.channels and type(bench.asked[-1][1]) is Undeploy


def test_a_filter_that_can_run_nowhere_is_refused_with_the_reason(bench: Bench) -> None:
    for node in bench.members:
        bench.replies[node, Deploy] = PayloadRefused(f"no numpy at {node}")
    with pytest.raises(PayloadRefused, match="no numpy at a"):
        bench.derive("x.New", at=SUPPLIER)
    assert "x.New" not in bench.graph.channels


def test_a_filter_that_its_suppliers_cannot_run_is_derived_all_the_same(bench: Bench) -> None:
    bench.replies["a", Deploy] = PayloadRefused("no numpy at a")
    assert bench.derive("x.New", at=SUPPLIER).instead == "no numpy at a"


def test_a_filter_that_nothing_reaches_is_taken_away(bench: Bench) -> None:
    bench.dials_out_only("a", "b2")
    with pytest.raises(Unreachable, match="dial out only"):
        bench.derive("x.New", at="b2")
    assert [(node, type(body)) for node, body in bench.asked] == [("b2", Deploy), ("b2", Undeploy)]
    assert "x.New" not in bench.graph.channels


# --- without an owner ---------------------------------------------------------------------------


def test_a_process_that_comes_back_adopts_what_it_had_derived(bench: Bench) -> None:
    bench.late.owned = False
    assert bench.derive("x.Late", lease=3.0) is bench.late
    assert bench.asked == [] and (bench.late.owned, bench.late.lease) == (True, 3.0)


@pytest.mark.parametrize(
    ("node", "filter"), [("a", envelope()), ("c", envelope(LOW))], ids=["node", "filter"]
)
def test_another_derivation_adopts_nothing_that_is_taken(
    bench: Bench, node: str, filter: Envelope
) -> None:
    bench.late.owned, bench.late.lease = False, 5.0
    with pytest.raises(NameTaken, match="is still taken, though 'c', which derived it, is gone"):
        bench.derive("x.Late", node=node, filter=filter)


def test_an_orphan_that_nobody_takes_gives_way(bench: Bench) -> None:
    bench.orphan()
    new = bench.derive("x.Late", at="b2", node="a")
    assert bench.late.closed and new.owner == "a"
    assert [flow.inlet.makes for flow in bench.graph.flows.values()] == [new]


def test_what_has_an_owner_does_not_give_way(bench: Bench) -> None:
    bench.orphan()
    bench.late.owned = True
    with pytest.raises(NameTaken):
        bench.derive("x.Late", at="b2", node="a")


def test_what_is_to_live_without_an_owner_does_not_give_way(bench: Bench) -> None:
    bench.orphan(lease=None)
    with pytest.raises(NameTaken):
        bench.derive("x.Late", at="b2", node="a")


def test_a_channel_whose_lease_has_run_out_ends(bench: Bench) -> None:
    bench.orphan()
    bench.leases.review()
    bench.carry_out(bench.channels.end_unheld("x.Late"))
    assert bench.late.closed
    assert bench.late.ended == " 'c', which derived it, is gone, and nobody has taken it for 5 s."


@pytest.mark.parametrize("name", ["x.Late", "x", "gone"])
def test_a_channel_that_is_held_again_does_not_end(bench: Bench, name: str) -> None:
    bench.carry_out(bench.channels.end_unheld(name))
    assert bench.asked == [] and not bench.late.closed

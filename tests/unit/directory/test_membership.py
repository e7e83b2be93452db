"""Who is in the fabric: names, who comes, and who goes."""

from __future__ import annotations

import pytest
from outside_for_tests import Ending, Fabric
from picture_for_tests import Trade, envelope

from activebroker.core.errors import DeadlineExceeded, NameTaken, UnknownPlace, Unreachable
from activebroker.directory.membership import AT_ONCE, SOON
from activebroker.directory.requests import Change
from activebroker.protocol.messages import MembersChanged
from activebroker.protocol.orders import CloseFlow, ForgetSubscriber, ReportNode, StepDown
from activebroker.protocol.requests import (
    ChangeRequest,
    ClaimName,
    Derive,
    Join,
    Leave,
    OpenSupplier,
)
from activebroker.protocol.specs import Member

SILENT = DeadlineExceeded("no answer")


class Node(Fabric):
    """Whoever is expelled is lost at once."""

    def expel(self, node: str) -> None:
        super().expel(node)
        self.membership.lost(node)


@pytest.fixture
def fabric() -> Fabric:
    return Fabric()


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def trade(fabric: Fabric) -> Trade:
    return Trade(fabric.graph)


def claim(fabric: Fabric, name: str, replace: bool = False, again: bool = False) -> Ending:
    ending = Ending()
    fabric.membership.claim(ClaimName(name, replace, again), ending.set)
    return ending


# --- names --------------------------------------------------------------------------------------


def test_a_free_name_is_free_at_once(fabric: Fabric) -> None:
    ending = claim(fabric, "d")
    assert ending.done and ending.error is None and fabric.asked == []


def test_a_name_is_kept_by_a_bearer_that_answers(fabric: Fabric) -> None:
    ending = claim(fabric, "a")
    assert fabric.asked == [("a", ReportNode())] and not ending.done
    fabric.answer_all()
    assert isinstance(ending.error, NameTaken) and fabric.expelled == []


@pytest.mark.parametrize(("again", "patience"), [(False, AT_ONCE), (True, SOON)])
def test_a_bearer_has_more_time_if_one_of_its_own_name_asks(
    fabric: Fabric, again: bool, patience: float
) -> None:
    claim(fabric, "a", again=again)
    assert fabric.calls[0].patience == patience


def test_the_name_of_a_bearer_that_does_not_answer_is_free(node: Node) -> None:
    ending = claim(node, "a")
    node.answer(error=SILENT)
    assert node.expelled == ["a"] and ending.done and ending.error is None


def test_the_name_of_one_that_has_joined_anew_meanwhile_is_not(node: Node) -> None:
    ending = claim(node, "a")
    node.members["a"] = node.member("a", incarnation=2)
    node.answer(error=SILENT)
    assert node.expelled == [] and isinstance(ending.error, NameTaken)


def test_a_bearer_can_be_replaced(node: Node) -> None:
    ending = claim(node, "a", replace=True)
    assert node.expelled == ["a"] and ending.done and ending.error is None


def test_nobody_is_replaced_under_a_free_name(node: Node) -> None:
    ending = claim(node, "d", replace=True)
    assert node.expelled == [] and ending.done and ending.error is None


def test_who_keeps_the_directory_cannot_be_replaced(node: Node) -> None:
    ending = claim(node, "hub", replace=True)
    assert node.expelled == [] and isinstance(ending.error, NameTaken)


def test_who_waits_to_join_has_its_name_already(fabric: Fabric) -> None:
    fabric.membership.announced(fabric.member("d"))
    ending = claim(fabric, "d")
    assert fabric.asked == [("d", ReportNode())]
    fabric.answer_all()
    assert isinstance(ending.error, NameTaken)


@pytest.mark.parametrize(
    ("body", "bearer"),
    [
        (OpenSupplier("x", "A", "c"), "a"),
        (OpenSupplier("x", "A", "a"), None),
        (OpenSupplier("x", "B", "c"), None),
        (OpenSupplier("y", "A", "c"), None),
        (Derive("x", "x.Late", envelope(), "b1", "a"), "c"),
        (Derive("x", "x.Late", envelope(), "b1", "c"), None),
        (Derive("x", "x.Other", envelope(), "b1", "a"), None),
        (Leave("c"), None),
    ],
)
def test_another_process_may_bear_the_name_that_is_asked_for(
    fabric: Fabric, trade: Trade, body: ChangeRequest, bearer: str | None
) -> None:
    assert fabric.membership.bearer(body) == bearer


@pytest.mark.parametrize(("owned", "closed"), [(False, False), (True, True)])
def test_what_nobody_owns_has_no_bearer(
    fabric: Fabric, trade: Trade, owned: bool, closed: bool
) -> None:
    trade.late.owned, trade.late.closed = owned, closed
    assert fabric.membership.bearer(Derive("x", "x.Late", envelope(), "b1", "a")) is None


# --- who comes ----------------------------------------------------------------------------------


def join(fabric: Fabric, member: Member) -> tuple[Member, ...]:
    fabric.membership.announced(member)
    members: tuple[Member, ...] = fabric.carry_out(fabric.membership.join(Join(member)))
    return members


def test_all_are_told_who_has_joined(fabric: Fabric) -> None:
    fabric.incarnations["d"] = 1
    members = join(fabric, fabric.member("d"))
    assert [each.name for each in members] == ["hub", "b1", "b2", "a", "c", "d"]
    assert fabric.told == [(each.name, MembersChanged(members)) for each in members]


def test_another_process_cannot_join_under_a_taken_name(fabric: Fabric) -> None:
    fabric.incarnations["a"] = 2
    with pytest.raises(NameTaken, match="choose another name"):
        join(fabric, fabric.member("a", incarnation=2))
    assert fabric.members["a"].incarnation == 1 and fabric.told == []


def test_the_same_process_may_join_once_more(fabric: Fabric) -> None:
    assert fabric.member("a") in join(fabric, fabric.member("a"))


def test_who_was_lost_before_its_turn_does_not_join(fabric: Fabric) -> None:
    with pytest.raises(Unreachable, match="before its turn"):
        join(fabric, fabric.member("d"))
    assert "d" not in fabric.members


# --- who goes -----------------------------------------------------------------------------------


def test_who_leaves_is_seen_off_with_all_it_had(fabric: Fabric, trade: Trade) -> None:
    fabric.carry_out(fabric.membership.leave(Leave("a")))
    assert "a" not in fabric.members and trade.x.outlets == {}
    assert [node for node, _ in fabric.told] == ["hub", "b1", "b2", "c"]


def test_a_broker_is_asked_to_leave_and_does_so_by_itself(fabric: Fabric) -> None:
    ending = Ending()
    fabric.membership.dismiss("b1", ending.set)
    assert fabric.asked == [("b1", StepDown())] and not ending.done
    fabric.answer_all()
    assert ending.done and ending.error is None and "b1" in fabric.members


@pytest.mark.parametrize(
    ("name", "why"),
    [("a", "'b1', 'b2'"), ("b3", "'b1', 'b2'"), ("hub", "has the directory")],
)
def test_others_than_brokers_are_not_asked_to_leave(fabric: Fabric, name: str, why: str) -> None:
    ending = Ending()
    fabric.membership.dismiss(name, ending.set)
    assert isinstance(ending.error, UnknownPlace) and why in str(ending.error)
    assert fabric.asked == []


def test_the_name_of_who_has_joined_and_left_is_free(fabric: Fabric) -> None:
    fabric.incarnations["d"] = 1
    join(fabric, fabric.member("d"))
    fabric.carry_out(fabric.membership.leave(Leave("d")))
    assert claim(fabric, "d").done


def test_who_left_before_is_no_fault(fabric: Fabric) -> None:
    fabric.carry_out(fabric.membership.leave(Leave("d")))
    assert fabric.told == [] and len(fabric.members) == 5


def under_way() -> Change:
    yield [("b2", ReportNode())]


def test_who_is_lost_holds_nothing_at_once_and_is_taken_out_in_its_turn(
    fabric: Fabric, trade: Trade
) -> None:
    fabric.queue.submit(under_way(), Ending().set)
    out = trade.out
    fabric.membership.lost("c")
    assert "c" not in fabric.members and not trade.late.owned
    assert fabric.asked[1:] == [("b1", ForgetSubscriber(trade.stage.id, "inlet 901"))]
    assert list(trade.late.inlets) == [901]
    fabric.go_on()
    assert fabric.asked[2:] == [("b1", CloseFlow(trade.stage.id, out.id, "inlet 901"))]
    assert trade.late.inlets == {}


def test_who_waited_to_join_and_is_lost_has_no_name(fabric: Fabric) -> None:
    fabric.membership.announced(fabric.member("d"))
    fabric.membership.lost("d")
    assert claim(fabric, "d").done


@pytest.mark.parametrize(
    ("ended", "brokers_gone", "expelled"),
    [
        ("a", ["b1", "b2"], ["a"]),
        ("b1", [], ["b1"]),
        ("b1", ["b2"], []),  # it may be started again
        ("d", [], []),
    ],
)
def test_a_process_that_has_ended_is_lost_unless_no_other_broker_is_there(
    fabric: Fabric, ended: str, brokers_gone: list[str], expelled: list[str]
) -> None:
    fabric.gone(*brokers_gone)
    fabric.membership.ended(ended)
    assert fabric.expelled == expelled

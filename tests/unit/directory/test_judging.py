"""Of two that do not hear each other, which has to go."""

from __future__ import annotations

import pytest
from outside_for_tests import Fabric

from activebroker.core.errors import DeadlineExceeded
from activebroker.directory.context import PATIENCE
from activebroker.directory.membership import FORGOTTEN
from activebroker.protocol.messages import GRACE, PeerSuspected
from activebroker.protocol.orders import ReportNode
from activebroker.protocol.status import LinkStatus, NodeStatus

SILENT = DeadlineExceeded("no answer")


@pytest.fixture
def fabric() -> Fabric:
    return Fabric()


def judge(
    fabric: Fabric, accuser: str, accused: str, heard: bool = True, incarnation: int = 1
) -> None:
    fabric.membership.judge(accuser, PeerSuspected(accused, incarnation, heard))


def answers(*links: str) -> NodeStatus:
    return NodeStatus(links=dict.fromkeys(links, LinkStatus(0)))


def test_who_does_not_answer_the_directory_either_has_to_go(fabric: Fabric) -> None:
    judge(fabric, "a", "c")
    assert fabric.asked == [("c", ReportNode())]
    assert fabric.calls[0].patience == PATIENCE
    fabric.answer(error=SILENT)
    assert fabric.expelled == ["c"]


def test_who_answers_may_have_stood_still(fabric: Fabric) -> None:
    judge(fabric, "a", "c")
    fabric.answer(answers())
    assert fabric.expelled == []


@pytest.mark.parametrize(
    ("accuser", "accused", "goes"),
    [("a", "c", "c"), ("a", "b1", "b1"), ("b1", "c", "b1"), ("b1", "b2", "b2")],
)
def test_of_two_that_do_not_hear_each_other_for_a_while_one_has_to_go(
    fabric: Fabric, accuser: str, accused: str, goes: str
) -> None:
    for fabric.time in (0.0, GRACE):
        judge(fabric, accuser, accused)
        fabric.answer(answers())
    assert fabric.expelled == [goes]


@pytest.mark.parametrize("again", [GRACE - 0.1, FORGOTTEN + 0.1], ids=["soon", "later"])
def test_an_accusation_at_once_or_long_after_one_is_not_the_second(
    fabric: Fabric, again: float
) -> None:
    for fabric.time in (0.0, again):
        judge(fabric, "a", "c")
        fabric.answer(answers())
    assert fabric.expelled == []


def test_an_accusation_is_forgotten_with_who_has_gone(fabric: Fabric) -> None:
    judge(fabric, "a", "c")
    fabric.answer(answers())
    fabric.membership.lost("a")
    fabric.members["a"] = fabric.member("a")
    fabric.time = GRACE
    judge(fabric, "a", "c")
    fabric.answer(answers())
    assert fabric.expelled == []


def test_who_cannot_be_dialled_and_was_never_heard_has_to_go_at_once(fabric: Fabric) -> None:
    fabric.dials_out_only("c")
    judge(fabric, "a", "c", heard=False)
    assert fabric.expelled == ["c"] and fabric.asked == []


def test_who_cannot_be_dialled_and_was_heard_is_asked(fabric: Fabric) -> None:
    fabric.dials_out_only("c")
    judge(fabric, "a", "c", heard=True)
    assert fabric.expelled == [] and fabric.asked == [("c", ReportNode())]


@pytest.mark.parametrize(
    ("dials_out_only", "heard", "links", "expelled"),
    [
        (["a"], False, (), ["a"]),
        (["a"], False, ("a",), []),
        (["a"], True, (), []),
        ([], False, (), []),
    ],
)
def test_who_dials_out_only_has_to_go_if_the_other_has_given_it_up(
    fabric: Fabric,
    dials_out_only: list[str],
    heard: bool,
    links: tuple[str, ...],
    expelled: list[str],
) -> None:
    fabric.dials_out_only(*dials_out_only)
    judge(fabric, "a", "c", heard)
    fabric.answer(answers(*links))
    assert fabric.expelled == expelled


@pytest.mark.parametrize(
    ("accuser", "accused", "incarnation"), [("d", "c", 1), ("a", "d", 1), ("a", "c", 2)]
)
def test_who_is_no_member_has_no_case(
    fabric: Fabric, accuser: str, accused: str, incarnation: int
) -> None:
    judge(fabric, accuser, accused, incarnation=incarnation)
    assert fabric.asked == []


@pytest.mark.parametrize("gone", ["a", "c"])
def test_who_has_gone_meanwhile_is_not_judged(fabric: Fabric, gone: str) -> None:
    judge(fabric, "a", "c")
    fabric.members[gone] = fabric.member(gone, incarnation=2)
    fabric.answer(error=SILENT)
    assert fabric.expelled == []

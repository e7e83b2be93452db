"""From a status report to the moves that halve a broker's work."""

from __future__ import annotations

import pytest

from activebroker.balancing.splitting import PASSED, split_moves
from activebroker.core.errors import UnknownPlace
from activebroker.protocol.status import (
    ChannelStatus,
    MemberStatus,
    NodeStatus,
    StagePlace,
    StageStatus,
    Status,
)


class Report:
    """A status report, as far as it is looked at."""

    def __init__(self) -> None:
        members = [("local", False), ("atlanta", True), ("dallas", True)]
        self.status = Status(
            members=[MemberStatus(name, None, is_broker) for name, is_broker in members],
            channels=[],
            moves=[],
            ended_moves=[],
            nodes={name: NodeStatus() for name, _ in members},
        )
        self.channel("trades")

    def channel(
        self,
        name: str,
        parent: str | None = None,
        at: str = "",
        python: int = 0,
        passed: int = 0,
        *,
        closed: bool = False,
        node: str = "atlanta",
    ) -> Report:
        id = len(self.status.channels)
        stages = [] if parent is None else [StagePlace(id, node, "python")]
        self.status.channels.append(
            ChannelStatus(name, "Trade", parent=parent, at=at, closed=closed, stages=stages)
        )
        self.status.nodes[node].stages.extend(
            StageStatus(stage.id, name, python + passed, python) for stage in stages
        )
        return self

    def moves(self, broker: str = "atlanta", to: str = "dallas") -> list[tuple[str, str]]:
        return [(move.channel, move.to) for move in split_moves(self.status, broker, to)]


def test_half_of_what_was_done_goes() -> None:
    report = Report()
    for name, events in (("a", 5), ("b", 3), ("c", 2)):
        report.channel(name, "trades", "atlanta", events)
    assert report.moves() == [("a", "dallas")]


def test_dependants_go_before_what_they_depend_on() -> None:
    report = Report().channel("a", "trades", "atlanta", 2).channel("b", "a", "atlanta", 1)
    report.channel("c", "b", "atlanta", 1).channel("d", "trades", "atlanta", 4)
    assert report.moves() == [("c", "dallas"), ("b", "dallas"), ("a", "dallas")]


def test_events_that_the_predicate_alone_decides_weigh_little() -> None:
    events = int(10 / PASSED)
    report = Report().channel("exact", "trades", "atlanta", passed=events)
    report.channel("a", "trades", "atlanta", 8).channel("b", "trades", "atlanta", 2)
    assert report.moves() == [("exact", "dallas")]
    alone = Report().channel("a", "trades", "atlanta", passed=1)
    alone.channel("b", "trades", "atlanta", passed=1).channel("c", "trades", "atlanta", passed=9)
    assert alone.moves() == [("b", "dallas"), ("a", "dallas")]


def test_where_nothing_was_done_all_count_the_same() -> None:
    report = Report()
    for name in "abcd":
        report.channel(name, "trades", "atlanta")
    assert report.moves() == [("b", "dallas"), ("a", "dallas")]


def test_a_broker_that_does_not_answer_is_taken_for_idle() -> None:
    report = Report().channel("a", "trades", "atlanta", 9).channel("b", "trades", "atlanta", 9)
    report.channel("c", "trades", "atlanta", 1).channel("d", "trades", "atlanta", 1)
    report.status.nodes["atlanta"] = NodeStatus(error="no answer")
    assert report.moves() == [("b", "dallas"), ("a", "dallas")]


def test_what_was_not_placed_there_stays() -> None:
    """A consumer in the broker's process, a filter elsewhere, one that has ended."""
    report = Report().channel("a", "trades", "atlanta", 1).channel("b", "trades", "atlanta", 1)
    report.channel("user's", "trades", "consumer", 50)
    report.channel("elsewhere", "a", "dallas", 50, node="dallas")
    report.channel("gone", "a", "atlanta", 50, closed=True)
    report.channel("sold", "trades", "supplier", 50, node="local")
    assert report.moves() == [("a", "dallas")]
    assert report.moves("dallas", "atlanta") == []


def test_what_runs_beside_a_filter_goes_with_it_and_is_beside_it_again() -> None:
    report = Report().channel("a", "trades", "atlanta", 1).channel("beside", "a", "supplier", 3)
    report.channel("next", "beside", "supplier", 3).channel("far", "next", "atlanta", 1)
    report.channel("other", "trades", "atlanta", 8)
    assert report.moves() == [
        ("far", "dallas"),
        ("next", "dallas"),
        ("beside", "dallas"),
        ("a", "dallas"),
        ("beside", "supplier"),
        ("next", "supplier"),
    ]


def test_what_runs_beside_a_filter_does_not_go_alone() -> None:
    report = Report().channel("a", "trades", "atlanta", 5).channel("beside", "a", "supplier", 5)
    assert report.moves() == []


@pytest.mark.parametrize(
    ("broker", "to", "message"),
    [
        ("atlenta", "dallas", r"no broker 'atlenta' in the fabric\. Did you mean 'atlanta'\?"),
        ("atlanta", "dalas", r"no broker 'dalas' in the fabric\. Did you mean 'dallas'\?"),
        ("atlanta", "local", r"no broker 'local' in the fabric"),
        ("atlanta", "supplier", r"no broker 'supplier'.*Known: 'atlanta', 'dallas'\."),
        ("atlanta", "atlanta", r"only between it and another broker\. Known: 'dallas'\."),
    ],
)
def test_what_is_no_broker_is_refused(broker: str, to: str, message: str) -> None:
    with pytest.raises(UnknownPlace, match=message):
        Report().moves(broker, to)

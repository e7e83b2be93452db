"""From two status reports to what filters ask for."""

from __future__ import annotations

import pytest

from activebroker.balancing.loads import broker_loads
from activebroker.protocol.status import (
    ChannelStatus,
    MemberStatus,
    NodeStatus,
    StagePlace,
    StageStatus,
    Status,
)
from derivation.balance import BrokerLoad
from derivation.split import FilterLoad


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
        self.channel("trades", None, "", "local")

    def channel(
        self, name: str, parent: str | None, at: str, node: str, *, closed: bool = False
    ) -> None:
        id = len(self.status.channels)
        stages = [] if parent is None else [StagePlace(id, node, "python")]
        self.status.channels.append(
            ChannelStatus(name, "Trade", parent=parent, at=at, closed=closed, stages=stages)
        )

    def counters(self, node: str, id: int, cpu: float, taken: int = 0, queue: int = 0) -> Report:
        stage = StageStatus(id, "", taken, queue_length=queue, cpu_seconds=cpu)
        self.status.nodes[node].stages.append(stage)
        return self


def report() -> Report:
    """`a` (stage 1) at atlanta, `beside` (2) beside it, and `b` (3) derived from that."""
    made = Report()
    made.channel("a", "trades", "atlanta", "atlanta")
    made.channel("beside", "a", "supplier", "atlanta")
    made.channel("b", "beside", "atlanta", "atlanta")
    return made


def a_load(now: Report, earlier: Report) -> float:
    (atlanta, _) = broker_loads(now.status, earlier.status, 10.0)
    return next(each.load for each in atlanta.filters if each.channel == "a")


def test_the_load_is_what_was_used_in_between() -> None:
    before = report().counters("atlanta", 1, 5.0, 100, 7).counters("atlanta", 2, 1.0)
    now = report().counters("atlanta", 1, 9.0, 200, 7).counters("atlanta", 2, 2.0, 0, 3)
    now.counters("atlanta", 3, 1.0)
    assert broker_loads(now.status, before.status, 10.0, {"b"}) == (
        BrokerLoad(
            "atlanta",
            (FilterLoad("a", 0.5, "trades"), FilterLoad("b", 0.1, "a", movable=False)),
            10,
        ),
        BrokerLoad("dallas"),
    )


@pytest.mark.parametrize(
    ("queues", "load"),
    [((0, 0), 0.4), ((0, 100), 0.8), ((100, 50), 0.2), ((500, 0), 0.0)],
)
def test_a_queue_that_grows_asks_for_more(queues: tuple[int, int], load: float) -> None:
    before = report().counters("atlanta", 1, 5.0, 100, queues[0])
    now = report().counters("atlanta", 1, 9.0, 200, queues[1])
    assert a_load(now, before) == pytest.approx(load)


def test_a_filter_that_came_in_between_has_used_what_it_tells() -> None:
    """Its queue has come with it and says nothing."""
    now = report().counters("atlanta", 1, 2.0, 100, 500)
    assert a_load(now, report()) == pytest.approx(0.2)


def test_a_filter_that_takes_nothing_has_the_load_that_it_uses() -> None:
    before = report().counters("atlanta", 1, 5.0, 100, 10)
    assert a_load(report().counters("atlanta", 1, 6.0, 100, 90), before) == pytest.approx(0.1)


def test_a_filter_on_its_way_has_none() -> None:
    assert a_load(report(), report()) == 0.0


def test_a_broker_that_did_not_answer_both_times_is_left_out() -> None:
    silent, new = report(), report()
    silent.status.nodes["atlanta"] = NodeStatus(error="no answer")
    del new.status.nodes["atlanta"]
    for now, earlier in ((silent, report()), (report(), silent), (report(), new)):
        assert [each.name for each in broker_loads(now.status, earlier.status, 1.0)] == ["dallas"]


def test_closed_channels_and_other_places_are_left_alone() -> None:
    there = Report()
    there.channel("user's", "trades", "consumer", "local")
    there.channel("heavy", "trades", "spark", "local")
    there.channel("first", "trades", "supplier", "local")
    there.channel("gone", "trades", "atlanta", "atlanta", closed=True)
    assert broker_loads(there.status, there.status, 1.0) == (
        BrokerLoad("atlanta"),
        BrokerLoad("dallas"),
    )

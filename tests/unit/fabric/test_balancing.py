"""A policy's decisions are carried out while events flow, until the block ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

import pytest
from trading_for_tests import PATIENCE, Count, Counted, Publishing, Trade, eventually

import activebroker as ab
from activebroker.core.errors import Closed
from derivation.balance import BrokerLoad, Decision
from derivation.split import MoveTo

PERIOD = 0.01  # seconds


class Planned:
    """Decides what it was given, one decision a look, and keeps what it was told."""

    def __init__(self, *decisions: Decision | Exception) -> None:
        self.decisions = list(decisions)
        self.seen: list[Sequence[BrokerLoad]] = []

    def decide(self, now: float, brokers: Sequence[BrokerLoad]) -> Decision:
        self.seen.append(brokers)
        decision = self.decisions.pop(0) if self.decisions else Decision()
        if isinstance(decision, Exception):
            raise decision
        return decision

    def looks_on(self) -> None:
        """Wait until it was asked again, twice."""
        goal = len(self.seen) + 2
        eventually(lambda: len(self.seen) >= goal, "it looks no more")


def moving(*pairs: tuple[str, str]) -> Decision:
    return Decision(tuple(MoveTo(*pair) for pair in pairs), "planned")


def place(fabric: ab.Fabric, channel: str) -> str:
    return next(each["at"] for each in fabric.status()["channels"] if each["name"] == channel)


@pytest.fixture
def channel(fabric: ab.Fabric) -> ab.Channel:
    return fabric.channel("trades", Trade)


def test_moves_while_events_flow(fabric: ab.Fabric, channel: ab.Channel) -> None:
    first = channel.derive(Count, at="atlanta", name="first")
    beside = first.derive(Count, at="supplier", name="beside")
    policy = Planned(moving(("first", "dallas")), Decision(), moving(("first", "atlanta")))
    with beside.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        with Publishing(nyse) as publishing, fabric.balance(policy, period=PERIOD) as balancing:
            eventually(lambda: len(balancing.moves) == 6, "nothing moves")
            publishing.go_on()
            policy.looks_on()
        channel.close()
        contents = [event.content for event in events]
    assert contents == [Counted(float(price), price + 1) for price in range(publishing.count)]
    to_dallas = [("beside", "dallas"), ("first", "dallas"), ("beside", "supplier")]
    back = [("beside", "atlanta"), ("first", "atlanta"), ("beside", "supplier")]
    assert [(move.channel, move.to) for move in balancing.moves] == to_dallas + back
    assert {(move.reason, move.error) for move in balancing.moves} == {("planned", None)}
    assert balancing.failed == 0 and not balancing.active
    assert [each.name for each in policy.seen[0]] == ["atlanta", "dallas"]


def test_the_policy_is_told_what_filters_ask_for(fabric: ab.Fabric, channel: ab.Channel) -> None:
    class Busy(ab.FIFOFilter):
        def enqueue(self, event: ab.Event) -> None:
            sum(range(20_000))

    channel.derive(Busy, at="atlanta", name="busy")
    policy = Planned()

    def told() -> bool:
        return any(each.load > 0.1 for brokers in policy.seen for each in brokers[0].filters)

    with (
        channel.supplier("NYSE") as nyse,
        Publishing(nyse),
        fabric.balance(policy, period=0.5),
    ):
        eventually(told, "no load is told")


def test_a_move_that_fails_ends_its_decision_and_nothing_else(
    fabric: ab.Fabric, channel: ab.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        channel.derive(Count, at="atlanta", name=name)
    policy = Planned(moving(("a", "nowhere"), ("b", "dallas")), moving(("b", "dallas")))
    with fabric.balance(policy, period=PERIOD) as balancing:
        eventually(lambda: len(balancing.moves) == 2, "nothing moves")
        policy.looks_on()
    failed, moved = balancing.moves
    assert (failed.channel, failed.to, balancing.failed) == ("a", "nowhere", 1)
    assert failed.error is not None and "nowhere" in failed.error
    assert (moved.channel, moved.error) == ("b", None)
    assert [place(fabric, name) for name in "ab"] == ["atlanta", "dallas"]
    assert "'a' did not move to 'nowhere'" in caplog.text
    movable = [{f.channel: f.movable for f in told[0].filters} for told in policy.seen]
    assert movable[0] == {"a": True, "b": True}
    assert movable[-1] == {"a": False}, "it is left alone for a while"


def test_a_policy_that_raises_is_asked_again(
    fabric: ab.Fabric, channel: ab.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    channel.derive(Count, at="atlanta", name="a")
    policy = Planned(ZeroDivisionError("planted"), moving(("a", "dallas")))
    with fabric.balance(policy, period=PERIOD) as balancing:
        eventually(lambda: len(balancing.moves) == 1, "nothing moves")
    assert "planted" in caplog.text


def test_why_nothing_helps_is_logged_once(
    fabric: ab.Fabric, caplog: pytest.LogCaptureFixture
) -> None:
    stuck = Decision(reason="all are full")
    policy = Planned(stuck, stuck, stuck, Decision(), stuck)
    with caplog.at_level(logging.WARNING), fabric.balance(policy, period=PERIOD):
        eventually(lambda: not policy.decisions, "it does not look")
        policy.looks_on()
    assert [record.message for record in caplog.records] == ["all are full"] * 2


@pytest.mark.parametrize(
    "end", [ab.Fabric.close, lambda fabric: fabric._membership._runtime.stop()]
)
def test_it_ends_with_the_fabric(end: Callable[[ab.Fabric], None]) -> None:
    with ab.Fabric(brokers=["atlanta"]) as fabric:
        balancing = fabric.balance(period=PERIOD)
        policy = Planned()
        other = fabric.balance(policy, period=PERIOD)
        policy.looks_on()
        assert balancing.active and other.active
        end(fabric)
        eventually(lambda: not balancing.active and not other.active, "it goes on")
    assert not [each for each in threading.enumerate() if each.name == "balancing"]
    with pytest.raises(Closed):
        fabric.status()


@pytest.mark.parametrize("period", [0.0, -1.0, float("nan"), float("inf")])
def test_a_period_that_makes_no_sense(fabric: ab.Fabric, period: float) -> None:
    with pytest.raises(ValueError, match="period must be more than 0 seconds, not"):
        fabric.balance(period=period)


def test_what_is_no_policy(fabric: ab.Fabric) -> None:
    with pytest.raises(TypeError, match="a policy has a method decide"):
        fabric.balance("mine")  # type: ignore[arg-type]

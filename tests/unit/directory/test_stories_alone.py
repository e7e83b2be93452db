"""What the directory tells of derivations."""

from __future__ import annotations

import logging

import pytest
from outside_for_tests import Ending, Fabric
from picture_for_tests import Trade

from activebroker.core.errors import DeadlineExceeded, UnknownChannel
from activebroker.directory.planning import PlannedMove, plan_move
from activebroker.protocol.orders import ReportStory
from activebroker.protocol.requests import Move
from derivation.initiator import Begun
from derivation.protocol import Finish, Outcome, Refused


class Bench(Fabric):
    """x.Late goes from b1 to b2."""

    def __init__(self) -> None:
        super().__init__()
        self.trade = Trade(self.graph)
        self.planned = self.plan()

    def plan(self) -> PlannedMove:
        request = Move("x.Late", "b2", "c", 5.0)
        planned = plan_move(self.graph, "hub", self.trade.late, ["b2"], "python", request)
        planned.handle(Begun(), self.context)
        return planned

    def ends(self, outcome: Outcome, reason: str = "") -> None:
        self.stories.ended(self.planned, Finish(outcome, reason))

    def tell(self, channel: str = "x.Late") -> Ending:
        ending = Ending()
        self.stories.tell(channel, ending.set)
        self.answer_all()
        return ending

    def reply(self, node: str, ahead: float, *steps: float) -> None:
        """A party whose clock is `ahead` did something at these times of its own."""
        told = [{"at": at, "input": node} for at in steps]
        parts = [{"role": "party", "steps": told}]
        self.replies[node, ReportStory] = {"now": self.time + ahead, "parts": parts}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_of_what_never_moved_there_is_no_story(bench: Bench) -> None:
    bench.ends(Outcome.COMPLETED)
    error = bench.tell("x.Lade").error
    assert isinstance(error, UnknownChannel) and "Did you mean 'x.Late'" in str(error)


def test_all_who_had_a_part_are_asked_once(bench: Bench) -> None:
    for node in ("a", "b1", "b2"):
        bench.reply(node, 0.0)
    bench.ends(Outcome.COMPLETED)
    assert bench.tell().done
    move = bench.planned.plan.move
    assert bench.asked == [(node, ReportStory(move)) for node in ("b1", "b2", "a")]


def test_each_part_is_brought_to_the_clock_of_the_directory(bench: Bench) -> None:
    bench.time = 10.0
    bench.reply("b1", 100.0, 102.0)
    bench.reply("b2", -5.0, -1.0)
    bench.reply("a", 0.0, 3.0)
    bench.ends(Outcome.COMPLETED)
    told = bench.tell().result
    assert [(line["party"], line["at"]) for line in told["lines"]] == [
        ("hub", 0.0),
        ("b1", 2.0),
        ("a", 3.0),
        ("b2", 4.0),
    ]
    assert (told["outcome"], told["silent"]) == ("completed", {})


def test_who_does_not_answer_is_named(bench: Bench) -> None:
    for node in ("a", "b2"):
        bench.reply(node, 0.0)
    bench.replies["b1", ReportStory] = DeadlineExceeded("b1 did not answer")
    bench.ends(Outcome.COMPLETED)
    assert bench.tell().result["silent"] == {"b1": "b1 did not answer"}


def test_who_is_gone_is_named(bench: Bench) -> None:
    for node in ("a", "b2"):
        bench.reply(node, 0.0)
    bench.gone("b1")
    bench.ends(Outcome.COMPLETED)
    assert list(bench.tell().result["silent"]) == ["b1"]


def test_the_last_ones_are_shown_with_their_outcomes(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    move = bench.planned.plan.move
    bench.time = 2.0
    bench.planned.handle(Refused(move, "b2", "no numpy"), bench.context)
    with caplog.at_level(logging.WARNING, "activebroker.directory"):  # as a simulation hushes it
        bench.ends(Outcome.ROLLED_BACK, "'b2' refused: no numpy")
    (ended,) = bench.stories.last_ended()
    assert (ended.outcome, ended.reason) == ("rolled back", "'b2' refused: no numpy")
    assert (ended.origins, ended.destinations, ended.seconds) == (["b1"], ["b2"], 2.0)
    assert "going to b2 rolled back" in caplog.text


def test_one_under_way_tells_for_whom_it_waits(bench: Bench) -> None:
    bench.queue.planned[bench.planned.plan.move] = bench.planned
    (going,) = bench.stories.under_way()
    assert (going.phase, going.waits_for) == ("preparing", ["b1", "b2"])
    for node in ("a", "b1", "b2"):
        bench.reply(node, 0.0)
    assert bench.tell().result["phase"] == "preparing"

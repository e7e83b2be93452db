"""Derivations in sight: while they are under way, and as stories when they have ended."""

from __future__ import annotations

import io
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

import activebroker as ab
from activebroker.core.errors import UnknownChannel
from activebroker.observe import report, story_table, tables
from activebroker.protocol.requests import TellStory

PATIENCE = 30.0


@dataclass(frozen=True)
class Trade:
    name: str
    price: float


class Gated(ab.FIFOFilter):
    """Tells its state only when the gate is open."""

    def __init__(self, gate: str) -> None:
        self.gate = gate
        self.seen = 0

    def enqueue(self, event: ab.Event) -> None:
        self.seen += 1
        super().enqueue(event)

    def snapshot(self) -> bytes:
        while not Path(self.gate).exists():
            time.sleep(0.001)
        return super().snapshot()


def shown(what: RenderableType) -> str:
    out = Console(file=io.StringIO(), width=250)
    out.print(what)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def moves(fabric: ab.Fabric, phase: str) -> Any:
    """The report's row of a move, once one of its parts has come to a phase."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for move in report(fabric.status(), at=0.0).moves:
            if phase in [part.phase for part in move.parts]:
                return move
    raise AssertionError(f"no move has come to phase {phase!r}")


def test_a_move_is_seen_while_it_is_under_way_and_told_when_it_has_ended(
    fabric: ab.Fabric, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    gate.touch()
    trades = fabric.channel("trades", Trade)
    gated = trades.derive((Gated, str(gate)), at="atlanta", name="gated")
    with gated.subscribe(timeout=PATIENCE) as events, trades.supplier("NYSE") as nyse:
        nyse.publish_batch([Trade("IBM", float(n)) for n in range(10)])
        taken = iter(events)
        assert [next(taken).seq for _ in range(10)] == list(range(10))
        gate.unlink()
        moving = threading.Thread(target=gated.move, args=("dallas",))
        moving.start()
        move = moves(fabric, "capturing")
        under_way = report(fabric.status(), at=0.0)
        half = fabric.story("gated")
        gate.touch()
        moving.join(PATIENCE)
        story = fabric.story("gated")
        ended = report(fabric.status(), at=0.0)
        trades.close()

    assert (move.channel, move.origins, move.destinations) == ("gated", ["atlanta"], ["dallas"])
    assert (move.phase, move.waits_for) == ("swapping", ["dallas"])
    parts = {part.node: (part.role, part.phase, part.waits_for) for part in move.parts}
    assert parts["atlanta"] == ("origin", "capturing", ["atlanta"])
    assert parts["dallas"][:2] == ("destination", "prepared") and "atlanta" in parts["dallas"][2]
    assert "capturing" in shown(tables(under_way)) and move.seconds > 0
    assert "swapping for" in shown(story_table(half))

    assert ended.moves == [] and [each.outcome for each in ended.ended_moves] == ["completed"]
    assert (story["outcome"], story["silent"]) == ("completed", {})
    roles = {line["role"]: line["party"] for line in story["lines"]}
    assert roles == {
        "initiator": fabric.node,
        "origin": "atlanta",
        "destination": "dallas",
        "source": fabric.node,
    }
    states = [line["after"] for line in story["lines"] if line["role"] == "origin"]
    assert states[0] == "AWAITING_END_MARKERS" and states[-2:] == ["CAPTURING", "HANDED_OVER"]
    times = [line["at"] for line in story["lines"]]
    assert times == sorted(times)
    # Of the others it is known to within half the time of an answer: they may seem to be earlier.
    assert next(line["at"] for line in story["lines"] if line["role"] == "initiator") == 0.0
    assert "completed after" in shown(story_table(story))


def test_only_what_has_moved_has_a_story(fabric: ab.Fabric) -> None:
    trades = fabric.channel("trades", Trade)
    dear = trades.derive(lambda trade: trade.price > 1, at="atlanta", name="dear")
    dear.move(to="dallas")
    assert fabric.story(dear)["destinations"] == ["dallas"]
    with pytest.raises(UnknownChannel, match=r"No move of a channel 'dera' .*'dear'"):
        fabric.story("dera")


def test_what_the_directory_cannot_make_sense_of_is_answered(fabric: ab.Fabric) -> None:
    """In an embedded fabric no types of the wire hold it back."""
    with pytest.raises(ab.ActiveBrokerError, match="failed at TellStory: TypeError"):
        fabric._membership._runtime.request(TellStory(7), 10.0)  # type: ignore[arg-type]
    assert fabric.status()["ended_moves"] == []

"""The stages of a node, by themselves."""

from __future__ import annotations

from typing import Any

import pytest
from chunks_for_tests import chunk, envelope, groups
from plane_for_tests import Parts, flow

from activebroker.core.errors import ProtocolError
from activebroker.filters import RunResult
from activebroker.node.dataplane.plane import Arrival, FilterChanged, FilterSaved, InputEnded
from activebroker.node.effects import CancelTimer, RunStage, SnapshotStage, UnloadStage
from activebroker.protocol.flows import (
    Acknowledged,
    FlowDropped,
    FlowEnded,
    FlowOpened,
    StreamEnded,
)
from activebroker.protocol.messages import CheckpointTaken, OutletDrained
from activebroker.protocol.specs import StageSpec
from derivation.protocol import Ties


@pytest.fixture
def parts() -> Parts:
    return Parts()


def fed(parts: Parts, envelope: Any) -> Any:
    """A stage with a flow in from east, and one out to west."""
    stage = parts.stage(envelope)
    parts.inlets.receive(
        "east", FlowOpened(2, 7, outlet=102, after=(), subscriber="notes.Late"), ()
    )
    parts.outlets.open_flow(flow(3, "west", outlet=7, recovers=True))
    parts.stages.go_on()
    parts.plane.facts.clear()
    parts.take()
    return stage


def come(parts: Parts, *numbers: int, first: int = 0) -> None:
    parts.inlets.arrived(Arrival(7, 2, chunk(*numbers, first=first)))
    parts.stages.go_on()
    parts.outlets.send_events()


def test_a_number_is_taken_once(parts: Parts) -> None:
    parts.stage()
    with pytest.raises(ProtocolError, match="has an inlet 7 already"):
        parts.stages.open(StageSpec(7, "other", "python", None, "owner"))


def test_what_needs_no_filter_goes_on_when_the_stage_is_looked_at(parts: Parts) -> None:
    fed(parts, envelope(exact=True))
    parts.inlets.arrived(Arrival(7, 2, chunk(5)))
    assert parts.take() == []
    parts.stages.go_on()
    parts.outlets.send_events()
    assert [(peer, type(body).__name__) for peer, body in parts.take()] == [("west", "Events")]
    assert parts.plane.touched == {}


def test_a_stage_is_looked_at_once_for_all_that_has_come(parts: Parts) -> None:
    fed(parts, envelope(exact=False))
    for first in range(3):
        parts.inlets.arrived(Arrival(7, 2, chunk(first, first=first)))
    parts.stages.go_on()
    (work,) = parts.context.effects
    assert isinstance(work, RunStage) and len(work.items) == 3


def test_a_relay_acknowledges_what_it_has_passed_on_when_it_ends(parts: Parts) -> None:
    fed(parts, None)
    come(parts, 5)
    parts.outlets.receive(Acknowledged(7, "inlet 9 at west", {"A": (1, 1)}, ended=False))
    parts.inlets.receive("east", StreamEnded(2, 7, "A", (1, 2)), ())
    parts.inlets.receive("east", FlowEnded(2, 7), ())
    parts.stages.go_on()
    parts.take()
    parts.outlets.receive(Acknowledged(7, "inlet 9 at west", {"A": (1, 2)}, ended=True))
    parts.stages.go_on()
    assert parts.take() == [
        ("east", Acknowledged(102, "notes.Late", {"A": (1, 2)}, ended=True)),
        ("hub", OutletDrained(7, stopped=False)),
    ]
    assert parts.plane.stages == {} and parts.plane.inlets == {}
    assert parts.context.effects[-2:] == [UnloadStage(7), CancelTimer("idle 7")]


def test_a_checkpoint_goes_to_the_directory_which_says_that_it_has_it(parts: Parts) -> None:
    stage = fed(parts, envelope(exact=False))
    parts.stages.save(stage)
    parts.stages.go_on()
    assert SnapshotStage(7) in parts.context.effects
    stage.snapshot_taken({"A": b"state"})
    parts.plane.touch(7)
    parts.stages.go_on()
    ((to, taken),) = parts.take()
    assert to == "hub" and isinstance(taken, CheckpointTaken)
    assert taken.checkpoint.state == {"A": b"state"} and not parts.plane.facts
    parts.stages.checkpoint_kept(7)
    assert list(parts.plane.facts) == [FilterSaved(7)]
    assert parts.take() == [("east", Acknowledged(102, "notes.Late", {}, ended=False))]


def test_a_filter_that_was_stopped_has_nothing_to_save(parts: Parts) -> None:
    stage = fed(parts, envelope(exact=False))
    parts.stages.save(stage)
    error = ("FilterStopped", "planted")
    stage.outlet.end(finished=True, error=error)
    parts.stages.go_on()
    assert FilterSaved(7, error) in parts.plane.facts


@pytest.mark.parametrize("discarded", [False, True])
def test_a_stage_that_is_removed_drops_its_flows(parts: Parts, discarded: bool) -> None:
    fed(parts, envelope(exact=True))
    come(parts, 5)
    parts.take()
    (parts.stages.discard if discarded else parts.stages.remove)(7)
    dropped = ("east", FlowDropped(2, 102, subscriber=not discarded))
    end = ("west", FlowEnded(3, 9))
    assert parts.take() == [dropped] if discarded else [dropped, end]
    assert (7 in parts.plane.outlets) is not discarded, "what it has made is not acknowledged"
    parts.stages.remove(7)  # which changes nothing more


def test_who_waits_for_a_change_hears_that_the_stage_is_gone(parts: Parts) -> None:
    stage = fed(parts, envelope(exact=False))
    stage.change(1, envelope(exact=False), {}, {})
    parts.stages.remove(7)
    assert list(parts.plane.facts) == [FilterChanged(7, False)]


def test_what_a_hand_over_brings_comes_first(parts: Parts) -> None:
    stage = parts.stages.open(StageSpec(7, "notes.Late", "python", envelope(exact=False), "owner"))
    parts.inlets.receive("east", FlowOpened(5, 7, outlet=102, after=(2,)), ())
    parts.inlets.arrived(Arrival(7, 5, chunk(7, first=7)))
    parts.inlets.arrived(Arrival(7, 5, FlowEnded(5, 7)))
    parts.plane.facts.clear()
    assert not stage.busy, "the flow is held"
    parts.stages.merge(stage, [chunk(6, first=6)], ended=(2,), lost=())
    assert [groups(item) for item in stage.waiting()] == [[6], [7]]
    assert list(parts.plane.facts) == [InputEnded(7, 5, lost=False)]
    parts.stages.owe(stage, Ties({40: ("west", "notes.Late")}, {"A": (1, 6)}, {}))
    assert stage.inlet.sources == {40: ("west", "notes.Late")}


def test_a_filter_s_work_goes_out_when_it_is_done(parts: Parts) -> None:
    stage = fed(parts, envelope(exact=False))
    come(parts, 5)
    stage.done(RunResult([chunk(5).batch]))
    parts.outlets.send_events()
    assert [(peer, type(body).__name__) for peer, body in parts.take()] == [("west", "Events")]

"""A node's part in moves, by itself: what it asks of its stages and flows, and tells others."""

from __future__ import annotations

from typing import Any

import pytest
from chunks_for_tests import chunk, envelope, groups
from plane_for_tests import Parts, flow

from activebroker.node.dataplane.plane import Arrival
from activebroker.node.effects import LoadStage, RestoreStage, SnapshotStage, UnloadStage
from activebroker.node.handover import pack
from activebroker.node.moves import Moves
from activebroker.protocol.flows import FlowDropped, FlowEnded, FlowOpened
from activebroker.protocol.messages import PrepareMove, SwapFlows
from activebroker.protocol.specs import StageSpec
from derivation.protocol import (
    Cancel,
    End,
    HandOver,
    Output,
    Plan,
    Prepare,
    Prepared,
    Proceed,
    Refused,
    RequestSwap,
    Started,
    Swap,
    Ties,
)

FILTER = StageSpec(7, "notes.Late", "python", envelope(exact=False), "owner")


def plan(origin: str, destination: str, **more: Any) -> Plan:
    swap = Swap(source="east", old=(2,), new=5, destination=destination, origin=origin)
    output = Output(origin, 3)
    return Plan(4, "notes.Late", "hub", (origin,), (destination,), (swap,), (output,), **more)


class Bench(Parts):
    def __init__(self) -> None:
        super().__init__()
        self.moves = Moves(self.context, self.plane, self.outlets, self.stages)

    def receive(self, body: Any, buffers: Any = ()) -> list[tuple[str, Any]]:
        assert self.moves.receive(body, buffers)
        self.stages.go_on()
        return self.take()

    def running(self) -> Any:
        """The filter, with a flow in from east and one out to west."""
        stage = self.stage(FILTER.envelope)
        self.inlets.receive(
            "east", FlowOpened(2, 7, outlet=102, after=(), subscriber="notes.Late"), ()
        )
        self.outlets.open_flow(flow(3, "west", outlet=7))
        self.stages.go_on()
        self.plane.facts.clear()
        self.take()
        return stage


@pytest.fixture
def bench() -> Bench:
    return Bench()


def prepare(plan: Plan, **more: Any) -> PrepareMove:
    return PrepareMove(
        Prepare(plan), more.get("origin_stage"), more.get("stage"), more.get("outputs", ())
    )


def test_what_is_no_message_of_a_move_is_left_to_others(bench: Bench) -> None:
    assert not bench.moves.receive(FlowEnded(2, 7), ())


def test_a_source_ends_the_old_flow_and_opens_the_new_one_at_once(bench: Bench) -> None:
    bench.supplier()
    bench.outlets.open_flow(flow(2, "here-before", recovers=True, subscriber="notes.Late"))
    bench.take()
    swap = Swap(source="here", old=(2,), new=5, destination="there", origin="here-before")
    swapped = SwapFlows(RequestSwap(4, swap), 1, flow(5, "there", subscriber="notes.Late"))
    (old, end), (new, begin) = bench.receive(swapped)
    assert (old, end) == ("here-before", FlowEnded(2, 9))
    assert new == "there" and isinstance(begin, FlowOpened) and begin.flow == 5
    assert bench.receive(swapped) == [], "asked once more"


def test_a_destination_loads_the_filter_and_is_prepared(bench: Bench) -> None:
    assert bench.receive(prepare(plan("there", "here"), stage=FILTER)) == []
    assert LoadStage(FILTER) in bench.context.effects
    assert bench.moves.loaded(7, None)
    assert bench.take() == [("hub", Prepared(4, "here"))]
    assert not bench.moves.loaded(7, None), "nobody waits for it any more"


def test_a_destination_that_cannot_load_it_refuses_and_forgets_it(bench: Bench) -> None:
    bench.receive(prepare(plan("there", "here"), stage=FILTER))
    assert bench.moves.loaded(7, "ModuleNotFoundError: planted")
    assert bench.take() == [("hub", Refused(4, "here", "ModuleNotFoundError: planted"))]
    assert bench.plane.stages == {} and UnloadStage(7) in bench.context.effects


def test_an_origin_without_the_filter_refuses(bench: Bench) -> None:
    told = bench.receive(prepare(plan("here", "there"), origin_stage=7))
    assert told == [("hub", Refused(4, "here", "its filter has ended"))]


def test_an_origin_hands_over_what_it_has_not_filtered(bench: Bench) -> None:
    bench.running()
    told = bench.receive(prepare(plan("here", "there"), origin_stage=7))
    assert told == [("hub", Prepared(4, "here"))]
    assert bench.receive(Proceed(4)) == []
    assert bench.moves.under_way()[0].waits_for == ["east"]
    bench.inlets.arrived(Arrival(7, 2, chunk(5)))
    bench.inlets.arrived(Arrival(7, 2, FlowEnded(2, 7)))
    bench.moves.flow_ended(7, 2, lost=False)  # before the stage is looked at
    bench.stages.go_on()
    assert SnapshotStage(7) in bench.context.effects
    bench.moves.captured(7, {"A": b"state"})
    told = bench.take()
    (to, handed), ended = told[0], told[1:]
    assert to == "there" and isinstance(handed, HandOver)
    assert handed.state == {"A": b"state"} and handed.ended == (2,) and not handed.lost
    assert [(head.supplier, head.upto) for head in handed.buffer] == [("A", (1, 1))]
    assert ("west", FlowEnded(3, 9)) in ended
    assert bench.plane.stages == {}


def test_the_loss_of_a_source_is_handed_over_too(bench: Bench) -> None:
    bench.running()
    bench.receive(prepare(plan("here", "there"), origin_stage=7))
    bench.receive(Proceed(4))
    bench.moves.flow_ended(7, 2, lost=True)
    bench.stages.go_on()
    bench.moves.captured(7, {})
    (handed,) = [body for _, body in bench.take() if isinstance(body, HandOver)]
    assert handed.lost == (2,) and handed.ended == ()


def test_a_destination_starts_with_state_buffer_and_what_was_held(bench: Bench) -> None:
    out = flow(8, "west", outlet=7, after=(3,))
    bench.receive(prepare(plan("there", "here"), stage=FILTER, outputs=(out,)))
    bench.moves.loaded(7, None)
    bench.inlets.receive("east", FlowOpened(5, 7, outlet=102, after=(2,)), ())
    bench.moves.flow_opened(7, 5)
    bench.inlets.arrived(Arrival(7, 5, chunk(9, first=9)))
    bench.take()
    heads, buffers = pack([chunk(8, first=8)])
    handed = HandOver(4, "there", {"A": b"state"}, heads, (2,), ties=Ties())
    told = bench.receive(handed, buffers)
    assert RestoreStage(7, {"A": b"state"}) in bench.context.effects
    assert ("hub", Started(4, "here")) in told
    assert [body.flow for to, body in told if isinstance(body, FlowOpened)] == [8]
    work = bench.context.effects[-1]
    assert [list(map(_group, batch.contents())) for batch in work.items] == [[8], [9]]  # type: ignore[union-attr]


def _group(content: Any) -> int:
    return int(content.group)


def test_what_is_cancelled_goes_on_at_the_origin_and_is_gone_at_the_destination() -> None:
    old, new = Bench(), Bench()
    stage = old.running()
    old.receive(prepare(plan("here", "there"), origin_stage=7))
    old.inlets.arrived(Arrival(7, 2, chunk(5)))
    assert old.receive(Cancel(4)) == []
    assert not stage.moving and old.moves.under_way() == []
    assert stage.taken_events == 1, "it filters on"
    new.receive(prepare(plan("there", "here"), stage=FILTER))
    new.receive(Cancel(4))
    assert new.plane.stages == {} and new.moves.under_way() == []


def test_a_destination_tells_that_the_origin_was_lost_with_the_state(bench: Bench) -> None:
    bench.receive(prepare(plan("there", "here"), stage=FILTER))
    bench.moves.loaded(7, None)
    bench.take()
    bench.moves.lost("there")
    ((to, refused),) = bench.take()
    assert to == "hub" and isinstance(refused, Refused) and "was lost" in refused.reason


def test_the_stories_of_the_last_are_kept(bench: Bench) -> None:
    bench.running()
    bench.receive(prepare(plan("here", "there"), origin_stage=7))
    bench.receive(End(4))
    assert bench.moves.under_way() == []
    (part,) = bench.moves.story(4)
    assert part["role"] == "origin" and part["steps"]
    assert bench.moves.story(5) == []


def test_nobody_leads_them_when_the_fabric_is_lost(bench: Bench) -> None:
    bench.running()
    bench.receive(prepare(plan("here", "there"), origin_stage=7))
    bench.moves.abandon()
    assert bench.moves.under_way() == []


def test_what_follows_a_source_that_is_lost_is_dropped(bench: Bench) -> None:
    """And taken anew, from where the old place has come to."""
    bench.receive(prepare(plan("there", "here"), stage=FILTER))
    bench.moves.loaded(7, None)
    bench.inlets.receive("east", FlowOpened(5, 7, outlet=102, after=(2,)), ())
    bench.moves.flow_opened(7, 5)
    bench.take()
    handed = HandOver(4, "there", {}, (), (), lost=(2,), inputs={"A": (1, 8)})
    told = bench.receive(handed)
    assert not [body for _, body in told if isinstance(body, FlowDropped)]
    (rewound,) = [body for to, body in told if to == "east"]
    assert rewound.flow == 5 and rewound.since == {"A": (1, 8)}


def test_what_is_not_filtered_waits_in_the_stage(bench: Bench) -> None:
    stage = bench.running()
    bench.receive(prepare(plan("here", "there"), origin_stage=7))
    bench.outlets.lost("west")
    bench.inlets.arrived(Arrival(7, 2, chunk(5)))
    assert [groups(item) for item in stage.waiting()] == [[5]]
    assert bench.moves.under_way()[0].held_events == 1


def test_a_filter_that_an_error_stops_while_it_is_saved_does_not_move(bench: Bench) -> None:
    """Nobody has its state: if the new place died, the filter would begin anew elsewhere."""
    stage = bench.running()
    assert bench.receive(prepare(plan("here", "there", saves=True), origin_stage=7)) == []
    stage.outlet.end(finished=True, error=("FilterStopped", "planted"))
    bench.plane.touch(7)
    bench.stages.go_on()
    (fact,) = bench.plane.facts
    bench.take()
    bench.moves.saved(fact.stage, fact.error)
    assert bench.take() == [("hub", Refused(4, "here", "its filter has ended: planted"))]
    bench.receive(Cancel(4))
    assert not bench.moves.under_way()

"""What a node leaves behind that loses its fabric, and what the next one makes of it."""

from __future__ import annotations

import pytest
from chunks_for_tests import chunk, envelope

from activebroker.directory.deaths import Budget
from activebroker.events import TypeRegistry
from activebroker.node.dataplane.stage import Stage
from activebroker.node.effects import BatchPublished, Legacy, TimerFired
from activebroker.node.node import Node
from activebroker.protocol.specs import FlowSpec, Member, StageSpec


class Program:
    """A node with supplier A of channel x and, beside it, a filter whose consumer is elsewhere."""

    def __init__(self, before: Legacy, incarnation: int) -> None:
        me = Member("program", None, False, incarnation)
        self.node = Node(me, "hub", TypeRegistry(), Budget(), before)
        self.outlet = self.node.outlets.open(1, "x", "A")
        self.stage: Stage = self.node.stages.open(
            StageSpec(2, "x.Even", "python", envelope(exact=True), "owner")
        )
        self.stage.inlet.anew = True
        self.node.stages.start(self.stage)
        began = {"A": (1, 0)} if before.streams else {}
        flow = FlowSpec(
            3, 1, "program", 2, "program", supplier="A", subscriber="x.Even", began=began
        )
        self.node.outlets.open_flow(flow)
        self.acknowledge()

    def acknowledge(self) -> None:
        """Let the node go on with what it has sent to itself."""
        self.node.handle(TimerFired("tick"), 0.0)

    def publish(self, number: int, count: int) -> None:
        batch = chunk(*range(number, number + count), first=number).batch
        self.node.handle(BatchPublished(1, batch), 0.0)

    def serve(self) -> None:
        """The filter's consumer comes, or is back."""
        flow = FlowSpec(4, 2, "program", 9, "consumer", subscriber="inlet 9")
        self.node.outlets.open_flow(flow)
        self.acknowledge()


def seqs(left: Legacy) -> list[int]:
    return [int(seq) for batch in left.unacknowledged_of("x", "A") for seq in batch.seqs]


def test_what_a_filter_had_not_filtered_yet_is_for_the_next_one() -> None:
    first = Program(Legacy("", {"x.Even": {"inlet 9": {}}}), 1)
    first.publish(0, 3)
    assert first.stage.queue_length == 3, "its consumer is awaited"
    left = first.node.departed("the fabric is lost")
    assert seqs(left) == [0, 1, 2]
    then = Program(left, 2)
    for batch in left.unacknowledged_of("x", "A"):
        then.node.handle(BatchPublished(1, batch), 0.0)
    then.publish(3, 1)
    assert then.stage.queue_length == 4
    then.serve()
    assert then.stage.queue_length == 0 and then.stage.outlet.emitted_events == 4


def test_what_it_had_filtered_is_not() -> None:
    first = Program(Legacy(""), 1)
    first.publish(0, 2)
    assert first.stage.outlet.emitted_events == 2
    first.stage.outlet.awaited["inlet 9"] = None  # from now on it waits
    first.publish(2, 1)
    left = first.node.departed("the fabric is lost")
    assert left.filtered == {"x.Even": {"A": (1, 2)}}
    then = Program(left, 2)
    then.publish(0, 3)  # all that may not have come to somebody
    assert then.stage.outlet.emitted_events == 1


@pytest.mark.parametrize("laid", [False, True])
def test_what_two_in_succession_have_left(laid: bool) -> None:
    """The second was lost before it had everything, or before anything was laid there."""
    first = Legacy("a", {"x": {"inlet 9": {}}}, {}, {("x", "A"): (1, 3)}, {9: {"A": (1, 2)}})
    first = first.then(Legacy("b", filtered={"x.Even": {"A": (1, 1)}}))
    assert first.reason == "b" and first.filtered == {"x.Even": {"A": (1, 1)}}
    streams = {("x", "A"): (1, 5)} if laid else {}
    both = first.then(Legacy("c", {"x": {}}, streams=streams))
    assert both.subscribers == {"x": {"inlet 9": {}}}
    assert both.streams == {("x", "A"): (1, 5 if laid else 3)}
    assert both.received == {9: {"A": (1, 2)}} and both.filtered == first.filtered

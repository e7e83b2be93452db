"""Faults planted into what holds between nodes: links, credit, leases, and bad input."""

from __future__ import annotations

from typing import Any

from planting_for_tests import Original, Plants

from activebroker.directory.endings import Endings
from activebroker.directory.leases import Leases
from activebroker.directory.membership import Membership
from activebroker.events import Batch
from activebroker.filters import FilterRunner, RunResult
from activebroker.node.dataplane import failing
from activebroker.node.dataplane.inlet import Inlet
from activebroker.node.dataplane.inlets import Inlets
from activebroker.node.dataplane.outlet import Outlet
from activebroker.node.dataplane.stage import Stage
from activebroker.node.dataplane.stages import Stages
from activebroker.node.effects import CancelTimer
from activebroker.node.links.link import Link
from activebroker.node.links.peers import Peers
from activebroker.node.node import Node
from activebroker.protocol.messages import Heard

PLANTS = Plants()

# --- the link -------------------------------------------------------------------------------------


@PLANTS.add("repeated frames are taken again", Link, "receive")
def _(original: Original) -> Original:
    def receive(self: Link, frame: Any, buffers: Any, now: float) -> list[Any]:
        again = 0 < frame.seq <= self._received and not isinstance(frame.body, Heard)
        return [*original(self, frame, buffers, now), *([(frame.body, buffers)] if again else [])]

    return receive


@PLANTS.add("gaps are accepted", Link, "receive")
def _(original: Original) -> Original:
    def receive(self: Link, frame: Any, buffers: Any, now: float) -> Any:
        if frame.seq > self._received + 1 and not isinstance(frame.body, Heard):
            self._received = frame.seq - 1
        return original(self, frame, buffers, now)

    return receive


@PLANTS.add("missing frames are not asked for", Link, "_ask_again")
def _(original: Original) -> Original:
    return lambda self, now: None


@PLANTS.add("a stale incarnation is accepted", Peers, "is_stale")
def _(original: Original) -> Original:
    return lambda self, frame: False


# --- credit, time, failures -----------------------------------------------------------------------


@PLANTS.add("credit leaks", Outlet, "return_credit")
def _(original: Original) -> Original:
    return lambda self, flow, nbytes: original(self, flow, nbytes // 2)


@PLANTS.add("credit is returned twice", Outlet, "return_credit")
def _(original: Original) -> Original:
    def twice(self: Outlet, flow: int, nbytes: int) -> None:
        original(self, flow, nbytes)
        original(self, flow, nbytes)

    return twice


@PLANTS.add("timers are never cancelled", Node, "handle")
def _(original: Original) -> Original:
    def handle(self: Node, input: Any, now: float) -> Any:
        return [each for each in original(self, input, now) if not isinstance(each, CancelTimer)]

    return handle


@PLANTS.add("the loss of one source ends the streams of all", Inlet, "lost")
def _(original: Original) -> Original:
    def lost(self: Inlet, source: str, unopened: bool = False) -> Any:
        sources = {flow.source: None for flow in self.flows.values()}
        return (
            [item for each in sources for item in original(self, each)] if source in sources else []
        )

    return lost


@PLANTS.add("a filter that may begin waits for the next tick", Stages, "start")
def _(original: Original) -> Original:
    def start(self: Stages, stage: Stage) -> None:
        original(self, stage)
        self._plane.touched.pop(stage.spec.id, None)

    return start


# --- names and leases -----------------------------------------------------------------------------


@PLANTS.add("a process that answers loses its name", Membership, "prove")
def _(original: Original) -> Original:
    def prove(self: Membership, name: str, then: Any) -> None:
        if name in self._members and name != self._me:
            self._outside.expel(name)
        original(self, name, then)

    return prove


@PLANTS.add("a lease runs though the channel has a subscriber", Leases, "taken")
def _(original: Original) -> Original:
    return lambda self, channel: False


@PLANTS.add("leases do not run out", Leases, "has_run_out")
def _(original: Original) -> Original:
    return lambda self, channel: ""


# --- what goes wrong at the edge of a node --------------------------------------------------------


@PLANTS.add("a malformed row loses its batch", Batch, "_read_apart")
def _(original: Original) -> Original:
    def read_apart(self: Batch) -> Any:
        _, _, unreadable = original(self)
        return self.slice(0, 0), [], unreadable

    return read_apart


@PLANTS.add("a malformed event is lost without a word", FilterRunner, "_read")
def _(original: Original) -> Original:
    return lambda self, batch, result: original(self, batch, RunResult())


@PLANTS.add("a malformed batch is dropped without a word", Inlets, "_break")
def _(original: Original) -> Original:
    return lambda self, *of: None


@PLANTS.add("a failed effect is not reported", failing, "instead")
def _(original: Original) -> Original:
    return lambda effect, stages, error: []


@PLANTS.add("the sources of a filter that was stopped retain its events", Endings, "_stopped")
def _(original: Original) -> Original:
    return lambda self, channel, stage: None

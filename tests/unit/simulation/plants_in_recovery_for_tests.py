"""Faults planted into recovery, into relays, and into joining again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace
from planting_for_tests import Original, Plants

from activebroker.directory.deaths import Record
from activebroker.directory.directory import Directory
from activebroker.directory.parts import Channel
from activebroker.directory.recoveries import Recoveries
from activebroker.directory.recovery import Recovery
from activebroker.directory.wiring import Wiring
from activebroker.node.dataplane.inlet import Inlet
from activebroker.node.dataplane.outlet import Outlet
from activebroker.node.dataplane.stage import Stage
from activebroker.node.dataplane.stages import Stages
from activebroker.node.effects import Legacy
from activebroker.node.node import Node
from activebroker.protocol.flows import Acknowledged
from activebroker.protocol.orders import Deploy
from activebroker.protocol.specs import Member, Offsets

PLANTS = Plants()

# --- recovery -------------------------------------------------------------------------------------


@PLANTS.add("a checkpoint is sent before its outputs are acknowledged", Outlet, "all_acknowledged")
def _(original: Original) -> Original:
    return lambda self, upto: True


@PLANTS.add("inputs are acknowledged before the directory has the checkpoint", Stages, "_pump")
def _(original: Original) -> Original:
    def pump(self: Stages, stage: Stage) -> None:
        original(self, stage)
        for outlet, (node, subscriber) in stage.inlet.sources.items():
            self._plane.tell(
                node, Acknowledged(outlet, subscriber, dict(stage.saving.inputs), False)
            )

    return pump


@PLANTS.add("a checkpoint of a broker that leaves is accepted", Directory, "told")
def _(original: Original) -> Original:
    def told(self: Directory, source: str, body: Any) -> None:
        left = source not in self.members
        if left:
            self.members[source] = Member(source, source, True, 0)
        original(self, source, body)
        if left:
            del self.members[source]

    return told


@PLANTS.add("the retained events go with the flow that is lost", Outlet, "close")
def _(original: Original) -> Original:
    def close(self: Outlet, flow_id: int) -> None:
        subscriber = self.subscribers.get(self.served_by(flow_id) or "")
        original(self, flow_id)
        if subscriber is not None:
            subscriber.retained.clear()
            subscriber.retained_bytes = 0

    return close


@PLANTS.add("the retained events are not sent to a subscriber that resumes", Outlet, "open")
def _(original: Original) -> Original:
    def open(self: Outlet, spec: Any, retains: bool = False) -> None:
        if spec.resumes and (subscriber := self.subscribers.get(spec.subscriber)) is not None:
            subscriber.retained.clear()
        original(self, spec, retains)

    return open


@PLANTS.add("an inlet does not tell how far it has come", Inlet, "release")
def _(original: Original) -> Original:
    def release(self: Inlet, outlets: Any) -> Offsets:
        original(self, outlets)
        return {}

    return release


@PLANTS.add("the checkpoint's state is not restored", Node, "_serve")
def _(original: Original) -> Original:
    def serve(self: Node, body: Any, done: Any) -> None:
        if isinstance(body, Deploy) and (checkpoint := body.stage.checkpoint) is not None:
            stage = replace(body.stage, checkpoint=replace(checkpoint, state={}))
            body = Deploy(stage)
        original(self, body, done)

    return serve


@PLANTS.add("the numbering of the output is not restored", Stage, "take_over")
def _(original: Original) -> Original:
    return lambda self, inputs, outputs: original(self, inputs, {})


@PLANTS.add("a filter goes on before its subscribers are served", Recovery, "_connect")
def _(original: Original) -> Original:
    def connect(self: Recovery, *args: Any) -> Iterator[Any]:
        steps = original(self, *args)
        down = next(steps)
        up = steps.send([])
        yield up
        yield down

    return connect


# --- what recovery may cost -----------------------------------------------------------------------


@PLANTS.add("recovery has no budget", Record, "spent")
def _(original: Original) -> Original:
    return lambda self, budget, inputs, now: ""


@PLANTS.add("suspects are tried together", Recoveries, "_on_trial")
def _(original: Original) -> Original:
    return lambda self, channel, deaths: []


@PLANTS.add("the directory's node is not spared", Recovery, "candidates")
def _(original: Original) -> Original:
    return lambda self, channel, *how: original(self, channel)


# --- relays ---------------------------------------------------------------------------------------


@PLANTS.add("a relay does not know how far its subscriptions have acknowledged", Stages, "open")
def _(original: Original) -> Original:
    def open_stage(self: Stages, spec: Any) -> Stage:
        stage: Stage = original(self, spec)
        stage.outlet.tracks = spec.envelope is not None
        return stage

    return open_stage


@PLANTS.add(
    "a subscriber that resumes at a relay does not wait for what its supplier sent itself",
    Inlet,
    "opened",
)
def _(original: Original) -> Original:
    return lambda self, *args: original(self, *args[:7], False, *args[8:])  # not `behind`


@PLANTS.add("a new subscriber of a relay gets a stream with gaps", Wiring, "feed_relays")
def _(original: Original) -> Original:
    def feed_relays(self: Wiring, channel: Channel) -> Iterator[Any]:
        yield from original(self, channel)
        for relay in self.graph.relays_of(channel):
            relay.since = {}

    return feed_relays


# --- processes that join again --------------------------------------------------------------------


@PLANTS.add(
    "events that were not acknowledged are not published again", Legacy, "unacknowledged_of"
)
def _(original: Original) -> Original:
    return lambda self, channel, supplier: []


@PLANTS.add("an inlet takes repeated events", Inlet, "opened")
def _(original: Original) -> Original:
    def opened(self: Inlet, flow: int, *args: Any) -> None:
        original(self, flow, *args)
        if flow in self.flows:
            self.flows[flow].repeats = False

    return opened

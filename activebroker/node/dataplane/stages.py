"""The stages of a node, and their work.

A stage goes on only when all other consequences of an input are known: see `go_on`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from activebroker.core.errors import ProtocolError
from activebroker.matching import Chunk
from activebroker.node.dataplane.inlet import Inlet
from activebroker.node.dataplane.inlets import Inlets
from activebroker.node.dataplane.outlet import Outlet
from activebroker.node.dataplane.outlets import Outlets
from activebroker.node.dataplane.plane import FilterChanged, FilterSaved, InputEnded, Plane
from activebroker.node.dataplane.stage import Stage
from activebroker.node.effects import CancelTimer, Effect, RunStage, SetTimer, UnloadStage
from activebroker.protocol.flows import Acknowledged, FlowEnded, StreamEnded
from activebroker.protocol.messages import CheckpointTaken, OutletDrained
from activebroker.protocol.specs import Offsets, StageSpec
from derivation.protocol import Ties


class Stages:
    """The stages of a node, each between an inlet and an outlet."""

    def __init__(self, plane: Plane, outlets: Outlets, inlets: Inlets) -> None:
        self._plane = plane
        self._context = plane.context
        self._outlets = outlets
        self._inlets = inlets
        self.cpu_seconds = 0.0  # used by filters, also by those that are gone
        self.filtered: Mapping[str, Offsets] = {}  # how far filters had come at the node before

    def open(self, spec: StageSpec) -> Stage:
        """Open a stage. Raises ProtocolError if the id is taken."""
        if spec.id in self._plane.inlets:
            raise ProtocolError(f"{self._context.here!r} has an inlet {spec.id} already.")
        inlet = Inlet(spec.id)
        if spec.checkpoint is None:
            inlet.came = dict(self.filtered.get(spec.channel, {}))
        outlet = self._outlets.open_for(spec)
        self._plane.inlets[spec.id] = inlet
        stage = Stage(spec, inlet, outlet)
        self._plane.stages[spec.id] = stage
        return stage

    def start(self, stage: Stage) -> None:
        stage.start()
        self._set_idle_timer(stage)
        self._plane.touch(stage.spec.id)

    def discard(self, id: int) -> None:
        """Drop a stage with all that its outlet still has: another place makes that again."""
        if (outlet := self._plane.outlets.pop(id, None)) is not None:
            outlet.abandon()
        self.remove(id, goes_on=True)

    def remove(self, id: int, goes_on: bool = False) -> None:
        """Drop a stage; its outlet still sends what it has for its flows. `goes_on`: the filter
        goes on elsewhere."""
        self._plane.stopped.pop(id, None)
        if (stage := self._plane.stages.pop(id, None)) is None:
            return
        if stage.changing is not None:
            self._plane.facts.append(FilterChanged(id, False))
        # A filter that was stopped goes on elsewhere if this node is lost before the directory
        # knows.
        self._inlets.drop(self._plane.inlets.pop(id), goes_on or stage.outlet.error is not None)
        if not stage.outlet.ended:
            stage.outlet.end()
        self._plane.touch(id)
        self._context.effects += [UnloadStage(id), CancelTimer(f"idle {id}")]

    def owe(self, stage: Stage, ties: Ties) -> None:
        """A filter has moved here, and still owes acknowledgements to some outlets."""
        stage.inlet.since.update(ties.since)
        for outlet, (node, subscriber) in ties.outlets.items():
            if outlet not in stage.inlet.sources:
                stage.inlet.sources[outlet] = node, subscriber
                stage.inlet.leaving[outlet] = ties.came

    def save(self, stage: Stage) -> None:
        """Let a filter beside its sources go on elsewhere, from now on, if this node is lost."""
        sent: Offsets = {}
        for flow in stage.inlet.flows.values():
            if (outlet := self._plane.outlets.get(flow.outlet)) is not None:
                sent.update(outlet.retain(stage.spec.channel))
                stage.inlet.sources[outlet.id] = self._context.here, stage.spec.channel
        stage.begin_to_recover(sent)
        self._plane.touch(stage.spec.id)

    def forget_saved(self, stage: Stage) -> None:
        """Let a filter beside its sources be lost with them again."""
        stage.saving.recover_no_more()
        for outlet, (node, subscriber) in stage.inlet.sources.items():
            if node == self._context.here:
                self._outlets.forget_subscriber(outlet, subscriber)
        stage.inlet.sources.clear()
        stage.inlet.leaving.clear()
        self._plane.touch(stage.spec.id)

    def checkpoint_kept(self, stage_id: int) -> None:
        """The directory has a stage's checkpoint: acknowledge the inputs before it."""
        if (stage := self._plane.stages.get(stage_id)) is not None:
            waited = stage.saving.wanted
            for node, outlet, subscriber, upto, ended in stage.saving.kept():
                self._plane.tell(node, Acknowledged(outlet, subscriber, upto, ended))
            if waited and not stage.saving.wanted:
                self._plane.facts.append(FilterSaved(stage_id))
            self._plane.touch(stage.spec.id)

    def merge(
        self,
        stage: Stage,
        items: list[Chunk | StreamEnded],
        ended: Sequence[int],
        lost: Sequence[int],
    ) -> None:
        """Take over from an origin: its buffer first, then the flows that follow its own."""
        free = stage.inlet.ended_elsewhere(ended, lost)
        stage.put(free)
        stage.put_first(items)
        for flow in stage.inlet.take_broken():
            # A source that the old place took for lost may be alive: let its flow begin again,
            # where the old place has come to.
            self._inlets.rewind(flow, stage.inlet.received)
        for flow, item in free:
            if isinstance(item, FlowEnded):
                self._plane.facts.append(InputEnded(stage.spec.id, flow.id, flow.lost))

    def idle(self, stage_id: int) -> None:
        """No event has come to a stage for the time that its filter names."""
        if (stage := self._plane.stages.get(stage_id)) is not None:
            if (work := stage.idle()) is not None:
                self._ask_driver(work)
            self._set_idle_timer(stage)

    @property
    def active(self) -> bool:
        """Whether time brings a checkpoint of any stage nearer."""
        return any(stage.saving.active for stage in self._plane.stages.values())

    def tick(self) -> None:
        """Called several times a second."""
        for stage in self._plane.stages.values():
            stage.saving.tick()
            self._plane.touch(stage.spec.id)

    def go_on(self) -> None:
        """Let the outlets and stages that were touched go on as far as they can; remove those that
        have ended."""
        touched, self._plane.touched = self._plane.touched, {}
        for id in touched:
            if (stage := self._plane.stages.get(id)) is not None:
                self._pump(stage)
            if (outlet := self._plane.outlets.get(id)) is not None:
                self._outlets.go_on(outlet)
                self._sweep(outlet)

    # --- inside -------------------------------------------------------------------------------

    def _pump(self, stage: Stage) -> None:
        beside = () if stage.changing is None else self._suppliers()
        if (work := stage.pump(beside)) is not None:
            self._ask_driver(work)
        for flow in stage.take_consumed():
            self._inlets.give_back(flow)
        if (checkpoint := stage.saving.to_send()) is not None:
            change = stage.saving.change
            taken = CheckpointTaken(stage.spec.makes, stage.spec.id, checkpoint, change)
            self._context.send(self._context.directory, taken, ())
        if (outcome := stage.take_change()) is not None:
            self._plane.facts.append(FilterChanged(stage.spec.id, outcome))
            self._plane.touch(stage.spec.id)
        if stage.outlet.ended and stage.saving.wanted:  # nothing is left to save
            stage.saving.recover_no_more()
            self._plane.facts.append(FilterSaved(stage.spec.id, stage.outlet.error))

    def _ask_driver(self, work: Effect) -> None:
        if isinstance(work, RunStage):
            renew = self._context.registry.renew
            items = [each if isinstance(each, str) else renew(each) for each in work.items]
            work = replace(work, items=tuple(items))
        self._context.effects.append(work)

    def _sweep(self, outlet: Outlet) -> None:
        stage = self._plane.stages.get(outlet.id)
        if outlet.drained and (stage is None or not stage.moving):
            if stage is not None and stage.spec.envelope is None:
                # All that this relay has passed on is acknowledged, and no checkpoint will say so.
                for source, (node, subscriber) in stage.inlet.sources.items():
                    ended = source in stage.inlet.leaving
                    self._plane.tell(
                        node, Acknowledged(source, subscriber, stage.saving.inputs, ended)
                    )
            self._outlets.remove(outlet.id)
            stopped = stage is not None and outlet.error is not None
            self._context.send(self._context.directory, OutletDrained(outlet.id, stopped), ())
            self.remove(outlet.id)
            if stage is not None and outlet.error is not None and not stage.inlet.closing:
                self._plane.stopped[outlet.id] = outlet.error

    def _set_idle_timer(self, stage: Stage) -> None:
        envelope = stage.spec.envelope
        if envelope is not None and envelope.idle_after is not None:
            self._context.effects.append(SetTimer(f"idle {stage.spec.id}", envelope.idle_after))

    def _suppliers(self) -> set[str]:
        """The suppliers at this node."""
        return {each.supplier for each in self._plane.outlets.values() if each.supplier is not None}

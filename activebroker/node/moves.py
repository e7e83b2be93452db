"""A node's part in moves and offloads: drives the machines of `derivation`, and carries out their
effects on the node's stages, outlets and inlets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from activebroker.core.errors import FilterStopped, ProtocolError, flatten
from activebroker.node.context import Context
from activebroker.node.dataplane.outlets import Outlets
from activebroker.node.dataplane.plane import Plane
from activebroker.node.dataplane.stage import Stage
from activebroker.node.dataplane.stages import Stages
from activebroker.node.effects import LoadStage, RestoreStage
from activebroker.node.handover import Item, pack, unpack
from activebroker.protocol.messages import Body, ChunkHead, PrepareMove, SwapFlows
from activebroker.protocol.specs import FlowSpec, Offsets
from activebroker.protocol.status import PartStatus
from derivation import destination, origin, protocol
from derivation.destination import Destination, DestinationState
from derivation.machine import Machine
from derivation.origin import Origin, OriginState
from derivation.protocol import (
    Cancel,
    End,
    Error,
    HandOver,
    Message,
    Prepared,
    Proceed,
    Refused,
    Started,
    Ties,
)
from derivation.source import Source

STORIES = 32  # moves whose stories are kept after their end


@dataclass(slots=True)
class _AtOrigin:
    machine: Origin
    stage: Stage


@dataclass(slots=True)
class _AtDestination:
    machine: Destination
    stage: Stage
    outputs: tuple[FlowSpec, ...]

    def know(self, have: dict[str, Offsets]) -> None:
        """Do not send the subscribers what they `have` already."""
        self.outputs = tuple(
            structs.replace(spec, since={**spec.since, **have.get(spec.subscriber, {})})
            for spec in self.outputs
        )


class Moves:
    """The moves under way in which this node is a source, an origin or a destination."""

    def __init__(
        self,
        context: Context,
        plane: Plane,
        outlets: Outlets,
        stages: Stages,
    ) -> None:
        self._context = context
        self._outlets = outlets
        self._stages = stages
        self._plane = plane
        self._origins: dict[int, _AtOrigin] = {}
        self._destinations: dict[int, _AtDestination] = {}
        self._sources: dict[tuple[int, int], Source] = {}
        self._stories: dict[int, list[dict[str, Any]]] = {}  # of the last moves that have ended

    def receive(self, body: Body, buffers: Sequence[Any]) -> bool:
        """Handle a message of a move; False if the message is of another kind."""
        match body:
            case PrepareMove():
                self._prepare(body)
            case SwapFlows(request, outlet, spec):
                source = self._sources.setdefault((request.move, outlet), Source())
                for effect in source.handle(request, self._context.now):
                    match effect:
                        case protocol.EndFlow(flow):
                            self._outlets.end_flow(outlet, flow)
                        case protocol.OpenFlow():
                            # If the move fails, the filter goes on from a checkpoint elsewhere.
                            self._outlets.open_flow(spec, retains=request.swap.origin is not None)
            case HandOver():
                self._hand_over(body, buffers)
            case Proceed():
                self._at_origin(body.move, body)
            case Cancel() | End():
                self._end(body)
            case _:
                return False
        return True

    def loaded(self, stage_id: int, error: str | None) -> bool:
        """A stage's payload was unpacked or refused; False if no move waits for it."""
        for move, at in list(self._destinations.items()):
            if at.stage.spec.id == stage_id and at.machine.state is DestinationState.LOADING:
                answer = destination.Loaded() if error is None else destination.LoadFailed(error)
                self._at_destination(move, answer)
                return True
        return False

    def flow_ended(self, stage_id: int, flow: int, lost: bool) -> None:
        """The end marker: a flow into a stage here ended, or its source is `lost`."""
        for move, at in list(self._origins.items()):
            if at.stage.spec.id == stage_id and flow in at.machine.awaited:
                self._at_origin(move, origin.EndMarkerReceived(flow, lost))

    def flow_opened(self, stage_id: int, flow: int) -> None:
        """The begin marker: a flow into a stage here begins."""
        for move, at in list(self._destinations.items()):
            if at.stage.spec.id == stage_id:
                self._at_destination(move, destination.BeginMarkerReceived(flow))

    def captured(self, stage_id: int, state: dict[str, bytes]) -> None:
        """The filter of a stage has stopped running, and this is its state."""
        for move, at in self._origins_of(stage_id, OriginState.CAPTURING):
            stage = at.stage
            buffer, error = stage.take_buffer(), stage.outlet.error or stage.inlet.error
            captured = origin.StateCaptured(
                state,
                buffer,
                error,
                dict(stage.saving.inputs),
                dict(stage.outlet.offsets),
                Ties(
                    dict(stage.inlet.sources),
                    dict(stage.inlet.received),
                    {name: dict(each.since) for name, each in stage.outlet.subscribers.items()},
                    dict(stage.inlet.since),
                ),
            )
            self._at_origin(move, captured)

    def saved(self, stage_id: int, error: Error | None) -> None:
        """The filter of a stage can be recovered elsewhere from now on; or an error has stopped it,
        so that there is nothing to move."""
        for move, at in self._origins_of(stage_id, OriginState.SAVING):
            if error is None:
                self._at_origin(move, origin.FilterSaved())
            else:
                why = f"its filter has ended: {error[1]}"
                refused = Refused(move, self._context.here, why)
                self._context.send(at.machine.plan.initiator, refused, ())

    def _origins_of(self, stage_id: int, state: OriginState) -> list[tuple[int, _AtOrigin]]:
        """The moves of a stage that wait in this state. There may be others: after an overdue move,
        or made up by a bad peer."""
        return [
            (move, at)
            for move, at in self._origins.items()
            if at.stage.spec.id == stage_id and at.machine.state is state
        ]

    def lost(self, peer: str) -> None:
        """A node is gone."""
        for move, at in list(self._destinations.items()):
            self._at_destination(move, protocol.PartyLost(peer))
            fed = at.machine.waiting_for or at.stage.inlet.flows
            if at.stage.spec.envelope is None and not fed:
                # The supplier was lost before it began to feed this relay.
                at.stage.leave_when_empty()
                self._plane.touch(at.stage.spec.id)

    def abandon(self) -> None:
        """Forget all moves: their initiator is gone."""
        of_sources = (move for move, _ in self._sources)
        for move in dict.fromkeys((*self._origins, *self._destinations, *of_sources)):
            self._forget(move)

    # --- for the status and stories -----------------------------------------------------------

    def under_way(self) -> list[PartStatus]:
        """This node's parts in moves: the phase, the nodes it waits for, and what it holds back."""
        return [
            PartStatus(
                move,
                role,
                at.machine.state.name.lower().replace("_", " "),
                list(_waits_for(at)),
                events,
                nbytes,
            )
            for role, table in (("origin", self._origins), ("destination", self._destinations))
            for move, at in table.items()
            for events, nbytes in [at.stage.held()]
        ]

    def story(self, move: int) -> list[dict[str, Any]]:
        """What happened here in a move that is under way or has ended lately."""
        return self._stories.get(move) or self._tell_story(move)

    def _tell_story(self, move: int) -> list[dict[str, Any]]:
        machines: list[tuple[str, Machine]] = [
            ("source", source) for (number, _), source in self._sources.items() if number == move
        ]
        if (old := self._origins.get(move)) is not None:
            machines.append(("origin", old.machine))
        if (new := self._destinations.get(move)) is not None:
            machines.append(("destination", new.machine))
        return [
            {"role": role, "steps": [each._asdict() for each in machine.story()]}
            for role, machine in machines
        ]

    # --- inside -------------------------------------------------------------------------------

    def _prepare(self, message: PrepareMove) -> None:
        plan = message.prepare.plan
        if message.stage is not None:
            stage = self._stages.open(message.stage)
            stage.outlet.begun = False
            stage.moving = True
            machine = Destination(plan, self._context.here)
            at = self._destinations[plan.move] = _AtDestination(machine, stage, message.outputs)
            if message.stage.envelope is None:
                self._at_destination(plan.move, destination.Loaded())
            else:
                self._context.effects.append(LoadStage(at.stage.spec))
        if message.origin_stage is not None:
            if (old := self._plane.stages.get(message.origin_stage)) is None:
                refused = Refused(plan.move, self._context.here, "its filter has ended")
                self._context.send(plan.initiator, refused, ())
                return
            old.moving = True
            draining = {flow.id: flow.source for flow in old.inlet.flows.values()}
            leaving = Origin(plan, self._context.here, draining)
            self._origins[plan.move] = _AtOrigin(leaving, old)
            self._at_origin(plan.move, message.prepare)
            for flow in leaving.awaited:
                if flow not in old.inlet.flows:  # its source is lost
                    self._at_origin(plan.move, origin.EndMarkerReceived(flow, lost=True))

    def _hand_over(self, body: HandOver[ChunkHead], buffers: Sequence[Any]) -> None:
        items: tuple[Item, ...] = ()
        error = body.error
        try:
            items = unpack(body.buffer, buffers, self._context.registry)
        except ProtocolError as malformed:  # the old place no longer has the filter
            here, there = self._context.here, body.origin
            reason = f"{here!r} cannot read what {there!r} has handed over: {malformed}"
            error = flatten(FilterStopped(reason))
        self._at_destination(body.move, structs.replace(body, buffer=items, error=error))

    def _end(self, end: Cancel | End) -> None:
        move, cancelled = end.move, isinstance(end, Cancel)
        if cancelled and (at := self._origins.get(move)) is not None:
            self._at_origin(move, end)
            at.stage.moving = False
            self._plane.touch(at.stage.spec.id)
        if (there := self._destinations.get(move)) is not None:
            if cancelled:
                self._at_destination(move, end)
            there.stage.moving = False
            self._plane.touch(there.stage.spec.id)
        self._forget(move)

    def _forget(self, move: int) -> None:
        """Forget a move, but for its story."""
        if story := self._tell_story(move):
            self._stories[move] = story
            if len(self._stories) > STORIES:
                del self._stories[next(iter(self._stories))]
        self._origins.pop(move, None)
        self._destinations.pop(move, None)
        for key in [key for key in self._sources if key[0] == move]:
            del self._sources[key]

    def _at_origin(self, move: int, input: Any) -> None:
        if (at := self._origins.get(move)) is None:
            return  # cancelled before
        for effect in at.machine.handle(input, self._context.now):
            match effect:
                case protocol.SaveFilter():
                    self._stages.save(at.stage)
                case protocol.ForgetSaved():
                    self._stages.forget_saved(at.stage)
                case protocol.CaptureState():
                    at.stage.capture()
                    self._plane.touch(at.stage.spec.id)
                case protocol.EndFlow(flow):
                    self._outlets.end_flow(at.stage.outlet.id, flow)
                case protocol.RemoveFilter():
                    self._stages.remove(at.stage.spec.id)
                case protocol.Send(to, message):
                    self._tell(to, message)

    def _at_destination(self, move: int, input: Any) -> None:
        if (at := self._destinations.get(move)) is None:
            return  # cancelled before
        for effect in at.machine.handle(input, self._context.now):
            match effect:
                case protocol.RestoreState(state):
                    self._context.effects.append(RestoreStage(at.stage.spec.id, state))
                case protocol.MergeBuffer(got):
                    at.stage.take_over(got.inputs, got.outputs)
                    at.stage.saving.urge()
                    self._stages.owe(at.stage, got.ties)
                    at.know(got.ties.have)
                    self._stages.merge(at.stage, list(got.buffer), got.ended, got.lost)
                case protocol.StartFilter():
                    self._open_outputs(at)
                    self._stages.start(at.stage)
                case protocol.StopFilter(error):
                    self._open_outputs(at)
                    at.stage.outlet.end(finished=True, error=error)
                    self._stages.start(at.stage)
                case protocol.RemoveFilter():
                    self._outlets.let_go(at.stage.outlet)  # no flow of it will resume
                    self._stages.remove(at.stage.spec.id)
                case protocol.Send(to, message):
                    self._tell(to, message)

    def _open_outputs(self, at: _AtDestination) -> None:
        outlet = at.stage.outlet
        outlet.begun = True
        for spec in at.outputs:
            subscriber = outlet.subscribers.get(spec.subscriber)
            if subscriber is None or subscriber.last < spec.id:  # else a later flow serves it
                self._outlets.open_flow(spec)

    def _both_prepared(self, move: int) -> bool:
        """Whether this node is prepared in all its parts: it may be origin and destination at
        once, and answers for both together."""
        old, new = self._origins.get(move), self._destinations.get(move)
        saving = old is not None and old.machine.state is OriginState.SAVING
        loading = new is not None and new.machine.state is DestinationState.LOADING
        return not saving and not loading

    def _tell(self, to: str, message: Message) -> None:
        match message:
            case Prepared(move) if not self._both_prepared(move):
                return
            case Prepared() | Refused() | Started():
                self._context.send(to, message, ())
            case HandOver():
                heads, buffers = pack(message.buffer)
                self._context.send(to, structs.replace(message, buffer=heads), buffers)


def _waits_for(at: _AtOrigin | _AtDestination) -> tuple[str, ...]:
    """The nodes that a part waits for. If the outlet is not ready, these are the nodes that take
    nothing: the filter takes nothing then, either, and what it waits for cannot arrive."""
    full = () if at.stage.outlet.ready else at.stage.outlet.full_at
    return tuple(dict.fromkeys(full)) or at.machine.waiting_for

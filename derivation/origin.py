"""The origin, where the filter runs until the switch-over.

It goes on filtering until the end markers of all its sources have arrived, so that the stream
pauses only for the hand-over. What has arrived by then and was not filtered is the buffer.

A filter that would be lost with its node, as one at its suppliers, is saved before anything else:
from then on it can be recovered like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, ClassVar

from derivation.machine import Machine, Table, Transition
from derivation.protocol import (
    Cancel,
    CaptureState,
    Effect,
    EndFlow,
    Error,
    FlowId,
    ForgetSaved,
    HandOver,
    Offsets,
    Party,
    Plan,
    Prepare,
    Prepared,
    Proceed,
    RemoveFilter,
    SaveFilter,
    Send,
    Ties,
)


class OriginState(Enum):
    RUNNING = auto()
    SAVING = auto()
    AWAITING_END_MARKERS = auto()
    CAPTURING = auto()
    HANDED_OVER = auto()
    CANCELLED = auto()


@dataclass(frozen=True, slots=True)
class FilterSaved:
    """The filter can be recovered elsewhere from now on."""


@dataclass(frozen=True, slots=True)
class EndMarkerReceived:
    """The end marker of one of the origin's input flows has arrived, or the flow's source is
    `lost`."""

    flow: FlowId
    lost: bool = False


@dataclass(frozen=True, slots=True)
class StateCaptured:
    """The filter has stopped running, and its state was taken."""

    state: dict[str, bytes]
    buffer: tuple[tuple[str, Any], ...]  # (supplier, events) in the order of arrival
    error: Error | None = None  # why the filter was stopped meanwhile, if it was
    inputs: Offsets = field(default_factory=dict)  # what it has filtered
    outputs: Offsets = field(default_factory=dict)  # what it has made
    ties: Ties = field(default_factory=Ties)


class Origin(Machine):
    """A move at one of its origins, `here`.

    `draining` are input flows, with their sources, that are not in the plan because they end
    anyway: the sources have left, but their events may still be on the way.
    """

    state: OriginState

    def __init__(
        self, plan: Plan, here: Party, draining: Mapping[FlowId, Party] | None = None
    ) -> None:
        super().__init__(OriginState.RUNNING)
        self.plan = plan
        self.here = here
        self._proceed = False
        self._lost: set[FlowId] = set()
        self._awaited = {
            flow: swap.source for swap in plan.swaps if swap.origin == here for flow in swap.old
        } | dict(draining or {})

    @property
    def awaited(self) -> tuple[FlowId, ...]:
        """The input flows whose end marker has not arrived."""
        return tuple(self._awaited)

    @property
    def waiting_for(self) -> tuple[Party, ...]:
        if self.state in (OriginState.SAVING, OriginState.CAPTURING):
            return (self.here,)
        if self.state is not OriginState.AWAITING_END_MARKERS:
            return ()
        return (
            tuple(dict.fromkeys(self._awaited.values()))
            if self._proceed
            else (self.plan.initiator,)
        )

    def _prepare(self, _: Prepare, now: float) -> list[Effect]:
        if not self.plan.saves:
            return self._prepared()
        self.state = OriginState.SAVING
        return [SaveFilter()]

    def _saved(self, _: FilterSaved, now: float) -> list[Effect]:
        return self._prepared()

    def _prepared(self) -> list[Effect]:
        self.state = OriginState.AWAITING_END_MARKERS
        return [Send(self.plan.initiator, Prepared(self.plan.move, self.here))]

    def _go(self, _: Proceed, now: float) -> list[Effect]:
        self._proceed = True
        return self._capture_when_acked()

    def _end_marker(self, input: EndMarkerReceived, _: float) -> list[Effect]:
        self._awaited.pop(input.flow, None)
        if input.lost:
            self._lost.add(input.flow)
        return self._capture_when_acked()

    def _capture_when_acked(self) -> list[Effect]:
        if self._awaited or not self._proceed:
            return []
        self.state = OriginState.CAPTURING
        return [CaptureState()]

    def _hand_over(self, input: StateCaptured, _: float) -> list[Effect]:
        self.state = OriginState.HANDED_OVER
        effects: list[Effect] = [
            Send(destination, self._share(destination, input))
            for destination in self.plan.destinations
        ]
        effects += [
            EndFlow(output.flow) for output in self.plan.outputs if output.origin == self.here
        ]
        return [*effects, RemoveFilter()]

    def _share(self, destination: Party, captured: StateCaptured) -> HandOver[Any]:
        """The hand-over for one destination: all that concerns the suppliers that go there."""
        plan = self.plan
        place = dict(plan.suppliers)

        def goes_there(supplier: str) -> bool:
            return place.get(supplier, plan.destinations[0]) == destination

        old = [
            flow
            for swap in plan.swaps
            if swap.origin == self.here and swap.destination == destination
            for flow in swap.old
        ]
        return HandOver(
            plan.move,
            self.here,
            {key: state for key, state in captured.state.items() if goes_there(key)},
            tuple(events for supplier, events in captured.buffer if goes_there(supplier)),
            ended=tuple(flow for flow in old if flow not in self._lost),
            error=captured.error,
            lost=tuple(flow for flow in old if flow in self._lost),
            inputs={key: each for key, each in captured.inputs.items() if goes_there(key)},
            outputs={key: each for key, each in captured.outputs.items() if goes_there(key)},
            ties=captured.ties,
        )

    def _cancel(self, _: Cancel, __: float) -> list[Effect]:
        self.state = OriginState.CANCELLED
        return [ForgetSaved()] if self.plan.saves else []

    def validate(self) -> None:
        acked = self.state in (OriginState.CAPTURING, OriginState.HANDED_OVER)
        assert not (acked and self._awaited)

    table: ClassVar[Table] = {
        (OriginState.RUNNING, Prepare): Transition(
            _prepare, (OriginState.AWAITING_END_MARKERS, OriginState.SAVING), (Prepared, SaveFilter)
        ),
        (OriginState.SAVING, FilterSaved): Transition(
            _saved, (OriginState.AWAITING_END_MARKERS,), (Prepared,)
        ),
        (OriginState.SAVING, EndMarkerReceived): Transition(_end_marker, (OriginState.SAVING,)),
        (OriginState.SAVING, Cancel): Transition(_cancel, (OriginState.CANCELLED,), (ForgetSaved,)),
        (OriginState.AWAITING_END_MARKERS, Proceed): Transition(
            _go, (OriginState.AWAITING_END_MARKERS, OriginState.CAPTURING), (CaptureState,)
        ),
        (OriginState.AWAITING_END_MARKERS, EndMarkerReceived): Transition(
            _end_marker, (OriginState.AWAITING_END_MARKERS, OriginState.CAPTURING), (CaptureState,)
        ),
        (OriginState.AWAITING_END_MARKERS, Cancel): Transition(
            _cancel, (OriginState.CANCELLED,), (ForgetSaved,)
        ),
        (OriginState.CAPTURING, StateCaptured): Transition(
            _hand_over, (OriginState.HANDED_OVER,), (HandOver, EndFlow, RemoveFilter)
        ),
    }

"""The destination: loads the filter, holds the new flows, merges, starts.

The filter starts when every origin has handed over. It gets the state, then the buffer, then the
events of the new flows. A destination without origins (the relay of an offload) starts when all
begin markers have arrived. Until then the offload can be rolled back, and no consumer may have a
flow from here that waits for the end of another.

If the filter was stopped at its origin, the channel ends here with the same reason. If an origin is
lost with the filter's state, the destination tells the initiator, which decides what follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar

from derivation.machine import Machine, Table, Transition
from derivation.protocol import (
    Cancel,
    Effect,
    Error,
    FlowId,
    HandOver,
    MergeBuffer,
    Party,
    PartyLost,
    Plan,
    Prepared,
    Refused,
    RemoveFilter,
    RestoreState,
    Send,
    Started,
    StartFilter,
    StopFilter,
)


class DestinationState(Enum):
    LOADING = auto()
    PREPARED = auto()
    RUNNING = auto()
    COMPLETED = auto()
    CANCELLED = auto()


@dataclass(frozen=True, slots=True)
class Loaded:
    pass


@dataclass(frozen=True, slots=True)
class LoadFailed:
    reason: str


@dataclass(frozen=True, slots=True)
class BeginMarkerReceived:
    """The begin marker of one of the destination's new flows has arrived."""

    flow: FlowId


class Destination(Machine):
    """A move at one of its destinations, `here`."""

    state: DestinationState

    def __init__(self, plan: Plan, here: Party) -> None:
        super().__init__(DestinationState.LOADING)
        self.plan = plan
        self.here = here
        self._hand_overs: dict[Party, HandOver[Any] | None] = dict.fromkeys(plan.origins)
        self._begin_markers = {
            swap.new: swap.source for swap in plan.swaps if swap.destination == here
        }

    @property
    def waiting_for(self) -> tuple[Party, ...]:
        if self.state is DestinationState.LOADING:
            return (self.here,)
        origins = (who for who, got in self._hand_overs.items() if got is None)
        return tuple(dict.fromkeys((*origins, *self._begin_markers.values())))

    def _loaded(self, _: Loaded, __: float) -> list[Effect]:
        self.state = DestinationState.PREPARED
        prepared = Send(self.plan.initiator, Prepared(self.plan.move, self.here))
        return [prepared, *self._start_when_complete()]

    def _load_failed(self, input: LoadFailed, _: float) -> list[Effect]:
        self.state = DestinationState.CANCELLED
        refused = Refused(self.plan.move, self.here, input.reason)
        return [Send(self.plan.initiator, refused), RemoveFilter()]

    def _hand_over(self, input: HandOver[Any], _: float) -> list[Effect]:
        self._hand_overs[input.origin] = input
        return self._start_when_complete()

    def _begin_marker(self, input: BeginMarkerReceived, _: float) -> list[Effect]:
        self._begin_markers.pop(input.flow, None)
        if self.state is DestinationState.RUNNING:
            return self._report_when_complete()
        return self._start_when_complete()

    def _start_when_complete(self) -> list[Effect]:
        got = [hand_over for hand_over in self._hand_overs.values() if hand_over is not None]
        if len(got) < len(self._hand_overs) or self.state is not DestinationState.PREPARED:
            return []
        if self._begin_markers and not self._hand_overs:
            return []
        if error := next((each.error for each in got if each.error is not None), None):
            return self._stop(error)
        self.state = DestinationState.RUNNING
        effects: list[Effect] = []
        if state := {key: value for each in got for key, value in each.state.items()}:
            effects.append(RestoreState(state))
        return [
            *effects,
            *map(MergeBuffer, got),
            StartFilter(),
            *self._report_when_complete(),
        ]

    def _report_when_complete(self) -> list[Effect]:
        if self._begin_markers:
            return []
        self.state = DestinationState.COMPLETED
        return [Send(self.plan.initiator, Started(self.plan.move, self.here))]

    def _stop(self, error: Error) -> list[Effect]:
        self._begin_markers.clear()  # what these flows bring is dropped
        return [StopFilter(error), *self._report_when_complete()]

    def _lost(self, input: PartyLost, _: float) -> list[Effect]:
        self._begin_markers = {
            flow: who for flow, who in self._begin_markers.items() if who != input.party
        }
        if self.state is DestinationState.RUNNING:
            return self._report_when_complete()
        if self._hand_overs.get(input.party, input) is None:
            reason = f"{input.party!r} was lost, and the filter's state with it"
            return [Send(self.plan.initiator, Refused(self.plan.move, self.here, reason))]
        return self._start_when_complete()

    def _cancel(self, _: Cancel, __: float) -> list[Effect]:
        self.state = DestinationState.CANCELLED
        return [RemoveFilter()]

    def validate(self) -> None:
        if self.state is DestinationState.COMPLETED:
            assert not self._begin_markers and None not in self._hand_overs.values()

    _start = (RestoreState, MergeBuffer, StartFilter, StopFilter, Started)
    table: ClassVar[Table] = {
        (DestinationState.LOADING, Loaded): Transition(
            _loaded,
            (DestinationState.PREPARED, DestinationState.RUNNING, DestinationState.COMPLETED),
            (Prepared, *_start),
        ),
        (DestinationState.LOADING, LoadFailed): Transition(
            _load_failed, (DestinationState.CANCELLED,), (Refused, RemoveFilter)
        ),
        (DestinationState.LOADING, BeginMarkerReceived): Transition(
            _begin_marker, (DestinationState.LOADING,)
        ),
        (DestinationState.LOADING, HandOver): Transition(_hand_over, (DestinationState.LOADING,)),
        (DestinationState.LOADING, PartyLost): Transition(
            _lost, (DestinationState.LOADING,), (Refused,)
        ),
        (DestinationState.LOADING, Cancel): Transition(
            _cancel, (DestinationState.CANCELLED,), (RemoveFilter,)
        ),
        (DestinationState.PREPARED, HandOver): Transition(
            _hand_over,
            (DestinationState.PREPARED, DestinationState.RUNNING, DestinationState.COMPLETED),
            _start,
        ),
        (DestinationState.PREPARED, BeginMarkerReceived): Transition(
            _begin_marker,
            (DestinationState.PREPARED, DestinationState.COMPLETED),
            (StartFilter, Started),
        ),
        (DestinationState.PREPARED, PartyLost): Transition(
            _lost,
            (DestinationState.PREPARED, DestinationState.COMPLETED),
            (Refused, StartFilter, Started),
        ),
        (DestinationState.PREPARED, Cancel): Transition(
            _cancel, (DestinationState.CANCELLED,), (RemoveFilter,)
        ),
        (DestinationState.RUNNING, BeginMarkerReceived): Transition(
            _begin_marker, (DestinationState.RUNNING, DestinationState.COMPLETED), (Started,)
        ),
        (DestinationState.RUNNING, PartyLost): Transition(
            _lost, (DestinationState.RUNNING, DestinationState.COMPLETED), (Started,)
        ),
        (DestinationState.RUNNING, Cancel): Transition(
            _cancel, (DestinationState.CANCELLED,), (RemoveFilter,)
        ),
        (DestinationState.CANCELLED, Loaded): None,
        (DestinationState.CANCELLED, LoadFailed): None,
        (DestinationState.CANCELLED, Cancel): None,
        (DestinationState.CANCELLED, BeginMarkerReceived): None,
        (DestinationState.CANCELLED, PartyLost): None,
        (DestinationState.COMPLETED, BeginMarkerReceived): None,
        (DestinationState.COMPLETED, PartyLost): None,
        (DestinationState.COMPLETED, Cancel): Transition(
            _cancel, (DestinationState.CANCELLED,), (RemoveFilter,)
        ),
    }

"""The initiator: prepares all parties, requests the swaps, and reports the outcome.

Until the first swap is requested, a move is rolled back by forgetting it. From then on it only goes
forward; if a party holds it up, the user is told which. The move fails if a destination is lost
then, or cannot go on because an origin was lost. What happens to the filter then is decided
elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar

from derivation.machine import Machine, Table, Transition
from derivation.protocol import (
    Cancel,
    CancelDeadline,
    Effect,
    End,
    Finish,
    Outcome,
    Party,
    PartyLost,
    Plan,
    Prepare,
    Prepared,
    Proceed,
    Refused,
    RequestSwap,
    Send,
    SetDeadline,
    Started,
)


class InitiatorState(Enum):
    IDLE = auto()
    PREPARING = auto()
    SWAPPING = auto()
    COMPLETED = auto()
    FAILED = auto()
    ROLLED_BACK = auto()


ENDED = (InitiatorState.COMPLETED, InitiatorState.FAILED, InitiatorState.ROLLED_BACK)


@dataclass(frozen=True, slots=True)
class Begun:
    pass


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The filter will be recovered elsewhere, whatever happens to the move."""

    reason: str


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    pass


class Initiator(Machine):
    """Runs one move by its `plan`; each phase may take `patience` seconds."""

    state: InitiatorState

    def __init__(self, plan: Plan, patience: float) -> None:
        super().__init__(InitiatorState.IDLE)
        self.plan = plan
        self.patience = patience
        # Ordered: the same inputs must give the same effects.
        self._waiting: dict[Party, None] = {}

    @property
    def waiting_for(self) -> tuple[Party, ...]:
        return tuple(self._waiting)

    def _parties(self) -> tuple[Party, ...]:
        return tuple(dict.fromkeys((*self.plan.origins, *self.plan.destinations)))

    def _begin(self, _: Begun, now: float) -> list[Effect]:
        self.state = InitiatorState.PREPARING
        self._waiting = dict.fromkeys(self._parties())
        return [
            *(Send(party, Prepare(self.plan)) for party in self._waiting),
            SetDeadline(now + self.patience),
        ]

    def _prepared(self, input: Prepared, now: float) -> list[Effect]:
        self._waiting.pop(input.party, None)
        if self._waiting:
            return []
        self.state = InitiatorState.SWAPPING
        self._waiting = dict.fromkeys(self.plan.destinations)
        return [
            *(Send(origin, Proceed(self.plan.move)) for origin in self.plan.origins),
            *(Send(swap.source, RequestSwap(self.plan.move, swap)) for swap in self.plan.swaps),
            SetDeadline(now + self.patience),
        ]

    def _roll_back(self, input: Refused | PartyLost | DeadlinePassed, _: float) -> list[Effect]:
        match input:
            case Refused(_, party, why):
                reason = f"{party!r} refused: {why}"
            case PartyLost(party):
                reason = f"{party!r} was lost"
            case DeadlinePassed():
                waiting = ", ".join(map(repr, self._waiting))
                reason = f"no answer from {waiting} within {self.patience:g} s"
        self.state = InitiatorState.ROLLED_BACK
        return [
            *(Send(party, Cancel(self.plan.move)) for party in self._parties()),
            CancelDeadline(),
            Finish(Outcome.ROLLED_BACK, reason),
        ]

    def _started(self, input: Started, _: float) -> list[Effect]:
        self._waiting.pop(input.party, None)
        if self._waiting:
            return []
        return self._end(Outcome.COMPLETED)

    def _fail(self, input: Refused, _: float) -> list[Effect]:
        return self._end(Outcome.FAILED, f"at {input.party!r}: {input.reason}")

    def _lost(self, input: PartyLost, _: float) -> list[Effect]:
        if input.party not in self._waiting:
            return []  # the destinations go on without it, or refuse
        return self._end(Outcome.FAILED, f"{input.party!r} was lost")

    def _give_up(self, input: GivenUp, _: float) -> list[Effect]:
        return self._end(Outcome.FAILED, input.reason)

    def _end(self, outcome: Outcome, reason: str = "") -> list[Effect]:
        self.state = InitiatorState[outcome.name]
        told = (Send(party, End(self.plan.move)) for party in self.plan.involved)
        return [CancelDeadline(), *told, Finish(outcome, reason)]

    def _overdue(self, _: DeadlinePassed, __: float) -> list[Effect]:
        waiting = ", ".join(map(repr, self._waiting))
        return [Finish(Outcome.OVERDUE, f"the switch-over waits for {waiting}")]

    def validate(self) -> None:
        ended = self.state in ENDED
        assert self.state is not InitiatorState.COMPLETED or not self._waiting
        assert ended or self.state is InitiatorState.IDLE or self._waiting

    _ended = (CancelDeadline, End, Finish)
    table: ClassVar[Table] = {
        (InitiatorState.IDLE, Begun): Transition(
            _begin, (InitiatorState.PREPARING,), (Prepare, SetDeadline)
        ),
        (InitiatorState.PREPARING, Prepared): Transition(
            _prepared,
            (InitiatorState.PREPARING, InitiatorState.SWAPPING),
            (Proceed, RequestSwap, SetDeadline),
        ),
        (InitiatorState.PREPARING, Refused): Transition(
            _roll_back, (InitiatorState.ROLLED_BACK,), (Cancel, CancelDeadline, Finish)
        ),
        (InitiatorState.PREPARING, PartyLost): Transition(
            _roll_back, (InitiatorState.ROLLED_BACK,), (Cancel, CancelDeadline, Finish)
        ),
        (InitiatorState.PREPARING, DeadlinePassed): Transition(
            _roll_back, (InitiatorState.ROLLED_BACK,), (Cancel, CancelDeadline, Finish)
        ),
        (InitiatorState.SWAPPING, Prepared): None,
        (InitiatorState.SWAPPING, Started): Transition(
            _started, (InitiatorState.SWAPPING, InitiatorState.COMPLETED), _ended
        ),
        (InitiatorState.SWAPPING, Refused): Transition(_fail, (InitiatorState.FAILED,), _ended),
        (InitiatorState.SWAPPING, PartyLost): Transition(
            _lost, (InitiatorState.SWAPPING, InitiatorState.FAILED), _ended
        ),
        (InitiatorState.SWAPPING, GivenUp): Transition(_give_up, (InitiatorState.FAILED,), _ended),
        (InitiatorState.SWAPPING, DeadlinePassed): Transition(
            _overdue, (InitiatorState.SWAPPING,), (Finish,)
        ),
        **{
            (state, late): None
            for state in ENDED
            for late in (Prepared, Refused, Started, PartyLost, DeadlinePassed)
        },
    }

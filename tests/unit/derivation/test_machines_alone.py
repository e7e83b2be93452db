"""Each machine by itself, under any inputs that its table takes, in any order."""

from __future__ import annotations

import pytest
from every_input_for_tests import inputs, machines, plan_of, shapes
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from derivation.initiator import DeadlinePassed
from derivation.machine import UnexpectedInput
from derivation.protocol import (
    CancelDeadline,
    Effect,
    Finish,
    OpenFlow,
    Outcome,
    RemoveFilter,
    SetDeadline,
)


def is_last(effect: Effect) -> bool:
    """Whether it is the last that a machine asks for."""
    match effect:
        case Finish(outcome):
            return outcome is not Outcome.OVERDUE
        case OpenFlow() | RemoveFilter():
            return True
    return False


class MachineAlone(RuleBasedStateMachine):
    """(`handle` itself validates the machine after each input, and holds it to its table.)"""

    @initialize(shape=shapes, data=st.data())
    def begin(self, shape: tuple[int, int, int, bool], data: st.DataObject) -> None:
        plan = plan_of(shape)
        kinds = {type(new()): new for new in machines(plan).values()}
        self.new = kinds[data.draw(st.sampled_from([*kinds]), label="machine")]
        self.machine = self.new()
        self.inputs = inputs(plan)
        self.taken: list[tuple[object, float, list[Effect]]] = []
        self.now = 0.0
        self.deadline: float | None = None
        self.ended = False

    def possible(self, taken: bool = True) -> list[object]:
        """The inputs that the machine takes in its state, or those that it takes in others only."""
        table, state = self.machine.table, self.machine.state
        ours = {kind for _, kind in table}
        return [
            each
            for each in self.inputs
            if type(each) in ours and ((state, type(each)) in table) is taken
        ]

    @precondition(lambda self: self.possible(taken=False))
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        """(And stay as it was, which the replay shows.)"""
        with pytest.raises(UnexpectedInput):
            self.machine.handle(data.draw(st.sampled_from(self.possible(taken=False))), self.now)

    @precondition(lambda self: self.possible())
    @rule(data=st.data(), later=st.floats(0.0, 10.0))
    def take(self, data: st.DataObject, later: float) -> None:
        possible = self.possible()
        kind = data.draw(st.sampled_from([*dict.fromkeys(map(type, possible))]), label="kind")
        alike = [each for each in possible if type(each) is kind]
        input = data.draw(st.sampled_from(alike), label="input")
        self.now += later
        if isinstance(input, DeadlinePassed):
            self.deadline = None
        effects = self.machine.handle(input, self.now)
        self.taken.append((input, self.now, effects))
        assert not (self.ended and effects), "an effect after the last"
        for effect in effects:
            match effect:
                case SetDeadline(at):
                    assert at > self.now
                    self.deadline = at
                case CancelDeadline():
                    self.deadline = None
        self.ended = self.ended or any(map(is_last, effects))

    @invariant()
    def no_deadline_is_left_behind(self) -> None:
        assert not (self.ended and self.deadline is not None)

    def teardown(self) -> None:
        """The same inputs at the same times have the same effects and tell the same story."""
        again = self.new()
        for input, now, effects in self.taken:
            assert again.handle(input, now) == effects
        assert again.story() == self.machine.story()
        assert len(again.story()) == len(self.taken)


TestMachineAlone = MachineAlone.TestCase
TestMachineAlone.settings = settings(max_examples=200, stateful_step_count=30)

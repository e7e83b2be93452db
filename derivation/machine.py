"""The base of the four machines: a transition table, and a story of what happened.

A machine never reads a clock or a socket. `handle(input, now)` returns effects. Messages that a
peer sends too late or twice have an entry without transition in the table, and are ignored; an
input without any entry raises. The table declares the states and effects of each transition, and
`handle` checks the handler against it, so that the documented table is what runs.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, NamedTuple

from derivation.protocol import Effect, Party, Send
from derivation.story import Step, describe

Handler = Callable[[Any, Any, float], list[Effect]]


class Transition(NamedTuple):
    """What happens on an input in a state."""

    handler: Handler
    to: tuple[Enum, ...]  # the states that may follow, also the same state if it may stay
    effects: tuple[type, ...] = ()  # the kinds of effects; for a `Send`, the message's type


Table = dict[tuple[Enum, type], Transition | None]


def kind(effect: Effect) -> type:
    """The type under which a table declares an effect."""
    return type(effect.message) if isinstance(effect, Send) else type(effect)


class UnexpectedInput(Exception):
    """The caller gave a machine an input that its table does not name in this state."""


class Machine:
    """Dispatches by `(state, type of input)`. `state` is an Enum member."""

    table: ClassVar[Table]
    state: Enum

    def __init__(self, state: Enum) -> None:
        self.state = state
        self._story: list[Step] = []

    @property
    def waiting_for(self) -> tuple[Party, ...]:
        """The parties that this part waits for; this party itself if something has to be done here
        first."""
        return ()

    def handle(self, input: Any, now: float) -> list[Effect]:
        """Take one input at time `now` (seconds); return the effects, in order.

        Raises UnexpectedInput for an input that the table does not have in this state, and
        AssertionError if the handler does what the table does not declare.
        """
        try:
            transition = self.table[self.state, type(input)]
        except KeyError:
            raise UnexpectedInput(
                f"{type(self).__name__} in state {self.state.name} cannot take {input!r}"
            ) from None
        before = self.state
        effects: list[Effect] = []
        if transition is not None:
            effects = transition.handler(self, input, now)
            undeclared = [kind(each) for each in effects if kind(each) not in transition.effects]
            assert self.state in transition.to and not undeclared, (
                f"{type(self).__name__}: {before.name} + {type(input).__name__} -> "
                f"{self.state.name} with {undeclared} is not in the table"
            )
        done = tuple(map(describe, effects))
        self._story.append(Step(now, before.name, describe(input), self.state.name, done))
        self.validate()
        return effects

    def validate(self) -> None:
        """Raise AssertionError if an invariant of the machine does not hold."""

    def story(self) -> tuple[Step, ...]:
        """What happened: one step for each input."""
        return tuple(self._story)

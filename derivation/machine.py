"""The frame of the four machines: a transition table, ignored strays, and a story.

A machine never reads a clock or a socket. `handle(input, now)` returns effects; what a peer
sends too late or twice is ignored by the table (an entry maps it to nothing), and only an input
that the table does not know at all raises. The table declares where a transition may lead and
what it may ask for, and `handle` holds the handler to it, so that what is drawn is what runs.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, NamedTuple

from derivation.protocol import Effect, Party, Send
from derivation.story import Step, describe

Handler = Callable[[Any, Any, float], list[Effect]]


class Transition(NamedTuple):
    """What handles an input in a state, the states it may lead to (the same one, if it may stay),
    and the kinds of effects it may have: types of effects, and for a `Send` the message's type.
    """

    handler: Handler
    to: tuple[Enum, ...]
    effects: tuple[type, ...] = ()


Table = dict[tuple[Enum, type], Transition | None]


def kind(effect: Effect) -> type:
    """The type by which a table declares an effect."""
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
        """Whom this party's part waits for; itself, where something here has to be done first."""
        return ()

    def handle(self, input: Any, now: float) -> list[Effect]:
        """Take one input at time `now` (seconds); return the effects, in order.

        Raises UnexpectedInput for an input that this state's table does not name, and
        AssertionError where the handler does what the table does not declare.
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
        """Raise AssertionError where an invariant of the machine does not hold."""

    def story(self) -> tuple[Step, ...]:
        """What happened, a step an input."""
        return tuple(self._story)

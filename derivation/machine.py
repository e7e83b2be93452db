"""The frame of the four machines: a transition table, ignored strays, and a story.

A machine never reads a clock or a socket. `handle(input, now)` returns effects; what a peer
sends too late or twice is ignored by the table (an entry maps it to nothing), and only an input
that the table does not know at all raises.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar

from derivation.protocol import Effect

Handler = Callable[[Any, Any, float], list[Effect]]


class UnexpectedInput(Exception):
    """The caller gave a machine an input that its table does not name in this state."""


class Machine:
    """Dispatches by `(state, type of input)`. `state` is an Enum member."""

    table: ClassVar[dict[tuple[Enum, type], Handler | None]]
    state: Enum

    def __init__(self, state: Enum) -> None:
        self.state = state
        self._story: list[tuple[float, Enum, Any, Enum, tuple[Effect, ...]]] = []

    def handle(self, input: Any, now: float) -> list[Effect]:
        """Take one input at time `now` (seconds); return the effects, in order.

        Raises UnexpectedInput for an input that this state's table does not name.
        """
        try:
            handler = self.table[self.state, type(input)]
        except KeyError:
            raise UnexpectedInput(
                f"{type(self).__name__} in state {self.state.name} cannot take {input!r}"
            ) from None
        before = self.state
        effects = handler(self, input, now) if handler is not None else []
        self._story.append((now, before, input, self.state, tuple(effects)))
        self.validate()
        return effects

    def validate(self) -> None:
        """Raise AssertionError where an invariant of the machine does not hold."""

    def story(self) -> list[str]:
        """What happened, a line an input: time, states, input, effects."""
        return [
            f"{now:.6f} {before.name} + {input!r} -> {after.name}"
            + "".join(f"\n    {effect!r}" for effect in effects)
            for now, before, input, after, effects in self._story
        ]

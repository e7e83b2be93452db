"""The source (a supplier, or any outlet that feeds a filter): the atomic swap.

All effects of a swap are carried out before the source's next event. Earlier events go to the old
place, before the end marker; later ones go to the destination, after the begin marker.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import ClassVar

from derivation.machine import Machine, Table, Transition
from derivation.protocol import Effect, EndFlow, OpenFlow, RequestSwap


class SourceState(Enum):
    ATTACHED = auto()
    SWAPPED = auto()


class Source(Machine):
    """A move at one source."""

    state: SourceState

    def __init__(self) -> None:
        super().__init__(SourceState.ATTACHED)

    def _swap(self, input: RequestSwap, _: float) -> list[Effect]:
        self.state = SourceState.SWAPPED
        swap = input.swap
        return [*map(EndFlow, swap.old), OpenFlow(swap.new)]

    table: ClassVar[Table] = {
        (SourceState.ATTACHED, RequestSwap): Transition(
            _swap, (SourceState.SWAPPED,), (EndFlow, OpenFlow)
        ),
        (SourceState.SWAPPED, RequestSwap): None,
    }

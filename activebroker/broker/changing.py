"""A stage whose filter is given other parameters, at one event.

It goes on as it is until all that was sent for the old parameters has been filtered, and, where it
was recovered, until it has made again all that anybody has. Then the filter takes the new ones,
between two pieces of work. If it goes on elsewhere when its node is lost, it filters nothing more
until the directory has its new state: what it makes with the new parameters is never made once more
with the old ones.
"""

from __future__ import annotations

from enum import Enum, auto

from activebroker.broker.outlet import NOWHERE
from activebroker.filters import Envelope
from activebroker.routing import Positions

ENDED = "its filter has ended"
SOURCE_LOST = "a source of its events was lost meanwhile"


class ChangingState(Enum):
    WAITING = auto()  # for what was sent before
    TAKING = auto()  # the driver gives the filter its parameters
    SAVING = auto()  # the directory does not have its state yet
    DONE = auto()


class Changing:
    """`behind`: how far the filter has to come first, by outlet, and with what has arrived."""

    def __init__(
        self, id: int, envelope: Envelope, behind: dict[int, Positions], arrived: Positions
    ) -> None:
        self.id = id
        self.envelope = envelope
        self.state = ChangingState.WAITING
        self.failure: str | None = None
        self._behind = dict(behind)
        self._arrived = arrived

    def due(self, inputs: Positions, feeding: set[int], idle: bool) -> bool:
        """Whether the filter can take its parameters now.

        `inputs`: how far it has come; `feeding`: the outlets from which something can still come;
        `idle`: whether nothing waits for it.
        """
        if self.state is not ChangingState.WAITING or self.failure is not None:
            return False
        for outlet, upto in list(self._behind.items()):
            if _reached(inputs, upto):
                del self._behind[outlet]
            elif outlet not in feeding and idle:
                self.failure = SOURCE_LOST
                return False
        return not self._behind and _reached(inputs, self._arrived)


def _reached(inputs: Positions, upto: Positions) -> bool:
    return all(inputs.get(name, NOWHERE) >= at for name, at in upto.items())

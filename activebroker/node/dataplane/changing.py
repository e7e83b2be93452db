"""A stage whose filter is given other parameters, at one event.

It goes on as it is until all that was sent for the old parameters has been filtered, and, where it
was recovered, until it has made again all that anybody has. Then the filter takes the new ones,
between two pieces of work. If it goes on elsewhere when its node is lost, it filters nothing more
until the directory has its new state: what it makes with the new parameters is never made once more
with the old ones.
"""

from __future__ import annotations

from collections.abc import Collection

from activebroker.filters import Envelope
from activebroker.matching import Chunk
from activebroker.node.dataplane.inlet import InFlow, supplier_of
from activebroker.protocol.messages import StreamEnded
from activebroker.protocol.specs import NOWHERE, Offsets

SOURCE_LOST = "a source of its events was lost meanwhile"

Inbox = Collection[tuple[InFlow | None, Chunk | StreamEnded]]


class Changing:
    """`behind`: how far the filter has to come first, by outlet, and with what is in its `inbox`.
    `ending`: flows from other outlets, all of which comes first as well. `passed`: what has not
    come up to there, it did not want."""

    def __init__(
        self,
        id: int,
        envelope: Envelope,
        behind: dict[int, Offsets],
        passed: Offsets,
        ending: frozenset[int],
        inbox: Inbox,
    ) -> None:
        self.id = id
        self.envelope = envelope
        self.passed = passed
        self.outcome: bool | str | None = None  # when it is over, as `ChangeStage` is answered
        self._behind = dict(behind)
        self._ending = ending
        self._arrived = _end(inbox)

    def due(self, inputs: Offsets, flows: dict[int, InFlow], inbox: Inbox) -> bool:
        """Whether the filter can take its parameters now.

        `inputs`: how far it has come; `flows`: by which something can still come; `inbox`: what
        waits for it.
        """
        if self.outcome is not None:
            return False
        if self._ending:
            if not self._ending.isdisjoint(flows):
                return False
            self._ending, self._arrived = frozenset(), _end(inbox)
        feeding = {flow.outlet for flow in flows.values()}
        for outlet, upto in list(self._behind.items()):
            if _reached(inputs, upto):
                del self._behind[outlet]
            elif outlet not in feeding and not inbox:
                self.outcome = SOURCE_LOST
                return False
        return not self._behind and _reached(inputs, self._arrived)


def _end(inbox: Inbox) -> Offsets:
    """How far the filter comes with what waits for it."""
    return {supplier_of(item): item.upto for _, item in inbox}


def _reached(inputs: Offsets, upto: Offsets) -> bool:
    return all(inputs.get(name, NOWHERE) >= at for name, at in upto.items())

"""Gives a stage's filter other parameters, at one event.

The filter goes on as it is until it has filtered all that was sent for the old parameters. If it
was recovered, it has also made again by then all that its subscribers have already. Then it takes
the new parameters, between two pieces of work.

A filter that is recovered when its node is lost filters nothing more until the directory has its
new state. So what it makes with the new parameters is never made again with the old ones.
"""

from __future__ import annotations

from collections.abc import Collection

from activebroker.filters import Envelope
from activebroker.matching import Chunk
from activebroker.node.dataplane.inlet import InFlow, supplier_of
from activebroker.protocol.flows import StreamEnded
from activebroker.protocol.specs import NOWHERE, Offsets

SOURCE_LOST = "a source of its events was lost meanwhile"

Inbox = Collection[tuple[InFlow | None, Chunk | StreamEnded]]


class Changing:
    """A change that is under way at a stage."""

    def __init__(
        self,
        id: int,
        envelope: Envelope,
        after: dict[int, Offsets],  # by outlet: how far the filter has to come first
        passed: Offsets,  # what was not sent up to here, the filter did not want
        ending: frozenset[int],  # flows from other outlets, which come first as a whole
        inbox: Inbox,  # what waits for the filter, and comes first, too
    ) -> None:
        self.id = id
        self.envelope = envelope
        self.passed = passed
        self.outcome: bool | str | None = None  # the answer to `ChangeStage`, once it is known
        self._after = dict(after)
        self._ending = ending
        self._arrived = _end(inbox)

    def due(self, inputs: Offsets, flows: dict[int, InFlow], inbox: Inbox) -> bool:
        """Whether the filter can take its parameters now.

        `inputs` is how far it has come, `flows` are those that can still bring something, and
        `inbox` is what waits for it.
        """
        if self.outcome is not None:
            return False
        if self._ending:
            if not self._ending.isdisjoint(flows):
                return False
            self._ending, self._arrived = frozenset(), _end(inbox)
        feeding = {flow.outlet for flow in flows.values()}
        for outlet, upto in list(self._after.items()):
            if _reached(inputs, upto):
                del self._after[outlet]
            elif outlet not in feeding and not inbox:
                self.outcome = SOURCE_LOST
                return False
        return not self._after and _reached(inputs, self._arrived)


def _end(inbox: Inbox) -> Offsets:
    """How far the filter has come when it has filtered what waits for it."""
    return {supplier_of(item): item.upto for _, item in inbox}


def _reached(inputs: Offsets, upto: Offsets) -> bool:
    return all(inputs.get(name, NOWHERE) >= at for name, at in upto.items())

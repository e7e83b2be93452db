"""The last checkpoint of each filter and relay, from which it goes on when its node is lost."""

from __future__ import annotations

from activebroker.directory.context import Context
from activebroker.directory.parts import SUPPLIER, Derived
from activebroker.directory.requests import Change, RequestQueue
from activebroker.directory.wiring import Wiring
from activebroker.protocol.messages import CheckpointStored, CheckpointTaken
from activebroker.protocol.orders import ForgetSaved, ForgetSubscriber
from activebroker.protocol.specs import merged


class Checkpoints:
    """Keeps the last checkpoints in the graph."""

    def __init__(self, context: Context, wiring: Wiring, queue: RequestQueue) -> None:
        self._context = context
        self._graph = context.graph
        self._wiring = wiring
        self._queue = queue
        # Checkpoints that cannot be accepted yet, by channel and by stage: during a move, a filter
        # has two stages that take some.
        self.waiting: dict[str, dict[int, CheckpointTaken]] = {}

    def taken(self, body: CheckpointTaken) -> None:
        """A node has sent a checkpoint."""
        makes = body.makes
        known = self._graph.made(makes)
        ended = known is None or (isinstance(known, Derived) and known.closed)
        if not ended or self._queue.move_of(makes):
            self.waiting.setdefault(makes, {})[body.stage] = body
            self.accept(makes)

    def forget(self, name: str) -> None:
        """Drop the checkpoints that wait: the filter or the relay has ended, or begins anew."""
        self.waiting.pop(name, None)

    def accept(self, name: str) -> None:
        """Accept a checkpoint, unless what its filter made at an earlier place may still be
        lost."""
        made, moving = self._graph.made(name), self._queue.move_of(name)
        if made is None:
            if moving is None:
                self.forget(name)  # it has ended, or never began
            return
        places = {stage.id: stage.node for stage in made.stages.values()}
        if isinstance(made, Derived):
            earlier = set(made.left)
            if moving is not None and earlier:  # the old place may still work for long
                places = {stage: node for node, stage in moving.old_stages.items()}
                earlier -= places.keys()
            if earlier:
                return
            if made.returning and moving is None:
                self._queue.submit(self._stay(made), lambda result, error: None)
                return
        waiting = self.waiting.get(name, {})
        if moving is None and not made.recovers:
            waiting.clear()  # sent before the filter was lost with its suppliers again
        for stage, node in places.items():
            if node not in self._context.members:
                continue  # gone, or leaving: the filter goes on from the checkpoint before
            if (taken := waiting.pop(stage, None)) is not None:
                # Each stage of a filter at its suppliers has a part of the checkpoint.
                parts = [made.checkpoint] if made.checkpoint and len(places) > 1 else []
                made.checkpoint = merged([*parts, taken.checkpoint])
                if isinstance(made, Derived):
                    self._goes_on(made, taken.change)
                self._context.tell(node, CheckpointStored(stage))
        if moving is None:
            self.forget(name)  # the rest is from earlier places

    def _goes_on(self, channel: Derived, change: int | None) -> None:
        """A filter has a new checkpoint, which was taken after a `change` of it."""
        channel.fresh = False
        if (next := channel.next) is not None and next.id == change:
            channel.envelope, channel.next = next.envelope, None
            if next.late:
                narrow = self._wiring.narrow(channel)
                self._queue.submit(narrow, lambda result, error: None)

    def _stay(self, channel: Derived) -> Change:
        """A filter has come to its suppliers, and what it made before is safe: from now on it is
        lost with them."""
        if channel.closed or not channel.returning or self._queue.move_of(channel.name):
            return
        if any(stage.node not in self._context.members for stage in channel.stages.values()):
            return  # it was lost with one of them, and goes on elsewhere
        channel.returning, channel.checkpoint = False, None
        self.forget(channel.name)
        self._graph.relocate(channel, SUPPLIER)
        parent = channel.parent
        retained_at = [*parent.outlets.values(), *self._graph.retaining(parent, channel.name)]
        yield from self._wiring.tidy(
            [
                *((stage.node, ForgetSaved(stage.id)) for stage in channel.stages.values()),
                *((each.node, ForgetSubscriber(each.id, channel.name)) for each in retained_at),
            ]
        )
        for child in self._graph.children(channel):
            # A filter beside this one could be recovered as long as this one.
            if child.at == SUPPLIER and not child.closed and not child.returning:
                child.returning = True
                self.accept(child.name)

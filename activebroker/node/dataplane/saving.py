"""A stage's checkpoints: what another place needs to go on if this one is lost.

A checkpoint is taken between two pieces of work. It goes to the directory when the subscribers have
acknowledged all that the filter made before it. When the directory has it, the stage acknowledges
its inputs in turn, and the outlets that retain them need not any longer. So every event between a
supplier and a consumer is retained at one place at least, until it cannot be lost any more.

One checkpoint is under way at a time.
"""

from __future__ import annotations

from enum import Enum, auto

from activebroker.node.dataplane.inlet import Inlet
from activebroker.node.dataplane.outlet import WINDOW, Outlet
from activebroker.protocol.specs import NOWHERE, Checkpoint, Offsets, StageSpec

CHECKPOINT_BYTES = WINDOW // 4  # of input since the last checkpoint
CHECKPOINT_TICKS = 10  # ticks of the node without a checkpoint, if there was any input


class SavingState(Enum):
    IDLE = auto()
    TAKING = auto()  # the driver makes a snapshot
    ACKNOWLEDGING = auto()  # waits until what the filter made before is acknowledged
    SENT = auto()  # waits for the directory


class Saving:
    """The checkpoints of one stage."""

    def __init__(self, spec: StageSpec, inlet: Inlet, outlet: Outlet) -> None:
        self.state = SavingState.IDLE
        self.inputs: Offsets = {}  # how far the filter has come
        self.fails = False  # its state cannot be snapshotted: elsewhere it would start afresh
        self.recovers = spec.recovers  # if its node is lost, it goes on elsewhere
        self.wanted = False  # a move waits for the first checkpoint
        self._inlet = inlet
        self._outlet = outlet
        self._first: Offsets = {}  # what the next checkpoint has to cover
        self._uncovered = 0  # bytes of input since the last checkpoint
        self._ticks = 0
        self._checkpoint: Checkpoint | None = None
        self.change = 0  # the change after which the checkpoint under way is the first

    def begin_to_recover(self, sent: Offsets) -> None:
        """The sources retain events from now on; the first checkpoint has to cover what they had
        sent before."""
        self.recovers = self.wanted = True
        self.first(sent)
        self.urge()

    def recover_no_more(self) -> None:
        self.recovers = self.wanted = False
        self.change = 0
        self._first.clear()
        if self.state is not SavingState.TAKING:  # else `taken` ends it
            self.state, self._checkpoint = SavingState.IDLE, None

    def first(self, upto: Offsets) -> None:
        """Events that only this stage may have, as from a hand-over: the next checkpoint has to
        cover them."""
        self._first.update(upto)

    def covered(self, inputs: Offsets, nbytes: int) -> None:
        """The filter is done with these inputs."""
        self.inputs.update(inputs)
        self._uncovered += max(nbytes, 1 if inputs else 0)

    def urge(self) -> None:
        """Take a checkpoint as soon as possible."""
        self._uncovered = max(self._uncovered, 1)
        self._ticks = CHECKPOINT_TICKS

    def tick(self) -> None:
        if self._uncovered:
            self._ticks += 1

    @property
    def active(self) -> bool:
        """Whether time brings a checkpoint nearer."""
        return self.recovers and self._has_use and self._uncovered > 0

    @property
    def _has_use(self) -> bool:
        return self.wanted or bool(self._inlet.sources)

    @property
    def due(self) -> bool:
        """Whether the next piece of work is to be a snapshot."""
        if not self.recovers or not self._has_use or not self.possible:
            return False
        return self._uncovered >= CHECKPOINT_BYTES or self._ticks >= CHECKPOINT_TICKS

    @property
    def possible(self) -> bool:
        """Whether a checkpoint can be taken now."""
        if self.state is not SavingState.IDLE:
            return False
        if any(self.inputs.get(name, NOWHERE) < upto for name, upto in self._first.items()):
            return False
        self._first.clear()
        return True

    def begin(self) -> None:
        self.state = SavingState.TAKING

    def taken(self, state: dict[str, bytes], change: int = 0) -> None:
        """The driver has taken the filter's state, between two pieces of work."""
        if not self.recovers:
            self.state = SavingState.IDLE
            return
        self.change = change
        self.state = SavingState.ACKNOWLEDGING
        self._checkpoint = Checkpoint(state, dict(self.inputs), dict(self._outlet.offsets))
        self._uncovered = self._ticks = 0

    def to_send(self) -> Checkpoint | None:
        """The checkpoint, once, when all that the filter made before it is acknowledged."""
        checkpoint = self._checkpoint
        if self.state is not SavingState.ACKNOWLEDGING or checkpoint is None:
            return None
        if not self._outlet.all_acknowledged(checkpoint.outputs):
            return None
        self.state = SavingState.SENT
        return checkpoint

    def kept(self) -> list[tuple[str, int, str, Offsets, bool]]:
        """The directory has the checkpoint. Returns the acknowledgements that are due: node,
        outlet, subscriber, offsets, and whether the outlet's flow has ended."""
        checkpoint = self._checkpoint
        if self.state is not SavingState.SENT or checkpoint is None:
            return []
        self.state, self._checkpoint = SavingState.IDLE, None
        self.wanted, self.change = False, 0
        told = [
            (node, outlet, subscriber, checkpoint.inputs, outlet in self._inlet.leaving)
            for outlet, (node, subscriber) in self._inlet.sources.items()
        ]
        self._inlet.leave(checkpoint.inputs)
        return told

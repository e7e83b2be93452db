"""The states of a stage, and which may follow each."""

from __future__ import annotations

from enum import Enum, auto


class StageState(Enum):
    LOADING = auto()  # the filter is not there, or may not begin yet
    IDLE = auto()  # the driver has nothing to do for it
    WORKING = auto()  # the filter is run on events
    IDLING = auto()  # its idle hook is run
    SNAPSHOTTING = auto()  # its state is taken, for a checkpoint
    CHANGING = auto()  # it is given other parameters
    HOLDING = auto()  # it makes nothing before the directory has its state behind a change
    CAPTURING = auto()  # its state is taken, for a move, and it runs no more
    ENDING = auto()  # it has seen all there was
    ENDED = auto()  # nothing more leaves, whatever comes


# A filter may be stopped, or a stage ended from outside, in every state; so every state may be the
# one before ENDED.
NEXT: dict[StageState, tuple[StageState, ...]] = {
    StageState.LOADING: (StageState.IDLE, StageState.ENDED),
    StageState.IDLE: (
        StageState.WORKING,
        StageState.IDLING,
        StageState.SNAPSHOTTING,
        StageState.CHANGING,
        StageState.CAPTURING,
        StageState.ENDING,
        StageState.ENDED,
    ),
    StageState.WORKING: (StageState.IDLE, StageState.ENDED),
    StageState.IDLING: (StageState.IDLE, StageState.ENDED),
    StageState.SNAPSHOTTING: (StageState.IDLE, StageState.ENDED),
    StageState.CHANGING: (StageState.IDLE, StageState.HOLDING, StageState.ENDED),
    StageState.HOLDING: (StageState.IDLE, StageState.CAPTURING, StageState.ENDED),
    StageState.CAPTURING: (StageState.ENDED,),
    StageState.ENDING: (StageState.ENDED,),
    StageState.ENDED: (StageState.CAPTURING,),  # of one that was stopped a move takes the reason
}


BUSY = frozenset(
    {
        StageState.WORKING,
        StageState.IDLING,
        StageState.SNAPSHOTTING,
        StageState.CHANGING,
        StageState.CAPTURING,
        StageState.ENDING,
    }
)


class Then(Enum):
    """What a stage does when all that has come has gone through it."""

    GO_ON = auto()
    WIND_UP = auto()  # end all flows, but not the channel, when nothing is on its way to it
    LEAVE = auto()  # the same, whatever is on its way: nothing feeds it any more

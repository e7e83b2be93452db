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
    HOLDING = auto()  # it makes nothing before the directory has its state after a change
    CAPTURING = auto()  # its state is taken, for a move, and it runs no more
    ENDING = auto()  # it has seen all its events, and its end hook is run
    ENDED = auto()  # nothing more leaves, whatever comes


# A filter may be stopped, or a stage ended from outside, in every state: so ENDED may follow each.
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
    StageState.ENDED: (StageState.CAPTURING,),  # if it was stopped, a move takes the reason along
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
    """What a stage does when it has nothing left to filter."""

    GO_ON = auto()
    WIND_UP = auto()  # end all flows, but not the channel, if nothing is on its way here
    LEAVE = auto()  # end all flows, but not the channel: nothing feeds the stage any more

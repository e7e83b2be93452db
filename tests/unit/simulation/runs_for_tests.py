"""Runs that need no network: what a seed comes to is decided by its number."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

from activebroker.simulation.outcome import Carried, Outcome
from activebroker.simulation.scenario import Scenario

CELL = ("origin", "CAPTURING", "crash")
MOVE = Carried("broker to broker", 1, 2, True, "COMPLETED")


def plain(seed: int) -> Outcome:
    """Each seed moves once, covers one cell; those that 10 divides fail."""
    return Outcome(
        Scenario(seed),
        (f"order: {seed} came late",) if seed % 10 == 0 else (),
        (),
        Counter({CELL: 1}),
        Counter({"moves": 1}),
        Counter({MOVE: 1}),
    )


def dying(seed: int) -> Outcome:
    """The process that gets seed 13 is killed, as by a fault below Python."""
    if seed == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(seed)


def interrupted(seed: int) -> Outcome:
    """A Ctrl-C comes, which a worker does not hear."""
    os.kill(os.getpid(), signal.SIGINT)
    return plain(seed)


def leaving(seed: int) -> Outcome:
    """The process that gets seed 13 exits."""
    if seed == 13:
        os._exit(7)
    return plain(seed)


def raising(seed: int) -> Outcome:
    """A simulator with a fault of its own."""
    if seed == 3:
        raise LookupError("no such host")
    return plain(seed)


def hanging(seed: int) -> Outcome:
    """Seed 1 never ends."""
    while seed == 1:
        time.sleep(0.01)
    return plain(seed)


class Unloadable:
    """Ends the process that it is sent to before it can be called."""

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (5,)

    def __call__(self, seed: int) -> Outcome:
        return plain(seed)

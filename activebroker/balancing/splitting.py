"""Decides from a status report which moves take half of a broker's work to another broker."""

from __future__ import annotations

from activebroker.balancing.placed import Placed
from activebroker.core.errors import UnknownPlace, suggestion
from activebroker.protocol.status import StageStatus, Status
from derivation.split import FilterLoad, MoveTo, split

# The work for an event that the predicate alone decides, as a share of that for one in Python.
PASSED = 0.02


def split_moves(status: Status, broker: str, to: str) -> tuple[MoveTo, ...]:
    """The moves, in order, that take half of the work of the filters at `broker` to `to`.

    A filter's work is what it has done since it came there. If the broker has not told its
    counters, all its filters count the same. The work of a filter beside another, derived from it
    at "supplier", counts as that one's; see `Placed.with_those_beside` for its moves.

    Raises UnknownPlace if one of the two is not a broker, or both are the same.
    """
    placed = Placed(status)
    for name in (broker, to):
        if name not in placed.brokers:
            raise UnknownPlace(
                f"There is no broker {name!r} in the fabric." + suggestion(name, placed.brokers)
            )
    if broker == to:
        raise UnknownPlace(
            f"What {broker!r} does can be split only between it and another broker."
            + suggestion("", (name for name in placed.brokers if name != broker))
        )
    done = {stage.id: _work(stage) for stage in status.nodes[broker].stages}
    load = [
        FilterLoad(name, sum(done.get(stage, 0.0) for stage in stages), placed.parent(name))
        for name, stages in placed.at(broker).items()
    ]
    return placed.with_those_beside(split(load, to))


def _work(stage: StageStatus) -> float:
    """The work of a stage, as a number of events that run through Python."""
    passed = stage.taken_events - stage.python_events
    return stage.python_events + PASSED * passed

"""Which moves take half of a broker's work to another, by what a status report says."""

from __future__ import annotations

from activebroker.balancing.placed import Placed
from activebroker.core.errors import UnknownPlace, suggestion
from activebroker.protocol.status import StageStatus, Status
from derivation.split import FilterLoad, MoveTo, split

PASSED = 0.02  # of the work for an event in Python: that for one which the predicate alone decides


def split_moves(status: Status, broker: str, to: str) -> tuple[MoveTo, ...]:
    """The moves, in order, after which half of what the filters at `broker` do is done at `to`.

    A filter's work is what it has done since it came there. A broker that has not told its
    counters is taken for idle: all its filters count the same. A filter derived at "supplier" from
    one there runs beside that: its work counts as its parent's, it moves before it, and the last
    of its moves puts it beside it again.

    Raises UnknownPlace where either is no broker, or both are the same.
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
    """In events that run through Python."""
    passed = stage.taken_events - stage.python_events
    return stage.python_events + PASSED * passed

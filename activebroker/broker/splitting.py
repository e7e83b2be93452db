"""Which moves take half of a broker's work to another, by what a status report says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from activebroker.core.errors import UnknownPlace, suggestion
from activebroker.routing.graph import SUPPLIER
from derivation.split import FilterLoad, MoveTo, split

PASSED = 0.02  # of the work for an event in Python: that for one which the predicate alone decides


def split_moves(status: dict[str, Any], broker: str, to: str) -> tuple[MoveTo, ...]:
    """The moves, in order, after which half of what the filters at `broker` do is done at `to`.

    A filter's work is what it has done since it came there. A broker that has not told its
    counters is taken for idle: all its filters count the same. A filter derived at "supplier" from
    one there runs beside that: its work counts as its parent's, it moves before it, and the last
    of its moves puts it beside it again.

    Raises UnknownPlace where either is no broker, or both are the same.
    """
    brokers = [member["name"] for member in status["members"] if member["broker"]]
    for name in (broker, to):
        if name not in brokers:
            raise UnknownPlace(
                f"There is no broker {name!r} in the fabric." + suggestion(name, brokers)
            )
    if broker == to:
        raise UnknownPlace(
            f"What {broker!r} does can be split only between it and another broker."
            + suggestion("", (name for name in brokers if name != broker))
        )
    channels = {channel["name"]: channel for channel in status["channels"]}

    def carrier(name: str | None) -> str | None:
        """The channel whose filter a channel's own moves with."""
        while name is not None and channels[name]["at"] == SUPPLIER:
            name = channels[name]["parent"]
        return name

    def with_those_beside(name: str) -> Iterator[str]:
        for each in channels.values():
            if each["parent"] == name and each["at"] == SUPPLIER and not each["closed"]:
                yield from with_those_beside(each["name"])
        yield name

    done = {stage["id"]: _work(stage) for stage in status["nodes"][broker]["stages"]}
    load: dict[str, float] = {}
    for channel in channels.values():
        placed = carrier(channel["name"])
        if placed is not None and channels[placed]["at"] == broker and not channel["closed"]:
            work = sum(done.get(stage["id"], 0.0) for stage in channel["stages"])
            load[placed] = load.get(placed, 0.0) + work
    moves: list[MoveTo] = []
    for move in split(
        [FilterLoad(name, work, carrier(channels[name]["parent"])) for name, work in load.items()],
        to,
    ):
        *beside, placed = with_those_beside(move.channel)
        moves += [MoveTo(name, to) for name in (*beside, placed)]
        moves += [MoveTo(name, SUPPLIER) for name in reversed(beside)]
    return tuple(moves)


def _work(stage: dict[str, Any]) -> float:
    """In events that run through Python."""
    in_python: int = stage["python_events"]
    passed: int = stage["taken_events"] - in_python
    return in_python + PASSED * passed

"""Makes the loads that a policy judges out of two status reports."""

from __future__ import annotations

from collections.abc import Container

from activebroker.balancing.placed import Placed
from activebroker.protocol.status import StageStatus, Status
from derivation.balance import BrokerLoad
from derivation.split import FilterLoad


def broker_loads(
    status: Status,
    earlier: Status,
    seconds: float,
    stays: Container[str] = (),
) -> tuple[BrokerLoad, ...]:
    """The loads of the brokers' filters, in CPU seconds a second, from two reports that are
    `seconds` apart.

    A filter's load is what it has used, corrected by how its queue has changed: a filter that does
    not keep up asks for more than it gets, and one that catches up asks for less. It includes the
    load of the filters beside it. Channels in `stays` are not to move. A broker that did not answer
    both times is left out.
    """
    placed = Placed(status)
    return tuple(
        BrokerLoad(
            broker,
            tuple(
                FilterLoad(
                    name,
                    sum(_asked(now.get(stage), before.get(stage), seconds) for stage in stages),
                    placed.parent(name),
                    name not in stays,
                )
                for name, stages in placed.at(broker).items()
            ),
            sum(stage.queue_length for stage in now.values()),
        )
        for broker in placed.brokers
        if (now := _stages(status, broker)) is not None
        and (before := _stages(earlier, broker)) is not None
    )


def _stages(status: Status, broker: str) -> dict[int, StageStatus] | None:
    node = status.nodes.get(broker)
    if node is None or node.error:
        return None
    return {stage.id: stage for stage in node.stages}


def _asked(now: StageStatus | None, before: StageStatus | None, seconds: float) -> float:
    if now is None:
        return 0.0  # it is being moved
    used = now.cpu_seconds
    if before is None:  # it came in between, perhaps with a queue
        return used / seconds
    used -= before.cpu_seconds
    taken = now.taken_events - before.taken_events
    grown = now.queue_length - before.queue_length
    if taken > 0:
        used *= max(0.0, 1 + grown / taken)
    return used / seconds

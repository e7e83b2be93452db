"""What goes wrong at a host's edge: effects that cannot be carried out, and nonsense that it sends.

Each costs what it was for, and whoever takes that hears of it; the world remembers what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from activebroker.core.errors import ActiveBrokerError, FilterStopped, ProtocolError, Unreachable
from activebroker.node import effects as fx
from activebroker.node.dataplane import failing
from activebroker.protocol.frame import decode
from activebroker.protocol.messages import Events, HandOverState

if TYPE_CHECKING:
    from activebroker.simulation.host import Host
    from activebroker.simulation.users import Consumer
    from activebroker.simulation.world import World

# States are not among them: a filter that has lost its own goes on all the same.
FAILS: tuple[type[fx.Effect], ...] = (
    fx.RunStage,
    fx.Deliver,
    fx.RunStage,
    fx.LoadStage,
    fx.ChangeFilter,
)
PLANTED = "Planted: planted"
STOPPED = "it has been stopped"  # after a death, where nobody is left who knows why
UNDELIVERED = "Node could not deliver: planted"
NONSENSE = b"nonsense"


class Planted(Exception):
    """What a scenario lets go wrong."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What may be lost: a channel whose filter could not be run, a port to which nothing could be
    delivered, or what was sent of suppliers and is nonsense."""

    channel: str = ""
    port: int = 0
    suppliers: tuple[str, ...] = field(default=())


def failed(host: Host, effect: fx.Effect) -> Sequence[fx.Input]:
    """An effect could not be carried out: what the node is told instead."""
    host.world.counts[f"failed {type(effect).__name__}"] += 1
    stages = host.node.exchange.stages
    told = failing.instead(effect, stages, Planted("planted"))
    assert told is not None
    match effect:
        case fx.Deliver(port):
            cost = Cost(port=port)
        case fx.LoadStage(spec):
            cost = Cost(spec.channel)
        case fx.RunStage(stage) | fx.ChangeFilter(stage):
            cost = Cost(stages[stage].spec.channel)
        case _:
            raise AssertionError(f"nobody foresees that {effect} fails")
    host.world.costly.append(cost)
    host.world.note("fault", host.name, f"cannot carry out {type(effect).__name__}")
    return told


def garbled(world: World, frame: tuple[bytes, Any]) -> tuple[bytes, Any]:
    """A frame with nonsense for its events, if it has any."""
    head, buffers = frame
    if not buffers:
        return frame
    match decode(head).body:
        case Events() as body:
            cost = Cost(suppliers=(body.supplier,))
        case HandOverState() as body:
            cost = Cost(suppliers=tuple(each.supplier for each in body.parcels))
        case _:
            return frame
    world.counts["frames garbled"] += 1
    world.costly.append(cost)
    return head, [NONSENSE] * len(buffers)


def explains(world: World, consumer: Consumer, error: ActiveBrokerError) -> bool:
    """Whether something that has failed at an edge is why a subscription has ended with an error,
    which says so."""
    channel, above = consumer.channel, list[str]()
    while channel.parent is not None:
        above.append(channel.name)
        channel = channel.parent
    return any(_explains(cost, consumer.port, above, error) for cost in world.costly)


def _explains(cost: Cost, port: int, above: Sequence[str], error: ActiveBrokerError) -> bool:
    text = str(error)
    if cost.port:
        return cost.port == port and text == UNDELIVERED
    stopped = isinstance(error, Unreachable) and STOPPED in text
    if cost.channel:
        if cost.channel not in above:
            return False
        # After a death: at the only place that there is.
        lost = isinstance(error, Unreachable) and PLANTED in text
        return stopped or lost or (isinstance(error, FilterStopped) and text == PLANTED)
    if stopped:
        return True
    names = any(repr(name) in text for name in cost.suppliers)
    return names and "cannot read" in text and isinstance(error, FilterStopped | ProtocolError)

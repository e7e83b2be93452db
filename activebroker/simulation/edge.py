"""What goes wrong at a host's edge: effects that cannot be carried out, and nonsense that it sends.

Each costs what it was for, and whoever takes that hears of it; the world remembers what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from activebroker.core.errors import ActiveBrokerError, FilterStopped, ProtocolError, Unreachable
from activebroker.node import effects as fx
from activebroker.node.dataplane import failing
from activebroker.node.dataplane.stage import Stage
from activebroker.protocol.flows import Events
from activebroker.protocol.frame import decode
from derivation.protocol import HandOver

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
    """What may be lost: a channel whose filter could not be run, an inlet to which nothing could be
    delivered, or what was sent of suppliers and is nonsense."""

    channel: str = ""
    inlet: int = 0
    suppliers: tuple[str, ...] = field(default=())


def failed(effect: fx.Effect, stages: Mapping[int, Stage]) -> tuple[Sequence[fx.Input], Cost]:
    """An effect could not be carried out: what the node is told instead, and what it costs."""
    told = failing.instead(effect, stages, Planted("planted"))
    assert told is not None
    match effect:
        case fx.Deliver(inlet):
            return told, Cost(inlet=inlet)
        case fx.LoadStage(spec):
            return told, Cost(spec.channel)
        case fx.RunStage(stage) | fx.ChangeFilter(stage):
            return told, Cost(stages[stage].spec.channel)
    raise AssertionError(f"nobody foresees that {effect} fails")


def cost_of_nonsense(frame: tuple[bytes, Any]) -> Cost | None:
    """What nonsense for a frame's events costs; None where it has none."""
    head, buffers = frame
    if not buffers:
        return None
    match decode(head).body:
        case Events() as body:
            return Cost(suppliers=(body.supplier,))
        case HandOver() as body:
            return Cost(suppliers=tuple(each.supplier for each in body.buffer))
    return None


def explains(cost: Cost, inlet: int, above: Sequence[str], error: ActiveBrokerError) -> bool:
    """Whether it is why a subscription, below these derived channels, has ended with an error."""
    text = str(error)
    if cost.inlet:
        return cost.inlet == inlet and text == UNDELIVERED
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

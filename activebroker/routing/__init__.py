"""Routing: which outlet feeds which port. A pure picture of the fabric; the directory keeps it."""

from activebroker.routing.graph import Graph
from activebroker.routing.parts import Channel, Flow, Next, Outlet, Port, Relay, Stage
from activebroker.routing.specs import (
    NOWHERE,
    UNPLACED,
    Checkpoint,
    Count,
    FlowSpec,
    Member,
    Position,
    Positions,
    StageSpec,
    later,
    merged,
)

__all__ = [
    "NOWHERE",
    "UNPLACED",
    "Channel",
    "Checkpoint",
    "Count",
    "Flow",
    "FlowSpec",
    "Graph",
    "Member",
    "Next",
    "Outlet",
    "Port",
    "Position",
    "Positions",
    "Relay",
    "Stage",
    "StageSpec",
    "later",
    "merged",
]

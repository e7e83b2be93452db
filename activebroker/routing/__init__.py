"""Routing: which outlet feeds which port. A pure picture of the fabric; the directory keeps it."""

from activebroker.routing.graph import Channel, Flow, Graph, Outlet, Port, Relay, Stage
from activebroker.routing.specs import (
    Checkpoint,
    FlowSpec,
    Member,
    Position,
    Positions,
    StageSpec,
    merged,
)

__all__ = [
    "Channel",
    "Checkpoint",
    "Flow",
    "FlowSpec",
    "Graph",
    "Member",
    "Outlet",
    "Port",
    "Position",
    "Positions",
    "Relay",
    "Stage",
    "StageSpec",
    "merged",
]

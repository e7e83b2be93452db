"""Routing: which outlet feeds which port. A pure picture of the fabric; the directory keeps it."""

from activebroker.routing.graph import Channel, Flow, Graph, Outlet, Port, Stage
from activebroker.routing.specs import FlowSpec, Member, StageSpec

__all__ = [
    "Channel",
    "Flow",
    "FlowSpec",
    "Graph",
    "Member",
    "Outlet",
    "Port",
    "Stage",
    "StageSpec",
]

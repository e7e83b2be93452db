"""A node's own part of what `fabric.status()` tells."""

from __future__ import annotations

from activebroker.node.dataplane.plane import Plane
from activebroker.node.links.peers import Peers
from activebroker.node.moves import Moves
from activebroker.protocol.status import FlowStatus, LinkStatus, NodeStatus, StageStatus


def counters(plane: Plane, cpu_seconds: float, moves: Moves, peers: Peers) -> NodeStatus:
    """The counters of a node's flows, stages and links, and the moves it takes part in."""
    return NodeStatus(
        flows=[
            FlowStatus(
                channel=outlet.channel,
                outlet=outlet.id,
                supplier=outlet.supplier,
                target=flow.spec.target,
                inlet=flow.spec.inlet,
                offered_events=flow.offered_events,
                offered_bytes=flow.offered_bytes,
                sent_events=flow.sent_events,
                sent_bytes=flow.sent_bytes,
                waiting=len(flow.waiting),
            )
            for outlet in plane.outlets.values()
            for flow in outlet.flows.values()
        ],
        stages=[
            StageStatus(
                id=stage.spec.id,
                channel=stage.spec.channel,
                taken_events=stage.taken_events,
                python_events=stage.python_events,
                emitted_events=stage.outlet.emitted_events,
                lost_events=stage.lost_events,
                late_events=stage.late_events,
                keys=stage.keys,
                backlog=stage.backlog,
                queue_length=stage.queue_length,
                cpu_seconds=stage.cpu_seconds,
            )
            for stage in plane.stages.values()
        ],
        cpu_seconds=cpu_seconds,
        moves=moves.under_way(),
        links={peer: LinkStatus(link.unacknowledged) for peer, link in peers.links.items()},
    )

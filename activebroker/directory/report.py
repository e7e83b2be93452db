"""What `fabric.status()` returns: the directory's picture, with every node's own counters."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from activebroker.directory.context import Context, Done
from activebroker.directory.graph import Graph
from activebroker.directory.parts import Channel, Root
from activebroker.directory.stories import Stories
from activebroker.protocol.orders import ReportNode
from activebroker.protocol.status import (
    ChannelStatus,
    MemberStatus,
    NodeStatus,
    RelayStatus,
    StagePlace,
    Status,
)

PATIENCE = 2.0  # seconds for a node to answer; one that does not is shown without counters


def report(context: Context, stories: Stories, done: Done) -> None:
    """Ask all nodes for their counters, and give `done` the status."""
    members, graph, now = context.members, context.graph, context.now
    nodes: dict[str, NodeStatus] = {}
    status = Status(
        [MemberStatus(each.name, each.address, each.is_broker) for each in members.values()],
        [_channel(channel, graph, now) for channel in graph.channels.values()],
        stories.under_way(),
        stories.last_ended(),
        nodes,
    )
    names = tuple(members)

    def answered(name: str) -> Done:
        def keep(result: Any, error: Exception | None) -> None:
            nodes[name] = result if error is None else NodeStatus(error=str(error))
            if len(nodes) == len(names):
                done(status, None)

        return keep

    for name in names:
        context.call(name, ReportNode(), PATIENCE, answered(name))


def _channel(channel: Channel, graph: Graph, now: float) -> ChannelStatus:
    suppliers = {o.supplier: o.node for o in channel.outlets.values() if o.supplier}
    told = ChannelStatus(
        name=channel.name,
        type=channel.type.name,
        closed=channel.closed,
        ended=channel.ended.strip(),
        suppliers=sorted(suppliers),
        supplier_nodes=suppliers,
        consumers=sum(inlet.makes is None for inlet in channel.inlets.values()),
        relays=[
            RelayStatus(relay.supplier, relay.at, list(relay.subscribers), relay.newcomers)
            for relay in graph.relays_of(channel)
        ],
    )
    if isinstance(channel, Root):
        return told
    return structs.replace(
        told,
        parent=channel.parent.name,
        at=channel.at,
        asked=channel.asked,
        instead=channel.instead,
        filter=channel.envelope.name,
        predicate=channel.predicate,
        exact=channel.envelope.exact,
        owner=channel.owner if channel.owned else "",
        lease=channel.lease,
        runs_out_in=None if channel.runs_out is None else channel.runs_out - now,
        stages=[StagePlace(each.id, each.node, each.engine) for each in channel.stages.values()],
    )

"""What `fabric.status()` tells: the directory's picture, with every node's own counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from activebroker.directory.changes import Done
from activebroker.directory.graph import Graph
from activebroker.directory.parts import Channel, Derived
from activebroker.directory.stories import Stories
from activebroker.protocol.messages import CallBody, ReportNode
from activebroker.protocol.specs import Member

PATIENCE = 2.0  # seconds for a node to answer; one that does not is shown without counters


def report(
    members: dict[str, Member],
    graph: Graph,
    stories: Stories,
    call: Callable[[str, CallBody, float, Done], None],
    done: Done,
    now: float,
) -> None:
    """Ask all nodes for their counters, and tell `done` the whole."""
    names = tuple(members)
    nodes: dict[str, Any] = {}
    picture = {
        "members": [
            {"name": each.name, "address": each.address, "broker": each.is_broker}
            for each in members.values()
        ],
        "channels": [_channel(channel, graph, now) for channel in graph.channels.values()],
        "moves": stories.under_way(),
        "ended_moves": stories.last_ended(),
        "nodes": nodes,
    }

    def answered(name: str) -> Done:
        def keep(result: Any, error: Exception | None) -> None:
            nodes[name] = result if error is None else {**_NOTHING, "error": str(error)}
            if len(nodes) == len(names):
                done(picture, None)

        return keep

    for name in names:
        call(name, ReportNode(), PATIENCE, answered(name))


_NOTHING: dict[str, Any] = {"flows": [], "stages": [], "moves": [], "links": {}, "cpu_seconds": 0.0}


def _channel(channel: Channel, graph: Graph, now: float) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": channel.name,
        "type": channel.type.name,
        "parent": None,
        "at": "",
        "asked": "",
        "instead": "",
        "filter": None,
        "predicate": None,
        "exact": None,
        "closed": channel.closed,
        "ended": channel.ended.strip(),
        "owner": "",
        "lease": None,
        "runs_out_in": None,
        "suppliers": sorted({o.supplier for o in channel.outlets.values() if o.supplier}),
        "supplier_nodes": {o.supplier: o.node for o in channel.outlets.values() if o.supplier},
        "consumers": sum(port.makes is None for port in channel.ports.values()),
        "stages": [],
        "relays": [
            {
                "supplier": relay.supplier,
                "node": relay.at,
                "takers": list(relay.takers),
                "newcomers": relay.newcomers,
            }
            for relay in graph.relays_of(channel)
        ],
    }
    if isinstance(channel, Derived):
        told |= {
            "parent": channel.parent.name,
            "at": channel.at,
            "asked": channel.asked,
            "instead": channel.instead,
            "filter": channel.envelope.name,
            "predicate": channel.predicate,
            "exact": channel.envelope.exact,
            "owner": channel.owner if channel.owned else "",
            "lease": channel.lease,
            "runs_out_in": None if channel.runs_out is None else channel.runs_out - now,
            "stages": [
                {"id": stage.id, "node": stage.node, "engine": stage.engine}
                for stage in channel.stages.values()
            ],
        }
    return told

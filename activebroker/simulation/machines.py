"""The one place where the simulation looks into a node for what it has no effects to tell."""

from __future__ import annotations

import math
from collections.abc import Iterator

from activebroker.directory.planning import PlannedMove
from activebroker.node.links.peers import LOST_AFTER
from activebroker.node.node import TICK, Node
from activebroker.protocol.specs import Member
from derivation.machine import Machine
from derivation.protocol import Plan

Key = tuple[str, int, int]  # machine, move, and which one where a node has several


def machines(node: Node) -> dict[Key, Machine]:
    """The machines of the derivations that are under way at a node."""
    moves, directory = node.moves, node.directory
    if not (
        moves._origins
        or moves._destinations
        or moves._sources
        or (directory is not None and directory.planned)
    ):
        return {}
    found: dict[Key, Machine] = {}
    if directory is not None:
        for move, planned in directory.planned.items():
            found["initiator", move, 0] = planned.machine
    for (move, outlet), source in moves._sources.items():
        found["source", move, outlet] = source
    for move, origin in moves._origins.items():
        found["origin", move, 0] = origin.machine
    for move, destination in moves._destinations.items():
        found["destination", move, 0] = destination.machine
    return found


def plans(node: Node) -> Iterator[Plan]:
    """The plans of the derivations that this node initiates and that have not ended."""
    if node.directory is not None:
        for planned in node.directory.planned.values():
            yield planned.plan


def planned(node: Node, move: int) -> PlannedMove | None:
    """A move that this node initiates and that has not ended."""
    return None if node.directory is None else node.directory.planned.get(move)


def idle_ticks(node: Node, now: float) -> int:
    """How many ticks from now on find nothing to do, unless the node is given something.

    They are not given to it: seconds of silence would be most of a run's work.
    """
    if node.active:
        return 0
    due = math.inf
    for link in node.peers.links.values():
        if (nearest := link.due) < now:
            return 0
        due = min(due, nearest, link.heard_at + LOST_AFTER)
    return 0 if due is math.inf else max(0, int((due - now) / TICK) - 1)


def served_by(hub: Node, outlet: int) -> list[str]:
    """The other nodes that an outlet serves itself, as the directory at `hub` knows them."""
    assert hub.directory is not None
    flows = [f for f in hub.directory.graph.out_of(outlet) if not f.inlet.relays and f.crosses]
    return list(dict.fromkeys(flow.inlet.node for flow in flows))


def suppliers_of(hub: Node, channel: str) -> set[str | None]:
    """The suppliers of a channel that the directory at `hub` knows."""
    assert hub.directory is not None
    return {each.supplier for each in hub.directory.graph.channels[channel].outlets.values()}


def served(hub: Node) -> dict[str, str | None]:
    """Why the channels have ended that the directory at `hub` knows; None: it serves them still."""
    assert hub.directory is not None
    channels = hub.directory.graph.channels.values()
    return {each.name: each.ended if each.closed else None for each in channels}


def is_orphan(node: Node) -> bool:
    """Whether the node has lost the directory, and with it everything."""
    return bool(node.orphaned)


def is_member(hub: Node, member: Member) -> bool:
    """Whether the directory has this process in the fabric."""
    return hub.directory is not None and hub.directory.members.get(member.name) == member


def leftovers(node: Node) -> dict[str, object]:
    """What is there once users have closed all they had opened: nothing, if all is well."""
    plane = node.plane
    left: dict[str, object] = {
        "outlets": plane.outlets,
        "inlets": plane.inlets,
        "stages": plane.stages,
        "machines": machines(node),
        "blocked": node.outlets.blocked,
        "stopped": plane.stopped,
        "acknowledging": node.inlets.acknowledging,
        "calls": node._calls._pending,
        "deploying": node.orders.deploying,
    }
    if node.directory is not None:
        graph = node.directory.graph
        left["checkpoints that wait"] = node.directory._checkpoints.waiting
        left["recoveries that wait"] = node.directory._recoveries._waiting
        left["recoveries remembered"] = node.directory._recoveries._records
        left["flows in the picture"] = graph.flows
        left["relays in the picture"] = graph.relays
        for channel in graph.channels.values():
            for part in ("outlets", "inlets", "stages", "left", "checkpoint"):
                left[f"{part} of {channel.name} in the picture"] = getattr(channel, part, None)
    return {what: value for what, value in left.items() if value}

"""What the names in users' requests stand for; an unknown name is answered with similar ones."""

from __future__ import annotations

from activebroker.core.errors import Closed, UnknownChannel, UnknownPlace, suggestion
from activebroker.directory.graph import Graph
from activebroker.directory.parts import CONSUMER, FIXED_PLACES, SPARK, SUPPLIER, Channel
from activebroker.protocol.specs import Member


def channel_named(graph: Graph, name: str) -> Channel:
    """The open channel of this name. Raises UnknownChannel, or Closed."""
    channel = graph.channels.get(name)
    if channel is None:
        raise UnknownChannel(f"There is no channel {name!r}." + suggestion(name, open_names(graph)))
    if channel.closed:
        raise Closed(f"Channel {name!r} was closed.{channel.ended}")
    return channel


def place_named(
    members: dict[str, Member], channel: Channel, at: str, node: str
) -> tuple[list[str], str]:
    """The nodes and the engine that the place `at` means for a filter on `channel`; "consumer" and
    "spark" mean `node`. Raises UnknownPlace."""
    if at == SUPPLIER:
        return list({outlet.node: None for outlet in channel.outlets.values()}), "python"
    if at == CONSUMER:
        return [node], "python"
    if at == SPARK:
        return [node], "spark"
    member = members.get(at)
    if member is None or not member.is_broker:
        known = [*brokers(members), *FIXED_PLACES]
        raise UnknownPlace(f"There is no broker {at!r} in the fabric." + suggestion(at, known))
    return [at], "python"


def brokers(members: dict[str, Member]) -> list[str]:
    """The names of the brokers."""
    return [each.name for each in members.values() if each.is_broker]


def open_names(graph: Graph) -> list[str]:
    """The names of the channels that are not closed."""
    return [each.name for each in graph.channels.values() if not each.closed]


def free_name(graph: Graph, name: str) -> str:
    """`name`, followed by a number if a channel has that name already."""
    taken, number, free = set(open_names(graph)), 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free

"""Filters at their suppliers, and where a filter runs instead if one of these cannot run it.

A process may lack a filter's imports, or have another version of Python. It can be a supplier all
the same: the filter runs at another place, and its suppliers send it what its predicate selects.
"""

from __future__ import annotations

import logging

from activebroker.core.errors import ActiveBrokerError, PayloadRefused
from activebroker.directory.context import PATIENCE, Context
from activebroker.directory.endings import Endings
from activebroker.directory.moves import Moves
from activebroker.directory.parts import CONSUMER, SUPPLIER, Channel, Derived
from activebroker.directory.recoveries import Recoveries
from activebroker.directory.requests import Change, RequestQueue
from activebroker.directory.wiring import Wiring
from activebroker.protocol.requests import Move

log = logging.getLogger(__name__)


class Placing:
    """Connects channels, and places filters beside the suppliers that are connected."""

    def __init__(
        self,
        context: Context,
        wiring: Wiring,
        queue: RequestQueue,
        moves: Moves,
        endings: Endings,
        recoveries: Recoveries,
    ) -> None:
        self._graph = context.graph
        self._members = context.members
        self._wiring = wiring
        self._queue = queue
        self._moves = moves
        self._endings = endings
        self._recoveries = recoveries

    def connect(self, channel: Channel) -> Change:
        """Give every inlet of a channel a flow from every outlet; the same for the channels that
        are derived from it at the supplier."""
        for child in self._graph.children(channel):
            if self._is_beside(child):
                yield from self._beside(child)
                if not child.closed:
                    yield from self.connect(child)
        yield from self._wiring.connect(channel)

    def _is_beside(self, child: Derived) -> bool:
        """Whether a filter runs, or is to run, wherever the parent channel has an outlet."""
        waits = self._recoveries.waits(child.parent.name) or self._recoveries.waits(child.name)
        return child.at == SUPPLIER and not child.closed and not waits

    def _beside(self, child: Derived) -> Change:
        """Put a filter beside each supplier that has none yet."""
        placed = {stage.node for stage in child.stages.values()}
        nodes = [node for node in self._graph.unserved(child) if node not in placed]
        try:
            yield from self._wiring.deploy(child, nodes, "python")
        except PayloadRefused as refusal:
            yield from self._instead(child, str(refusal))

    def _instead(self, channel: Derived, reason: str) -> Change:
        """Put a filter at one place that can run it; end its channel if there is none."""
        for child in self._graph.children(channel):
            if self._is_beside(child) and child.stages:  # it runs beside this filter, which leaves
                yield from self._instead(child, reason)
        asked = channel.asked
        places = [channel.owner, *self._recoveries.candidates(channel)]
        places += [stage.node for stage in channel.stages.values()]
        for node in (*dict.fromkeys(places), None):  # None: catch up once more
            more = yield from self._queue.catch_up()
            if not self._is_beside(channel):
                return  # it ended, or goes on elsewhere
            if more:  # a node was lost meanwhile, which may be why an attempt failed: begin anew
                yield from self._instead(channel, reason)
                return
            if node not in self._members:
                continue
            try:
                yield from self._put(channel, node)
            except ActiveBrokerError as error:
                log.info("channel %r cannot go to %r: %s", channel.name, node, error)
            if channel.closed:
                return
            if channel.at != SUPPLIER:
                channel.asked, channel.instead = asked, reason
                log.warning(
                    "the filter of channel %r runs at %r, not at its suppliers: %s",
                    *(channel.name, channel.at, reason),
                )
                return
        channel.instead, channel.ended = reason, f" Its filter can run nowhere: {reason}"
        yield from self._endings.abandon(
            channel, f"Channel {channel.name!r} has ended.{channel.ended}"
        )

    def _put(self, channel: Derived, node: str) -> Change:
        """Move a filter from its suppliers to a node, or start it there if it runs nowhere yet."""
        at = CONSUMER if node == channel.owner else node
        if channel.stages:
            move = Move(channel.name, at, channel.owner, PATIENCE)
            yield from self._moves.move_to(channel, [node], "python", move)
            return
        channel.at, channel.checkpoint, channel.fresh = at, None, True
        try:
            yield from self._wiring.deploy(channel, [node], "python")
            self._wiring.check(self._graph.through(channel))
        except ActiveBrokerError:
            channel.at = SUPPLIER
            yield from self._wiring.remove_stages(channel)
            raise

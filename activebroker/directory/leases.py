"""Leases: a derived channel lives as long as its owner or somebody who takes it, and a while more.

The owner is the process that derived it. Else each consumer that crashed would leave a filter for
good, which is served and costs all that it costs.
"""

from __future__ import annotations

from collections.abc import Callable

from activebroker.directory.graph import Graph
from activebroker.directory.parts import Channel, Derived


class Leases:
    """`set_timer(key, after)` lets `run_out` be called with the key; None takes the timer back.

    `end(channel, why)` ends a channel as a user would.
    """

    def __init__(
        self,
        graph: Graph,
        set_timer: Callable[[str, float | None], None],
        now: Callable[[], float],
        end: Callable[[Derived, str], None],
    ) -> None:
        self._graph = graph
        self._set_timer = set_timer
        self._now = now
        self._end = end

    def taken(self, channel: Channel) -> bool:
        """Whether there is a subscription, or something derived from it."""
        children = self._graph.children(channel)
        return bool(channel.ports) or any(not child.closed for child in children)

    def disown(self, node: str) -> None:
        """A process is gone, and a successor of its name owns nothing."""
        for channel in self._graph.derived:
            if channel.owner == node:
                channel.owned = False

    def review(self) -> None:
        """After a change: begin the leases of channels that nobody holds now, stop the others'."""
        for channel in self._graph.derived:
            if channel.lease is None:
                continue
            runs = not (channel.closed or channel.owned or self.taken(channel))
            if runs and channel.runs_out is None:
                channel.runs_out = self._now() + channel.lease
                self._set_timer(channel.name, channel.lease)
            elif not runs and channel.runs_out is not None:
                channel.runs_out = None
                self._set_timer(channel.name, None)

    def run_out(self, name: str) -> None:
        """Its time has passed; it may be held again by the time it is its turn to end."""
        channel = self._graph.channels.get(name)
        if isinstance(channel, Derived) and channel.runs_out is not None:
            why = (
                f" {channel.owner!r}, which derived it, is gone, and nobody has taken it for "
                f"{channel.lease:g} s."
            )
            self._end(channel, why)

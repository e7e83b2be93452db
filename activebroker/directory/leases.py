"""Leases: a derived channel lives as long as its owner or a consumer does, and a while more.

The owner is the process that derived it. Without leases, each consumer that crashes would leave a
filter that runs for ever.
"""

from __future__ import annotations

from activebroker.directory.context import Context
from activebroker.directory.parts import Channel, Derived


class Leases:
    """The leases of derived channels; each that runs has a timer `lease CHANNEL`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._graph = context.graph

    def taken(self, channel: Channel) -> bool:
        """Whether the channel has a subscription, or an open channel derived from it."""
        children = self._graph.children(channel)
        return bool(channel.inlets) or any(not child.closed for child in children)

    def disown(self, node: str) -> None:
        """A process is gone; another one of its name does not own what it derived."""
        for channel in self._graph.derived:
            if channel.owner == node:
                channel.owned = False

    def review(self) -> None:
        """After a change: begin the leases of channels that nobody holds now, and stop the
        others."""
        for channel in self._graph.derived:
            if channel.lease is None:
                continue
            runs = not (channel.closed or channel.owned or self.taken(channel))
            if runs and channel.runs_out is None:
                channel.runs_out = self._context.now + channel.lease
                self._context.set_timer("lease", channel.name, channel.lease)
            elif not runs and channel.runs_out is not None:
                channel.runs_out = None
                self._context.set_timer("lease", channel.name, None)

    def has_run_out(self, channel: Derived) -> str:
        """Why a channel ends whose lease has run out; empty if somebody holds it again."""
        if channel.runs_out is None:
            return ""
        return (
            f" {channel.owner!r}, which derived it, is gone, and nobody has taken it for "
            f"{channel.lease:g} s."
        )

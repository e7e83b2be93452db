"""Which filters were placed at brokers, by a status report, and which others move with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from activebroker.directory.parts import SUPPLIER
from activebroker.protocol.specs import LOG
from activebroker.protocol.status import Status
from derivation.split import MoveTo


class Placed:
    """The filters that were placed at brokers by name, or recovered there.

    A filter that is derived from one of these at "supplier" runs beside it, and moves with it.
    """

    def __init__(self, status: Status) -> None:
        self.brokers: list[str] = [each.name for each in status.members if each.broker]
        self._channels = {each.name: each for each in status.channels if not each.closed}

    def at(self, broker: str) -> dict[str, list[int]]:
        """The channels whose filters were placed at a broker, each with its stages and those
        beside it."""

        def logs(channel: str) -> bool:  # which stays where its disk is
            return any(stage.engine == LOG for stage in self._channels[channel].stages)

        found: dict[str, list[int]] = {}
        for channel in self._channels.values():
            carrier = self._carrier(channel.name)
            if carrier is not None and self._channels[carrier].at == broker and not logs(carrier):
                found.setdefault(carrier, []).extend(stage.id for stage in channel.stages)
        return found

    def parent(self, channel: str) -> str | None:
        """The channel whose filter moves together with the filter of this channel's parent."""
        return self._carrier(self._channels[channel].parent)

    def with_those_beside(self, moves: Iterable[MoveTo]) -> tuple[MoveTo, ...]:
        """The moves, with those of the filters beside: these move before a filter, and are then put
        beside it again."""
        whole: list[MoveTo] = []
        for move in moves:
            beside = list(self._beside(move.channel))
            whole += [MoveTo(name, move.to) for name in (*beside, move.channel)]
            whole += [MoveTo(name, SUPPLIER) for name in reversed(beside)]
        return tuple(whole)

    def _carrier(self, name: str | None) -> str | None:
        """The channel whose filter a channel's own filter moves with."""
        while name is not None and self._channels[name].at == SUPPLIER:
            name = self._channels[name].parent
        return name

    def _beside(self, name: str) -> Iterator[str]:
        for each in self._channels.values():
            if each.parent == name and each.at == SUPPLIER:
                yield from self._beside(each.name)
                yield each.name

"""How to spread the consumers of one supplier over brokers, and what the links then allow.

All hosts have links of one rate, so what counts is how many streams the fullest uplink carries:
every consumer gets the link's rate divided by that.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """`direct`: consumers that the supplier goes on serving; `relayed`: those of each broker."""

    direct: int
    relayed: tuple[int, ...]

    @property
    def streams(self) -> int:
        """The streams on the fullest uplink: the supplier feeds each broker once."""
        return max(self.direct + len(self.relayed), *self.relayed, 0)


def spread(consumers: int, brokers: int) -> Spread:
    """The spread over exactly so many brokers whose fullest uplink has the fewest streams.

    >>> spread(12, 2)
    Spread(direct=2, relayed=(5, 5))
    >>> spread(12, 2).streams
    5
    >>> [spread(consumers, 0).streams / spread(consumers, 2).streams for consumers in (4, 8, 12)]
    [2.0, 2.0, 2.4]
    """
    if not brokers:
        return Spread(consumers, ())
    spreads = [_with(consumers, direct, brokers) for direct in range(consumers - brokers + 1)]
    return min(spreads, key=lambda each: each.streams)


def best_spread(consumers: int, most: int) -> Spread:
    """The same over up to `most` brokers, and over no more of them than it takes.

    >>> best_spread(16, 6)
    Spread(direct=0, relayed=(4, 4, 4, 4))
    >>> best_spread(2, 6)
    Spread(direct=2, relayed=())
    """
    spreads = [spread(consumers, brokers) for brokers in range(min(most, consumers) + 1)]
    return min(spreads, key=lambda each: (each.streams, len(each.relayed)))


@dataclass(frozen=True)
class Levels:
    """Brokers that feed brokers. Number 0 is the supplier, the brokers follow: `feeders` has the
    number of each broker's feeder, `served` how many consumers each number has."""

    streams: int
    feeders: tuple[int, ...]
    served: tuple[int, ...]


def levels(consumers: int, brokers: int) -> Levels:
    """So many brokers in levels, with the fewest streams on the fullest uplink.

    >>> levels(16, 7)
    Levels(streams=3, feeders=(0, 0, 0, 1, 1, 1, 2), served=(0, 0, 2, 3, 3, 3, 3, 2))
    >>> levels(16, 4).streams, levels(16, 14).streams
    (4, 2)
    """
    # A broker takes one stream of an uplink, and gives as many in its place as an uplink has.
    streams = next(
        streams
        for streams in range(1, consumers + 1)
        if streams + brokers * (streams - 1) >= consumers
    )
    feeders = tuple(broker // streams for broker in range(brokers))
    served, left = [], consumers
    for number in range(brokers + 1):
        served.append(min(left, streams - feeders.count(number)))
        left -= served[-1]
    return Levels(streams, feeders, tuple(served))


def _with(consumers: int, direct: int, brokers: int) -> Spread:
    each, more = divmod(consumers - direct, brokers)
    return Spread(direct, tuple(each + (broker < more) for broker in range(brokers)))

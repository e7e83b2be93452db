"""Filters that move by themselves: which moves relieve a loaded broker, or empty an idle one.

A policy sees the loads of all brokers at intervals, and decides which filters move. `Balance` is
the default. It is a machine like the others here: loads and the time in, moves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, inf
from typing import Protocol

from derivation.protocol import Party
from derivation.split import FilterLoad, MoveTo, branches_of, parents_first

UNIT = 10**9  # loads are whole numbers of this fraction during a decision, so that sums are exact
GOAL = 0.9  # of the limit: to this level brokers are relieved and filled, with room for noise


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """A broker and the filters placed there."""

    name: Party
    filters: tuple[FilterLoad, ...] = ()  # with loads in CPU seconds a second
    queue: int = 0  # events that wait for the filters


@dataclass(frozen=True, slots=True)
class Decision:
    """Moves to carry out, in order, and the reason; or why there are none although some are
    needed."""

    moves: tuple[MoveTo, ...] = ()
    reason: str = ""


class Policy(Protocol):
    """Decides what moves."""

    def decide(self, now: float, brokers: Sequence[BrokerLoad]) -> Decision:
        """Decide about the moves now. `now` is in seconds of any clock that does not go back.

        The moves of a decision are carried out, or have failed, before the next decision.
        """
        ...


class Balance:
    """Splits brokers over `limit`, and merges those at `low` or below.

    Both are in CPU seconds a second. Loads are smoothed over `smoothing` seconds. A broker is
    *overloaded* when it has been over the limit for `patience` seconds, and *idle* when it has been
    low for `calm` seconds. For `settle` seconds after a move, the brokers that took part are not
    judged and their reports are ignored: their filters catch up first.

    An overloaded broker gives away as few filters as bring it to `GOAL` of the limit, or else to
    the limit. Each filter goes, with its dependants there, to the broker with the least load that
    has room under the same level. If that is not enough, those filters move that can.

    An idle broker gives away all its filters, and only while no broker is over the limit. They go
    to brokers in use, which are filled at most to the middle between `low` and the limit.

    It does not oscillate. While loads stay the same, a move never brings a broker over the limit.
    So a filter that an overloaded broker has given away does not move for that reason again, and
    once no broker is over the limit, none will be. From then on there are only merges, each of
    which leaves one broker fewer in use. And a merge does not undo a split: both parts together
    were over the limit, which is more than a merge may fill. When loads change, they have to rise
    by half of `limit - low` before something that was merged is split.

    Raises ValueError for numbers that make no sense.
    """

    def __init__(
        self,
        limit: float = 0.8,
        low: float = 0.2,
        *,
        smoothing: float = 10.0,
        patience: float = 10.0,
        calm: float = 60.0,
        settle: float = 15.0,
    ) -> None:
        if not 0 < limit < inf:
            raise ValueError(f"the limit must be more than 0 CPU seconds a second, not {limit}")
        if not 0 <= low <= limit / 2:
            raise ValueError(f"low must be from 0 to half the limit of {limit}, not {low}")
        times = {"smoothing": smoothing, "patience": patience, "calm": calm, "settle": settle}
        for name, seconds in times.items():
            if not 0 <= seconds < inf:
                raise ValueError(f"{name} must be 0 seconds or more, not {seconds}")
        self._limit = round(limit * UNIT)
        self._goal = round(GOAL * limit * UNIT)
        self._low = round(low * UNIT)
        self._full = (self._low + self._limit) // 2  # the level to which a merge may fill
        self._smoothing = smoothing
        self._patience = patience
        self._calm = calm
        self._settle = settle
        self._last: float | None = None
        self._loads: dict[str, float] = {}  # of filters, smoothed
        self._over: dict[Party, float] = {}  # since when
        self._idle: dict[Party, float] = {}  # since when
        self._moved: tuple[Party, ...] = ()  # the brokers that took part in the last moves
        self._settling: dict[Party, float] = {}  # until when

    def decide(self, now: float, brokers: Sequence[BrokerLoad]) -> Decision:
        """See `Policy`. Raises ValueError if a broker or a channel is named twice."""
        # Moves take time: `settle` counts from the first decision after them.
        self._settling |= dict.fromkeys(self._moved, now + self._settle)
        self._settling = {name: until for name, until in self._settling.items() if now < until}
        self._moved = ()
        picture = _Picture(self._smoothed(now, brokers))
        judged = [name for name in picture.filters if name not in self._settling]
        loads = picture.loads
        over = [name for name in judged if loads[name] > self._limit]
        low = [name for name in judged if loads[name] <= self._low and picture.filters[name]]
        overloaded = _lasting(self._over, over, now, self._patience)
        idle = _lasting(self._idle, low, now, self._calm)
        decision = Decision()
        for name in sorted(overloaded, key=lambda name: -loads[name]):
            decision = self._split(picture, name, judged)
            if decision.moves:
                break
        if all(load <= self._limit for load in loads.values()):
            for name in sorted(idle, key=lambda name: loads[name]):
                decision = self._merge(picture, name, judged)
                if decision.moves:
                    break
        where = {channel: name for name, here in picture.filters.items() for channel in here}
        took_part = ((where[move.channel], move.to) for move in decision.moves)
        self._moved = tuple(dict.fromkeys(name for pair in took_part for name in pair))
        return decision

    def _smoothed(self, now: float, brokers: Sequence[BrokerLoad]) -> list[BrokerLoad]:
        passed = 0.0 if self._last is None else max(0.0, now - self._last)
        weight = 1.0 - exp(-passed / self._smoothing) if self._smoothing else 1.0
        self._last = now
        before, self._loads = self._loads, {}
        smoothed = []
        for broker in brokers:
            for each in broker.filters:
                if each.channel in self._loads:
                    raise ValueError(f"channel {each.channel!r} is named twice")
                load = before.get(each.channel, each.load)
                if broker.name not in self._settling:
                    load += weight * (each.load - load)
                self._loads[each.channel] = load
            filters = (replace(each, load=self._loads[each.channel]) for each in broker.filters)
            smoothed.append(replace(broker, filters=tuple(filters)))
        return smoothed

    def _split(self, picture: _Picture, source: Party, judged: Iterable[Party]) -> Decision:
        moves: list[MoveTo] = []
        for level in (self._goal, self._limit):
            after = picture.copy()
            moves = self._relieve(after, source, judged, level)
            if after.loads[source] <= self._limit:
                break
        limit = f"{self._limit / UNIT:.2f}"
        if moves:
            load = f"{picture.loads[source] / UNIT:.2f}"
            return Decision(tuple(moves), f"{source!r} was over its limit: {load} of {limit} CPUs")
        if self._settling:
            return Decision()  # there may be room soon
        return Decision(
            reason=f"{source!r} stays over its limit of {limit} CPUs: no other broker has room for "
            "a part of what it does"
        )

    def _relieve(
        self, picture: _Picture, source: Party, judged: Iterable[Party], level: int
    ) -> list[MoveTo]:
        """Move filters in `picture` until the source comes down to the level, as far as
        possible."""
        moves: list[MoveTo] = []
        while picture.loads[source] > level:
            options = []
            for branch in picture.branches(source):
                targets = (name for name in judged if name != source)
                to = self._target(picture, source, targets, branch, level)
                if to is None or not branch.weight:
                    continue
                rest, filled = picture.loads[source] - branch.weight, picture.loads[to]
                count, name = len(branch.channels), branch.channels[-1]
                if rest <= level:  # it is enough: prefer few filters, then an even result
                    key = (0, count, max(rest, filled + branch.weight), name)
                else:
                    key = (1, 0, -branch.weight // count, name)
                options.append((key, branch, to))
            if not options:
                break
            _, branch, to = min(options, key=lambda option: option[0])
            moves += picture.move(source, branch, to)
        return moves

    def _merge(self, picture: _Picture, source: Party, judged: Iterable[Party]) -> Decision:
        """Move all filters away or none: whole trees, the heaviest first."""
        after = picture.copy()
        moves: list[MoveTo] = []
        while trees := after.branches(source, roots=True):
            tree = max(trees, key=lambda tree: tree.weight)
            in_use = (name for name in judged if name != source and picture.filters[name])
            to = self._target(after, source, in_use, tree, self._full)
            if to is None:
                return Decision()
            moves += after.move(source, tree, to)
        if after.filters[source]:
            return Decision()  # some filters cannot move
        return Decision(
            tuple(moves), f"{source!r} was idle: {picture.loads[source] / UNIT:.2f} CPUs"
        )

    def _target(
        self,
        picture: _Picture,
        source: Party,
        targets: Iterable[Party],
        branch: _Branch,
        level: int,
    ) -> Party | None:
        """The target with the least load that has room for a branch under a level."""

        def merged_next(name: Party) -> bool:
            """Whether the branch would be merged next: alone at an idle broker, while a broker in
            use has room for it."""
            if picture.filters[name] or branch.weight > self._low:
                return False
            return any(
                here and other != source and picture.loads[other] + branch.weight <= self._full
                for other, here in picture.filters.items()
            )

        return min(
            (name for name in targets if picture.loads[name] + branch.weight <= level),
            key=lambda name: (merged_next(name), picture.loads[name], picture.queues[name], name),
            default=None,
        )


@dataclass(frozen=True, slots=True)
class _Branch:
    """A filter and its dependants at its broker, dependants first."""

    channels: tuple[str, ...]
    weight: int


class _Picture:
    """Which filter is where; moves are tried out on it.

    Loads are in billionths of a CPU, and exact: after the moves they are what was planned.
    """

    def __init__(self, brokers: Sequence[BrokerLoad]) -> None:
        self.filters = {
            broker.name: {each.channel: each for each in parents_first(broker.filters)}
            for broker in brokers
        }
        if len(self.filters) < len(brokers):
            raise ValueError("a broker is named twice")
        self.loads = {
            name: sum(round(each.load * UNIT) for each in here.values())
            for name, here in self.filters.items()
        }
        self.queues = {broker.name: broker.queue for broker in brokers}

    def copy(self) -> _Picture:
        copied = _Picture([])
        copied.filters = {name: dict(here) for name, here in self.filters.items()}
        copied.loads = dict(self.loads)
        copied.queues = self.queues
        return copied

    def branches(self, name: Party, roots: bool = False) -> list[_Branch]:
        """The branches at a broker that can move; `roots`: only whole trees."""
        here = self.filters[name]
        return [
            _Branch(
                tuple(branch),
                sum(round(here[channel].load * UNIT) for channel in branch),
            )
            for root, branch in branches_of(parents_first(list(here.values()))).items()
            if all(here[channel].movable for channel in branch)
            and not (roots and here[root].parent in here)
        ]

    def move(self, source: Party, branch: _Branch, to: Party) -> list[MoveTo]:
        for channel in branch.channels:
            self.filters[to][channel] = self.filters[source].pop(channel)
        self.loads[source] -= branch.weight
        self.loads[to] += branch.weight
        return [MoveTo(channel, to) for channel in branch.channels]


def _lasting(
    since: dict[Party, float], names: Iterable[Party], now: float, wait: float
) -> list[Party]:
    """Which of `names`, which are in a condition now, have been in it for `wait` seconds. `since`
    is brought up to date."""
    kept = {name: since.get(name, now) for name in names}
    since.clear()
    since |= kept
    return [name for name, begun in kept.items() if now - begun >= wait]

"""Chooses the filters to move when a broker has too much to do: half of its load.

Channels on the broker that are derived from each other form trees. A filter never moves without its
dependants, the filters derived from its channel: otherwise its events would cross the network to
the new broker and come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf

from derivation.protocol import Party


@dataclass(frozen=True, slots=True)
class FilterLoad:
    """A filter that runs on the broker.

    Raises ValueError for a load that is negative or not finite.
    """

    channel: str
    load: float  # how much it does, in any unit that all filters share, as busy seconds a second
    parent: str | None = None  # the channel that its own is derived from
    movable: bool = True  # False: it stays, and with it the filters above it

    def __post_init__(self) -> None:
        if not 0 <= self.load < inf:
            raise ValueError(f"the load of {self.channel!r} must be 0 or more, not {self.load}")


@dataclass(frozen=True, slots=True)
class MoveTo:
    """Move the filter of `channel` to the place `to`."""

    channel: str
    to: Party


def split(load: Sequence[FilterLoad], to: Party) -> tuple[MoveTo, ...]:
    """The moves to `to` that halve the load of one broker, dependants first.

    The heaviest tree or branch that stays within half of the load is taken first, then the next
    heaviest, and so on; at last one that exceeds the half, if the result is nearer to it. So the
    loads that move and stay differ by no more than the heaviest filter. Ties are resolved by name,
    and the order of `load` does not matter. If no filter has any load, all count the same.

    Never do all filters move. None do if that does not help: if there is only one filter, or only
    one with any load.

    Raises ValueError if a channel is named twice or is derived from itself.
    """
    ordered = parents_first(load)
    idle = not any(each.load for each in ordered)
    # Exact numbers, so that equal sums compare equal.
    own = {each.channel: Fraction(1) if idle else Fraction(each.load) for each in ordered}
    branches = branches_of(ordered)
    stays = {each.channel: not each.movable for each in ordered}
    total = sum(own.values())
    moved: dict[str, None] = {}
    taken = Fraction(0)

    def weight(channel: str) -> Fraction:
        """The load of a channel's branch, 0 if a part of it cannot move."""
        if any(stays[each] for each in branches[channel]):
            return Fraction(0)
        return sum((own[each] for each in branches[channel] if each not in moved), Fraction(0))

    weights = {each.channel: weight(each.channel) for each in ordered}
    for channel in sorted(own, key=lambda channel: -weights[channel]):  # stable: parents first
        if channel not in moved and weights[channel] and taken + weights[channel] <= total / 2:
            moved |= dict.fromkeys(branches[channel])
            taken += weights[channel]

    left = {each: rest for each in own if each not in moved and (rest := weight(each))}
    if left:
        beyond = min(left, key=lambda channel: left[channel])
        if taken + left[beyond] - total / 2 < total / 2 - taken:
            moved |= dict.fromkeys(branches[beyond])
    return tuple(MoveTo(each.channel, to) for each in reversed(ordered) if each.channel in moved)


def branches_of(ordered: Sequence[FilterLoad]) -> dict[str, list[str]]:
    """Each channel with all that are derived from it here, dependants first.

    `ordered` is the result of `parents_first`.
    """
    branches: dict[str, list[str]] = {}
    here = {each.channel for each in ordered}
    for each in reversed(ordered):
        branches.setdefault(each.channel, []).append(each.channel)
        if each.parent in here:
            branches.setdefault(each.parent, []).extend(branches[each.channel])
    return branches


def parents_first(load: Sequence[FilterLoad]) -> list[FilterLoad]:
    """The filters by depth in their trees, and by name within a depth.

    Raises ValueError if a channel is named twice or is derived from itself.
    """
    by_name = {each.channel: each for each in sorted(load, key=lambda each: each.channel)}
    if len(by_name) < len(load):
        raise ValueError("a channel is named twice")
    ordered: list[FilterLoad] = []
    level = [each for each in by_name.values() if each.parent not in by_name]
    while level:
        ordered += level
        above = {each.channel for each in level}
        level = [each for each in by_name.values() if each.parent in above]
    if len(ordered) < len(load):
        raise ValueError("a channel is derived from itself")
    return ordered

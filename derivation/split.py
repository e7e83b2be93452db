"""Which filters to move when a broker has too much to do: half of its load.

Channels that are derived from each other on the broker form trees. A filter never moves without
its dependants, those that derive from its channel: else its events would cross the network to
the new broker and come back. Only the flow into what moves crosses it.
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

    `load` is how much it does, in any unit that all share (busy seconds a second, say); `parent`
    is the channel that its own is derived from. One that is not `movable` stays, and so does what
    it derives from.

    Raises ValueError for a load that is negative or not finite.
    """

    channel: str
    load: float
    parent: str | None = None
    movable: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.load < inf:
            raise ValueError(f"the load of {self.channel!r} must be 0 or more, not {self.load}")


@dataclass(frozen=True, slots=True)
class MoveTo:
    """Move the filter of `channel` to the place `to`."""

    channel: str
    to: Party


def split(load: Sequence[FilterLoad], to: Party) -> tuple[MoveTo, ...]:
    """The moves to `to` that halve what one broker does; dependants before what they depend on.

    The heaviest tree or branch that keeps within half is taken first, and so on; at last one
    that goes beyond it, if that is nearer to half. So what moves and what stays differ by no more
    than the heaviest filter. Ties go by name, and the order of `load` does not matter. Where no
    filter has any load, all count the same.

    Empty where no move helps: there is one filter, or none, or only one that does anything. Never
    all of them.

    Raises ValueError where a channel is named twice or is derived from itself.
    """
    ordered = parents_first(load)
    idle = not any(each.load for each in ordered)
    # Exact numbers: sums that should be equal are.
    own = {each.channel: Fraction(1) if idle else Fraction(each.load) for each in ordered}
    branches = branches_of(ordered)
    stays = {each.channel: not each.movable for each in ordered}
    total = sum(own.values())
    moved: dict[str, None] = {}
    taken = Fraction(0)

    def weight(channel: str) -> Fraction:
        """Of its branch, as far as that can move."""
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
    """Each channel with all that derive from it here, dependants first.

    `ordered`: as `parents_first` returns them.
    """
    branches: dict[str, list[str]] = {}
    here = {each.channel for each in ordered}
    for each in reversed(ordered):
        branches.setdefault(each.channel, []).append(each.channel)
        if each.parent in here:
            branches.setdefault(each.parent, []).extend(branches[each.channel])
    return branches


def parents_first(load: Sequence[FilterLoad]) -> list[FilterLoad]:
    """By depth, and by name within it.

    Raises ValueError where a channel is named twice or is derived from itself.
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

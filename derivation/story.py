"""What has happened in a move, in words, and which parties hold one up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from derivation.protocol import HandOver, Party, Plan, Send, Swap

LISTED = 4  # items of a collection that are still listed one by one


class Step(NamedTuple):
    """One input of a machine and what the machine did, as texts: a story does not keep events or
    filters' states in memory."""

    at: float  # seconds, by the node's clock
    before: str  # the machine's state
    input: str
    after: str  # the machine's state
    effects: tuple[str, ...]


def describe(value: Any) -> str:
    """The text of an input, a message or an effect: its type, and its fields that are not empty.

    >>> describe(Send("dallas", Plan(7, "x", "hub", ("atlanta",), ("dallas",), ())))
    "Plan of 'x' to 'dallas'"
    """
    if isinstance(value, Send):
        return f"{describe(value.message)} to {value.to!r}"
    if isinstance(value, Plan):
        return f"Plan of {value.channel!r}"
    named = ((name, _short(getattr(value, name))) for name in type(value).__match_args__)
    told = [f"{name}={text}" for name, text in named if text]
    return f"{type(value).__name__}({', '.join(told)})" if told else type(value).__name__


def _short(value: Any) -> str:
    """A field in a few words: empty for an empty field, and only the size of a long one."""
    match value:
        case None | False | "" | b"" | ():
            return ""
        case str() | int() | float():
            return repr(value)
        case Enum():
            return repr(value.value)
        case bytes():
            return f"{len(value)} bytes"
        case HandOver() | Plan() | Swap():
            return describe(value)
        case Mapping():
            return _listed([f"{key}: {_short(each)}" for key, each in value.items()])
        case tuple():
            return _listed([_short(each) for each in value])
    return type(value).__name__


def _listed(items: list[str]) -> str:
    rest = len(items) - LISTED
    shown = [*items[:LISTED], *([f"{rest} more"] if rest > 0 else [])]
    return f"{{{', '.join(shown)}}}" if shown else ""


def held_up_by(first: Sequence[Party], waits: Mapping[Party, Sequence[Party]]) -> tuple[Party, ...]:
    """The parties that hold up `first`. Follows which party `waits` for which others, to those that
    wait for none, or of which nothing is known. If all wait for each other, all are returned.

    >>> held_up_by(["dallas"], {"dallas": ["atlanta", "JFK"], "atlanta": ["JFK"], "JFK": []})
    ('JFK',)
    """
    ahead, seen = list(first), dict.fromkeys(first)
    found: list[Party] = []
    for party in ahead:
        others = [other for other in waits.get(party, ()) if other != party]
        if not others:
            found.append(party)
        ahead += [other for other in others if other not in seen]
        seen.update(dict.fromkeys(others))
    return tuple(found or seen)

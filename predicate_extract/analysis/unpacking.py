"""Taking values apart: iteration, and assignment to several names."""

from __future__ import annotations

import ast

from predicate_extract.algebra.terms import Const
from predicate_extract.analysis.describe import describe_target
from predicate_extract.analysis.following import State
from predicate_extract.analysis.values import Display, Known, Value
from predicate_extract.report import Weaken

MAX_ITEMS = 100
"""A loop over more items than this is not followed."""


def iterated(value: Value) -> tuple[Value, ...]:
    """What iterating over a value gives.

    Raises: Weaken, if that is not a few values known beforehand.
    """
    match value:
        case Display() if not value.settled:
            raise Weaken("unsupported", "how many of these are equal is not analysed")
        case Display() if len(value.keys) <= MAX_ITEMS:
            return value.keys
        case Known(it=range() as it) if len(it) <= MAX_ITEMS:
            return tuple(map(Const, it))
        case Const(str() as text) if len(text) <= MAX_ITEMS:
            return tuple(map(Const, text))
    raise Weaken("loop", "how often this repeats is not known", "test the fields before the loop")


def names_in(target: ast.expr) -> list[str]:
    """The names that an assignment to `target` binds."""
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]


def assigned(state: State, target: ast.expr, value: Value) -> State:
    """With a value bound to a name, or taken apart into several.

    Raises: Weaken, for other targets.
    """
    match target:
        case ast.Name(id=name):
            return state.set(name, value)
        case ast.Tuple(parts) | ast.List(parts):
            values = iterated(value)
            starred = [i for i, part in enumerate(parts) if isinstance(part, ast.Starred)]
            if not starred and len(parts) != len(values):
                raise Weaken("raises", "this unpacking fails")
            if starred:
                at, after = starred[0], len(parts) - starred[0] - 1
                if len(values) < len(parts) - 1:
                    raise Weaken("raises", "this unpacking fails")
                end = len(values) - after
                rest = Display("list", values[at:end])
                values = (*values[:at], rest, *values[end:])
            for part, one in zip(parts, values, strict=True):
                inner = part.value if isinstance(part, ast.Starred) else part
                state = assigned(state, inner, one)
            return state
    raise Weaken(*describe_target(target))

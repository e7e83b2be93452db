"""A case of the corpus: a filter, and the predicate that a reader finds in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

CONSTRUCTS = frozenset(
    {
        # Conditions.
        *("comparison", "chain", "boolean", "truthiness", "is-none", "field-with-field"),
        *("in-literal", "in-tuple", "in-set", "in-dict", "in-range", "not-in", "isinstance"),
        *("any-all-list", "any-all-gen", "ternary", "walrus", "lambda"),
        # Terms.
        *("arithmetic", "f-string", "concatenation", "len", "abs", "min-max", "round"),
        *("conversion", "startswith-endswith", "case-change", "strip", "substring"),
        *("regex", "regex-precompiled", "dict-get", "dict-item", "deep-get", "deep-get-method"),
        *("getattr", "enum", "nested-dataclass", "event-property", "event-method"),
        *("datetime-naive", "datetime-aware", "datetime-part", "timedelta"),
        # Statements.
        *("if-elif", "early-return", "match", "local", "unpacking", "for-constants"),
        *("try", "finally", "with", "while", "raise"),
        # Where values and code come from.
        *("global", "module-constant", "class-constant", "closure", "default-argument"),
        *("parameter", "helper-function", "helper-method", "imported-helper", "partial"),
        *("decorator", "staticmethod", "lru-cache", "super-chain", "base-call", "alias"),
        # What a filter does besides.
        *("state-dedupe", "state-rate", "state-average", "state-change", "state-counter"),
        *("logging", "io", "transform", "unknown-call"),
    }
)


@dataclass(frozen=True)
class Case:
    """A filter class or predicate function with what is to be found in it.

    `expected` is the strongest predicate that can be read off the code, as text: see README.md.
    `exact` says that the filter forwards those events unchanged, and does nothing else. `events`
    draws a content, often near the constants of the filter. `typed` is the dataclass of the
    contents, None where they are dicts. `effects` says how effects count: with `"keep"`, an event
    that has one satisfies the predicate.
    """

    target: Any
    expected: str
    exact: bool
    events: Callable[[Random], Any]
    typed: type | None
    constructs: tuple[str, ...]
    args: tuple[Any, ...] = ()
    effects: str = "keep"

    def __post_init__(self) -> None:
        unknown = set(self.constructs) - CONSTRUCTS
        if unknown:
            raise ValueError(f"{self.name}: no such constructs: {', '.join(sorted(unknown))}")

    @property
    def name(self) -> str:
        """The target's name, unique in the corpus."""
        target = self.target
        while isinstance(target, partial):
            target = target.func
        module = target.__module__.rpartition(".")[2]
        name = target.__qualname__.replace(".<locals>", "")
        if name == "<lambda>":
            name = f"lambda@{target.__code__.co_firstlineno}"
        if self.args:
            name += f"({', '.join(getattr(arg, '__name__', repr(arg)) for arg in self.args)})"
        return f"{module}.{name}"

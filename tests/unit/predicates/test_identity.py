"""What a function is shows in itself, not in what `functools.wraps` copies from another."""

from __future__ import annotations

import functools
import re
import typing
from types import SimpleNamespace
from typing import Any

import pytest
from filters_for_tests import FIFOFilter

from predicate_extract import TRUE, extract


class Wraps(FIFOFilter):
    @functools.wraps(FIFOFilter.enqueue)
    def enqueue(self, event: Any) -> None:
        if event.content.price > 100:
            super().enqueue(event)


class BelowWraps(Wraps):
    def enqueue(self, event: Any) -> None:
        if event.content.size > 5:
            super().enqueue(event)


class Updates(FIFOFilter):
    def enqueue(self, event: Any) -> None:
        if event.content.price > 100:
            FIFOFilter.enqueue(self, event)

    functools.update_wrapper(enqueue, FIFOFilter.enqueue)


class Marked(FIFOFilter):
    def enqueue(self, event: Any) -> None:
        if event.content.price > 100:
            super().enqueue(event)

    enqueue.__forwards__ = True  # type: ignore[attr-defined]


class Names(FIFOFilter):
    """Names the forwarding method again, and keeps state."""

    enqueue = FIFOFilter.enqueue

    def limit(self) -> int:
        self.asked = True
        return 100


class BelowNames(Names):
    def enqueue(self, event: Any) -> None:
        if event.content.price > self.limit():
            super().enqueue(event)


@pytest.mark.parametrize(
    ("cls", "predicate"),
    [
        (Wraps, "price > 100"),
        (BelowWraps, "size > 5 AND price > 100"),
        (Updates, "price > 100"),
        (Marked, "price > 100"),
    ],
)
def test_a_method_with_a_copied_mark_is_followed(cls: type, predicate: str) -> None:
    found = extract(cls)
    assert (str(found.predicate), found.exact) == (predicate, True)


def test_a_class_that_names_the_forwarding_method_again_is_no_base() -> None:
    assert extract(Names).predicate == TRUE and extract(Names).exact
    assert not extract(BelowNames).exact
    assert extract(BelowNames).predicate == TRUE


@functools.wraps(re.match)
def match(pattern: str, text: str) -> bool:
    return text == "right"


@functools.wraps(typing.cast)
def cast(kind: type, value: int) -> int:
    return -value


@pytest.mark.parametrize(
    "function",
    [lambda s: match("w", s.name), lambda s: cast(int, s.price) > 0],
    ids=["re.match", "typing.cast"],
)
def test_a_function_with_a_copied_name_is_followed(function: Any) -> None:
    predicate = extract(function).predicate
    for name, price in (("right", -1), ("wrong", 1)):
        content = SimpleNamespace(name=name, price=price)
        assert predicate.matches(content) == bool(function(content))

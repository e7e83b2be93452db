"""A reason points into the file that is explained; an exact filter keeps no state."""

from __future__ import annotations

import inspect
import ipaddress
import textwrap
from typing import Any

import pytest
from filters_for_tests import Event, FIFOFilter, asserts

from predicate_extract import extract


def other_file(content: Any) -> bool:
    if content.price > 3:
        return asserts(content)
    return False


def own_helper(content: Any) -> bool:
    return bool(content.prices.pop())


def through_own(content: Any) -> bool:
    return own_helper(content)


def through_both(content: Any) -> bool:
    return other_file(content)


def library(content: Any) -> bool:
    return ipaddress.ip_address(content.ip).is_private


class Below(FIFOFilter):
    def enqueue(self, event: Any) -> None:
        if textwrap.dedent(event.content.text):
            super().enqueue(event)


@pytest.mark.parametrize(
    ("target", "code", "elsewhere"),
    [
        (other_file, "asserts(content)", "filters_for_tests.py:"),
        (through_both, "asserts(content)", "filters_for_tests.py:"),
        (through_own, "content.prices.pop()", ""),
        (library, "ipaddress.ip_address(content.ip)", "ipaddress.py:"),
        (Below, "textwrap.dedent(event.content.text)", "textwrap.py:"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_reason_points_into_the_file_of_the_filter(
    target: Any, code: str, elsewhere: str
) -> None:
    lines, _ = inspect.getsourcelines(inspect.getmodule(target))  # type: ignore[arg-type]
    found = extract(target)
    assert found.reasons
    for reason in found.reasons:
        assert reason.code == code
        assert code in lines[reason.line - 1]
        assert (elsewhere in reason.message) if elsewhere else (".py" not in reason.message)


def own_limit() -> int:
    return 3


class ReadsItems(FIFOFilter):
    def __init__(self) -> None:
        self.limits = {"low": 3}

    def enqueue(self, event: Event) -> None:
        if event.content.price > self.limits["low"]:
            super().enqueue(event)


class CallsHelpers(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if event.content.name.lower() == "ibm" or self._is_dear(event):
            super().enqueue(event)

    def _is_dear(self, event: Event) -> bool:
        return own_limit() < event.content.price


class SetsUnused(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if event.content.price > 3:
            super().enqueue(event)

    def never_called(self) -> None:
        self.x = 1


@pytest.mark.parametrize(
    "target",
    [ReadsItems, ReadsItems(), CallsHelpers, SetsUnused, lambda c: max(c.a, 1) == sum((c.b, 2))],
)
def test_what_is_exact_is_not_stateful(target: Any) -> None:
    found = extract(target)
    assert (found.exact, found.stateful) == (True, False)


def test_what_counts_is_stateful() -> None:
    class Counts(ReadsItems):
        def enqueue(self, event: Event) -> None:
            self.limits["low"] += 1
            super().enqueue(event)

    assert extract(Counts).stateful

"""A pattern in a filter holds up nobody: neither the supplier nor another channel."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

import activebroker as ab

TRAP = "a" * 50_000 + "!"


@dataclass(frozen=True)
class Line:
    text: str
    size: int


class Slow(ab.FIFOFilter):
    """`re` would take years for the trap."""

    def enqueue(self, event: ab.Event) -> None:
        if re.match(r"(a+)+$", event.content.text):
            super().enqueue(event)


class Beyond(ab.FIFOFilter):
    """Only `re` can tell; the size is looked at where the events are all the same."""

    def enqueue(self, event: ab.Event) -> None:
        if event.content.size < 10 and re.match(r"(a+)+\1$", event.content.text):
            super().enqueue(event)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("at", ["supplier", "atlanta", "consumer"])
@pytest.mark.parametrize(("filter", "right"), [(Slow, ["aa", "a\n"]), (Beyond, ["aa"])])
def test_a_slow_pattern_is_not_searched_for_by_re_upstream(
    fabric: ab.Fabric, filter: type[ab.FIFOFilter], right: list[str], at: str
) -> None:
    lines = fabric.channel("lines", Line)
    chosen = lines.derive(filter, at=at)
    with chosen.subscribe(timeout=30) as events, lines.supplier() as supplier:
        for few in range(2):  # some as objects, many as columns
            texts = [TRAP, "aa", "b", "a\n"] * (1 if few else 20)
            supplier.publish_batch([Line(text, len(text)) for text in texts])
        lines.close()
        assert [event.content.text for event in events] == right * 21
    assert len(chosen.errors) == 0

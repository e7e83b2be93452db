"""The events of the soak, the filter it derives, and what that filter must forward."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from processes import Quote

import activebroker as ab

SYMBOLS = 50
JUMP = 60.0


def quote(number: int) -> Quote:
    """The quote of this number: always the same."""
    bid = number * 7919 % 1000 / 10
    return Quote(number, number * 100, bid, bid + 0.5, f"SYM{number % SYMBOLS:05}", "XNAS " * 10)


class Jumps(ab.FIFOFilter):
    """Forward a quote whose bid is far from the one before it of the same symbol."""

    def __init__(self) -> None:
        super().__init__()
        self.last: dict[str, float] = {}

    def enqueue(self, event: ab.Event) -> None:
        quote = event.content
        before = self.last.get(quote.symbol)
        self.last[quote.symbol] = quote.bid
        if before is not None and abs(quote.bid - before) > JUMP:
            super().enqueue(event)


def jumps() -> Iterator[int]:
    """The numbers of the quotes that the filter has to forward, computed without it."""
    for number in count(SYMBOLS):
        if abs(quote(number).bid - quote(number - SYMBOLS).bid) > JUMP:
            yield number

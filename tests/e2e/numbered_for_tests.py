"""An event and a filter whose state shows."""

from __future__ import annotations

from dataclasses import dataclass

import activebroker as ab


@dataclass(frozen=True)
class Trade:
    name: str
    price: float


class Numbered(ab.FIFOFilter):
    """Forwards each trade with its number in place of its price."""

    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event: ab.Event) -> None:
        super().enqueue(event.replace(Trade(event.content.name, float(self.seen))))
        self.seen += 1

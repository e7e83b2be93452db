"""What a log is made of: records, and where they are in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from activebroker.events import Batch

Offset = tuple[int, int]  # how far a supplier has come: (stream, count)
Offsets = dict[str, Offset]  # by supplier
NOWHERE: Offset = (-(2**63), 0)  # before any offset


@dataclass(frozen=True, slots=True)
class Record:
    """One step of a supplier's stream: events, its end, or neither if only the offset has moved.

    `upto` is the supplier's offset after it. `buffers` are what `activebroker.events.dump` makes of
    the batch, where that is there: then nobody has to make it once more.
    """

    supplier: str
    upto: Offset
    batch: Batch | None = None
    ended: bool = False
    buffers: list[Any] | None = field(default=None, repr=False, compare=False)

    @property
    def events(self) -> int:
        return 0 if self.batch is None else len(self.batch)

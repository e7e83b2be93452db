"""Events of which some are none where they come: their class refuses to be built.

As of a supplier whose process has a class with other checks, or of another release. Each is lost
where it is decoded, alone: at the first filter that has to see it, else at the consumer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from activebroker.events import Batch, EventType, encode
from activebroker.simulation.reference import ITEM, UNREADABLE, Item, Seen, group_of


def refuses(n: int) -> bool:
    """Whether the event of this number is none."""
    return n % 3 == 1


@dataclass(frozen=True)
class Touchy(Item):
    def __post_init__(self) -> None:
        if refuses(self.n):
            raise LookupError(UNREADABLE)


TOUCHY = EventType.of(Touchy)


def batch_of(type: EventType, supplier: str, numbers: range, blob: int) -> Batch:
    """What a process publishes whose class has no such check."""
    contents: list[Item] = []
    for n in numbers:
        content: Item = object.__new__(type.cls)
        vars(content).update(n=n, group=group_of(n), trace="", blob=bytes(blob))
        contents.append(content)
    return encode(type, contents, supplier, numbers.start, numbers.start)


def without_checks(batch: Batch) -> tuple[Batch, Sequence[bool]]:
    """A published batch as it is meant, and which of its events can be read by others."""
    if batch.type != TOUCHY:
        return batch, [True] * len(batch)
    return batch.as_type(ITEM), [not refuses(n) for n in batch.seqs.tolist()]


def seen_in(batch: Batch) -> list[Seen]:
    """What a consumer gets of a batch: events, and word of those that it cannot decode."""
    _, events, unreadable = batch.read()
    rows = [(each.content.n, each.content.group, each.content.trace) for each in events]
    for each in unreadable:  # in the order of their rows
        rows.insert(each.row, (each.seq, group_of(each.seq), each.reason))
    return rows

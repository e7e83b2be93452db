"""Small batches of numbered events, and the envelope of a filter of them."""

from __future__ import annotations

from dataclasses import dataclass

from activebroker.events import EventType, describe, encode
from activebroker.filters import Envelope
from activebroker.matching import Chunk
from activebroker.protocol.flows import FlowEnded, StreamEnded


@dataclass(frozen=True)
class Note:
    group: int
    text: str


NOTE = EventType.of(Note)


def chunk(*groups: int, supplier: str = "A", first: int = 0, size: int = 0) -> Chunk:
    """One event for each group, of stream 1; `size` is about how many bytes each has."""
    contents = [Note(group, "x" * size) for group in groups]
    upto = (1, first + len(contents))
    return Chunk(encode(NOTE, contents, supplier, first, 0), upto=upto)


def groups(item: Chunk | StreamEnded | FlowEnded) -> list[int] | str:
    """The groups of a chunk's events, or the name of what else it is."""
    if isinstance(item, Chunk):
        return [content.group for content in item.batch.contents()]
    return type(item).__name__


def envelope(exact: bool) -> Envelope:
    return Envelope(
        name="Late",
        source=None,
        code_hash="",
        predicate="",
        exact=exact,
        only_looks=False,
        reads=None,
        stateful=not exact,
        shared=False,
        on_error="skip",
        idle_after=None,
        output=describe(NOTE),
        body=b"",
    )

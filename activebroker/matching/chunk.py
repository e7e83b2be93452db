"""A batch on its way through a node, and its selection by a predicate."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from activebroker.events import ANY, Batch, Reading, dump
from predicate_extract import FALSE, TRUE, Predicate, PredicateFormatError
from predicate_extract.backends.columns import mask

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Chunk:
    """A batch that flows share, so that it is serialised once for all of them."""

    batch: Batch
    # The predicate that selected the rows is True for each of them. Otherwise the filter has to see
    # them: on some it may raise.
    certain: bool = True
    upto: tuple[int, int] = (0, 0)  # the offset after its last row, selected or not
    _buffers: list[Any] | None = None
    _rows: np.ndarray | None = None  # None: all rows up to `upto` are here

    @property
    def rows(self) -> np.ndarray:
        """The counts of its rows in the stream."""
        if self._rows is None:
            self._rows = np.arange(self.upto[1] - self.batch.num_rows, self.upto[1])
        return self._rows

    @property
    def nbytes(self) -> int:
        return self.batch.nbytes

    @property
    def buffers(self) -> list[Any]:
        """The batch as it goes over the wire."""
        if self._buffers is None:
            self._buffers = dump(self.batch)
        return self._buffers


def renumbered(chunk: Chunk, upto: tuple[int, int]) -> Chunk:
    """The same events with another offset."""
    return Chunk(chunk.batch, chunk.certain, upto, chunk._buffers)


def doubted(chunk: Chunk) -> Chunk:
    """The same events, not `certain`: the filter has to see them."""
    return Chunk(chunk.batch, False, chunk.upto, chunk._buffers, chunk._rows)


def split(chunk: Chunk, since: tuple[int, int], by_seq: bool) -> tuple[Chunk | None, Chunk | None]:
    """The part of a chunk before offset `since`, and the part from there on.

    `by_seq`: the rows' counts are their sequence numbers, as in a supplier's own stream.
    """
    if since >= chunk.upto:
        return chunk, None
    if since[0] != chunk.upto[0]:
        return None, chunk
    batch, rows = chunk.batch, None if by_seq else chunk.rows
    after = (batch.seqs if rows is None else rows) >= since[1]
    if after.all():
        return None, chunk
    if not after.any():
        return chunk, None
    first = int(np.argmax(after))  # the counts go up
    before, rest = batch.slice(0, first), batch.slice(first, batch.num_rows - first)
    return (
        Chunk(before, chunk.certain, since, None, None if rows is None else rows[:first]),
        Chunk(rest, chunk.certain, chunk.upto, None, None if rows is None else rows[first:]),
    )


@lru_cache(maxsize=4096)
def parse(text: str | None) -> Predicate | None:
    """The predicate of a JSON text; the text None stands for everything. Returns None if this
    release cannot read the text, so that anything may be wanted."""
    if text is None:
        return TRUE
    try:
        return Predicate.from_json(text)
    except PredicateFormatError as error:
        log.warning("all events go to a filter whose predicate cannot be read here: %s", error)
        return None


def union(texts: Iterable[str | None]) -> str | None:
    """The JSON text of what any of these predicates wants; None stands for everything."""
    wanted: Predicate = FALSE
    for text in texts:
        if text is None or (predicate := parse(text)) is None:
            return None
        wanted = wanted | predicate
    return wanted.to_json()


class Selection:
    """What predicates select from a chunk. Each predicate is evaluated once, and untyped contents
    are read once."""

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk
        self._found: dict[Predicate | None, Chunk | None] = {TRUE: chunk}
        self._read: Reading | None = None

    def of(self, predicate: Predicate | None) -> Chunk | None:
        """The rows that a predicate wants: the chunk itself if it wants all, None if it wants none.

        Rows on which the predicate raises are selected, since the filter raises on them, too. So
        are untyped contents that this process cannot read, and all rows if it cannot read the
        predicate.
        """
        if predicate not in self._found:
            self._found[predicate] = self._select(predicate)
        return self._found[predicate]

    def _select(self, predicate: Predicate | None) -> Chunk | None:
        if predicate is None:
            return doubted(self._chunk)
        chunk, batch = self._chunk, self._chunk.batch
        if batch.type is ANY:
            if self._read is None:
                self._read = batch.read()
            _, events, unreadable = self._read
            keep = np.ones(batch.num_rows, np.bool_)
            readable = np.ones(batch.num_rows, np.bool_)
            readable[[each.row for each in unreadable]] = False
            # Not `matches`, which takes a mapping for a row; for the filter it is a dict.
            keep[readable] = [predicate.evaluate(event.content) is not False for event in events]
            certain = False
        else:
            found = mask(predicate, batch.columns)
            keep, certain = found.keep, found.raised is None or not found.raised.any()
        if keep.all():
            return Chunk(batch, certain, chunk.upto, chunk._buffers, chunk._rows)
        if not keep.any():
            return None
        return Chunk(batch.filter(keep), certain, chunk.upto, None, chunk.rows[keep])


def select(chunk: Chunk, predicate: Predicate | None) -> Chunk | None:
    """What one predicate selects from a chunk; see `Selection`."""
    return Selection(chunk).of(predicate)

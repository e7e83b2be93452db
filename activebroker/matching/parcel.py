"""A batch on its way through a node, and its selection by a predicate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from activebroker.core.errors import EventRefused
from activebroker.events import ANY, Batch, dump
from predicate_extract import TRUE, Predicate
from predicate_extract.columns import mask


@dataclass(slots=True)
class Parcel:
    """A batch that flows share, so that it is serialised once for all of them.

    `certain`: the predicate that selected it is True for every row; otherwise some rows are here
    because the filter would raise on them, and the filter has to see them.
    """

    batch: Batch
    certain: bool = True
    _buffers: list[Any] | None = None

    @property
    def nbytes(self) -> int:
        return self.batch.nbytes

    @property
    def buffers(self) -> list[Any]:
        """The batch as it goes on the wire."""
        if self._buffers is None:
            self._buffers = dump(self.batch)
        return self._buffers


@lru_cache(maxsize=4096)
def parse(text: str | None) -> Predicate:
    """The predicate of its JSON text; None wants everything."""
    return TRUE if text is None else Predicate.from_json(text)


def select(parcel: Parcel, predicate: Predicate) -> Parcel | None:
    """What `predicate` keeps of a parcel: None for nothing, the parcel itself for everything.

    Rows on which the predicate raises are kept: the filter raises there too, visibly. So are
    untyped contents that this process cannot read.
    """
    if predicate is TRUE or predicate == TRUE:
        return parcel
    batch = parcel.batch
    if batch.type is ANY:
        try:
            contents = batch.contents()
        except EventRefused:
            return Parcel(batch, False, parcel._buffers)
        # Not `matches`: that takes a mapping for a row, where the filter would see a dict.
        answers = (predicate.evaluate(content) is not False for content in contents)
        keep = np.fromiter(answers, bool, batch.num_rows)
        certain = False
    else:
        found = mask(predicate, batch.columns)
        keep, certain = found.keep, found.raised is None or not found.raised.any()
    if keep.all():
        return Parcel(batch, certain, parcel._buffers)
    if not keep.any():
        return None
    return Parcel(batch.filter(keep), certain)

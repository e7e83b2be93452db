"""Batches: the events of one supplier and one type as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from activebroker.core.errors import EventRefused, ProtocolError
from activebroker.events.columns.piecewise import piecewise
from activebroker.events.columns.sizes import size
from activebroker.events.event import Event
from activebroker.events.types import EventType


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A row of a batch that is no event in this process, for want of its class say.

    `content` is what shows of it, `error` what building it raised.
    """

    row: int
    seq: int
    content: str
    error: BaseException

    @property
    def reason(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


@dataclass(frozen=True, slots=True)
class Batch:
    """Events of one supplier and one concrete type, in the supplier's order.

    The first columns are `$seq` and `$time` (nanoseconds since the Unix epoch), both int64; the
    content's follow, as in `type.schema`.
    """

    supplier: str
    type: EventType
    columns: pa.RecordBatch
    _nbytes: int = field(default=-1, init=False, repr=False, compare=False)
    _shared: Reading | None = field(default=None, init=False, repr=False, compare=False)
    # Of which batch it is a slice, and where that begins.
    _whole: tuple[Batch, int] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def num_rows(self) -> int:
        return int(self.columns.num_rows)

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    @property
    def nbytes(self) -> int:
        """The bytes of the rows' values: equal after `dump` and `load`, additive over slices."""
        if self._nbytes < 0:  # asked several times on a batch's way, at some microseconds each
            nbytes = self.num_rows * self.type.fixed_width
            for index in self.type.varying:
                nbytes += size(self.columns.column(index))
            object.__setattr__(self, "_nbytes", nbytes)
        return self._nbytes

    @property
    def seqs(self) -> npt.NDArray[np.int64]:
        """The sequence numbers, as a read-only view."""
        seqs: npt.NDArray[np.int64] = self.columns.column(0).to_numpy()
        return seqs

    @property
    def first_seq(self) -> int:
        """The sequence number of the first row."""
        return int(self.columns.column(0)[0].as_py())

    @property
    def last_seq(self) -> int:
        """The sequence number of the last row."""
        return int(self.columns.column(0)[-1].as_py())

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """The times of publication in nanoseconds, as a read-only view."""
        times: npt.NDArray[np.int64] = self.columns.column(1).to_numpy()
        return times

    def contents(self) -> list[Any]:
        """Build the content objects; numpy arrays in them are read-only views of this batch.

        Raises `EventRefused` for the first that cannot be built in this process.
        """
        try:
            return self._contents()
        except Exception:  # noqa: BLE001 - whatever a content's class raises
            return [event.content for event in self.events()]

    def events(self) -> list[Event]:
        """Build the event objects; raises `EventRefused` for the first that cannot be."""
        _, events, unreadable = self.read()
        if unreadable:
            row = unreadable[0]
            raise EventRefused(
                f"event {row.seq} of supplier {self.supplier!r}, {row.content}, cannot be decoded "
                f"in this process: {row.reason}"
            ) from row.error
        return events

    def shared(self) -> Reading:
        """What `read` returns, made once for all who ask, of this batch and of its slices: neither
        the lists nor the contents may be changed."""
        if self._shared is None:
            object.__setattr__(self, "_shared", self._read_shared())
        assert self._shared is not None
        return self._shared

    def _read_shared(self) -> Reading:
        if self._whole is not None:
            whole, first = self._whole
            _, events, unreadable = whole.shared()
            if not unreadable:
                return self, events[first : first + self.num_rows], []
        return self.read()

    def read(self) -> Reading:
        """Build the event objects; return the batch of those and tell of all others, which cannot
        be built in this process."""
        try:
            return self, self._events(), []
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - whatever a content's class raises, SystemExit too
            return self._read_apart()

    def _read_apart(self) -> Reading:
        """`read`, where one of the rows raises."""
        unreadable: list[Unreadable] = []

        def build(rows: Sequence[int]) -> list[Event]:
            return self.slice(rows[0], len(rows))._events() if rows else []

        def fail(row: int, error: BaseException) -> None:
            content = self.type.codec.sketch([c.slice(row, 1) for c in self.columns.columns[2:]])
            unreadable.append(Unreadable(row, int(self.seqs[row]), content, error))

        events = list(chain.from_iterable(piecewise(range(self.num_rows), build, fail)))
        if not unreadable:
            return self, events, unreadable
        good = np.ones(self.num_rows, np.bool_)
        good[[each.row for each in unreadable]] = False
        return self.filter(good), events, unreadable

    def _contents(self) -> list[Any]:
        return self.type.codec.decode(self.columns.columns[2:], self.num_rows)

    def _events(self) -> list[Event]:
        seqs, times = self.seqs.tolist(), self.times.tolist()
        header = repeat(self.type.name), repeat(self.supplier), seqs, times
        return list(map(Event, self._contents(), *header))

    def filter(self, mask: npt.NDArray[np.bool_]) -> Batch:
        """Return the rows where `mask` (one bool a row) is true."""
        if mask.all():
            return self
        if not mask.any():
            return self.slice(0, 0)
        return Batch(self.supplier, self.type, self.columns.filter(pa.array(mask)))

    def take(self, rows: list[int]) -> Batch:
        """Return these rows, which are given in order and once each."""
        if len(rows) == self.num_rows:
            return self
        return Batch(self.supplier, self.type, self.columns.take(pa.array(rows, pa.int64())))

    def as_type(self, type: EventType) -> Batch:
        """Return the same events as instances of another class with the same fields."""
        return Batch(self.supplier, type, self.columns)

    def with_fields_of(self, type: EventType) -> Batch:
        """Return the same events with the fields of another version of their type: what it lacks
        is left out, what it adds has its default."""
        added = pa.array(np.zeros(self.num_rows, np.int64))
        known = self.type.schema.names
        content = [
            self.columns.column(name) if name in known else type.defaults[name].take(added)
            for name in type.schema.names
        ]
        columns = [*self.columns.columns[:2], *content]
        return Batch(
            self.supplier, type, pa.RecordBatch.from_arrays(columns, schema=type.batch_schema)
        )

    def slice(self, offset: int, length: int) -> Batch:
        """Return up to `length` rows from `offset` on, without copying."""
        part = Batch(self.supplier, self.type, self.columns.slice(offset, length))
        whole, first = self._whole or (self, 0)
        object.__setattr__(part, "_whole", (whole, first + offset))
        return part


Reading = tuple[Batch, list[Event], list[Unreadable]]


def in_order(batches: Sequence[Batch]) -> list[Batch]:
    """The rows of batches of one supplier in the order of their numbers, each number once."""
    if not batches:
        return []
    owners = np.repeat(np.arange(len(batches)), [len(each) for each in batches])
    rows = np.concatenate([np.arange(len(each)) for each in batches])
    _, firsts = np.unique(np.concatenate([each.seqs for each in batches]), return_index=True)
    owners, rows = owners[firsts], rows[firsts]
    cuts = np.flatnonzero((np.diff(owners) != 0) | (np.diff(rows) != 1)) + 1
    runs = zip(np.split(owners, cuts), np.split(rows, cuts), strict=True)
    return [batches[owner[0]].slice(int(run[0]), len(run)) for owner, run in runs]


def concat(batches: Sequence[Batch]) -> Batch:
    """Join batches of one supplier and one type, in the order given; at least one."""
    first, *others = batches
    if not others:
        return first
    for other in others:
        if other.supplier != first.supplier or other.type != first.type:
            raise ProtocolError(
                f"batches to join differ: {first.type.name} of {first.supplier!r} and "
                f"{other.type.name} of {other.supplier!r}"
            )
    return Batch(first.supplier, first.type, pa.concat_batches([b.columns for b in batches]))

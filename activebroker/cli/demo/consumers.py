"""A consumer: keeps what a subscription delivers, and when it came."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd
import pyarrow as pa

from activebroker import Batch, Channel
from activebroker.core.errors import DeadlineExceeded


class Consumer:
    """Subscribes to `channel` and collects in a thread until the channel ends."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.seen = 0
        self.arrivals: list[float] = []  # one for each batch, monotonic seconds
        self._batches: list[Batch] = []
        self._failure: Exception | None = None
        self._subscription = channel.subscribe()
        self._thread = threading.Thread(
            target=self._collect, name=f"collect {channel.name}", daemon=True
        )
        self._thread.start()

    def check(self) -> None:
        """Raise what ended the stream early, if anything did."""
        if self._failure is not None:
            raise self._failure

    def join(self, patience: float) -> None:
        """Wait for the end of the channel. Raises DeadlineExceeded, and as `check` does."""
        self._thread.join(patience)
        if self._thread.is_alive():
            raise DeadlineExceeded(
                f"Channel {self.channel.name!r} has not ended within {patience:g} s."
            )
        self.check()

    def close(self) -> None:
        self._subscription.close()

    def frame(self) -> pd.DataFrame:
        """What came, in the order in which it came: `supplier`, `seq` and the content."""
        tables = []
        for batch in self._batches:
            names = ["seq", "time", *batch.columns.schema.names[2:]]
            table = pa.Table.from_batches([batch.columns]).rename_columns(names)
            supplier = pa.array([batch.supplier] * batch.num_rows, pa.string())
            tables.append(table.append_column("supplier", supplier))
        frame: pd.DataFrame = pa.concat_tables(tables).to_pandas() if tables else pd.DataFrame()
        return frame

    def _collect(self) -> None:
        try:
            for batch in self._subscription.batches():
                self.arrivals.append(time.monotonic())
                self._batches.append(batch)
                self.seen += batch.num_rows
        except Exception as failure:  # noqa: BLE001 - `check` raises it in the main thread
            self._failure = failure


@dataclass(frozen=True, slots=True)
class Gaps:
    """Seconds without a delivery: the longest while something happened, and at other times."""

    during: float
    otherwise: float
    typical: float


def gaps(arrivals: list[float], begun: float, ended: float) -> Gaps:
    """The gaps between deliveries; those that touch [begun, ended] count as `during`."""
    during, otherwise = [0.0], [0.0]
    for before, after in pairwise(arrivals):
        touches = before <= ended and after >= begun
        (during if touches else otherwise).append(after - before)
    return Gaps(max(during), max(otherwise), float(pd.Series(otherwise[1:]).median()))

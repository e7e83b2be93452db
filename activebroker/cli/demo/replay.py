"""A supplier that replays one airport's flights, in a thread of this process."""

from __future__ import annotations

import threading
import time

from activebroker import Fabric
from activebroker.cli.demo.flights import Flight, days

CHANNEL = "flights"


class Replay:
    """Publishes a day at a time, one each `pace` seconds.

    Raises what opening a supplier raises, and MissingExtra.
    """

    def __init__(self, fabric: Fabric, origin: str, months: int, pace: float) -> None:
        self.origin = origin
        self._days = days(origin, months)
        self.total = sum(day.num_rows for day in self._days)
        self.finished = False
        self._supplier = fabric.channel(CHANNEL, Flight).supplier(origin)
        self._pace = pace
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"replay {origin}", daemon=True)

    @property
    def published(self) -> int:
        return self._supplier.published

    def start(self) -> None:
        self._thread.start()

    def check(self) -> None:
        """Raise what ended the replay early, if anything did."""
        if self._failure is not None:
            raise self._failure

    def offload(self, to: str) -> None:
        """Hand the fan-out to a broker. Raises UnknownPlace, MoveFailed."""
        self._supplier.offload(to)

    def stop(self) -> None:
        """Publish no more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            due = time.monotonic()
            for day in self._days:
                if self._stop.wait(max(0.0, due - time.monotonic())):
                    return
                self._supplier.publish_batch(day)
                due += self._pace
            self._supplier.flush()
            self.finished = True
        except Exception as failure:  # noqa: BLE001 - `check` raises it in the main thread
            self._failure = failure

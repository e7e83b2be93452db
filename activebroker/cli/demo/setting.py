"""Where the demo runs: in this process alone, or on a Ray cluster with the suppliers outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points

from activebroker import Fabric
from activebroker.cli.demo.flights import ORIGINS
from activebroker.cli.demo.replay import Replay
from activebroker.cli.demo.supplier import ReplayProcess

BROKERS = ("atlanta", "dallas")
# An entry point: this package lies below the one that knows Ray, and must not import it.
CLUSTERS = "activebroker.clusters"


@dataclass(frozen=True, slots=True)
class Setting:
    """A fabric with two brokers, and the three airports, ready to start."""

    fabric: Fabric
    airports: tuple[Replay | ReplayProcess, ...]

    def airport(self, origin: str) -> Replay | ReplayProcess:
        return next(each for each in self.airports if each.origin == origin)


@contextmanager
def in_this_process(months: int, pace: float) -> Iterator[Setting]:
    """Brokers and suppliers are threads."""
    with Fabric(brokers=BROKERS) as fabric:
        airports: list[Replay] = []
        try:
            airports.extend(Replay(fabric, origin, months, pace) for origin in ORIGINS)
            yield Setting(fabric, tuple(airports))
        finally:
            for airport in airports:
                airport.stop()


@contextmanager
def on_ray(months: int, pace: float) -> Iterator[Setting]:
    """A cluster with a node for each broker; the suppliers are processes outside it."""
    (cluster,) = entry_points(group=CLUSTERS, name="ray")
    with cluster.load()(BROKERS) as fabric:
        airports: list[ReplayProcess] = []
        try:
            for origin in ORIGINS:
                airports.append(ReplayProcess(fabric.address, fabric.key, origin, months, pace))
            for airport in airports:
                airport.wait_ready()
            yield Setting(fabric, tuple(airports))
        finally:
            for airport in airports:
                airport.stop()

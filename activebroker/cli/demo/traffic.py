"""Counts what passed from one place to another, from the fabric's own counters."""

from __future__ import annotations

from dataclasses import dataclass

from activebroker import Fabric
from activebroker.cli.demo.flights import ORIGINS
from activebroker.cli.demo.replay import CHANNEL

HERE = "this process"


@dataclass(slots=True)
class Flow:
    """Events on their way to (or from) the filter of `channel`: `offered` without the pushed
    predicate, `sent` with it."""

    channel: str
    source: str
    target: str
    inside: bool = False
    offered_events: int = 0
    offered_bytes: int = 0
    sent_events: int = 0
    sent_bytes: int = 0

    def add(self, other: Flow) -> None:
        self.offered_events += other.offered_events
        self.offered_bytes += other.offered_bytes
        self.sent_events += other.sent_events
        self.sent_bytes += other.sent_bytes


class Traffic:
    """Remembers the last counters of every flow, also of those that have ended since.

    A flow that ends in a switch-over is counted as of the last look before it.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._flows: dict[tuple[str, int, int], Flow] = {}

    def look(self) -> None:
        """Read the counters. Waits while a filter is moving."""
        status = self._fabric.status()
        stages = {
            stage["id"]: stage["channel"]
            for report in status["nodes"].values()
            for stage in report["stages"]
        }
        for node, report in status["nodes"].items():
            for flow in report["flows"]:
                runs = stages.get(flow["outlet"])
                what = "relay" if runs == CHANNEL else runs
                self._flows[node, flow["outlet"], flow["inlet"]] = Flow(
                    channel=stages.get(flow["inlet"], flow["channel"]),
                    source=flow["supplier"] or f"{self._name(node)} ({what})",
                    target=self._name(flow["target"]),
                    inside=node == flow["target"],
                    offered_events=flow["offered_events"],
                    offered_bytes=flow["offered_bytes"],
                    sent_events=flow["sent_events"],
                    sent_bytes=flow["sent_bytes"],
                )

    def flows(self) -> list[Flow]:
        """One for each channel, source and target that had any; what suppliers send comes first."""
        summed: dict[tuple[str, str, str], Flow] = {}
        for flow in self._flows.values():
            if flow.offered_events:
                key = flow.channel, flow.source, flow.target
                summed.setdefault(key, Flow(*key, flow.inside)).add(flow)
        order = {origin: number for number, origin in enumerate(ORIGINS)}
        return sorted(
            summed.values(),
            key=lambda flow: (flow.channel, order.get(flow.source, len(order)), flow.source),
        )

    def missed(self, published: dict[str, int]) -> int:
        """How many events, of those published for each filter, no look has counted."""
        by: dict[tuple[str, str], int] = {}
        for flow in self._flows.values():
            if flow.source in published:
                key = flow.source, flow.channel
                by[key] = by.get(key, 0) + flow.offered_events
        missed = 0
        for (supplier, channel), count in by.items():
            relayed = by.get((supplier, CHANNEL), 0)
            if channel != CHANNEL:
                missed += max(0, published[supplier] - count - relayed)
        return missed

    def _name(self, node: str) -> str:
        return HERE if node == self._fabric.node else node

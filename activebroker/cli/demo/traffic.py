"""Counts what passed from one place to another, from the fabric's own counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from activebroker import Fabric


@dataclass(slots=True)
class Flow:
    """Events from `source` on their way to `use` at `target`: `offered` without the pushed
    predicate, `sent` with it."""

    source: str
    target: str
    use: str
    inside: bool
    offered_events: int = 0
    offered_bytes: int = 0
    sent_events: int = 0
    sent_bytes: int = 0


class Traffic:
    """Remembers the last counters of every flow, also of those that have ended since.

    A flow that ends in a switch-over is counted as of the last look before.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._flows: dict[tuple[str, int, int], Flow] = {}

    def look(self) -> None:
        """Read the counters. Waits while a filter is moving."""
        status = self._fabric.status()
        stages = _stages(status)
        for node, report in status["nodes"].items():
            for flow in report["flows"]:
                key = node, flow["outlet"], flow["port"]
                self._flows[key] = Flow(
                    source=flow["supplier"] or _at(stages.get(flow["outlet"]), node),
                    target=flow["target"],
                    use=stages.get(flow["port"], f"consumer of {flow['channel']}"),
                    inside=node == flow["target"],
                    offered_events=flow["offered_events"],
                    offered_bytes=flow["offered_bytes"],
                    sent_events=flow["sent_events"],
                    sent_bytes=flow["sent_bytes"],
                )

    def flows(self) -> list[Flow]:
        """What is known, one for each source, target and use, in the order of appearance."""
        summed: dict[tuple[str, str, str], Flow] = {}
        for flow in self._flows.values():
            key = flow.source, flow.target, flow.use
            total = summed.setdefault(key, Flow(*key, flow.inside))
            total.offered_events += flow.offered_events
            total.offered_bytes += flow.offered_bytes
            total.sent_events += flow.sent_events
            total.sent_bytes += flow.sent_bytes
        return list(summed.values())


def _stages(status: dict[str, Any]) -> dict[int, str]:
    """What each stage is there for, by its id, which its port and its outlet bear too."""
    uses = {
        stage["id"]: f"relay of {stage['channel']}"
        for report in status["nodes"].values()
        for stage in report["stages"]
    }
    for channel in status["channels"]:
        uses |= {stage["id"]: f"filter {channel['filter']}" for stage in channel["stages"]}
    return uses


def _at(use: str | None, node: str) -> str:
    return node if use is None else f"{use} at {node}"

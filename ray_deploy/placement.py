"""Where on the cluster a broker runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from activebroker.core.errors import UnknownPlace, suggestion


@dataclass(frozen=True, slots=True)
class Placement:
    """All that is given must hold; nothing given: wherever Ray puts it.

    `node` is a Ray node's name, IP address or id. `resources` are custom resources that the
    broker takes, `labels` must be labels of the node. `cpus` is what the broker reserves: none by
    default, since a broker is idle most of the time.
    """

    node: str | None = None
    resources: dict[str, float] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    cpus: float = 0

    def options(self, nodes: list[dict[str, Any]]) -> dict[str, Any]:
        """Ray's actor options for this placement, given `ray.nodes()`.

        Raises UnknownPlace where no live node of the cluster can take the broker.
        """
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        alive = [node for node in nodes if node["Alive"]]
        options: dict[str, Any] = {"num_cpus": self.cpus}
        if self.node is not None:
            chosen = [node for node in alive if self.node in _names(node)]
            if not chosen:
                known = [node["NodeName"] for node in alive]
                raise UnknownPlace(
                    f"The Ray cluster has no live node {self.node!r}."
                    + suggestion(self.node, known)
                )
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(
                chosen[0]["NodeID"], soft=False
            )
        if self.resources:
            if not any(_offers(node["Resources"], self.resources) for node in alive):
                raise UnknownPlace(
                    f"No live node of the Ray cluster has the resources {self.resources}. "
                    "Start one with `ray start --resources=...`, or ask for less."
                )
            options["resources"] = self.resources
        if self.labels:
            if not any(self.labels.items() <= node.get("Labels", {}).items() for node in alive):
                raise UnknownPlace(
                    f"No live node of the Ray cluster has the labels {self.labels}. "
                    "Start one with `ray start --labels=...`."
                )
            options["label_selector"] = self.labels
        return options


def _names(node: dict[str, Any]) -> tuple[str, ...]:
    return node["NodeName"], node["NodeManagerAddress"], node["NodeID"]


def _offers(there: dict[str, float], wanted: dict[str, float]) -> bool:
    return all(there.get(name, 0) >= amount for name, amount in wanted.items())

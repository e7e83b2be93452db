"""Where on the cluster a broker runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from activebroker.core.errors import UnknownPlace, suggestion


@dataclass(frozen=True, slots=True)
class Placement:
    """All that is given must hold; nothing given: wherever Ray puts it.

    `node` is a Ray node's name, IP address or id. `near` is a supplier, or any process of the
    fabric: a node on the same machine; only for a broker that is started later than those.
    `resources` are custom resources that the broker takes, `labels` must be labels of the node.
    `cpus` is what the broker reserves: none by default, since a broker is idle most of the time.

    `restarts`: how often Ray starts it again when its process or its node dies, by default always.
    It comes back without filters: they have gone on elsewhere, or do so now. The first broker of a
    fabric is never started again: with it the directory is gone.
    """

    node: str | None = None
    near: str | None = None
    resources: dict[str, float] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    cpus: float = 0
    restarts: int = -1

    def options(self, nodes: list[dict[str, Any]]) -> dict[str, Any]:
        """Ray's actor options for this placement, given `ray.nodes()`.

        Raises UnknownPlace where no live node of the cluster can take the broker.
        """
        if self.near is not None:
            raise UnknownPlace(
                f"Nothing is near {self.near!r} before the fabric runs: start the broker later, by "
                "`fabric.start_broker(name, Placement(near=...))`."
            )
        alive = [node for node in nodes if node["Alive"]]
        named = [node for node in alive if self.node is None or self.node in _names(node)]
        if not named:
            known = [node["NodeName"] for node in alive]
            raise UnknownPlace(
                f"The Ray cluster has no live node {self.node!r}."
                + suggestion(str(self.node), known)
            )
        fitting = [node for node in named if self._fits(node)]
        if not fitting:
            raise UnknownPlace(
                f"No live node of the Ray cluster has all of {self._wanted()}. There are "
                f"{'; '.join(map(_described, named))}. Start one that has "
                "(`ray start --num-cpus=... --resources=... --labels=...`), or ask for less."
            )
        options: dict[str, Any] = {"num_cpus": self.cpus, "max_restarts": self.restarts}
        if self.node is not None:
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(
                fitting[0]["NodeID"], soft=False
            )
        if self.resources:
            options["resources"] = self.resources
        if self.labels:
            options["label_selector"] = self.labels
        return options

    def _fits(self, node: dict[str, Any]) -> bool:
        """Whether a node has it all, in use now or not."""
        total = node["Resources"]
        return (
            all(total.get(name, 0) >= amount for name, amount in self._amounts().items())
            and self.labels.items() <= _labels(node).items()
        )

    def _amounts(self) -> dict[str, float]:
        return ({"CPU": self.cpus} if self.cpus else {}) | self.resources

    def _wanted(self) -> str:
        parts = self._amounts() | self.labels
        return ", ".join(f"{name}={value}" for name, value in parts.items())


def host_of(near: str, status: dict[str, Any]) -> str:
    """The IP address of the machine where a supplier, or a process of the fabric, runs.

    Raises UnknownPlace where the status of the fabric does not tell.
    """
    places = {member["name"]: member["name"] for member in status["members"]}
    for channel in status["channels"]:
        places |= channel["supplier_nodes"]
    if near not in places:
        raise UnknownPlace(
            f"There is no supplier and no process {near!r} in the fabric."
            + suggestion(near, places)
        )
    addresses = {member["name"]: member["address"] for member in status["members"]}
    if (address := addresses[places[near]]) is None:
        raise UnknownPlace(
            f"Where {near!r} is cannot be told: process {places[near]!r} dials out only. Name a "
            "node of the cluster instead."
        )
    return str(urlsplit(address).hostname)


def _names(node: dict[str, Any]) -> tuple[str, ...]:
    return node["NodeName"], node["NodeManagerAddress"], node["NodeID"]


def _labels(node: dict[str, Any]) -> dict[str, str]:
    return node.get("Labels") or {}


def _described(node: dict[str, Any]) -> str:
    """A node's name and what it has of what a placement can ask for."""
    own = ("node:", "memory", "object_store_memory")  # what Ray makes of each node by itself
    resources = {k: v for k, v in node["Resources"].items() if not k.startswith(own)}
    labels = {k: v for k, v in _labels(node).items() if not k.startswith("ray.io/")}
    has = ", ".join(f"{name}={value:g}" for name, value in sorted(resources.items()))
    marked = ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))
    return f"{node['NodeName']!r} with {', '.join(filter(None, (has, marked))) or 'nothing'}"

"""The same fabric on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace

from activebroker.core.errors import InvalidFilter, MissingExtra, UnknownPlace, with_extra
from activebroker.fabric import Fabric
from ray_deploy.placement import Placement, host_of

# Under `uv run` Ray would by default start each worker by `uv run` in a copy of the working
# directory. Brokers need only what is installed; set it to 1 where the nodes have nothing.
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")


class RayFabric(Fabric):
    """A fabric whose brokers are actors on a Ray cluster.

    `brokers` are names, or a mapping from names to `Placement`s. `address` is an existing
    cluster's (`"auto"` for one on this machine). Without it this process's connection to Ray
    serves, else RAY_ADDRESS, else a cluster that runs on this machine; else a local one is
    started. What a fabric connected or started ends with the last fabric that uses it.
    `key` is the fabric's key; a new one by default. `reconnect`: as of `connect`; the fabric ends
    when its first broker does, and then that is raised.

    Raises Unreachable, AccessDenied, UnknownPlace, MissingExtra.
    """

    def __init__(
        self,
        brokers: Iterable[str] | Mapping[str, Placement] = ("broker",),
        *,
        address: str | None = None,
        key: str | None = None,
        reconnect: bool = True,
    ) -> None:
        try:
            from ray_deploy.host import RayHost
        except ImportError as error:
            raise MissingExtra(
                f"RayFabric needs Ray. {with_extra('ray')} Without it, Fabric() runs in this "
                "process and `activebroker broker` runs brokers as plain processes."
            ) from error
        places = (
            dict(brokers)
            if isinstance(brokers, Mapping)
            else {
                name: Placement() for name in ([brokers] if isinstance(brokers, str) else brokers)
            }
        )
        if not places:
            raise InvalidFilter("A RayFabric needs the name of at least one broker.")
        self._ray = RayHost(places, address, key)
        super().__init__(host=self._ray, reconnect=reconnect)

    def start_broker(self, name: str, placement: Placement | None = None) -> None:
        """Start one more broker, `Placement(near="JFK")` say for one beside a supplier.

        Raises NameTaken, UnknownPlace, Unreachable.
        """
        placement = placement or Placement()
        if placement.near is not None:
            if placement.node is not None:
                raise UnknownPlace("A Placement names a node or what it is near to, not both.")
            host = host_of(placement.near, self.status())
            placement = replace(placement, near=None, node=host)
        self._ray.start(name, placement)

    def stop_broker(self, name: str) -> None:
        """End a broker; its filters go on at others. Raises UnknownPlace."""
        self._ray.stop(name)

    @property
    def address(self) -> str:
        """Where other processes join: `activebroker.connect(fabric.address, fabric.key)`."""
        return self._ray.address

    @property
    def key(self) -> str:
        """The fabric's key. Who has it may publish, subscribe and ship filters."""
        return self._ray.key

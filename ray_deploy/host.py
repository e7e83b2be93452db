"""Starts brokers as Ray actors and joins this process to them.

Deployment, placement and the processes are Ray's; events and control messages travel on the
brokers' own sockets. The actors belong to this process: they end when it does, however it ends.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import ray
from ray.exceptions import GetTimeoutError, RayError

from activebroker.core.errors import ActiveBrokerError, Unreachable
from activebroker.fabric import JoinedHost, serve
from activebroker.fabric.hosting import OnFailures
from activebroker.fabric.keys import signing_key
from activebroker.runtime import Runtime
from activebroker.transport import generate_key
from ray_deploy.placement import Placement

log = logging.getLogger(__name__)
START = 60.0  # seconds for Ray to start an actor
KNOCK = 5.0  # seconds for a head to accept a connection
STOP = 10.0  # seconds for a broker to stop by itself before its process is killed


class BrokerActor:
    """A broker in a Ray worker process. The first one keeps the fabric's directory."""

    def __init__(self, name: str, key: str, join_address: str | None) -> None:
        listen = f"tcp://{ray.util.get_node_ip_address()}:*"
        self._runtime = serve(name, listen, key, join_address=join_address)

    def address(self) -> str:
        assert self._runtime.transport.address is not None
        return self._runtime.transport.address

    def stop(self) -> None:
        self._runtime.stop()


class RayHost:
    """`address`: an existing cluster's; None: the one this process is connected to already, or a
    local one that is started now and ends with the fabric."""

    def __init__(
        self, brokers: Mapping[str, Placement], address: str | None, key: str | None
    ) -> None:
        self.key = key or generate_key()
        self.signing_key = signing_key(self.key)
        self.address = ""
        self._brokers = brokers
        self._cluster_address = address
        self._actors: list[Any] = []
        self._connected = False

    def open(self, on_failures: OnFailures) -> Runtime:
        """Raises Unreachable where the cluster cannot be reached or an actor does not start."""
        self._connect()
        nodes = ray.nodes()
        options = {name: place.options(nodes) for name, place in self._brokers.items()}
        first, *others = options
        self.address = self._address(self._start(first, options[first], None))
        # All at once: a worker process takes a while to start.
        started = [self._start(name, options[name], self.address) for name in others]
        for actor in started:
            self._address(actor)
        return JoinedHost(self.address, self.key).open(on_failures)

    def close(self) -> None:
        """Stop the actors, and the cluster if we started it."""
        if self._actors:  # without any, Ray may not be there, and ray.get would start it
            stops = [actor.stop.remote() for actor in self._actors]
            try:
                ray.get(stops, timeout=STOP)
            except (GetTimeoutError, RayError) as error:
                log.info("a broker did not stop by itself: %s", error)
            for actor in self._actors:
                ray.kill(actor)
            self._actors.clear()
        if self._connected:
            self._connected = False
            ray.shutdown()

    def _connect(self) -> None:
        if ray.is_initialized():
            return
        try:
            _knock(self._cluster_address)
            ray.init(
                address=self._cluster_address,
                include_dashboard=None if self._cluster_address else False,
                logging_level=logging.WARNING,
                log_to_driver=False,
            )
        except (OSError, RuntimeError, ValueError) as error:
            where = self._cluster_address or "on this machine"
            raise Unreachable(
                f"No Ray cluster could be reached or started {where}: {error}. Is its head alive "
                "(`ray status --address=...`)? Without an address a local one is started."
            ) from error
        self._connected = True

    def _start(self, name: str, options: dict[str, Any], join_address: str | None) -> Any:
        actor = ray.remote(BrokerActor).options(**options).remote(name, self.key, join_address)
        self._actors.append(actor)
        return actor

    def _address(self, actor: Any) -> str:
        try:
            address: str = ray.get(actor.address.remote(), timeout=START)
        except GetTimeoutError as error:
            raise Unreachable(
                f"Ray did not start a broker within {START:g} s: the cluster has no room for it, "
                "or its nodes cannot import activebroker. See `ray status`."
            ) from error
        except RayError as error:
            cause = error.__cause__
            if isinstance(cause, ActiveBrokerError):
                raise cause from error
            raise Unreachable(f"A broker actor failed to start: {error}") from error
        return address


def _knock(address: str | None) -> None:
    """Raise OSError where nothing listens at `host:port`; Ray itself would try for minutes."""
    parts = urlsplit(address if address is None or "//" in address else f"//{address}")
    if parts.hostname and parts.port:
        socket.create_connection((str(parts.hostname), parts.port), KNOCK).close()

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

    def __init__(self, name: str, key: str) -> None:
        self._name = name
        self._key = key
        self._runtime: Runtime | None = None

    def serve(self, join_address: str | None) -> str:
        """Listen, and return where."""
        listen = f"tcp://{ray.util.get_node_ip_address()}:*"
        self._runtime = serve(self._name, listen, self._key, join_address=join_address)
        assert self._runtime.transport.address is not None
        return self._runtime.transport.address

    def stop(self) -> None:
        if self._runtime is not None:
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
        # All processes start at once, which takes a while; the first serves, the others join it.
        for name, each in options.items():
            actor = ray.remote(BrokerActor).options(**each).remote(name, self.key)
            self._actors.append(actor)
        first, *others = self._actors
        (self.address,) = self._answers([first.serve.remote(None)])
        self._answers([actor.serve.remote(self.address) for actor in others])
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

    def _answers(self, calls: list[Any]) -> list[str]:
        try:
            answers: list[str] = ray.get(calls, timeout=START)
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
        return answers


def _knock(address: str | None) -> None:
    """Raise OSError where nothing listens at `host:port`; Ray itself would try for minutes."""
    parts = urlsplit(address if address is None or "//" in address else f"//{address}")
    if parts.hostname and parts.port:
        socket.create_connection((str(parts.hostname), parts.port), KNOCK).close()

"""Starts brokers as Ray actors and joins this process to them.

Deployment, placement and the processes are Ray's; events and control messages travel on the
brokers' own sockets. The actors belong to this process: they end when it does, however it ends.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import ray
from ray.exceptions import GetTimeoutError, RayError

from activebroker.broker.messages import Leave
from activebroker.core.errors import (
    ActiveBrokerError,
    NameTaken,
    UnknownPlace,
    Unreachable,
    suggestion,
)
from activebroker.fabric import JoinedHost, serve
from activebroker.fabric.hosting import OnFailures
from activebroker.fabric.keys import signing_key
from activebroker.runtime import Runtime
from activebroker.transport import generate_key
from ray_deploy.placement import Placement

log = logging.getLogger(__name__)
START = 60.0  # seconds for Ray to start an actor
KNOCK = 5.0  # seconds for a head to accept a connection
LOOK_UP = 0.5  # seconds, at most, until a broker sees that it was taken for lost
STOP = 10.0  # seconds for a broker to stop by itself before its process is killed


class BrokerActor:
    """A broker in a Ray worker process. The one that Ray knows as `first` keeps the directory.

    It joins the fabric again when it was taken for lost, and when Ray has started it again: then
    this constructor is all that runs.
    """

    def __init__(self, name: str, key: str, first: str) -> None:
        self._name = name
        self._key = key
        self._first = first
        self._runtime: Runtime | None = None
        self._stopped = threading.Event()
        if ray.get_runtime_context().was_current_actor_reconstructed:
            self._join_again()

    def serve(self, join_address: str | None, replace: bool = False) -> str:
        """Listen, and return where."""
        listen = f"tcp://{ray.util.get_node_ip_address()}:*"
        self._runtime = serve(
            self._name, listen, self._key, join_address=join_address, replace=replace
        )
        if join_address is not None:
            threading.Thread(target=self._keep, args=(self._runtime,), daemon=True).start()
        return self.address()

    def address(self) -> str:
        assert self._runtime is not None and self._runtime.transport.address is not None
        return self._runtime.transport.address

    def stop(self, leave: bool = False) -> None:
        """End the broker. `leave`: alone; its filters go on elsewhere."""
        self._stopped.set()
        if self._runtime is not None:
            if leave:
                self._runtime.request(Leave(self._name), STOP)
                self._runtime.wait_drained(1.0)
            self._runtime.stop()

    def _keep(self, runtime: Runtime) -> None:
        while not self._stopped.wait(LOOK_UP):
            if runtime.orphaned:
                log.warning("%s This broker joins anew.", runtime.orphaned)
                runtime.stop()
                self._join_again()
                return

    def _join_again(self) -> None:
        try:
            first = ray.get_actor(self._first)
            self.serve(ray.get(first.address.remote(), timeout=START), replace=True)
        except (ActiveBrokerError, RayError, ValueError) as error:
            log.warning("broker %r is in no fabric any more: %s", self._name, error)


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
        self._first = f"activebroker {secrets.token_hex(8)}"  # Ray's name for the first broker
        self._cluster_address = address
        self._actors: dict[str, Any] = {}
        self._connected = False

    def open(self, on_failures: OnFailures) -> Runtime:
        """Raises Unreachable where the cluster cannot be reached or an actor does not start."""
        self._connect()
        nodes = ray.nodes()
        options = {name: place.options(nodes) for name, place in self._brokers.items()}
        # All processes start at once, which takes a while; the first serves, the others join it.
        first, *others = options
        for name, each in options.items():
            self._create(name, each)
        (self.address,) = self._serve([first], None)
        self._serve(others, self.address)
        return JoinedHost(self.address, self.key).open(on_failures)

    def start(self, name: str, placement: Placement) -> None:
        """Start one more broker. Raises NameTaken, UnknownPlace, Unreachable."""
        if name in self._actors:
            raise NameTaken(f"There is a broker {name!r} already: choose another name.")
        self._create(name, placement.options(ray.nodes()))
        try:
            self._serve([name], self.address)
        except ActiveBrokerError:
            ray.kill(self._actors.pop(name))
            raise

    def stop(self, name: str) -> None:
        """Let a broker leave the fabric, and end it. Raises UnknownPlace."""
        first, *others = self._actors
        if name not in others:
            why = " It keeps the directory and ends with the fabric." if name == first else ""
            raise UnknownPlace(
                f"There is no broker {name!r} to stop.{why}" + suggestion(name, others)
            )
        self._end({name: self._actors.pop(name)}, leave=True)

    def close(self) -> None:
        """Stop the actors, and the cluster if we started it."""
        if self._actors:  # without any, Ray may not be there, and ray.get would start it
            self._end(self._actors)
            self._actors = {}
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

    def _create(self, name: str, options: dict[str, Any]) -> None:
        if not self._actors:
            options = {**options, "name": self._first, "max_restarts": 0}
        actor = ray.remote(BrokerActor).options(**options).remote(name, self.key, self._first)
        self._actors[name] = actor

    def _serve(self, names: list[str], join_address: str | None) -> list[str]:
        return self._answers([self._actors[name].serve.remote(join_address) for name in names])

    def _end(self, actors: Mapping[str, Any], leave: bool = False) -> None:
        try:
            ray.get([actor.stop.remote(leave) for actor in actors.values()], timeout=STOP)
        except (GetTimeoutError, RayError) as error:
            log.info("a broker did not stop by itself: %s", error)
        for actor in actors.values():
            ray.kill(actor)

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

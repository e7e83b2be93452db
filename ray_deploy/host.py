"""Starts brokers as Ray actors and joins this process to them.

Deployment, placement and the processes are Ray's; events and control messages travel on the
brokers' own sockets. The actors belong to this process: they end when it does, however it ends.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import threading
from collections.abc import Mapping
from typing import Any

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayError

from activebroker.core.errors import (
    ActiveBrokerError,
    Closed,
    NameTaken,
    UnknownPlace,
    Unreachable,
    suggestion,
)
from activebroker.fabric import JoinedHost, serve
from activebroker.fabric.hosting import OnFailures, step_down
from activebroker.fabric.keys import signing_key
from activebroker.runtime import Runtime, Succession
from activebroker.transport import generate_key
from ray_deploy import session
from ray_deploy.placement import Placement

log = logging.getLogger(__name__)
START = 120.0  # seconds for Ray to start actors; a busy machine takes one
LOOK_UP = 0.5  # seconds, at most, until a broker sees that it was taken for lost
ASK = 1.0  # seconds for the first broker to show that it lives
FAILED = 70  # exit code of a broker whose node has failed, as of `activebroker broker`
STOP = 10.0  # seconds for a broker to stop by itself before its process is killed


class BrokerActor:
    """A broker in a Ray worker process. The actor called `first` keeps the directory.

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
                step_down(self._runtime, STOP)
            self._runtime.stop()

    def __repr__(self) -> str:
        """What Ray shows of the process in its logs and lists."""
        return f"BrokerActor({self._name})"

    def _keep(self, runtime: Runtime) -> None:
        while not self._stopped.wait(LOOK_UP):
            if runtime.failure is not None:
                os._exit(FAILED)  # Ray starts the actor again, as far as it may
            if runtime.dismissed:
                self.stop(leave=True)
                ray.kill(ray.get_runtime_context().current_actor)
            if runtime.orphaned:
                log.warning("%s This broker joins anew.", runtime.orphaned)
                runtime.stop()
                self._join_again()
                return

    def _join_again(self) -> None:
        try:
            first = ray.get_actor(self._first)
            self.serve(ray.get(first.address.remote(), timeout=START))
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
        self._fabric = secrets.token_hex(4)  # tells its actors from those of others in Ray's list
        self._numbers = itertools.count(1)
        self._first = ""  # the actor of the first broker
        self._cluster_address = address
        self._actors: dict[str, Any] = {}
        self._session: str | None = None  # the connection to Ray
        self._joined: JoinedHost | None = None  # this process, once the brokers run
        self._closing = threading.Lock()

    def open(self, on_failures: OnFailures, succession: Succession | None = None) -> Runtime:
        """Start the brokers, if that was not done, and join them; again, when they were lost.

        Raises Unreachable where the cluster cannot be reached or an actor does not start, Closed
        where the fabric has ended.
        """
        if self._joined is None:
            self._open()
            self._joined = JoinedHost(self.address, self.key)
        else:
            self._check_lives()
        return self._joined.open(on_failures, succession)

    def _open(self) -> None:
        self._session = session.use(self._cluster_address)
        nodes = ray.nodes()
        options = {name: place.options(nodes) for name, place in self._brokers.items()}
        # All processes start at once, which takes a while; the first serves, the others join it.
        first, *others = options
        for name, each in options.items():
            self._create(name, each)
        (self.address,) = self._serve([first], None)
        self._serve(others, self.address)

    def start(self, name: str, placement: Placement) -> None:
        """Start one more broker. Raises NameTaken, UnknownPlace, Unreachable."""
        if name in self._actors:
            raise NameTaken(f"There is a broker {name!r} already: choose another name.")
        self._check_connected()
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
        self._check_connected()
        self._end({name: self._actors.pop(name)}, leave=True)

    def close(self) -> None:
        """Stop the actors, and Ray if this was the last to use what a fabric started."""
        with self._closing:
            actors, self._actors = self._actors, {}
            if self._session is None:
                return
            if session.current() == self._session:  # else Ray has ended them with the connection
                self._end(actors)
            session.release(self._session)
            self._session = None

    def _check_lives(self) -> None:
        """Raise Closed where there is nothing to join again: the first broker is gone, or all."""
        with self._closing:  # or Ray would be asked without its connection
            if self._session is None or session.current() != self._session:
                raise Closed(
                    "This process's connection to the Ray cluster has ended, and the fabric with "
                    "it: make a new RayFabric."
                )
            name, first = next(iter(self._actors.items()))
            try:
                ray.get(first.address.remote(), timeout=ASK)
            except ActorDiedError as error:
                raise Closed(
                    f"The process of its first broker, {name!r}, is gone, and with that the "
                    "fabric has ended: make a new RayFabric."
                ) from error
            except RayError as error:
                log.info("the first broker is not reached: %s", error)

    def _check_connected(self) -> None:
        """Called without its connection, Ray would start a cluster of its own."""
        if session.current() != self._session:
            raise Unreachable(
                "This process's connection to the Ray cluster has ended, as by ray.shutdown(), and "
                "the fabric's brokers with it: make a new RayFabric."
            )

    def _create(self, name: str, options: dict[str, Any]) -> None:
        shown = f"{name} (broker {next(self._numbers)} of fabric {self._fabric})"
        if not self._actors:
            self._first = shown
            options = {**options, "max_restarts": 0}
        try:
            kind = ray.remote(BrokerActor).options(**options, name=shown)
        except ValueError as error:
            raise UnknownPlace(f"Ray takes no such Placement for {name!r}: {error}") from error
        self._actors[name] = kind.remote(name, self.key, self._first)

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

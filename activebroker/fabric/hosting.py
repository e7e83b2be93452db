"""Starts what a fabric runs on: this process's node, and brokers."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Iterable
from typing import Protocol
from urllib.parse import urlsplit

from activebroker.core.errors import ActiveBrokerError, InvalidName, NameTaken, check_text, revive
from activebroker.directory.deaths import Budget
from activebroker.directory.parts import FIXED_PLACES
from activebroker.fabric.keys import find_key, is_loopback, signing_key
from activebroker.filters import Envelope, Payload, Runner
from activebroker.node.logwriter import LogWriter
from activebroker.protocol.messages import FailuresReported
from activebroker.protocol.requests import Join, Leave
from activebroker.protocol.specs import LOG, Member, StageSpec
from activebroker.runtime import (
    MakeRunner,
    Runtime,
    Succession,
    open_log,
    python_runner,
    warm_up,
)
from activebroker.spark import SparkRunner  # not when used: Spark has to end after fabrics
from activebroker.transport import (
    Claim,
    Hello,
    LocalHub,
    LocalTransport,
    ZeroMQTransport,
    probe,
)

OnFailures = Callable[[FailuresReported], None]
PATIENCE = 10.0  # seconds to reach a fabric
JOINING = 60.0  # seconds for its directory to answer: it may wait for a frozen process
LOCAL = "local"  # the node of an embedded fabric


class Host(Protocol):
    """Starts what a fabric needs, and ends what it started."""

    signing_key: bytes

    @property
    def key(self) -> str | None:
        """The key with which other processes join; None if none can."""
        ...

    @property
    def address(self) -> str | None:
        """The address where other processes join; None if none can."""
        ...

    def open(self, on_failures: OnFailures, succession: Succession | None = None) -> Runtime:
        """Start this process's node, join, and return it. With a `succession`, the node departs
        when it loses its fabric."""
        ...

    def close(self) -> None:
        """End everything that `open` has started, except the node that it returned."""
        ...


class EmbeddedHost:
    """A fabric in this process: no sockets, no server. This process's node has the directory."""

    def __init__(self, brokers: Iterable[str]) -> None:
        self.signing_key = secrets.token_bytes(32)
        self.address: None = None
        self.key: None = None
        self._names = (brokers,) if isinstance(brokers, str) else tuple(brokers)
        for number, name in enumerate(self._names):
            check_name(name)
            if name in (LOCAL, *self._names[:number]):
                raise NameTaken(
                    f"A node named {name!r} is in the fabric already: choose another name."
                )
        self._brokers: list[Runtime] = []

    def open(self, on_failures: OnFailures, succession: Succession | None = None) -> Runtime:
        hub = LocalHub()
        runtime = self._start(hub, LOCAL, None, is_broker=False, on_failures=on_failures)
        for broker in self._names:
            started = self._start(hub, broker, LOCAL, is_broker=True)
            self._brokers.append(started)
            join(started, broker, f"local://{broker}", is_broker=True)
        return runtime

    def close(self) -> None:
        for broker in self._brokers:
            broker.stop()

    def _start(
        self,
        hub: LocalHub,
        name: str,
        directory: str | None,
        *,
        is_broker: bool,
        on_failures: OnFailures = lambda report: None,
    ) -> Runtime:
        return Runtime(
            Member(name, f"local://{name}", is_broker, 1),
            LocalTransport(name, hub),
            directory=directory,
            key=self.signing_key,
            engines=engines(self.signing_key),
            on_failures=on_failures,
        )


class JoinedHost:
    """A node in a fabric that runs elsewhere, reached at the address of any of its brokers.

    Without `listen`, this process cannot be dialled (it is behind a NAT) and dials all others.
    """

    def __init__(
        self, address: str, key: str | None, *, name: str | None = None, listen: bool = True
    ) -> None:
        self.address = address
        self.key: str = find_key(key, address=address)
        self.signing_key = signing_key(self.key)
        if name is not None:
            check_text(name, "this process's name")
        self._name = name or f"client-{secrets.token_hex(4)}"
        self._listen = listen

    def open(self, on_failures: OnFailures, succession: Succession | None = None) -> Runtime:
        listen = f"tcp://{local_host(self.address)}:*" if self._listen else None
        return join_fabric(
            self._name,
            self.key,
            self.address,
            listen,
            is_broker=False,
            on_failures=on_failures,
            succession=succession,
        )

    def close(self) -> None:
        pass


def serve(
    name: str,
    listen: str,
    key: str,
    *,
    join_address: str | None = None,
    replace: bool = False,
    again: bool = False,
    budget: Budget = Budget(),  # noqa: B008 - a frozen value
) -> Runtime:
    """Start a broker that listens at `listen`; its address is `runtime.transport.address`.

    The first broker of a fabric has its directory; others join it by `join_address`. A broker that
    listens at 0.0.0.0 tells others the address from which this machine reaches the network.

    A broker takes the place of an earlier one of its name that does not answer. With `replace` it
    does so even if that one answers, which is taken for lost. With `again`, which says that this
    process had the name before, the other one has more time to answer.

    `budget` is for recovery in the fabric; the first broker's counts.

    Raises Unreachable, AccessDenied, NameTaken.
    """
    check_name(name)
    if join_address is not None:
        return join_fabric(
            name, key, join_address, listen, is_broker=True, replace=replace, again=again
        )
    transport = ZeroMQTransport(name, key, listen)
    assert transport.address is not None
    transport.address = _advertised(transport.address)
    transport.hello = Hello(name, name, transport.address)
    runtime = Runtime(
        Member(name, transport.address, True, _incarnation()),
        transport,
        directory=None,
        key=signing_key(key),
        engines=engines(signing_key(key)),
        budget=budget,
    )
    transport.claimed = runtime.claim
    return runtime


def join_fabric(
    name: str,
    key: str,
    address: str,
    listen: str | None,
    *,
    is_broker: bool,
    replace: bool = False,
    again: bool = False,
    on_failures: OnFailures = lambda report: None,
    succession: Succession | None = None,
) -> Runtime:
    """Start a node and join the fabric of the broker at `address`. `replace`, `again`: see
    `serve`."""
    warm_up()  # before the name is claimed: until this node joins, another may get it
    again = again or (succession is not None and bool(succession.before.reason))
    hello = probe(address, key, PATIENCE, Claim(name, replace, again))
    if hello.refusal is not None:
        raise revive(hello.refusal)
    own = Hello(name, hello.directory, hello.directory_address)
    transport = ZeroMQTransport(name, key, listen, own)
    if transport.address is not None:
        transport.address = _advertised(transport.address)
    incarnation = _incarnation()
    runtime = Runtime(
        Member(name, transport.address, is_broker, incarnation),
        transport,
        directory=hello.directory,
        directory_address=hello.directory_address,
        key=signing_key(key),
        engines=engines(signing_key(key)),
        on_failures=on_failures,
        succession=succession,
    )
    transport.claimed = runtime.claim
    try:
        join(runtime, name, transport.address, is_broker=is_broker, incarnation=incarnation)
    except ActiveBrokerError:
        runtime.stop()
        raise
    return runtime


def check_name(name: str) -> None:
    """Raise InvalidName for a bad name of a broker, NameTaken for one with another meaning as a
    place."""
    check_text(name, "a broker's name")
    if "://" in name:
        raise InvalidName(
            f"{name!r} is an address, not a broker's name. To join the fabric there, use "
            f"connect({name!r})."
        )
    if name in FIXED_PLACES:
        raise NameTaken(
            f"{name!r} cannot be a broker's name: as a place it means something else. Choose "
            "another."
        )


def join(
    runtime: Runtime, name: str, address: str | None, *, is_broker: bool, incarnation: int = 1
) -> None:
    runtime.request(Join(Member(name, address, is_broker, incarnation)), JOINING)


def leave(runtime: Runtime, patience: float) -> None:
    """Leave the fabric: the directory ends what this node had, in order."""
    runtime.request(Leave(runtime.name), patience)


def step_down(broker: Runtime, patience: float) -> None:
    """Let a broker leave the fabric: its filters go on at others. Raises as `leave` does."""
    leave(broker, patience)
    broker.wait_drained(1.0)


def engines(key: bytes) -> dict[str, MakeRunner]:
    """The engines on which a node can run filters."""

    def spark_runner(payload: Payload, envelope: Envelope, stage: StageSpec) -> Runner:
        return SparkRunner(payload, envelope, channel=stage.channel, key=key)

    def log_writer(payload: Payload, envelope: Envelope, stage: StageSpec) -> LogWriter:
        assert stage.log is not None
        return open_log(stage.log, payload.input)

    return {"python": python_runner, "spark": spark_runner, LOG: log_writer}


def _advertised(address: str) -> str:
    """The address at which others can dial a node that listens at `address`."""
    parts = urlsplit(address)
    if parts.hostname != "0.0.0.0":
        return address
    return f"tcp://{_outward()}:{parts.port}"


def _outward(host: str = "192.0.2.1", port: int = 9) -> str:
    """The address of this machine from which it reaches `host`, by default any host outside.

    A connected datagram socket chooses it; nothing is sent.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as chooser:
        try:
            chooser.connect((host, port))
        except OSError:
            return "127.0.0.1"  # no network at all
        return str(chooser.getsockname()[0])


def local_host(address: str) -> str:
    """The address of this machine from which it reaches `address`."""
    if is_loopback(address):
        return "127.0.0.1"
    parts = urlsplit(address)
    return _outward(parts.hostname or "", parts.port or 9)


def _incarnation() -> int:
    return secrets.randbits(48) | 1

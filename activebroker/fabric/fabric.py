"""The fabric: the connected brokers and processes that a program uses."""

from __future__ import annotations

import atexit
import itertools
import logging
import secrets
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pyarrow as pa

from activebroker.broker.messages import (
    CallBody,
    CloseChannel,
    FailuresReported,
    Modulate,
    Move,
    Offload,
    OpenChannel,
    TellStory,
)
from activebroker.broker.messages import ReportStatus as AskStatus
from activebroker.broker.splitting import split_moves
from activebroker.core.errors import (
    ActiveBrokerError,
    Closed,
    DeadlineExceeded,
    MoveFailed,
    Unreachable,
    check_text,
)
from activebroker.events import EventType, TypeDescription, describe, type_of
from activebroker.fabric.balancing import Balancing
from activebroker.fabric.bound import Bound
from activebroker.fabric.channel import Channel
from activebroker.fabric.closing import CLOSING, Closing, deadline, time_left, within
from activebroker.fabric.failures import FailureLog
from activebroker.fabric.hosting import EmbeddedHost, Host, JoinedHost, leave
from activebroker.fabric.subscription import Subscription
from activebroker.fabric.supplier import Supplier
from activebroker.filters import Envelope
from activebroker.runtime import EventQueue, PublishBuffer, SlowPolicy
from derivation.balance import Balance, Policy
from predicate_extract import Extraction

log = logging.getLogger(__name__)
NAMES = ("name", "channel", "supplier", "at", "to")  # in requests: what users give as such
LEASE = 60.0  # seconds that a derived channel lives without its owner or anybody who takes it
PATIENCE = 60.0  # seconds that the directory may take to answer: a move may be before us
BLAME = 5.0  # seconds more, for it to find out who holds a move up


class ChannelInfo(msgspec.Struct, frozen=True):
    """How the directory describes a channel."""

    name: str
    type: TypeDescription
    parent: str | None


class Fabric(Closing, Bound):
    """`Fabric()` is embedded: all of it runs in this process, without sockets or servers.

    `brokers` are names of places where filters can run; in an embedded fabric each is a thread.
    `lease`: seconds that a channel derived here lives without this process or anybody who takes it.
    `connect(address)` joins a fabric that runs elsewhere, `ray_deploy.RayFabric` starts one on a
    Ray cluster; all three have the same methods. Use it as a context manager, or call `close`.
    """

    def __init__(
        self, brokers: Iterable[str] = (), *, host: Host | None = None, lease: float = LEASE
    ) -> None:
        self.lease = lease
        self._host: Host = host or EmbeddedHost(brokers)
        self._failures: dict[str, FailureLog] = {}
        self._parents: dict[str, str | None] = {}  # of channels that were opened or derived here
        self._suppliers: dict[int, Supplier] = {}
        self._subscriptions: dict[int, Subscription] = {}
        self._balancings: list[Balancing] = []
        self._ports = itertools.count(secrets.randbits(60))
        self._names = itertools.count(1)
        self._closed = False
        try:
            self._runtime = self._host.open(self._on_failures)
        except BaseException:
            self._host.close()
            raise
        atexit.register(self.close)

    @property
    def node(self) -> str:
        """The name of this process in the fabric."""
        return self._runtime.name

    @property
    def address(self) -> str | None:
        """Where other processes join, by `connect(address, key)`; None for an embedded fabric."""
        return self._host.address

    def channel(self, name: str, type: type | pa.Schema | None = None) -> Channel:
        """Open a channel; it is created with the first type given.

        `type` is a dataclass, a `pyarrow.Schema`, or `object` for any picklable content. Without it
        the channel must exist. Raises UnknownChannel, ChannelTypeConflict, EventTypeError, Closed.
        """
        event_type: EventType | None = None
        if type is not None:
            event_type = type_of(type)
            self.register(event_type)
        description = None if event_type is None else describe(event_type)
        return self.channel_of(self.request(OpenChannel(name, description)))

    def status(self, *, timeout: float = PATIENCE) -> dict[str, Any]:
        """Members, channels, and every node's counters, as plain data."""
        status: dict[str, Any] = msgspec.to_builtins(self.request(AskStatus(), timeout))
        return status

    def story(self, channel: Channel | str) -> dict[str, Any]:
        """How the last move or offload of a channel, or one of its name, went or goes, as plain
        data.

        `lines` tell in order what each party was told, at which second of it (`at`), and what it
        did; `silent` names the parties that could not be asked, and why: a process that is gone
        takes its part of the story with it.

        Raises UnknownChannel where the channel is none of those that moved last.
        """
        name = channel.name if isinstance(channel, Channel) else channel
        story: dict[str, Any] = msgspec.to_builtins(self.request(TellStory(name)))
        return story

    def split(self, broker: str, *, to: str, timeout: float = 30.0) -> list[str]:
        """Move filters from one broker to another while events flow, so that half the work goes.

        Those that were placed at `broker` move one after the other, dependants first, with what
        runs beside them at "supplier". Their work is what they have done since they came there;
        where none has done anything, all count the same. Returns the names of the channels that
        moved, in order: empty where no move would help, as with a single filter.

        Raises UnknownPlace; MoveFailed where a move fails, which is the last one then: the message
        says which channels had moved and which were left. `timeout`: of each, as of `move`.
        """
        moves = split_moves(self.status(), broker, to)
        moved: dict[str, None] = {}  # some move twice
        for move in moves:
            try:
                self.move(move.channel, move.to, timeout)
            except ActiveBrokerError as error:
                asked = (*moved, move.channel)
                left = dict.fromkeys(each.channel for each in moves if each.channel not in asked)
                raise MoveFailed(
                    f"{broker!r} was not split to the end, since channel {move.channel!r} did not "
                    f"move to {move.to!r}: {error} Moved to {to!r} before: {_listed(moved)}. "
                    f"Left where they were: {_listed(left)}."
                ) from error
            moved[move.channel] = None
        return list(moved)

    def balance(
        self, policy: Policy | None = None, *, period: float = 5.0, timeout: float = 30.0
    ) -> Balancing:
        """Let filters move between brokers by themselves until the `with` block ends.

        Every `period` seconds the policy is told what each broker's filters ask for, and what it
        decides is carried out while events flow. The default, `Balance()`, relieves brokers whose
        filters take more than 0.8 of a CPU, and empties idle ones. One process of a fabric at a
        time should do it. `timeout`: of each move, as of `move`. Raises ValueError, TypeError.
        """
        balancing = Balancing(self, policy or Balance(), period, timeout)
        self._balancings.append(balancing)
        return balancing

    def close(self) -> None:
        """Deliver what was published, then end every thread, socket and process of ours.

        Waits while consumers take something; where they do not, it takes 10 seconds at most. Raises
        what a callback has raised, and what a supplier's `close` raises where events were lost,
        after all else has ended.
        """
        if self._closed:
            return
        if self._runtime.disowned:  # it is the parent's, whose this process is a fork of
            self._closed = True
            return
        failures: list[Exception] = []
        time_here = time_left(CLOSING)
        try:
            with within(time_here * 0.2):
                for each in (*self._balancings, *self._subscriptions.values()):
                    failure = self._quietly(each.close)
                    if failure is not None and not isinstance(failure, ActiveBrokerError):
                        failures.append(failure)
            suppliers = list(self._suppliers.values())
            for supplier in suppliers:
                supplier.end()
            drained = self._runtime.wait_drained(time_here * 0.6, deadline() - time_here * 0.2)
            with within(time_here * 0.2 if drained else 0.0):
                failures += filter(None, (self._quietly(each.close) for each in suppliers))
            with within(time_here * 0.2):
                if drained:
                    self._runtime.wait_drained(CLOSING, deadline())
                else:
                    log.warning("closed %r though consumers had not taken everything", self.node)
                self._quietly(lambda: leave(self._runtime, time_left(CLOSING)))
        finally:
            self._closed = True
            self._runtime.stop()
            self._host.close()
            atexit.unregister(self.close)
        if failures:
            raise failures[0]

    def __repr__(self) -> str:
        return f"<fabric of {self.node!r}>"

    # --- for the other objects of this package ------------------------------------------------

    @property
    def _owner(self) -> Fabric:
        return self

    @property
    def signing_key(self) -> bytes:
        return self._host.signing_key

    def request(self, body: CallBody, patience: float = PATIENCE) -> Any:
        if self._closed:
            raise Closed("The fabric was closed.")
        for field in NAMES:
            if field in body.__struct_fields__:
                name = getattr(body, field)
                if name is not None or field != "name" or isinstance(body, OpenChannel):
                    check_text(name, field)
        return self._runtime.request(body, time_left(patience))

    def derive_elsewhere(self, body: Move | Offload) -> None:
        """Carry out a third-party derivation, of which each phase has its patience."""
        self.request(body, 2 * body.patience + BLAME)

    def move(self, channel: str, to: str, timeout: float) -> None:
        self.derive_elsewhere(Move(channel, to, self.node, timeout))

    def modulate(self, channel: str, envelope: Envelope, timeout: float) -> None:
        body = Modulate(channel, envelope, self.node, timeout)
        self.request(body, timeout + PATIENCE)

    def register(self, type: EventType) -> None:
        """Let events of this type come as instances of its class."""
        self._runtime.registry.register(type)

    def tell(self, body: CallBody) -> None:
        self._runtime.tell(body)

    def channel_of(self, info: Any, extraction: Extraction | None = None) -> Channel:
        known = msgspec.convert(info, ChannelInfo, from_attributes=True)
        self._parents[known.name] = known.parent
        type_ = self._runtime.registry.resolve(known.type)
        return Channel(self, known.name, type_, known.parent, extraction)

    def close_channel(self, body: CloseChannel) -> None:
        feeding: list[str] = []  # the channel and those it is derived from
        name: str | None = body.name
        while name is not None and name not in feeding:
            feeding.append(name)
            name = self._parents.get(name)
        for supplier in list(self._suppliers.values()):
            if supplier.channel in feeding:
                supplier.flush()
        self.request(body)

    def publish_to(
        self, outlet: int, channel: str, supplier: str, type: EventType
    ) -> PublishBuffer:
        return self._runtime.publish_to(outlet, channel, supplier, type)

    def open_port(self, port: int, channel: str, policy: SlowPolicy) -> EventQueue:
        return self._runtime.open_port(port, channel, policy)

    def close_port(self, port: int) -> None:
        self._runtime.close_port(port)

    def new_port(self) -> int:
        return next(self._ports)

    def new_name(self) -> str:
        return f"{self.node}-{next(self._names)}"

    def failures(self, channel: str) -> FailureLog:
        return self._failures.setdefault(channel, FailureLog())

    def remember_supplier(self, supplier: Supplier) -> Supplier:
        self._suppliers[id(supplier)] = supplier
        return supplier

    def forget_supplier(self, supplier: Supplier) -> None:
        self._suppliers.pop(id(supplier), None)

    def remember_subscription(self, subscription: Subscription) -> Subscription:
        self._subscriptions[id(subscription)] = subscription
        return subscription

    def forget_subscription(self, subscription: Subscription) -> None:
        self._subscriptions.pop(id(subscription), None)

    def _on_failures(self, report: FailuresReported) -> None:
        self.failures(report.channel).add(report.count, report.samples)

    def _quietly(self, action: Callable[[], None]) -> Exception | None:
        """Closing goes on when something fails; the log says so."""
        try:
            action()
        except (Closed, Unreachable, DeadlineExceeded) as error:
            log.info("while closing %r: %s", self.node, error)
            return error
        except ActiveBrokerError as error:
            log.warning("while closing %r: %s", self.node, error)
            return error
        except Exception as error:  # noqa: BLE001 - a callback's, which was logged
            return error
        return None


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def connect(
    address: str,
    key: str | None = None,
    *,
    name: str | None = None,
    listen: bool = True,
    lease: float = LEASE,
) -> Fabric:
    """Join a running fabric at `tcp://host:port`, the address of any of its brokers.

    `key` is the fabric's key; on this machine the user's own key file serves without one.
    `name` is this process's name in the fabric. `listen=False` where others cannot dial this
    process (a device behind a NAT): it then dials them. `lease`: seconds that a channel derived
    here lives when this process is gone and nobody takes it.
    Raises Unreachable, AccessDenied, NameTaken.
    """
    return Fabric(host=JoinedHost(address, key, name=name, listen=listen), lease=lease)

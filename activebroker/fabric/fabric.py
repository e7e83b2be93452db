"""The fabric: the connected brokers and processes that a program uses."""

from __future__ import annotations

import atexit
import itertools
import logging
import secrets
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from activebroker.balancing.splitting import split_moves
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
from activebroker.fabric.program import Program
from activebroker.fabric.rejoining import Rejoining
from activebroker.fabric.subscription import Subscription
from activebroker.fabric.supplier import Supplier
from activebroker.filters import Envelope
from activebroker.protocol.messages import (
    CallBody,
    CloseChannel,
    Derive,
    FailuresReported,
    Modulate,
    Move,
    Offload,
    OpenChannel,
    TellStory,
)
from activebroker.protocol.messages import ReportStatus as AskStatus
from activebroker.runtime import EventQueue, PublishBuffer, Runtime, Succession
from derivation.balance import Balance, Policy
from predicate_extract import Extraction

log = logging.getLogger(__name__)
T = TypeVar("T")
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
        self,
        brokers: Iterable[str] = (),
        *,
        host: Host | None = None,
        lease: float = LEASE,
        reconnect: bool = False,
    ) -> None:
        self.lease = lease
        self._host: Host = host or EmbeddedHost(brokers)
        self._failures: dict[str, FailureLog] = {}
        self._program = Program()
        self._balancings: list[Balancing] = []
        self._ports = itertools.count(secrets.randbits(60))
        self._names = itertools.count(1)
        self._closed = False
        self._rejoining: Rejoining | None = None
        try:
            if reconnect:
                self._rejoining = Rejoining(self._program, self._join, self._use)
            else:
                self._use(self._join())
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
        the channel must exist. Processes may have several versions of a class, where all fields
        that they do not share have defaults: events come with the reader's fields. Raises
        UnknownChannel, ChannelTypeConflict, EventTypeError, Closed.
        """
        event_type: EventType | None = None
        if type is not None:
            event_type = type_of(type)
            self.register(event_type)
        opening = OpenChannel(name, None if event_type is None else describe(event_type))

        def open_channel() -> Channel:
            channel = self.channel_of(self.request(opening))
            if event_type is not None and event_type != channel.type:
                channel.type = event_type  # another version of it
            self._program.opened(opening)
            return channel

        return self.steadily(open_channel)

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
        if self._rejoining is not None:
            self._rejoining.close(time_left(CLOSING) / 2)
        time_here = time_left(CLOSING)
        try:
            with within(time_here * 0.2):
                for each in (*self._balancings, *self._program.subscriptions.values()):
                    failure = self._quietly(each.close)
                    if failure is not None and not isinstance(failure, ActiveBrokerError):
                        failures.append(failure)
            suppliers = list(self._program.suppliers.values())
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
        return self.steadily(lambda: self._request(body, patience), time_left(patience))

    def _request(self, body: CallBody, patience: float) -> Any:
        if self._closed:
            raise Closed("The fabric was closed.")
        for field in NAMES:
            if field in body.__struct_fields__:
                name = getattr(body, field)
                if name is not None or field != "name" or isinstance(body, OpenChannel):
                    check_text(name, field)
        return self._runtime.request(body, time_left(patience))

    def derive_channel(self, body: Derive) -> Any:
        def derive() -> Any:
            info = self.request(body)
            self._program.derived(_known(info).name, body)
            return info

        return self.steadily(derive)

    def derive_elsewhere(self, body: Move | Offload) -> None:
        """Carry out a third-party derivation, of which each phase has its patience."""
        with self.steady():  # not anew: it may have been carried out
            self._request(body, 2 * body.patience + BLAME)

    def move(self, channel: str, to: str, timeout: float) -> None:
        self.derive_elsewhere(Move(channel, to, self.node, timeout))
        self._program.changed(channel, at=to)

    def modulate(self, channel: str, envelope: Envelope, timeout: float) -> None:
        body = Modulate(channel, envelope, self.node, timeout)
        with self.steady():
            self._request(body, timeout + PATIENCE)
        self._program.changed(channel, envelope=envelope)

    def register(self, type: EventType) -> None:
        """Let events of this type come as instances of its class."""
        self._runtime.registry.register(type)

    def tell(self, body: CallBody) -> None:
        self._runtime.tell(body)

    def channel_of(self, info: Any, extraction: Extraction | None = None) -> Channel:
        known = _known(info)
        self._program.knows(known.name, known.parent)
        type_ = self._runtime.registry.resolve(known.type)
        return Channel(self, known.name, type_, known.parent, extraction)

    def close_channel(self, body: CloseChannel) -> None:
        feeding = list(self._program.above(body.name))
        for supplier in list(self._program.suppliers.values()):
            if supplier.channel in feeding:
                supplier.flush()
        self.request(body)
        self._program.closed(body.name)

    def publish_to(self, outlet: int, buffer: PublishBuffer) -> None:
        self._runtime.publish_to(outlet, buffer)

    def open_port(self, port: int, queue: EventQueue) -> None:
        self._runtime.open_port(port, queue)

    def close_port(self, port: int) -> None:
        self._runtime.close_port(port)

    def new_port(self) -> int:
        return next(self._ports)

    def new_name(self) -> str:
        return f"{self.node}-{next(self._names)}"

    def failures(self, channel: str) -> FailureLog:
        return self._failures.setdefault(channel, FailureLog())

    def remember_supplier(self, supplier: Supplier) -> Supplier:
        self._program.suppliers[id(supplier)] = supplier
        return supplier

    def forget_supplier(self, supplier: Supplier) -> None:
        self._program.suppliers.pop(id(supplier), None)

    def remember_subscription(self, subscription: Subscription) -> Subscription:
        self._program.subscriptions[id(subscription)] = subscription
        return subscription

    def forget_subscription(self, subscription: Subscription) -> None:
        self._program.subscriptions.pop(id(subscription), None)

    # --- another node (see `rejoining`) -------------------------------------------------------

    def steady(self, patience: float = PATIENCE) -> AbstractContextManager[None]:
        """This process has one and the same node within the block."""
        return nullcontext() if self._rejoining is None else self._rejoining.steady(patience)

    def wait_complete(self, patience: float) -> None:
        """Wait for those who are on their way back into the fabric, and were served from here."""
        if self._rejoining is not None:
            self._runtime.wait_complete(time_left(patience))

    def steadily(self, operation: Callable[[], T], patience: float = PATIENCE) -> T:
        """The same for an operation, which begins anew on another node."""
        if self._rejoining is None:
            return operation()
        return self._rejoining.steadily(operation, patience)

    def _join(self, succession: Succession | None = None) -> Runtime:
        return self._host.open(self._on_failures, succession)

    def _use(self, runtime: Runtime) -> None:
        self._runtime = runtime

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


def _known(info: Any) -> ChannelInfo:
    return msgspec.convert(info, ChannelInfo, from_attributes=True)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def connect(
    address: str,
    key: str | None = None,
    *,
    name: str | None = None,
    listen: bool = True,
    lease: float = LEASE,
    reconnect: bool = True,
) -> Fabric:
    """Join a running fabric at `tcp://host:port`, the address of any of its brokers.

    `key` is the fabric's key; on this machine the user's own key file serves without one.
    `name` is this process's name in the fabric. `listen=False` where others cannot dial this
    process (a device behind a NAT): it then dials them. `lease`: seconds that a channel derived
    here lives when this process is gone and nobody takes it.

    `reconnect`: when the fabric is lost (its broker restarts, the network is cut, the machine
    sleeps), it is joined again as soon as that can be; until then publishing and iterating wait.
    Suppliers, subscriptions and derivations go on, filters with a new state. Without it they raise
    Unreachable.
    Raises Unreachable, AccessDenied, NameTaken.
    """
    host = JoinedHost(address, key, name=name, listen=listen)
    return Fabric(host=host, lease=lease, reconnect=reconnect)

"""A process's membership of a fabric: its node, and the requests of the user's objects."""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, TypeVar

from activebroker.core.errors import (
    ActiveBrokerError,
    Closed,
    DeadlineExceeded,
    MoveFailed,
    UnknownPlace,
    Unreachable,
    check_text,
)
from activebroker.directory.parts import SPARK
from activebroker.events import EventType
from activebroker.fabric.closing import (
    CLOSING,
    Closing,
    Publishing,
    deadline,
    time_left,
    within,
)
from activebroker.fabric.failures import FailureLog
from activebroker.fabric.hosting import Host, leave
from activebroker.fabric.program import Program
from activebroker.fabric.rejoining import Rejoining
from activebroker.fabric.spark_brokers import SparkPlaces
from activebroker.filters import Envelope
from activebroker.protocol.messages import CallBody, FailuresReported
from activebroker.protocol.requests import (
    CloseChannel,
    Derive,
    Dismiss,
    Move,
    Offload,
    OpenChannel,
    Reconfigure,
    ReportStatus,
)
from activebroker.protocol.specs import ChannelInfo
from activebroker.protocol.status import Status
from activebroker.runtime import EventQueue, PublishBuffer, Runtime, Succession
from activebroker.spark import SparkPlace

log = logging.getLogger(__name__)
T = TypeVar("T")
C = TypeVar("C", bound=Closing)
NAMES = ("name", "channel", "supplier", "at", "to")  # fields of requests with names from users
PATIENCE = 60.0  # seconds for the directory to answer: a move may come first
BLAME = 5.0  # seconds more, for the directory to find out which processes hold up a move
PUBLISHING = 60.0  # seconds that a publisher waits for slow consumers


class Described(NamedTuple):
    """A `ChannelInfo` with the type as this process has it."""

    name: str
    type: EventType
    parent: str | None


class Membership:
    """Knows what this process has in the fabric, and makes it there again after joining again.

    The user's fabric, channels, suppliers and subscriptions share one membership.
    """

    def __init__(self, host: Host, lease: float, reconnect: bool) -> None:
        self.lease = lease
        self._host = host
        self._failures: dict[str, FailureLog] = {}
        self._program = Program()
        self._open: dict[int, Closing] = {}
        self._inlets = itertools.count(secrets.randbits(60))
        self._names = itertools.count(1)
        self._spark = SparkPlaces(self, host)
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

    @property
    def node(self) -> str:
        """The name of this process in the fabric."""
        return self._runtime.name

    @property
    def address(self) -> str | None:
        """The address for `connect(address, key)`; None for an embedded fabric."""
        return self._host.address

    def status(self, timeout: float = PATIENCE) -> Status:
        status: Status = self.request(ReportStatus(), timeout)
        return status

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

    def tell(self, body: CallBody) -> None:
        self._runtime.tell(body)

    # --- channels -----------------------------------------------------------------------------

    def place(self, at: str | SparkPlace) -> str:
        """The name of a place. On Spark that is a broker in a task, or "spark" with a job for each
        micro-batch. Raises as `SparkPlaces.broker` does."""
        place = SparkPlace() if at == SPARK else at
        return self._spark.broker(place) or SPARK if isinstance(place, SparkPlace) else place

    def at_place(self, at: str | SparkPlace, ask: Callable[[str], T]) -> T:
        """Ask for something at a place, by its name. A broker on Spark that was lost before it
        could be asked comes back: it is asked again."""
        until = time.monotonic() + PATIENCE
        while True:
            name = self.place(at)
            if name in (at, SPARK):
                return ask(name)
            broker = self._runtime.member(name)
            try:
                return ask(name)
            except (UnknownPlace, Unreachable, MoveFailed):
                if self._runtime.member(name) == broker or time.monotonic() > until:
                    raise

    def is_member(self, name: str) -> bool:
        return self._runtime.member(name) is not None

    def stop_broker(self, name: str) -> None:
        """See `Fabric.stop_broker`."""
        if self.address is None:
            raise UnknownPlace("The brokers of an embedded fabric end with it, not one by one.")
        self.request(Dismiss(name))
        end = time.monotonic() + CLOSING
        while self.is_member(name):
            if time.monotonic() > end:
                raise DeadlineExceeded(f"Broker {name!r} has not left within {CLOSING:g} s.")
            time.sleep(0.01)

    def open_channel(self, body: OpenChannel) -> Described:
        def open_channel() -> Described:
            described = self._described(self.request(body))
            self._program.opened(body)
            return described

        return self.steadily(open_channel)

    def derive_channel(self, body: Derive) -> Described:
        def derive() -> Described:
            described = self._described(self.request(body))
            self._program.derived(described.name, body)
            return described

        return self.steadily(derive)

    def _described(self, info: ChannelInfo) -> Described:
        self._program.knows(info.name, info.parent)
        return Described(info.name, self._runtime.registry.resolve(info.type), info.parent)

    def derive_elsewhere(self, body: Move | Offload) -> None:
        """Ask for a move or an offload; each of its two phases may take the request's patience."""
        with self.steady():  # not repeated on another node: it may have been carried out
            self._request(body, 2 * body.patience + BLAME)

    def move(self, channel: str, to: str, timeout: float) -> None:
        self.derive_elsewhere(Move(channel, to, self.node, timeout))
        self._program.changed(channel, at=to)

    def reconfigure(self, channel: str, envelope: Envelope, timeout: float) -> None:
        body = Reconfigure(channel, envelope, self.node, timeout)
        with self.steady():
            self._request(body, timeout + PATIENCE)
        self._program.changed(channel, envelope=envelope)

    def register(self, type: EventType) -> None:
        """Let events of this type come as instances of its class."""
        self._runtime.registry.register(type)

    def failures(self, channel: str) -> FailureLog:
        return self._failures.setdefault(channel, FailureLog())

    def close_channel(self, body: CloseChannel) -> None:
        feeding = list(self._program.above(body.name))
        for buffer in list(self._program.suppliers.values()):
            if buffer.channel in feeding:
                self.flush(buffer, PUBLISHING)
        self.request(body)
        self._program.closed(body.name)

    # --- suppliers and subscriptions ----------------------------------------------------------

    def publish_to(self, outlet: int, buffer: PublishBuffer) -> None:
        self._runtime.publish_to(outlet, buffer)
        self._program.suppliers[id(buffer)] = buffer

    def flush(self, buffer: PublishBuffer, patience: float) -> None:
        """Wait until what was published is on its way, also to subscribers that are about to come
        back into the fabric."""
        buffer.flush(patience, deadline())
        if self._rejoining is not None:
            self._runtime.wait_complete(time_left(patience))

    def sync(self, buffer: PublishBuffer, patience: float) -> None:
        """Wait until what was published is acknowledged."""
        end = time.monotonic() + patience

        def left() -> float:
            return max(0.0, end - time.monotonic())

        def sync() -> bool:
            if not buffer.empty:  # another node has to take some of it once more
                return False
            self._runtime.sync(buffer, left())
            return True

        while True:
            self.flush(buffer, left())
            if self.steadily(sync, left()):
                return

    def publish_no_more(self, buffer: PublishBuffer) -> None:
        self._program.suppliers.pop(id(buffer), None)

    def open_inlet(self, inlet: int, queue: EventQueue) -> None:
        self._runtime.open_inlet(inlet, queue)
        self._program.subscriptions[inlet] = queue

    def close_inlet(self, inlet: int) -> None:
        self._program.subscriptions.pop(inlet, None)
        self._runtime.close_inlet(inlet)

    def new_inlet(self) -> int:
        return next(self._inlets)

    def new_name(self) -> str:
        return f"{self.node}-{next(self._names)}"

    def remember(self, each: C) -> C:
        """Close this object with the fabric."""
        self._open[id(each)] = each
        return each

    def forget(self, each: Closing) -> None:
        self._open.pop(id(each), None)

    # --- the end ------------------------------------------------------------------------------

    def close(self, first: Iterable[Closing]) -> None:
        """Deliver what was published, then end all threads, sockets and processes of this fabric;
        see `Fabric.close`. `first` is closed before all that users have opened."""
        if self._closed:
            return
        if self._runtime.disowned:  # it belongs to the process that this one was forked from
            self._closed = True
            return
        failures: list[Exception] = []
        if self._rejoining is not None:
            self._rejoining.close(time_left(CLOSING) / 2)
        time_here = time_left(CLOSING)
        try:
            with within(time_here * 0.2):
                for each in (*first, *self._open.values()):
                    if isinstance(each, Publishing):
                        continue  # later, when consumers have taken what was published
                    failure = self._quietly(each.close)
                    if failure is not None and not isinstance(failure, ActiveBrokerError):
                        failures.append(failure)
            suppliers = [each for each in list(self._open.values()) if isinstance(each, Publishing)]
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
                self._spark.close()
                self._quietly(lambda: leave(self._runtime, time_left(CLOSING)))
        finally:
            self._closed = True
            self._runtime.stop()
            self._host.close()
        if failures:
            raise failures[0]

    def _quietly(self, action: Callable[[], None]) -> Exception | None:
        """Do a part of closing. If it fails, log and return the error, so that closing goes on."""
        try:
            action()
        except (Closed, Unreachable, DeadlineExceeded) as error:
            log.info("while closing %r: %s", self.node, error)
            return error
        except ActiveBrokerError as error:
            log.warning("while closing %r: %s", self.node, error)
            return error
        except Exception as error:  # noqa: BLE001 - from a callback, and logged there
            return error
        return None

    # --- another node (see `rejoining`) -------------------------------------------------------

    def steady(self, patience: float = PATIENCE) -> AbstractContextManager[None]:
        """This process has the same node throughout the block."""
        return nullcontext() if self._rejoining is None else self._rejoining.steady(patience)

    def steadily(self, operation: Callable[[], T], patience: float = PATIENCE) -> T:
        """Do an operation on one node; it begins anew if the process gets another node."""
        if self._rejoining is None:
            return operation()
        return self._rejoining.steadily(operation, patience)

    def _join(self, succession: Succession | None = None) -> Runtime:
        return self._host.open(self._on_failures, succession)

    def _use(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def _on_failures(self, report: FailuresReported) -> None:
        self.failures(report.channel).add(report.count, report.samples)

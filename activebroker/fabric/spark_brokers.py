"""Brokers in the tasks of a Spark application.

Each broker is the one task of a job, which runs as long as the broker does. When its task, executor
or Java process is lost, the job is run again, and the broker comes back under its name. Filters
that were there go on at another place meanwhile, as with any broker.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from activebroker.core.errors import ActiveBrokerError, Closed, SparkUnavailable, Unreachable
from activebroker.fabric.closing import time_left
from activebroker.fabric.hosting import Host, local_host, serve, step_down
from activebroker.protocol.requests import Dismiss
from activebroker.spark.executors import check
from activebroker.spark.gateway import await_end, ended, is_alive, is_remote
from activebroker.spark.job import reason
from activebroker.spark.place import SparkPlace
from activebroker.spark.session import session

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
START = 60.0  # seconds for Spark to start a task, and for its broker to join
LOOK_UP = 0.1  # seconds, at most, until a broker sees that it has to end
STOP = 5.0  # seconds for a broker to end by itself
FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0  # seconds between jobs that fail; each is twice the one before
LASTING = 60.0  # seconds after which a job that fails is none of these


@dataclass(frozen=True)
class Invitation:
    """What a broker needs to join a fabric.

    It goes to Spark's executors as a broadcast: as a part of a task it could be seen in a log.
    """

    name: str
    address: str
    key: str = field(repr=False)


class Joined(Protocol):
    """What brokers on Spark need of the process that starts them."""

    @property
    def node(self) -> str: ...

    def is_member(self, name: str) -> bool: ...

    def tell(self, body: Dismiss) -> None: ...


class SparkPlaces:
    """The places on Spark that a process uses, each with its brokers, until `close`."""

    def __init__(self, joined: Joined, host: Host) -> None:
        self._joined = joined
        self._host = host
        self._lock = threading.Lock()
        self._names = itertools.count(1)
        self._places: dict[SparkPlace, _Place] = {}
        self._closed = False

    def broker(self, place: SparkPlace) -> str | None:
        """The name of a broker at this place, which is started if there is none yet. None where
        tasks cannot join the fabric.

        Raises SparkUnavailable where Spark does not run brokers, Closed, and the errors of `serve`
        and of `activebroker.spark.session`.
        """
        address, key = self._host.address, self._host.key
        if address is None or key is None:
            return None  # an embedded fabric

        def invite() -> Invitation:
            return Invitation(f"{self._joined.node}-spark-{next(self._names)}", address, key)

        with self._lock:
            if self._closed:
                raise _closed()
            found = self._places.setdefault(place, _Place(place, invite, self._joined))
        return found.broker()

    def close(self) -> None:
        """Let all brokers leave the fabric, and end their jobs."""
        with self._lock:
            self._closed = True
        _end([broker for place in self._places.values() for broker in place.close()], self._joined)


class _Place:
    """The brokers of a place, which are started for its first filter."""

    def __init__(self, place: SparkPlace, invite: Callable[[], Invitation], joined: Joined) -> None:
        self._place = place
        self._invite = invite
        self._joined = joined
        self._lock = threading.Lock()  # whoever waits for it needs what its holder starts
        self._brokers: deque[_Broker] = deque()  # the next one in turn is the first
        self._can_join = True
        self._closing = threading.Event()

    def broker(self) -> str | None:
        """See `SparkPlaces.broker`."""
        with self._lock:
            while self._can_join:
                if self._closing.is_set():
                    raise _closed()
                if (name := self._next()) is not None:
                    return name
                self._start()
        return None

    def close(self) -> list[_Broker]:
        """Start no brokers any more. Return those that there are; those that are being started are
        ended by whoever starts them."""
        self._closing.set()
        if not self._lock.acquire(timeout=time_left(STOP)):
            return []
        self._lock.release()
        return list(self._brokers)

    def _next(self) -> str | None:
        """The name of the broker for the next filter: they take turns, as far as they are there. If
        none is, wait for one to come back; None if none will."""
        until = time.monotonic() + START
        while left := [each for each in self._brokers if each.failure is None]:
            for each in left:
                if self._joined.is_member(each.name):
                    self._brokers.remove(each)
                    self._brokers.append(each)
                    return each.name
            self._wait(left[0], until)
        return None

    def _start(self) -> None:
        started: list[_Broker] = []
        try:
            spark = self._place.session
            if spark is None or not is_alive(spark):
                spark = session()
            _check(spark, self._place.tasks)
            started = [_Broker(self._invite(), spark) for _ in range(self._place.tasks)]
            until = time.monotonic() + START
            for each in started:
                while not self._joined.is_member(each.name):
                    if each.failure is not None:
                        raise each.failure
                    self._wait(each, until)
                each.has_served = True
        except BaseException as error:
            _end(started, self._joined)
            if not isinstance(error, Unreachable):
                raise
            self._can_join = False
            log.warning(
                "filters on Spark run in a job for each micro-batch, since tasks cannot join the "
                "fabric: %s",
                error,
            )
        else:
            self._brokers = deque(started)

    def _wait(self, broker: _Broker, until: float) -> None:
        if self._closing.wait(LOOK_UP / 10):
            raise _closed()
        if time.monotonic() > until:
            raise SparkUnavailable(
                f"Spark has not started a task for broker {broker.name!r} within {START:g} s: "
                "other jobs may have all slots of the application. Try again later, or with fewer "
                "`tasks`."
            )


def _end(brokers: list[_Broker], joined: Joined) -> None:
    """Let brokers leave the fabric; cancel the jobs of those that do not."""
    for each in brokers:
        each.closing.set()
        if joined.is_member(each.name):
            joined.tell(Dismiss(each.name))
    _await(brokers)
    for each in brokers:
        each.cancel()
    _await(brokers)


def _await(brokers: list[_Broker]) -> None:
    until = time.monotonic() + time_left(STOP)
    for each in brokers:
        each.join(max(0.0, until - time.monotonic()))


def _closed() -> Closed:
    return Closed("The fabric was closed.")


class _Broker:
    """One broker, kept by a thread."""

    def __init__(self, invitation: Invitation, spark: SparkSession) -> None:
        self.name = invitation.name
        self.failure: ActiveBrokerError | None = None  # why it does not run, and will not
        self.has_served = False
        self.closing = threading.Event()
        self._invitation = invitation
        self._spark = spark
        self._context: SparkContext | None = None
        self._group = f"activebroker {secrets.token_hex(8)}"
        self._thread = threading.Thread(
            target=self._keep, name=f"activebroker {self.name}", daemon=True
        )
        self._thread.start()

    def join(self, patience: float) -> None:
        """Wait until nothing of it runs any more."""
        self._thread.join(patience)

    def cancel(self) -> None:
        """Cancel its job, if that runs."""
        context = self._context
        if self._thread.is_alive() and context is not None and is_alive(self._spark):
            log.warning(
                "broker %r on Spark does not end by itself: its job is cancelled", self.name
            )
            context.cancelJobGroup(self._group)

    def _keep(self) -> None:
        wait = FIRST_WAIT
        while True:
            began = time.monotonic()
            error = self._run()
            if self.closing.is_set():
                return
            if error is None or not self.has_served:
                self.failure = error or Closed(f"Broker {self.name!r} was stopped.")
                return
            if self._was_stopped():
                log.warning("broker %r ends: its Spark session was stopped", self.name)
                self.failure = error
                return
            wait = FIRST_WAIT if time.monotonic() - began > LASTING else min(2 * wait, LONGEST_WAIT)
            log.warning("broker %r on Spark has ended, and is started again: %s", self.name, error)
            if self.closing.wait(wait):
                return

    def _run(self) -> ActiveBrokerError | None:
        """Run the broker until it ends. Return why it has; None if it was asked to leave."""
        try:
            if not is_alive(self._spark):
                self._spark = session()
            self._context = context = self._spark.sparkContext
            # For this thread: jobs of others are not cancelled with this one.
            context.setJobGroup(self._group, f"broker {self.name!r}", interruptOnCancel=True)
            invitation = context.broadcast(self._invitation)
            try:
                task = partial(_host, invitation)
                error: ActiveBrokerError | None
                [error] = context.parallelize([self.has_served], 1).map(task).collect()
                return error
            finally:
                if is_alive(self._spark):
                    invitation.destroy()
        except ActiveBrokerError as error:
            return error
        except Exception as error:  # noqa: BLE001 - of Spark, or of the connection to it
            return SparkUnavailable(f"Spark could not run a broker: {reason(error)}")

    def _was_stopped(self) -> bool:
        """Whether the program has stopped the session. (One that was lost is replaced.)"""
        if is_alive(self._spark):
            return False
        await_end()  # jobs fail before `stop` is done
        return ended() is None and self._spark.sparkContext._jsc is None


def _host(invitation: Broadcast[Invitation], again: bool) -> ActiveBrokerError | None:
    """In a task: run a broker until it is asked to leave; or return why it is in no fabric."""
    from pyspark import TaskContext

    name, address, key = (getattr(invitation.value, each) for each in ("name", "address", "key"))
    listen = f"tcp://{local_host(address)}:*"
    context = TaskContext.get()
    again = again or (context is not None and context.attemptNumber() > 0)
    try:
        node = serve(name, listen, key, join_address=address, again=again)
    except ActiveBrokerError as error:
        return error
    parent = os.getppid()
    try:
        while not node.dismissed:
            time.sleep(LOOK_UP)
            if os.getppid() != parent:
                os._exit(1)  # Spark is gone, and nobody would end this process
            if node.orphaned:
                return Unreachable(node.orphaned)
            if node.failure is not None:
                return Unreachable(f"Its node has failed: {node.failure!r}")
        step_down(node, STOP)
        return None
    except ActiveBrokerError as error:
        return error
    finally:
        node.stop()


def _check(spark: SparkSession, tasks: int) -> None:
    if is_remote(spark):
        raise Unreachable("Spark Connect has no way to hand a broker the fabric's key in secret.")
    check(spark)
    context = spark.sparkContext
    slots = context.defaultParallelism
    if not re.fullmatch(r"local(\[.*\])?", context.master):
        return  # executors may still come
    if tasks > slots:
        raise SparkUnavailable(
            f"{tasks} brokers need as many slots, and Spark has {slots} at {context.master!r}."
        )
    if tasks == slots:
        log.warning(
            "brokers take all %d slots of Spark at %r: its other jobs wait until the fabric is "
            "closed",
            slots,
            context.master,
        )

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

    def request(self, body: Dismiss, patience: float) -> object: ...


class SparkPlaces:
    """The places on Spark that a process uses, each with its brokers, until `close`."""

    def __init__(self, joined: Joined, host: Host) -> None:
        self._joined = joined
        self._host = host
        self._lock = threading.Lock()
        self._names = itertools.count(1)
        self._brokers: dict[SparkPlace, _Brokers | None] = {}  # None: its tasks cannot join

    def broker(self, place: SparkPlace) -> str | None:
        """The name of a broker at this place, which is started if there is none yet. None where
        tasks cannot join the fabric.

        Raises SparkUnavailable where Spark does not run brokers, and the errors of `serve` and of
        `activebroker.spark.session`.
        """
        with self._lock:
            if place not in self._brokers:
                self._brokers[place] = self._start(place)
            if (brokers := self._brokers[place]) is None:
                return None
            if (name := brokers.next()) is None:  # all were stopped
                brokers = self._brokers[place] = self._start(place)
                name = None if brokers is None else brokers.next()
            return name

    def _start(self, place: SparkPlace) -> _Brokers | None:
        address, key = self._host.address, self._host.key
        if address is None or key is None:
            return None  # an embedded fabric
        names = [f"{self._joined.node}-spark-{next(self._names)}" for _ in range(place.tasks)]
        try:
            invitations = [Invitation(name, address, key) for name in names]
            return _Brokers(place, invitations, self._joined)
        except Unreachable as error:
            log.warning(
                "filters on Spark run in a job for each micro-batch, since tasks cannot join the "
                "fabric at %s: %s",
                *(address, error),
            )
            return None

    def close(self) -> None:
        for brokers in self._brokers.values():
            if brokers is not None:
                brokers.close()


class _Brokers:
    """The brokers of a place. They run until `close`."""

    def __init__(self, place: SparkPlace, invitations: list[Invitation], joined: Joined) -> None:
        self._joined = joined
        spark = session() if place.session is None else place.session
        _check(spark, place.tasks)
        self._brokers = [_Broker(each, spark) for each in invitations]
        self._turns = itertools.cycle(self._brokers)
        try:
            for each in self._brokers:
                if not self._is_there(each):
                    raise each.failure or Unreachable(f"{each.name!r} has ended.")
                each.has_served = True
        except BaseException:
            self.close()
            raise

    def next(self) -> str | None:
        """The name of the broker for the next filter: they take turns. None if all were stopped."""
        turn = itertools.islice(self._turns, len(self._brokers))
        return next((each.name for each in turn if self._is_there(each)), None)

    def close(self) -> None:
        """Let the brokers leave the fabric, and end their jobs."""
        for each in self._brokers:
            each.closing.set()
        for each in self._brokers:
            if each.runs and self._joined.is_member(each.name):
                try:
                    self._joined.request(Dismiss(each.name), time_left(STOP))
                except ActiveBrokerError as error:
                    log.info("broker %r on Spark was not told to leave: %s", each.name, error)
        for each in self._brokers:
            each.end(time_left(STOP))

    def _is_there(self, broker: _Broker) -> bool:
        """Wait until a broker has joined, for the first time or again; False if it will not."""
        until = time.monotonic() + START
        while not self._joined.is_member(broker.name):
            if broker.failure is not None:
                return False
            if time.monotonic() > until:
                raise SparkUnavailable(
                    f"Spark has not started a task for broker {broker.name!r} within {START:g} s: "
                    "other jobs may have all slots of the application. Try again later, or with "
                    "fewer `tasks`."
                )
            time.sleep(LOOK_UP / 10)
        return True


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

    @property
    def runs(self) -> bool:
        return self._thread.is_alive()

    def end(self, patience: float) -> None:
        """Wait for the job's end; then end it."""
        self._thread.join(patience)
        context = self._context
        if self.runs and context is not None and is_alive(self._spark):
            log.warning(
                "broker %r on Spark does not end by itself: its job is cancelled", self.name
            )
            context.cancelJobGroup(self._group)
            self._thread.join(STOP)

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

"""A stage's filter on Spark: one job for each micro-batch."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from activebroker.core.errors import ActiveBrokerError, SparkUnavailable
from activebroker.events import ANY, Batch, EventType, TypeRegistry, describe, load
from activebroker.filters import (
    SHARED,
    Envelope,
    Failure,
    FIFOFilter,
    FilterRunner,
    Payload,
    RunResult,
    make_runner,
)
from activebroker.matching import parse
from activebroker.spark.executors import check
from activebroker.spark.gateway import ended, is_alive, is_remote
from activebroker.spark.job import (
    RESULT,
    Forwarded,
    Job,
    Late,
    Lost,
    Message,
    State,
    Stopped,
    reason,
)
from activebroker.spark.rows import TASK, Layout
from activebroker.spark.session import require, session

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

log = logging.getLogger(__name__)
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
SESSIONS = 3  # that one job may lose
ALONE = 60.0  # seconds that a job waits for others that are run again
TRIGGER = "spark.activebroker.trigger"  # a session's setting: the time between the starts of jobs
LONGEST = 5.0  # seconds of it; closing a fabric waits only twice as long for events
_again = threading.Lock()
_HOOKS = ("on_start", "on_end", "on_idle")


class SparkRunner:
    """Runs a filter on Spark, with the same results as `FilterRunner` has here.

    The predicate is a native Column before the Python part. A filter that keeps nothing between
    events runs on all cores at once. Otherwise each stream has one task a job, and its instance's
    state is kept here between the jobs; the hooks at the end of a stream, and for idleness, run
    here.

    Making one raises MissingExtra or JavaNotFound where Spark cannot run. The session is started by
    the first events, if there is none, and again when it is lost.
    """

    def __init__(self, payload: Payload, envelope: Envelope, *, channel: str, key: bytes) -> None:
        self._payload = payload
        self._envelope = envelope
        self._channel = channel
        self._key = key
        self._registry = TypeRegistry()
        self._registry.register(payload.input)
        self._registry.register(payload.output)
        self._states: dict[str, bytes] = {}
        self._keyed = envelope.stateful or envelope.shared or has_hooks(payload.cls)
        self._spark: SparkSession | None = None
        self._began = -LONGEST  # when the last job has started
        require()

    def run(self, items: Sequence[Batch | str]) -> RunResult:
        """Take items in order: a batch, or the name of a supplier whose stream has ended."""
        result = RunResult()
        batches: list[Batch] = []
        for item in items:
            if isinstance(item, Batch):
                if item.num_rows:
                    batches.append(self._payload.own(item))
            elif self._keyed and not self._envelope.shared:
                self._run(batches, result)
                batches = []
                if not result.stopped and item in self._states:
                    _extend(result, self._here([item]).run([item]))
                    del self._states[item]
        self._run(batches, result)
        return result

    def idle(self) -> RunResult:
        """Run `on_idle` of every instance."""
        if not self._states:
            return RunResult()
        runner = self._here(self._states)
        result = runner.idle()
        self._states = runner.snapshot()
        return result

    def end_all(self) -> RunResult:
        """All streams have ended: run `on_end` and drop the states."""
        result = self._here(self._states).end_all()
        self._states.clear()
        return result

    def snapshot(self) -> dict[str, bytes]:
        """The state of every instance, by stream."""
        return dict(self._states)

    def restore(self, states: dict[str, bytes]) -> None:
        """Take over states from another place, where `on_start` ran."""
        if self._keyed:
            self._states.update(states)

    def reconfigure(self, payload: Payload, envelope: Envelope) -> None:
        """Give all instances, and those that are made later, the parameters of another payload."""
        runner = self._here(self._states)
        runner.reconfigure(payload, envelope)
        self._states = runner.snapshot()
        self._payload, self._envelope = payload, envelope
        self._spark = None  # with the Column of the old predicate

    def close(self) -> None:
        """Drop the states. The session goes on: others may use it."""
        self._states.clear()

    def _session(self) -> SparkSession:
        if self._spark is None or ended() is not None:
            self._spark = spark = session()
            check(spark)
            self._parallelism = _parallelism(spark)
            self._trigger = _trigger(spark)
            self._column = _column(self._envelope, self._payload.input)
        return self._spark

    def _here(self, streams: Any) -> FilterRunner:
        """Instances of some streams in this process."""
        runner = make_runner(self._payload, self._envelope, self._channel)
        runner.restore({stream: self._states[stream] for stream in streams})
        return runner

    def _run(self, batches: list[Batch], result: RunResult) -> None:
        if not batches or result.stopped:
            return
        try:
            table = self._run_job(batches)
        except Exception as error:  # noqa: BLE001 - whatever it was, these events are lost
            self._lose(batches, error, result)
        else:
            self._collect(table, result)

    def _run_job(self, batches: list[Batch]) -> pa.Table:
        """Run a job; again, on a new session, if its session was lost.

        Nothing has come of such a job: its events and states are still here.
        """
        with ExitStack() as stack:
            for attempt in range(SESSIONS):
                try:
                    spark = self._session()
                    self._wait_for_turn()
                    return self._submit(spark, batches)
                except Exception as error:
                    spark, self._spark = self._spark, None  # asked for again
                    if spark is not None and is_alive(spark):
                        raise
                    cause = error
                if attempt == 0:
                    stack.enter_context(_alone())
        if isinstance(cause, ActiveBrokerError):
            raise cause
        raise SparkUnavailable(
            f"A job has lost {SESSIONS} Spark sessions in a row, and is given up. Does the filter "
            "end the Java process, or need more memory than there is? The last error was "
            f"{type(cause).__name__}: {cause}"
        ) from cause

    def _wait_for_turn(self) -> None:
        """Wait until the next job may start; events that come meanwhile are for the one after."""
        time.sleep(max(0.0, self._began + self._trigger - time.monotonic()))
        self._began = time.monotonic()

    def _submit(self, spark: SparkSession, batches: list[Batch]) -> pa.Table:
        """Run one Spark job."""
        types = {batch.type.fingerprint: batch.type for batch in batches}
        indices = [list(types).index(batch.type.fingerprint) for batch in batches]
        layout = Layout(self._payload.input, list(types.values()))
        streams = dict.fromkeys(self._stream(batch) for batch in batches)
        tasks = min(len(streams), self._parallelism)
        task_of = {stream: number % tasks for number, stream in enumerate(streams)}
        job = Job(
            envelope=self._envelope,
            key=self._key,
            channel=self._channel,
            keyed=self._keyed,
            types=tuple(describe(type) for type in types.values()),
            batches=tuple(zip(indices, (batch.supplier for batch in batches), strict=True)),
            starts=tuple(np.cumsum([0, *(batch.num_rows for batch in batches[:-1])]).tolist()),
            states={s: self._states[s] for s in streams if s in self._states},
        )
        table = layout.table(
            (index, task_of[self._stream(batch)], batch)
            for index, batch in zip(indices, batches, strict=True)
        )
        frame = spark.createDataFrame(table, _struct(layout.schema))
        if self._column is not None and not layout.has_twins:
            frame = frame.filter(self._column)
        if self._keyed:
            frame = frame.coalesce(1) if tasks == 1 else frame.repartitionById(tasks, TASK)
        done: pa.Table = frame.mapInArrow(job.run, _struct(RESULT)).toArrow()
        return done

    def _stream(self, batch: Batch) -> str:
        return SHARED if self._envelope.shared else batch.supplier

    def _collect(self, table: pa.Table, result: RunResult) -> None:
        """Put together what the tasks send back, in the order of the events."""
        rows = table.to_pylist()
        for row in sorted(rows, key=lambda row: (row["batch"], row["row"])):
            match _decoder.decode(row["message"]):
                case State(stream, state):
                    self._states[stream] = state
                case _ if result.stopped:
                    pass  # a task went on after another one had come to the end
                case Forwarded(supplier, type, columns):
                    result.batches.append(load(self._registry.resolve(type), supplier, [columns]))
                case Lost(failure):
                    result.failures.append(failure)
                case Late(count, samples):
                    result.late += count
                    result.late_samples += samples
                case Stopped():
                    result.stopped = True

    def _lose(self, batches: list[Batch], error: Exception, result: RunResult) -> None:
        """The job failed as a whole: none of its events went through the filter."""
        text = str(error)
        summary = f"Spark job failed: {reason(error)}"
        for batch in batches:
            result.failures += [
                Failure(self._channel, self._envelope.name, batch.supplier, seq, summary, text)
                for seq in batch.seqs.tolist()
            ]
        result.stopped = self._envelope.on_error == "stop"


@contextmanager
def _alone() -> Iterator[None]:
    """Wait for others that are run again: one that ends its session each time would end theirs."""
    mine = _again.acquire(timeout=ALONE)
    try:
        yield
    finally:
        if mine:
            _again.release()


def _trigger(spark: SparkSession) -> float:
    """The seconds between the starts of jobs, as the session has them."""
    text = spark.conf.get(TRIGGER, None) or "0s"
    found = re.fullmatch(r"\s*(\d+)\s*(ms|s)\s*", text)
    if found is None:
        log.error(
            "%s: expected a time such as '500ms' or '2s', got %r: jobs start at once", TRIGGER, text
        )
        return 0.0
    return min(LONGEST, int(found[1]) / (1000 if found[2] == "ms" else 1))


def _parallelism(spark: SparkSession) -> int:
    if is_remote(spark):  # it does not tell
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return int(spark.sparkContext.defaultParallelism)


def _extend(result: RunResult, more: RunResult) -> None:
    result.batches += more.batches
    result.failures += more.failures
    result.late += more.late
    result.late_samples += more.late_samples
    result.stopped = more.stopped


def _column(envelope: Envelope, input: EventType) -> Column | None:
    from pyspark.sql import functions

    from predicate_extract.backends.sql import to_sql  # needs the extra

    if input is ANY or (predicate := parse(envelope.predicate)) is None:
        return None
    keep, _ = to_sql(predicate, input.schema, "spark")
    return None if keep is None else functions.expr(keep)


@lru_cache(maxsize=64)
def _struct(schema: pa.Schema) -> Any:
    # Without it, Spark would take naive moments for moments in the session's time zone.
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def has_hooks(cls: type[FIFOFilter]) -> bool:
    """Whether a stream of this filter needs an instance of its own from start to end."""
    return any(getattr(cls, hook) is not getattr(FIFOFilter, hook) for hook in _HOOKS)

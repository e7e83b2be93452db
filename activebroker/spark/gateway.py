"""The Java process under pyspark: whether it lives, and how pyspark forgets a dead one.

pyspark keeps its connection to the process, and what is there, in attributes of its classes. When
the process dies they stay, and no other session can be started until they are gone.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

PATIENCE = 5.0  # seconds for a session, or the process, to end
LONG = 30.0  # seconds for a process that has much to do at its end


def find() -> SparkSession | None:
    """The session that pyspark has, if it can tell."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except (PySparkRuntimeError, Py4JError, ConnectionError):  # none, or without its Java
        return None


def is_remote(session: SparkSession) -> bool:
    """Whether a session is one of Spark Connect: it has no SparkContext here."""
    from pyspark.sql import SparkSession

    return not isinstance(session, SparkSession)


def is_alive(session: SparkSession) -> bool:
    """Whether a session has its Java process, and its SparkContext runs there."""
    from py4j.protocol import Py4JError

    if is_remote(session):
        return not session.is_stopped
    context = session.sparkContext._jsc
    if ended() is not None:
        return False  # not asked: py4j would log an error
    try:
        return context is not None and not context.sc().isStopped()
    except OSError as error:
        # Others are not the session's: there may be no file descriptor left here.
        return not isinstance(error, ConnectionError)
    except Py4JError:
        return False


def await_end() -> None:
    """Wait for a session that another thread is stopping, or whose Java process is dying.

    A thread that stops a session needs the process until pyspark has forgotten the session.
    """
    lost = _kept()
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and ended() is None:
        if not any(old is not None and old is new for old, new in zip(lost, _kept(), strict=True)):
            return
        time.sleep(0.02)


def _kept() -> tuple[object, object]:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    return SparkContext._active_spark_context, SparkSession._instantiatedSession


def ended() -> int | None:
    """The exit code of the Java process if it has ended."""
    process = _process()
    return None if process is None else process.poll()


def _process() -> subprocess.Popen[bytes] | None:
    """The Java process, if pyspark has started one. (It may also have been started by one.)"""
    from pyspark import SparkContext

    found: Any = SparkContext._gateway
    return None if found is None else vars(found).get("proc")  # getattr would ask Java


def end_java() -> None:
    """End the Java process, if it has not ended; pyspark can then start another."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.context import SQLContext

    process, gateway = _process(), SparkContext._gateway
    if gateway is not None and ended() is not None:
        gateway._gateway_client.is_connected = False  # else py4j would tell it of garbage
    with SparkContext._lock:
        if (context := SparkContext._active_spark_context) is not None:
            context._jsc = None  # so that Java is not asked
            context.stop()  # ends a thread
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        SQLContext._instantiatedContext = None
        SparkContext._gateway = SparkContext._jvm = None
    if gateway is not None:
        gateway.shutdown()
    if process is not None:
        assert process.stdin is not None
        process.stdin.close()  # it ends when its input does
        try:
            process.wait(timeout=LONG)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def keep_quiet(context: SparkContext) -> None:
    """Keep pyspark's server of accumulators from printing a traceback when Java is gone."""
    server: Any = context._accumulatorServer
    tell = server.handle_error

    def handle_error(*request: object) -> None:
        if not isinstance(sys.exception(), (EOFError, ConnectionError)):
            tell(*request)

    server.handle_error = handle_error

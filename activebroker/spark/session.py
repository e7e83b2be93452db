"""The Spark session: the program's own if it has one, else a small local one of ours."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from activebroker.core.errors import MissingExtra, with_extra
from activebroker.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_LOGGING = """\
rootLogger.level = error
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""

_lock = threading.Lock()
_ours: _Own | None = None


def session() -> SparkSession:
    """Return the active Spark session, or start one.

    One that we start runs on `SPARK_MASTER`, or the `spark.master` of Spark's configuration file,
    or two local cores; it listens on loopback only, and ends with `stop` or with the program.

    Raises: MissingExtra without pyspark, JavaNotFound without Java.
    """
    global _ours
    _require_pyspark()
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    with _lock:
        try:
            return SparkSession.active()
        except PySparkRuntimeError:  # there is none
            pass
        if _ours is not None:  # somebody else stopped it
            _ours.close()
        _ours = _Own()
        return _ours.session


def stop() -> None:
    """Stop the session that `session` started, if any, and the Java process under it."""
    global _ours
    with _lock:
        if _ours is not None:
            _ours.close()
            _ours = None


atexit.register(stop)


def require() -> None:
    """Raise what `session` would raise where pyspark or Java is missing, without starting it."""
    _require_pyspark()
    from pyspark import SparkContext

    if SparkContext._gateway is None:
        java_home()


def _require_pyspark() -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise MissingExtra(f"Spark is not installed here. {with_extra('spark')}") from None


class _Own:
    """A session that we started, with the Java process and the files that belong to it."""

    def __init__(self) -> None:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        self._had_java = SparkContext._gateway is not None
        self._folder = Path(tempfile.mkdtemp(prefix="activebroker-spark-"))
        (self._folder / "log4j2.properties").write_text(_LOGGING)
        builder = SparkSession.builder.appName("activebroker")
        try:
            with _environment(_variables(self._had_java)):
                for name, value in _settings(self._folder).items():
                    builder = builder.config(name, value)
                self.session: SparkSession = builder.getOrCreate()
        except BaseException:
            self._end_java()
            raise
        log.debug("started Spark %s", self.session.version)

    def close(self) -> None:
        self.session.stop()
        self._end_java()

    def _end_java(self) -> None:
        from pyspark import SparkContext

        gateway: Any = SparkContext._gateway
        if gateway is not None and not self._had_java:
            # Spark keeps the process for a later session of this program; it ends when its
            # standard input does.
            gateway.shutdown()
            gateway.proc.stdin.close()
            try:
                gateway.proc.wait(timeout=30)
            except subprocess.TimeoutExpired:
                gateway.proc.kill()
                gateway.proc.wait()
            SparkContext._gateway = SparkContext._jvm = None
        shutil.rmtree(self._folder, ignore_errors=True)


def _settings(folder: Path) -> dict[str, str]:
    master = os.environ.get("SPARK_MASTER") or _configured("spark.master")
    local = (master or "local").startswith("local")
    options = [f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}"]
    if local:
        # The heavy part runs in Python: optimising Java for long runs, or collecting its garbage
        # on all cores, takes more from the machine than it gives.
        options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        # Planning again between the stages of a job costs more than our small jobs take.
        "spark.sql.adaptive.enabled": "false",
        # Making a note of where each column was written takes longer than making the column.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.master": master or "local[2]",
    }
    if local:
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(folder),
        }
    return settings


def _configured(name: str) -> str | None:
    """A setting of Spark's configuration file, which has the form `name value` or `name=value`."""
    from pyspark.find_spark_home import _find_spark_home

    folder = os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf")
    file = Path(folder, "spark-defaults.conf")
    text = file.read_text() if file.is_file() else ""
    found = re.search(rf"^\s*{re.escape(name)}(?:\s*=\s*|\s+)(\S+)", text, re.MULTILINE)
    return found[1] if found else None


def _variables(has_java: bool) -> dict[str, str]:
    """What Spark reads from the environment only. The user's own choice of a Python stays."""
    variables = {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    variables["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if not has_java:
        variables["JAVA_HOME"] = str(java_home())
    return variables


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

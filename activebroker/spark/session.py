"""The Spark session: the program's own if it has one, else a small local one of ours."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from activebroker.core.errors import (
    ActiveBrokerError,
    MissingExtra,
    SparkUnavailable,
    with_extra,
)
from activebroker.spark.gateway import (
    await_end,
    end_java,
    ended,
    find,
    is_alive,
    is_remote,
    keep_quiet,
)
from activebroker.spark.java import java_home

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_LOGGING = """\
rootLogger.level = error
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
# What fails is raised where it was asked for.
logger.task.name = org.apache.spark.executor.Executor
logger.task.level = off
logger.job.name = org.apache.spark.scheduler.TaskSetManager
logger.job.level = off
logger.write.name = org.apache.spark.sql.execution.datasources.v2
logger.write.level = off
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""

# Settings that Spark makes for each run.
_OF_ONE_RUN = re.compile(
    r"spark\.(app\.(id|startTime|submitTime|initial\..+)|driver\.port|executor\.id)"
)

_lock = threading.Lock()
_ours: _Own | None = None
_context: SparkContext | None = None  # of the session that `session` has returned last
_settings: dict[str, str] | None = None  # of the program's own session
_exiting = False


def session() -> SparkSession:
    """Return the active Spark session, or start one.

    One that we start runs on `SPARK_MASTER`, or the `spark.master` of Spark's configuration file,
    or two local cores; it listens on loopback only, and ends with `stop` or with the program. One
    in place of a session of the program's own that was lost has the settings of that one.

    Raises: MissingExtra without pyspark, JavaNotFound without Java, SparkUnavailable.
    """
    require_extra()
    with _lock:
        if (found := _active()) is None:
            await_end()
            found = _active() or _start()
        _remember(found)
        return found


def stop() -> None:
    """Stop the session that `session` started, if any, and the Java process under it."""
    global _ours, _context
    with _lock:
        if _ours is not None:
            _ours.close()
            _ours = _context = None


def _exit() -> None:
    global _exiting
    _exiting = True  # a thread whose job loses its session now must not start another
    stop()


# Handlers are called in reverse order, and this one is registered before that of any fabric: what a
# fabric delivers when it is closed may have to go through a filter on Spark.
atexit.register(_exit)


def _forked() -> None:
    """In a forked child: what there is belongs to the parent."""
    global _lock, _ours
    _lock, _ours = threading.Lock(), None


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_forked)


def require() -> None:
    """Raise what `session` would raise where pyspark or Java is missing, without starting it."""
    require_extra()
    from pyspark import SparkContext
    from pyspark.sql import is_remote as connected

    if SparkContext._gateway is None and not connected():
        java_home()


def require_extra() -> None:
    """Raise MissingExtra where a package of the extra is missing."""
    try:
        import pyspark  # noqa: F401
        import sqlglot  # noqa: F401
    except ImportError:
        raise MissingExtra(
            f"Spark, or SQLGlot, is not installed here. {with_extra('spark')}"
        ) from None


def _active() -> SparkSession | None:
    """The session that there is, if it lives."""
    found = find()
    if found is None and _ours is not None:
        found = _ours.session  # a late `stop` of an earlier one may have made pyspark forget it
    return found if found is not None and is_alive(found) else None


def _start() -> SparkSession:
    """Start a session; in place of one that was lost, as that one was."""
    global _ours, _context
    from pyspark import SparkContext

    if _context is not None:
        code = ended()
        how = "it was stopped" if code is None else f"its Java process ended with exit code {code}"
        log.warning("the Spark session was lost: %s; a new one is started", how)
        _context = None
    if _ours is not None:
        _ours.close()
        _ours = None
    if SparkContext._active_spark_context is not None or ended() is not None:
        end_java()  # it has died, or Spark has stopped by itself
    if _exiting:
        raise SparkUnavailable("The program ends: no Spark session is started any more.")
    try:
        _ours = _Own(_settings)
    except ActiveBrokerError:
        raise
    except Exception as error:
        raise SparkUnavailable(
            f"No Spark session can be started: {type(error).__name__}: {error} What Java has to "
            "say of it is on this process's standard error."
        ) from error
    return _ours.session


def _remember(found: SparkSession) -> None:
    """Look once at each session. One that is not ours has settings that a new one has to have."""
    global _context, _settings
    if is_remote(found) or found.sparkContext is _context:
        return
    keep_quiet(found.sparkContext)
    if _ours is None or found.sparkContext is not _ours.session.sparkContext:
        _settings = {
            name: value
            for name, value in found.conf.getAll.items()
            # Java reads its configuration file itself; all on this machine can see its arguments.
            if not _OF_ONE_RUN.fullmatch(name) and value != _configured(name)
        }
    _context = found.sparkContext


class _Own:
    """A session that we started, with its files, and the Java process if we started that too."""

    def __init__(self, settings: dict[str, str] | None) -> None:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        had_java = SparkContext._gateway is not None
        self._owns_java = not had_java
        self._folder = Path(tempfile.mkdtemp(prefix="activebroker-spark-"))
        (self._folder / "log4j2.properties").write_text(_LOGGING)
        wanted = _defaults(self._folder) if settings is None else settings
        builder = SparkSession.builder.appName("activebroker")
        try:
            with _environment(_variables(had_java)):
                for name, value in wanted.items():
                    builder = builder.config(name, value)
                self.session: SparkSession = builder.getOrCreate()
            log.debug("started Spark %s", self.session.version)
        except BaseException:
            self._clear()
            raise

    def close(self) -> None:
        if is_alive(self.session):
            self.session.stop()
        self._clear()

    def _clear(self) -> None:
        if self._owns_java:
            end_java()
        shutil.rmtree(self._folder, ignore_errors=True)


def _defaults(folder: Path) -> dict[str, str]:
    master = os.environ.get("SPARK_MASTER") or _configured("spark.master")
    local = (master or "local").startswith("local")
    options = [
        f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}",
        f'"-Djava.io.tmpdir={folder.as_posix()}"',  # or what it leaves when it is killed would stay
    ]
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
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

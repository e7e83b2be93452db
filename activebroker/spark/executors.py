"""Whether a cluster's executors can run filters, asked before they have to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from activebroker.core.errors import SparkUnavailable
from activebroker.spark.gateway import is_remote
from activebroker.spark.job import reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST = 64  # executors that are asked
_checked: set[str] = set()  # applications


def check(session: SparkSession) -> None:
    """Ask the executors that there are for their activebroker, once an application.

    Where Spark runs in this process's Java, its workers have this process's Python: nothing is
    asked. Executors that come later are taken to be as the others are.

    Raises: SparkUnavailable.
    """
    master = session.conf.get("spark.master", None) or ""
    if master.startswith("local") and not master.startswith("local-cluster"):
        return
    application = session.conf.get("spark.app.id", None) or str(id(session))
    if application in _checked:
        return
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    # As many tasks at once as there are executors: Spark gives each of them one, if all are free.
    tasks = 1 if is_remote(session) else min(_executors(session), MOST)
    probe = f.udf(_probe(), "string", useArrow=False)  # pyarrow may be missing there, too
    try:
        rows = session.range(0, tasks, 1, tasks).select(probe("id")).collect()
    except PySparkException as error:
        raise _unfit(reason(error)) from None
    for (found,) in dict.fromkeys(rows):
        if found != _version():
            raise _unfit(found if ": " in found else f"they have activebroker {found}")
    _checked.add(application)


def _probe() -> Callable[[int], str]:
    """What a task runs. It refers to nothing in this module, which executors may lack."""

    def found(number: int) -> str:
        import sys
        from importlib import import_module

        try:
            for name in ("job", "streams", "keyed_streams"):
                import_module(f"activebroker.spark.{name}")
        except Exception as error:  # noqa: BLE001 - whatever it is, filters do not run there
            return f"{type(error).__name__}: {error}"
        return str(sys.modules["activebroker"].__version__)

    return found


def _version() -> str:
    return str(sys.modules["activebroker"].__version__)


def _executors(session: SparkSession) -> int:
    """How many there are now; with dynamic allocation there may be none yet."""
    known = session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()
    return max(1, int(known) - 1)  # without the driver


def _unfit(why: str) -> SparkUnavailable:
    return SparkUnavailable(
        f"Spark's executors cannot run filters: {why}. They need Python "
        f"{sys.version_info.major}.{sys.version_info.minor} with activebroker "
        f"{_version()} and all that it depends on, as this program has them. Install "
        "them there and name that Python in PYSPARK_PYTHON, or send a packed environment along "
        "(--archives, or spark.archives)."
    )

"""A real executor on which filters cannot run is found before they have to."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from activebroker.spark import java_home

pytestmark = [pytest.mark.spark, pytest.mark.table, pytest.mark.timeout(600)]

PROGRAM = """
import json, os, sys
from dataclasses import dataclass

import activebroker
from activebroker import Event, Fabric, FIFOFilter
from activebroker.spark import apply, session, stop, udf


@dataclass(frozen=True)
class Tick:
    number: int


def is_even(number: int) -> bool:
    return {1: False, 2: True}[number]


class Even(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if is_even(event.content.number):
            super().enqueue(event)


class Opaque(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if divmod(event.content.number, 2)[1] == 0:
            super().enqueue(event)


def told(action):
    try:
        return action()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def mask():
    return [row.number for row in apply(df, Even).collect()]


def on_a_channel():
    with Fabric() as fabric:
        ticks = fabric.channel("ticks", Tick)
        derived = ticks.derive(Opaque, at="spark")
        with derived.subscribe(timeout=120) as events, ticks.supplier("NYSE") as nyse:
            nyse.publish_batch([Tick(1), Tick(2)])
            ticks.close()
            found = [event.content.number for event in events]
        return [failure.error for failure in derived.errors] or found


context = session().sparkContext
df = session().createDataFrame([(1,), (2,)], "number int")
context.pythonExec = sys.argv[1]  # what PYSPARK_PYTHON is
answers = {
    "native": told(lambda: [row.number for row in apply(df, lambda x: x.number > 1).collect()]),
    "mask": told(mask),
    "udf": told(lambda: udf(Even, Tick)),
    "channel": told(on_a_channel),
}
context.pythonExec = sys.argv[2]
activebroker.__version__, ours = "0.0.0", activebroker.__version__
answers["other version"] = told(mask)
activebroker.__version__ = ours
answers["fit"] = told(mask)
context.pythonExec = sys.argv[1]
answers["asked once"] = told(lambda: str(udf(Even, Tick)(df.number)))
context.pythonExec = sys.argv[2]
answers["channel that fits"] = told(on_a_channel)
print(json.dumps([ours, answers]))
stop()
"""


def test_executors_that_cannot_run_filters(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    bare = tmp_path / "bare" / "bin" / "python"
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = os.environ | {
        "SPARK_MASTER": "local-cluster[1,1,1024]",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "JAVA_HOME": str(java_home()),
    }
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py", bare, sys.executable],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    ours, answers = json.loads(done.stdout.splitlines()[-1])
    missing = "executors cannot run filters: ModuleNotFoundError: No module named 'activebroker'. "
    assert answers.pop("native") == [2]  # for which nothing runs in Python
    for way in ("mask", "udf"):
        assert answers.pop(way).startswith(f"SparkUnavailable: Spark's {missing}They need Python 3")
    assert missing in answers.pop("channel")[0]
    other = f"they have activebroker {ours}. They need Python 3"
    assert other in answers["other version"] and "0.0.0" in answers.pop("other version")
    assert answers.pop("asked once") == "Column<'Even(number)'>"
    assert answers == {"fit": [2], "channel that fits": [2]}

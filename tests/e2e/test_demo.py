"""`activebroker demo` as a user runs it: a process of its own, and what it leaves behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from activebroker.cli.demo import expected

PROGRAM = Path(sys.executable).with_name("activebroker")


@contextmanager
def demo(*options: str) -> Iterator["subprocess.Popen[str]"]:
    """The demo in a session of its own; whatever happens, nothing of it outlives the test."""
    process = subprocess.Popen(
        [PROGRAM, "demo", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        family = (
            [process, *psutil.Process(process.pid).children(recursive=True)]
            if (process.poll() is None)
            else []
        )
        for member in family:
            member.kill()


def check_complete(output: str, code: int) -> None:
    assert code == 0, output
    assert "Half-way: OffTheMean has moved to atlanta." in output
    assert "JFK has handed its fan-out to dallas." in output
    assert output.count("equal") == 3, output
    assert "DIFFERENT" not in output
    assert "No process of ours is left" in output


def interrupt_amid(process: "subprocess.Popen[str]") -> str:
    """Press Ctrl-C when the stream is half-way, and check that all of the demo ends."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if "Half-way" in line:
            break
    else:
        pytest.fail(f"the demo ended early:\n{seen}")
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130, seen + rest
    assert "Traceback" not in rest
    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []
    return rest


def test_quick_in_one_process() -> None:
    with demo("--quick", "--local", "--no-spark") as process:
        output, _ = process.communicate(timeout=100)
    check_complete(output, process.returncode)


def test_ctrl_c_in_one_process() -> None:
    with demo("--quick", "--local", "--no-spark") as process:
        assert "Interrupted" in interrupt_amid(process)


@pytest.mark.ray
@pytest.mark.spark
@pytest.mark.timeout(240)
def test_quick_on_ray_and_spark() -> None:
    with demo("--quick") as process:
        output, _ = process.communicate(timeout=230)
    check_complete(output, process.returncode)


@pytest.mark.ray
@pytest.mark.table
@pytest.mark.timeout(240)
def test_ctrl_c_on_ray() -> None:
    with demo("--quick", "--no-spark") as process:
        interrupt_amid(process)


def test_a_difference_is_found() -> None:
    flights = expected.flights(months=1)
    right = expected.late_delta(flights)
    assert expected.compare(right, right).good
    assert not expected.compare(right, right.iloc[1:]).good
    assert not expected.compare(right, right.iloc[::-1]).in_order
    changed = right.copy()
    changed.iloc[0, changed.columns.get_loc("dep_delay")] += 1
    assert not expected.compare(right, changed).good
    twice = right.iloc[[0, *range(len(right))]]
    assert not expected.compare(right, twice).in_order

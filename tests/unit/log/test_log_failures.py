"""A disk that is full, or fails: the log says so, claims nothing, and has what was committed."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from log_for_tests import TICK, placed, segments_of, stored, ticks

from activebroker.core.errors import LogUnavailable
from activebroker.log import Log, Reader, segments, tail
from activebroker.log.committed import NAME

RECORDS = [ticks("A", 10 * n, 10) for n in range(200)]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Files may not grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill(log: Log) -> tuple[int, LogUnavailable]:
    """Append and commit until that fails: the records committed by then, and the error."""
    committed = 0
    try:
        for record in RECORDS:
            log.append([record])
            log.commit()
            committed += 1
    except LogUnavailable as error:
        return committed, error
    raise AssertionError("it never failed")


def check_broken(log: Log, committed: int) -> None:
    """It has failed, and goes on refusing."""
    for call in (lambda: log.append(RECORDS[:1]), log.commit, log.retain, lambda: log.append([])):
        with pytest.raises(LogUnavailable, match="has failed"):
            call()
    assert log.committed == 10 * committed
    assert log.offsets == ({"A": (1, 10 * committed)} if committed else {})
    assert stored(log.path) == placed(RECORDS[:committed])
    log.close()


def check_goes_on(path: Path, committed: int, **options: Any) -> None:
    """Opened again it has what was committed, and perhaps more of what was appended."""
    with Log.open(path, TICK, **options) as log:
        kept = log.offsets.get("A", (1, 0))[1] // 10
        assert committed <= kept <= committed + 1
        log.append(RECORDS[kept:])
    assert stored(path) == placed(RECORDS)


@pytest.mark.parametrize("size", [*range(3000, 4000, 70), 9000])
@pytest.mark.parametrize("segment_bytes", [1, 10_000, 10**6])
def test_a_file_cannot_grow(tmp_path, size, segment_bytes):
    log = Log.open(tmp_path, TICK, segment_bytes=segment_bytes)
    header = segments_of(tmp_path)[0].stat().st_size
    with largest_file(header + 5 if segment_bytes == 1 else size):
        committed, error = fill(log)
    assert "File too large" in str(error)
    assert isinstance(error, OSError)
    check_broken(log, committed)
    check_goes_on(tmp_path, committed, segment_bytes=segment_bytes)


def test_a_log_cannot_begin(tmp_path):
    with largest_file(100), pytest.raises(LogUnavailable, match="could not be opened"):
        Log.open(tmp_path / "log", TICK)
    check_goes_on(tmp_path / "log", 0)


FULL = """
import sys
from pathlib import Path
from test_log_failures import check_broken, check_goes_on, fill, Log, TICK
path = Path(sys.argv[1])
ballast = path / "ballast"
ballast.write_bytes(bytes(100_000))
log = Log.open(path / "log", TICK, segment_bytes=20_000)
committed, error = fill(log)
assert "No space left" in str(error), error
check_broken(log, committed)
ballast.unlink()
check_goes_on(path / "log", committed, segment_bytes=20_000)
print("committed", committed)
"""


def test_the_disk_is_full(tmp_path):
    """A small file system of its own."""
    mount = 'mount -t tmpfs -o size=136k tmpfs "$0" && exec "$1" -c "$2" "$0"'
    command = ["unshare", "-rm", "sh", "-c", mount, str(tmp_path), sys.executable, FULL]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=100
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(done.stderr)
    assert done.stdout.startswith("committed"), done.stderr


@pytest.mark.parametrize("module", [tail, segments])
@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_sync_fails(tmp_path, monkeypatch, module, after):
    """What it was to make durable is written once more before it counts."""
    left = after

    def failing(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.EIO, "Input/output error")
        os.fsync(descriptor)

    log = Log.open(tmp_path, TICK, segment_bytes=3000)
    monkeypatch.setattr(module, "sync_file", failing)
    committed, error = fill(log)
    assert "Input/output error" in str(error)
    check_broken(log, committed)
    monkeypatch.undo()

    rewritten = []

    def seen(descriptor: int, data: bytes, at: int, pwrite: Any = os.pwrite) -> int:
        rewritten.append((at, data))
        return pwrite(descriptor, data, at)

    last = segments_of(tmp_path)[-1]
    whole = last.read_bytes()
    durable = int.from_bytes((tmp_path / NAME).read_bytes()[16:24], "little")
    monkeypatch.setattr(os, "pwrite", seen)
    with Log.open(tmp_path, TICK):
        assert last.read_bytes() == whole
        if module is tail:
            assert (durable, whole[durable:]) in rewritten
    check_goes_on(tmp_path, committed)


def test_what_is_interrupted_is_broken(tmp_path, monkeypatch):
    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    log = Log.open(tmp_path, TICK)
    log.append(RECORDS[:1])
    monkeypatch.setattr(tail, "sync_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        log.commit()
    monkeypatch.undo()
    check_broken(log, 0)
    check_goes_on(tmp_path, 0)


@pytest.mark.parametrize("path", ["file", "file/log", "/proc/log", "/proc/self/log"])
def test_a_directory_that_cannot_be_written(tmp_path, path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(LogUnavailable, match=path):
        Log.open(tmp_path / path, TICK)


def test_a_file_that_cannot_be_read(tmp_path):
    Log.open(tmp_path, TICK).close()
    (segment,) = segments_of(tmp_path)
    segment.unlink()
    segment.mkdir()
    opens: list[Callable[..., Any]] = [Reader, Log.open]
    for open_ in opens:
        with pytest.raises(LogUnavailable, match=r"000000000000\.log cannot be read"):
            open_(tmp_path, TICK)

"""Whatever becomes of a log's files: what it has is right, or an error names file and byte."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest
from log_for_tests import (
    TICK,
    Plain,
    copied,
    crash,
    ended,
    flipped,
    moved,
    placed,
    plain,
    segments_of,
    stored,
    ticks,
    write_log,
)
from xxhash import xxh3_64_intdigest

from activebroker.core.errors import LogDamaged
from activebroker.events import EventType, dump, encode
from activebroker.log import Log, Reader
from activebroker.log.committed import NAME, Committed, CommittedFile, read_committed
from activebroker.log.frames import EVENTS, TYPE, Frame, pack
from activebroker.log.segments import Segment


@dataclass(frozen=True)
class Other:
    ratio: float


COMMITS = [
    [ticks("A", 0, 17, 5), moved("B", 2)],
    [ticks("B", 2, 1, 7)],
    [ticks("A", 17, 3, 6), ended("A", 21)],
    [ticks("B", 3, 16, 9), ticks("C", 0, 2, 9)],
]
RECORDS = [record for commit in COMMITS for record in commit]
EXPECTED = placed(RECORDS)
ERROR = re.compile(r"(.*\.log), byte ([\d,]+): .*|.*/committed does not hold how far .*")


def read_as_far_as_possible(path: Path) -> tuple[list[Plain], LogDamaged | None]:
    found: list[Plain] = []
    try:
        with Reader(path, TICK) as reader:
            while entries := reader.read(most_bytes=200):
                found += [plain(*entry) for entry in entries]
    except LogDamaged as error:
        return found, error
    return found, None


def opened(path: Path) -> tuple[list[Plain], LogDamaged | None]:
    """What a log has once it was opened to write."""
    try:
        Log.open(path, TICK).close()
    except LogDamaged as error:
        return [], error
    return read_as_far_as_possible(path)


def check_error(error: LogDamaged, path: Path) -> None:
    match = ERROR.fullmatch(str(error))
    assert match, error
    if match[1]:
        file = Path(match[1])
        assert file.parent == path
        assert 0 <= int(match[2].replace(",", "")) == error.byte <= file.stat().st_size


def test_each_byte_changed(tmp_path, request):
    path = tmp_path / "log"
    write_log(path, COMMITS, segment_bytes=2000)
    files = [*segments_of(path), path / NAME]
    assert len(files) == 3
    refused = {"reader": 0, "writer": 0}
    step = 1 if request.config.getoption("rounds") else 5
    for file in files:
        whole = file.read_bytes()
        for byte in range(0, len(whole), step):
            flipped(file, byte, 1 << byte % 8)
            found, error = read_as_far_as_possible(path)
            assert found == EXPECTED[: len(found)]
            if error:
                check_error(error, path)
                refused["reader"] += 1
            else:  # a filling byte
                assert found == EXPECTED
            copy = copied(path, tmp_path / "copy")
            found, error = opened(copy)
            if error:
                check_error(error, copy)
                refused["writer"] += 1
            assert found == (EXPECTED[: len(found)] if error else EXPECTED)
            file.write_bytes(whole)
    size = sum(file.stat().st_size for file in files) / step
    assert refused["reader"] > 0.95 * size
    assert refused["writer"] > 0.95 * files[1].stat().st_size / step


def ends_of(path: Path) -> list[int]:
    """The bytes at which the records end in the only segment of a log."""
    segment = Segment(path, 0)
    ends = [
        frame.end for frame, _ in segment.walk(segment.begin, segment.size) if frame.kind != TYPE
    ]
    segment.close()
    return ends


@pytest.fixture
def half(tmp_path) -> tuple[Path, int]:
    """A log with two commits, and as much that was written after them and not committed."""
    log = Log.open(tmp_path / "half", TICK)
    for commit in COMMITS[:2]:
        log.append(commit)
        log.commit()
    for commit in COMMITS[2:]:
        log.append(commit)
    crash(log)
    return tmp_path / "half", read_committed(tmp_path / "half").bytes


def short(data: bytes, cut: int) -> bytes:
    return data[:cut]


def zeros(data: bytes, cut: int) -> bytes:
    return data[:cut] + bytes(len(data) - cut)


def noise(data: bytes, cut: int) -> bytes:
    return data[:cut] + random.Random(cut).randbytes(len(data) - cut)


@pytest.mark.parametrize("torn", [short, zeros, noise])
@pytest.mark.parametrize("told", [True, False])
def test_a_write_torn_at_each_byte(tmp_path, half, torn, told, request):
    path, committed = half
    if not told:
        (path / NAME).unlink()
    (file,) = segments_of(path)
    whole, ends = file.read_bytes(), ends_of(path)
    assert committed in ends
    step = 1 if request.config.getoption("rounds") or (torn is short and told) else 7
    for cut in range(committed, len(whole) + 1, step):
        file.write_bytes(torn(whole, cut))
        copy = copied(path, tmp_path / "copy")
        with Log.open(copy, TICK) as log:
            found = stored(copy)
            log.append([moved("Z", 1)])
        before = sum(end <= cut for end in ends)
        # What was lost may have been zeros.
        assert found in (EXPECTED[:before], EXPECTED[: before + 1])
        Log.open(copy, TICK).close()
        assert stored(copy) == [
            *found,
            (sum(len(each[3]) for each in found), "Z", (1, 1), [], False),
        ]


def test_what_was_not_committed_is_lost_in_any_order(tmp_path, half):
    """A disk writes sectors in an order of its own, and a power failure leaves some of them."""
    path, committed = half
    (file,) = segments_of(path)
    whole = file.read_bytes()
    for seed in range(200):
        drawn = random.Random(seed)
        data = bytearray(whole)
        for start in range(committed, len(data), 64):
            if drawn.random() < 0.2:
                data[start : start + 64] = bytes(len(data[start : start + 64]))
        file.write_bytes(data)
        found, error = opened(copied(path, tmp_path / "copy"))
        assert (found, error) == (EXPECTED[: len(found)], None)
        assert len(found) >= 3


@pytest.mark.parametrize("told", range(len(COMMITS) + 1))
def test_what_can_be_told_from_a_torn_write(tmp_path, told):
    """Damage to a commit, if the file `committed` tells of this many: it is taken for a torn write
    only in the last commit, and only if that file does not tell of it."""
    path = tmp_path / "log"
    notes, borders = [], []
    with Log.open(path, TICK) as log:
        for commit in [[], *COMMITS]:
            log.append(commit)
            log.commit()
            notes.append((path / NAME).read_bytes())
            borders.append(read_committed(path).bytes)
    (path / NAME).write_bytes(notes[told])
    (file,) = segments_of(path)
    for byte in range(borders[0], borders[-1], 11):
        copy = copied(path, tmp_path / "copy")
        flipped(copy / file.name, byte)
        found, error = opened(copy)
        if byte >= borders[-2] and told < len(COMMITS):
            assert (found, error) == (EXPECTED[: len(found)], None)
            assert len(found) >= 5
        elif error is None:
            assert found == EXPECTED  # a filling byte
        else:
            check_error(error, copy)
            assert error.byte <= byte


def test_what_was_committed_is_missing(tmp_path, half):
    path, committed = half
    (file,) = segments_of(path)
    whole, ends = file.read_bytes(), ends_of(path)
    for cut in (*range(0, committed, 7), *(end for end in ends if end < committed)):
        file.write_bytes(whole[:cut])
        with pytest.raises(LogDamaged, match=r"000000000000\.log, byte"):
            Log.open(path, TICK)
        assert file.read_bytes() == whole[:cut]  # nothing was cut


@pytest.mark.parametrize("number", [0, 2, 4])
def test_a_segment_is_missing_or_too_short(tmp_path, number):
    write_log(tmp_path, COMMITS, segment_bytes=1)
    segments = segments_of(tmp_path)
    whole = segments[number].read_bytes()
    segments[number].write_bytes(whole[:-1])
    found, error = read_as_far_as_possible(tmp_path)
    assert found == EXPECTED[: len(found)]
    assert error and segments[number].name in str(error)
    segments[number].unlink()
    found, error = opened(tmp_path)
    if number == 0:  # as after retention
        assert (found, error) == (EXPECTED[1:], None)
    else:
        assert f"{segments[number].name}, byte 0: the segment is missing" in str(error)


def test_the_segment_before_the_last_is_looked_at(tmp_path):
    write_log(tmp_path, COMMITS, segment_bytes=1)
    before = segments_of(tmp_path)[-2]
    size = before.stat().st_size
    for data in (before.read_bytes()[:-1], before.read_bytes() + b"x"):
        before.write_bytes(data)
        with pytest.raises(LogDamaged, match=f"it has {len(data):,} bytes, {size:,} were"):
            Log.open(tmp_path, TICK)


def test_all_segments_are_missing(tmp_path):
    write_log(tmp_path, COMMITS)
    segments_of(tmp_path)[0].unlink()
    with pytest.raises(LogDamaged, match="the segment is missing"):
        Log.open(tmp_path, TICK)


@pytest.mark.parametrize("data", [None, b"", b"x" * 40])
def test_the_file_that_tells_what_is_committed_is_found_again(tmp_path, data, caplog):
    write_log(tmp_path, COMMITS)
    file = tmp_path / NAME
    file.unlink() if data is None else file.write_bytes(data)
    assert opened(tmp_path) == (EXPECTED, None)
    assert str(tmp_path) in caplog.text


def test_what_else_is_in_the_directory_is_let_alone(tmp_path):
    write_log(tmp_path, COMMITS)
    others = [tmp_path / name for name in ("7.log", "notes.log", "-00000000001.log", "x")]
    for other in others:
        other.write_text("x")
    unfinished = tmp_path / "000000000001.new"
    unfinished.write_text("half a header")
    assert opened(tmp_path) == (EXPECTED, None)
    assert [other.read_text() for other in others] == ["x"] * 4
    assert not unfinished.exists()


Change = Callable[[Frame, bytes], tuple[Frame, bytes]]
OTHER = encode(EventType.of(Other), [Other(0.5)] * 20, "A", 0, 0)
FORGED: dict[str, Change] = {
    "a size beyond the end": lambda frame, data: (frame._replace(size=10**9), data),
    "a smaller size": lambda frame, data: (frame, data[:-64]),
    "more events": lambda frame, data: (frame._replace(events=21), data),
    "no type": lambda frame, data: (frame._replace(type_at=0), data),
    "its own type": lambda frame, data: (frame._replace(type_at=frame.at), data),
    "a type beyond the end": lambda frame, data: (frame._replace(type_at=2**60), data),
    "a type that is another record": lambda frame, data: (frame._replace(type_at=-1), data),
    "a later position": lambda frame, data: (frame._replace(position=frame.position + 1), data),
    "an earlier position": lambda frame, data: (frame._replace(position=0), data),
    "noise": lambda frame, data: (frame, random.Random(1).randbytes(len(data))),
    "nothing": lambda frame, data: (frame, b""),
    "a batch of another type": lambda frame, data: (frame, bytes(dump(OTHER)[0])),
    "few of another type": lambda frame, data: (frame, bytes(dump(OTHER.slice(0, 1))[0])),
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_record_that_lies_and_has_right_checksums(tmp_path, forged):
    write_log(tmp_path, COMMITS)
    segment = Segment(tmp_path, 0)
    (at, position), salt = read_committed(tmp_path)[1:], segment.header.salt
    described, first = (frame for frame, _ in islice(segment.walk(segment.begin, at), 2))
    batch = ticks("A", 0, 20, stream=9).batch
    true = Frame(at, 0, 20, 0, position, at, 9, 9, 20, described.at, EVENTS, 1, "A")
    frame, data = FORGED[forged](true, bytes(dump(batch)[0]))
    if frame.type_at == -1:
        frame = frame._replace(type_at=first.at)
    size = frame.size or len(data)
    frame = frame._replace(size=size, check=xxh3_64_intdigest(data, salt))
    with segment.path.open("ab") as file:
        for buffer in pack(frame, memoryview(data), salt):
            file.write(buffer)
    note = CommittedFile(tmp_path)
    note.write(Committed(0, segment.size, position + 20))
    note.close()
    segment.close()
    found, error = read_as_far_as_possible(tmp_path)
    assert found == EXPECTED
    assert error is not None
    check_error(error, tmp_path)
    found, error = opened(tmp_path)
    assert found in ([], EXPECTED)
    assert error is not None

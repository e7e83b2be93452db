"""A reader begins anywhere, goes to the end and no further, and finds times and offsets."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_for_tests import (
    TICK,
    ended,
    moved,
    placed,
    plain,
    rest,
    segments_of,
    stored,
    ticks,
    write_log,
)

from activebroker.core.errors import LogDamaged, LogUnavailable, NotInLog, ProtocolError
from activebroker.events import ANY, encode
from activebroker.log import NOWHERE, Log, Reader, Record

RECORDS = [
    moved("A", 5),
    ticks("A", 5, 20, 50),
    ticks("B", 0, 3, [10, 90, 20]),
    moved("B", 8),
    ended("B", 9),
    ticks("A", 25, 1, 60),
    ticks("B", 0, 17, 95, stream=2),
    ended("A", 27),
    moved("C", 3),
]


@pytest.fixture(params=[1, 1500, 1 << 20])
def log(request, tmp_path) -> Path:
    """A log of RECORDS, in one or more segments."""
    write_log(tmp_path / "log", [RECORDS[:4], RECORDS[4:]], segment_bytes=request.param)
    return tmp_path / "log"


def after(position: int) -> list:
    """What is to be read from a position on."""
    result = []
    for at, supplier, upto, events, is_end in placed(RECORDS):
        had = min(max(position - at, 0), len(events))
        if at + len(events) > position or at >= position:
            result.append((at + had, supplier, upto, events[had:], is_end))
    return result


@pytest.mark.parametrize("most_bytes", [1, 300, 1 << 20])
def test_from_each_position_to_the_end(log, most_bytes):
    with Reader(log, TICK) as reader:
        assert reader.committed == 41
        for position in [*range(42), 0]:
            reader.seek(position)
            assert reader.position == position
            assert rest(reader, most_bytes=most_bytes) == after(position)
            assert (reader.position, reader.read()) == (41, [])


def test_up_to_each_position_between_two_records(log):
    borders = sorted({at for at, *_ in placed(RECORDS)} | {41})
    for first in borders:
        for upto in borders:
            with Reader(log, TICK, first) as reader:
                found = rest(reader, upto)
                assert found + rest(reader) == after(first)  # it goes on
                for at, _, _, events, _ in found:
                    assert at + len(events) <= max(upto, first)
                assert upto < first or sum(len(each[3]) for each in found) == upto - first


def test_not_to_a_position_within_a_record(log):
    with Reader(log, TICK) as reader:
        read = [plain(*entry) for _ in range(2) for entry in reader.read(22, 1)]
        assert read == placed(RECORDS[:2])
        for _ in range(2):
            with pytest.raises(ProtocolError, match="22 is within the record from 20 to 23"):
                reader.read(22)
        assert read + rest(reader) == placed(RECORDS)
    with Reader(log, TICK, 7) as reader:
        assert reader.read(7) == []


def test_positions_that_a_log_does_not_have(log):
    for position in (-1, 42):
        with pytest.raises(NotInLog, match="from position 0 to 41, not"):
            Reader(log, TICK, position)
    with Reader(log, TICK, 41) as reader:
        rest(reader)
        with pytest.raises(NotInLog) as caught:
            reader.seek(42)
        assert (caught.value.first, reader.read()) == (0, [])


def test_the_first_event_at_a_time_or_later(log):
    times = [time for *_, events, _ in placed(RECORDS) for _, time, _ in events]
    with Reader(log, TICK) as reader:
        for time in (-1, 10, 11, 50, 51, 60, 90, 91, 95, 96):
            expected = next((i for i, each in enumerate(times) if each >= time), len(times))
            assert reader.position_of(time) == expected
        assert reader.position == 0


OFFSETS = st.dictionaries(
    st.sampled_from(["A", "B", "C", "D"]), st.tuples(st.integers(0, 3), st.integers(0, 30))
)


def test_where_who_has_come_to_offsets_goes_on(log):
    with Reader(log, TICK) as reader:

        @given(OFFSETS)
        def finds(offsets):
            lacked = [
                at
                for at, supplier, upto, *_ in placed(RECORDS)
                if upto > offsets.get(supplier, NOWHERE)
            ]
            assert reader.position_after(offsets) == min(lacked, default=41)

        finds()


def test_a_search_in_a_segment_of_many_frames(tmp_path):
    records = [ticks("A", n, 8, n) for n in range(0, 8 * 3000, 8)]
    expected = write_log(tmp_path, [records])
    with Reader(tmp_path, TICK) as reader:
        for n in range(0, 3000, 111):
            assert reader.position_of(8 * n) == reader.position_of(8 * n - 7) == 8 * n
            assert reader.position_after({"A": (1, 8 * n)}) == 8 * n
            reader.seek(8 * n)
            assert [plain(*entry) for entry in reader.read(8 * n + 16)] == expected[n : n + 2]


def test_a_search_does_not_mistake_an_event_for_a_part_of_the_log(tmp_path):
    """Events that hold the very bytes of the log, as far as it has come."""
    records = [ticks("A", 0, 5000, type=ANY)]
    with Log.open(tmp_path, ANY) as log:
        log.append(records)
        for n in range(5):
            log.commit()
            image = segments_of(tmp_path)[0].read_bytes()
            batch = encode(ANY, [image], "B", n, 7)
            records.append(Record("B", (1, n + 1), batch))
            log.append(records[-1:])
    expected = placed(records)
    assert segments_of(tmp_path)[0].stat().st_size > 2 << 20
    with Reader(tmp_path, ANY) as reader:
        for n in range(5):
            reader.seek(5000 + n)
            assert rest(reader) == expected[1 + n :]
        assert reader.position_of(7) == 5000


def test_who_reads_goes_on_with_what_is_written(tmp_path):
    records = []
    with Log.open(tmp_path, TICK, segment_bytes=500) as log, Reader(tmp_path, TICK) as reader:
        found = rest(reader)
        for n in range(30):
            records += [ticks("A", 2 * n, 2), moved("B", n + 1)]
            log.append(records[-2:])
            log.commit()
            found += rest(reader)
            assert found == placed(records)
        assert len(segments_of(tmp_path)) > 3


def test_a_thread_reads_while_another_writes(tmp_path):
    found = []

    def read() -> None:
        with Reader(tmp_path, TICK) as reader:
            while reader.position < 600:
                found.extend(rest(reader))

    with Log.open(tmp_path, TICK, segment_bytes=5000) as log:
        thread = threading.Thread(target=read)
        thread.start()
        records = [ticks("A", 2 * n, 2) for n in range(300)]
        for first in range(0, 300, 3):
            log.append(records[first : first + 3])
            log.commit()
        thread.join(60)
    assert found == placed(records)


READING = """
import sys
from pathlib import Path
from log_for_tests import Reader, TICK, plain
with Reader(Path(sys.argv[1]), TICK) as reader:
    while reader.position < int(sys.argv[2]):
        for entry in reader.read():
            print(plain(*entry))
"""


def test_a_process_reads_while_another_writes(tmp_path):
    with Log.open(tmp_path, TICK, segment_bytes=5000) as log:
        log.append([ticks("A", 0, 1)])
        log.commit()
        command = [sys.executable, "-c", READING, str(tmp_path), "400"]
        with subprocess.Popen(
            command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout
            lines = [process.stdout.readline()]
            records = [ticks("A", 0, 1)]
            for n in range(1, 400, 3):
                records.append(ticks("A", n, 3))
                log.append(records[-1:])
                log.commit()
            lines += process.stdout.readlines()
            assert process.wait(60) == 0
    assert "".join(lines) == "".join(f"{each}\n" for each in placed(records))


def test_a_reader_whose_events_were_dropped_is_told_where_to_go_on(tmp_path):
    records = [ticks("A", n, 1) for n in range(40)]
    with Log.open(tmp_path, TICK, segment_bytes=300, keep_bytes=300) as log:
        log.append(records[:10])
        log.commit()
        with Reader(tmp_path, TICK) as reader:
            first = log.first
            found = [plain(*entry) for entry in reader.read(most_bytes=1)]
            log.append(records[10:])
            log.commit()
            assert log.first > 20
            with pytest.raises(NotInLog, match=rf"begins at {log.first} now") as caught:
                while True:
                    found += [plain(*entry) for entry in reader.read()]
            assert found == placed(records)[first : first + len(found)]  # of the open segment
            assert caught.value.first == log.first == reader.first
            reader.seek(caught.value.first)
            assert rest(reader) == placed(records)[log.first :]
            with pytest.raises(NotInLog, match=f"from position {log.first} to 40, not 3"):
                reader.seek(3)


def test_there_is_no_log(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(LogUnavailable, match="There is no log in"):
            Reader(path, TICK)


def test_a_segment_that_is_missing_between_others(tmp_path):
    write_log(tmp_path, [[each] for each in RECORDS], segment_bytes=1)
    segments_of(tmp_path)[4].unlink()
    with Reader(tmp_path, TICK) as reader:
        found = []
        with pytest.raises(LogDamaged, match=r"000000000004\.log, byte 0: the segment is missing"):
            while True:
                found += [plain(*entry) for entry in reader.read()]
    assert found == placed(RECORDS)[: len(found)]


def test_dropping_needs_no_reader_to_agree(tmp_path):
    """Searches while segments go: each finds what was there at some moment."""
    with Log.open(tmp_path, TICK, segment_bytes=1, keep_bytes=2000) as log:
        done = threading.Event()
        faults = []

        def search() -> None:
            try:
                with Reader(tmp_path, TICK) as reader:
                    while not done.is_set():
                        before = log.first
                        assert before <= reader.first <= log.committed
                        assert reader.position_of(10**9) <= log.committed
                        assert reader.position_after({}) >= before
                        reader.seek(None)
            except BaseException as error:
                faults.append(error)
                raise

        thread = threading.Thread(target=search)
        thread.start()
        for n in range(150):
            log.append([ticks("A", n, 1)])
        done.set()
        thread.join(60)
        log.commit()
        assert (faults, log.first > 100) == ([], True)
    assert stored(tmp_path) == placed([ticks("A", n, 1) for n in range(150)])[log.first :]

"""A log takes records in order, tells their positions, and has them when it is opened again."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from log_for_tests import (
    TICK,
    Tick,
    copied,
    crash,
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

from activebroker.core.errors import ChannelTypeConflict, Closed, LogInUse, ProtocolError
from activebroker.events import ANY, EventType, TypeRegistry, describe, dump, encode
from activebroker.log import Log, Reader, Record


def test_a_position_is_the_count_of_events_before(tmp_path):
    with Log.open(tmp_path / "log", TICK) as log:
        assert (log.first, log.next, log.committed) == (0, 0, 0)
        records = [ticks("A", 0, 3), moved("B", 7), ticks("B", 7, 40), ended("A", 4)]
        assert log.append(records[:2]) == [0, 3]
        assert log.append(records[2:]) == [3, 43]
        assert (log.next, log.committed) == (43, 0)
        assert log.commit() == log.committed == 43
        assert log.append([]) == []
        assert log.commit() == 43
    assert stored(tmp_path / "log") == placed(records)


def test_nothing_is_read_before_it_is_committed(tmp_path):
    with Log.open(tmp_path, TICK) as log, Reader(tmp_path, TICK) as reader:
        log.append([ticks("A", 0, 3)])
        log._tail._write()
        assert (reader.read(), reader.committed, log.offsets) == ([], 0, {})
        log.commit()
        assert len(reader.read()) == 1
        assert (reader.position, reader.committed, log.offsets) == (3, 3, {"A": (1, 3)})


def test_what_is_closed_is_committed_and_goes_on(tmp_path):
    records = [ticks("A", 0, 20), moved("B", 7), ended("A", 21), ticks("A", 0, 2, stream=5)]
    with Log.open(tmp_path, TICK) as log:
        log.append(records)
    with Log.open(tmp_path, TICK) as log:
        assert (log.first, log.next, log.committed) == (0, 22, 22)
        assert log.offsets == {"A": (5, 2), "B": (1, 7)}
        records.append(ticks("B", 7, 2))
        assert log.append(records[-1:]) == [22]
    assert stored(tmp_path) == placed(records)


def test_what_was_written_before_a_crash_is_committed_when_the_log_is_opened(tmp_path):
    log = Log.open(tmp_path, TICK)
    records = [ticks("A", 0, 20), ticks("B", 0, 2)]
    log.append(records[:1])
    log.commit()
    log.append(records[1:])
    crash(log)
    assert stored(tmp_path) == placed(records[:1])
    with Log.open(tmp_path, TICK) as log:
        assert log.offsets == {"A": (1, 20), "B": (1, 2)}
        assert stored(tmp_path) == placed(records)


def test_segments_follow_each_other(tmp_path):
    records = [ticks("A", n, 1) for n in range(50)]
    write_log(tmp_path, [records], segment_bytes=1000)
    assert len(segments_of(tmp_path)) > 5
    assert stored(tmp_path) == placed(records)
    with Log.open(tmp_path, TICK, segment_bytes=1000) as log:
        records += [ticks("A", n, 1) for n in range(50, 100)]
        log.append(records[50:])
    assert stored(tmp_path) == placed(records)


@pytest.mark.parametrize(
    "again", [ticks("A", 2, 1), ticks("A", 0, 3), moved("A", 3), ended("A", 2), moved("A", 9, 0)]
)
def test_a_record_that_does_not_go_on_is_refused(tmp_path, again):
    with Log.open(tmp_path, TICK) as log:
        log.append([ticks("A", 0, 3)])
        for _ in range(2):
            with pytest.raises(ProtocolError, match=r"'A' up to \(1, 3\)"):
                log.append([ticks("B", 0, 1), again])
            log.commit()
        with pytest.raises(ProtocolError, match=r"'B' up to \(1, 1\)"):
            log.append([ticks("B", 0, 1), ticks("B", 0, 1)])
        assert log.next == 3  # none was appended, and the log is as good as before
        log.append([ticks("B", 0, 1)])
    assert len(stored(tmp_path)) == 2


@pytest.mark.parametrize(
    "record",
    [
        Record("B", (1, 3), ticks("A", 0, 3).batch),
        Record("A", (1, 3), ticks("A", 0, 3).batch, ended=True),
        moved("A" * 70_000, 1),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(tmp_path, record):
    with Log.open(tmp_path, TICK) as log:
        with pytest.raises(ProtocolError):
            log.append([record])
        assert log.next == 0


def test_names_and_batches_of_any_size(tmp_path):
    records = [
        ticks("", 0, 1),
        ticks("é" * 30_000, 0, 20),
        Record("A", (1, 1), encode(TICK, [Tick(0, "x" * 3_000_000)], "A", 0, 0)),
        ticks("B", 0, 0),
        moved("x" * 65_535, 1),
    ]
    write_log(tmp_path, [records])
    assert stored(tmp_path) == placed(records)


def test_bytes_of_a_batch_go_in_and_come_out_as_they_are(tmp_path):
    records = [ticks("A", 0, 20), ticks("A", 20, 3), moved("B", 1)]
    given = [replace(each, buffers=dump(each.batch)) for each in records[:2]]
    write_log(tmp_path / "one", [records])
    write_log(tmp_path / "two", [[*given, records[2]]])
    with Reader(tmp_path / "one", TICK) as one, Reader(tmp_path / "two", TICK) as two:
        for entry, other, record in zip(one.read(), two.read(), records, strict=True):
            assert entry == other
            assert plain(*entry) == plain(entry.position, record)
            for read in (entry.record, other.record):
                expected = record.batch and [bytes(each) for each in dump(record.batch)]
                assert expected == (read.buffers and [bytes(each) for each in read.buffers])
        one.seek(5)
        assert one.read()[0].record.buffers is None  # it is cut


@dataclass(frozen=True)
class Loud(Tick):
    volume: float


@dataclass(frozen=True)
class Other:
    number: int
    text: str


def version(**fields: object) -> EventType:
    """Another version of Tick, whose other fields have these defaults."""
    kinds = {name: type(default) for name, default in fields.items()}
    body = {"__annotations__": {"number": int, "text": str, **kinds}, **fields}
    return EventType.of(dataclass(frozen=True)(type("Tick", (), body)))


def test_events_of_subtypes_are_kept_as_they_are(tmp_path):
    contents = [Loud(n, "l", 0.5) for n in range(20)]
    loud = Record("A", (1, 20), encode(EventType.of(Loud), contents, "A", 0, 0))
    records = [loud, ticks("B", 0, 20), ticks("B", 20, 1)]
    write_log(tmp_path, [[each] for each in records], segment_bytes=1)
    types = TypeRegistry()
    types.register(EventType.of(Loud))
    with Reader(tmp_path, TICK, types=types) as reader:
        assert [entry.record.batch.type for entry in reader.read()] == [EventType.of(Loud)]
    with Reader(tmp_path, TICK, 5) as reader:  # one that does not know the class
        (entry,) = reader.read(5 + 15)
        assert entry.record.batch.contents()[0].volume == 0.5
        assert entry.record.batch.type.is_a(TICK)


def test_a_version_of_the_type_goes_on_with_a_log(tmp_path):
    more = version(limit=7)
    old, new = ticks("A", 0, 20), ticks("A", 20, 20, type=more)
    write_log(tmp_path, [[old]])
    with Log.open(tmp_path, more) as log:
        log.append([new])
        with pytest.raises(ChannelTypeConflict, match="has 'limit' as string, not int64"):
            log.append([ticks("B", 0, 1, type=version(limit="x"))])
    with pytest.raises(ChannelTypeConflict, match="has 'limit' as string, not int64"):
        Log.open(tmp_path, version(limit="x"))
    types = TypeRegistry()
    with Reader(tmp_path, more, types=types) as reader:
        old, new = (types.conform(entry.record.batch, more) for entry in reader.read())
        assert [content.limit for content in old.contents() + new.contents()] == [7] * 40
    with Log.open(tmp_path, TICK) as log:
        log.append([ticks("A", 40, 1, type=version(limit=7, more="m"))])
    with pytest.raises(ChannelTypeConflict, match="'more'"):
        Log.open(tmp_path, version(more=1))


def test_versions_are_remembered_longer_than_their_events(tmp_path):
    with Log.open(tmp_path, TICK, segment_bytes=1, keep_bytes=1) as log:
        log.append([ticks("A", 0, 1, type=version(limit=7))])
        for n in range(1, 5):
            log.append([ticks("A", n, 1)])
    with pytest.raises(ChannelTypeConflict, match="'limit'"):
        Reader(tmp_path, version(limit="x"))


@pytest.mark.parametrize("open_", [Log.open, Reader])
def test_a_log_of_another_type_is_refused(tmp_path, open_):
    write_log(tmp_path, [[ticks("A", 0, 1)]])
    with pytest.raises(ChannelTypeConflict, match="has events of type Tick, not of Other"):
        open_(tmp_path, EventType.of(Other))
    with pytest.raises(ChannelTypeConflict, match="has events of type Tick, not of any"):
        open_(tmp_path, ANY)
    Log.open(tmp_path, TICK).close()  # nothing is left locked


def test_events_of_another_type_are_refused(tmp_path):
    with Log.open(tmp_path, TICK) as log:
        with pytest.raises(ChannelTypeConflict, match="has events of type Tick, not of Other"):
            log.append([ticks("A", 0, 1, type=EventType.of(Other))])
        with pytest.raises(ChannelTypeConflict, match="has events of type Tick, not of any"):
            log.append([ticks("A", 0, 1, type=ANY)])
        assert log.next == 0


def test_an_untyped_log_takes_anything(tmp_path):
    records = [ticks("A", 0, 20, type=ANY), ticks("B", 0, 20)]
    with Log.open(tmp_path, ANY) as log:
        log.append(records)
    types = TypeRegistry()
    types.register(TICK)
    with Reader(tmp_path, ANY, types=types) as reader:
        assert rest(reader) == placed(records)


def test_a_class_that_was_defined_anew_is_the_same_type(tmp_path):
    write_log(tmp_path, [[ticks("A", 0, 1)]])
    again = version()
    assert (again.cls is not Tick, describe(again).fingerprint) == (True, TICK.fingerprint)
    with Log.open(tmp_path, again) as log:
        log.append([ticks("A", 1, 1, type=again)])
    assert [content for _, _, _, ((_, _, content),), _ in stored(tmp_path)] == [
        Tick(0, ""),
        Tick(1, "a"),
    ]


def test_a_second_writer_is_told_which_process_has_the_log(tmp_path):
    with Log.open(tmp_path, TICK):
        with pytest.raises(LogInUse, match=f"in process {os.getpid()}"):
            Log.open(tmp_path, TICK)
        code = (
            "import sys; from pathlib import Path; from log_for_tests import Log, TICK\n"
            "try: Log.open(Path(sys.argv[1]), TICK)\n"
            "except Exception as error: print(error)"
        )
        command = [sys.executable, "-c", code, str(tmp_path)]
        other = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=60
        )
        assert f"is open to write in process {os.getpid()}" in other.stdout, other.stderr
    Log.open(tmp_path, TICK).close()


def test_a_copy_is_a_log_of_its_own(tmp_path):
    with Log.open(tmp_path / "one", TICK) as log:
        log.append([ticks("A", 0, 1)])
        log.commit()
        with Log.open(copied(tmp_path / "one", tmp_path / "two"), TICK) as other:
            other.append([ticks("A", 1, 1)])
    assert (len(stored(tmp_path / "one")), len(stored(tmp_path / "two"))) == (1, 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_has_no_part_in_a_log(tmp_path):
    log = Log.open(tmp_path, TICK)
    ask, told = os.pipe()
    if (child := os.fork()) == 0:
        try:
            log.append([ticks("A", 0, 1)])
        except Closed:
            os.write(told, b"closed")
        finally:
            os.read(ask, 0)
            os._exit(0)
    assert os.read(ask, 6) == b"closed"
    log.append([ticks("A", 0, 1)])
    log.close()
    Log.open(tmp_path, TICK).close()  # whether or not the child lives
    os.waitpid(child, 0)
    os.close(ask)
    os.close(told)


def test_a_closed_log_says_so(tmp_path):
    log = Log.open(tmp_path, TICK)
    log.close()
    log.close()
    for call in (lambda: log.append([]), log.commit, log.retain):
        with pytest.raises(Closed, match="was closed"):
            call()

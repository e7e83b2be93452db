"""A log is a list, whatever is done with it and however it crashes."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from log_for_tests import (
    TICK,
    Plain,
    crash,
    ended,
    moved,
    placed,
    plain,
    rest,
    segments_of,
    ticks,
)

from activebroker.core.errors import NotInLog
from activebroker.log import NOWHERE, Log, Reader, Record
from activebroker.log.committed import NAME, read_committed

SUPPLIERS = ["A", "B", "C"]
MEMORY = Path("/dev/shm")


class LogMachine(RuleBasedStateMachine):
    """`records` are all that the log has, of which it has committed the first `committed`."""

    def __init__(self) -> None:
        super().__init__()
        parent = MEMORY if MEMORY.is_dir() else None
        self.path = Path(tempfile.mkdtemp(dir=parent)) / "log"
        self.records: list[Record] = []
        self.committed = 0
        self.now = 0
        self.notes: list[bytes] = []  # what the file `committed` has been in this segment

    @initialize(
        segment_bytes=st.sampled_from([1, 1000, 5000, 10**6]),
        keep_bytes=st.sampled_from([None, None, 1, 6000]),
        keep_seconds=st.sampled_from([None, None, 50]),
    )
    def begin(self, segment_bytes: int, keep_bytes: int | None, keep_seconds: int | None) -> None:
        self.options = {
            "segment_bytes": segment_bytes,
            "keep_bytes": keep_bytes,
            "keep_seconds": keep_seconds,
            "clock": lambda: self.now * 10**9,
        }
        self.open()
        self.reader = Reader(self.path, TICK)
        self.read = 0  # records that this one has read, or that were dropped before

    def open(self) -> None:
        self.log = Log.open(self.path, TICK, **self.options)
        self.all_is_committed()

    def all_is_committed(self) -> None:
        """So it is when a segment begins, or a log is opened."""
        self.committed = len(self.records)
        self.notes = []

    def teardown(self) -> None:
        self.reader.close()
        self.log._release()
        shutil.rmtree(self.path.parent)

    def upto(self, supplier: str) -> tuple[int, int]:
        offsets = {record.supplier: record.upto for record in self.records}
        return offsets.get(supplier, (1, 0))

    def append(self, record: Record) -> None:
        position = sum(each.events for each in self.records)
        segment = self.log._tail.header.number
        assert self.log.append([record]) == [position]
        if self.log._tail.header.number != segment:
            self.all_is_committed()
        self.records.append(record)

    @rule(
        supplier=st.sampled_from(SUPPLIERS),
        count=st.sampled_from([0, 1, 2, 15, 16, 40]),
        later=st.booleans(),
        data=st.data(),
    )
    def append_events(self, supplier: str, count: int, later: bool, data: st.DataObject) -> None:
        stream, at = self.upto(supplier)
        if later or count == 0:
            stream, at = stream + 1, 0
        times = data.draw(st.lists(st.integers(0, 99), min_size=count, max_size=count))
        self.append(ticks(supplier, at, count, times, stream))

    @rule(supplier=st.sampled_from(SUPPLIERS), by=st.integers(1, 9), end=st.booleans())
    def append_mark(self, supplier: str, by: int, end: bool) -> None:
        stream, at = self.upto(supplier)
        self.append((ended if end else moved)(supplier, at + by, stream))

    @rule()
    def commit(self) -> None:
        self.notes.append((self.path / NAME).read_bytes())
        assert self.log.commit() == sum(each.events for each in self.records)
        self.committed = len(self.records)

    @rule(by=st.integers(1, 60))
    def let_time_pass(self, by: int) -> None:
        self.now += by

    @rule()
    def retain(self) -> None:
        segment = self.log._tail.header.number
        self.log.retain()
        if self.log._tail.header.number != segment:
            self.all_is_committed()

    @rule()
    def close(self) -> None:
        self.log.close()
        self.open()

    @rule(written=st.booleans(), seed=st.none() | st.integers(0, 10**6), power=st.booleans())
    def crash(self, written: bool, seed: int | None, power: bool) -> None:
        """What was not committed is lost in part; where the power fails, also what tells how much
        was."""
        if written:
            crash(self.log)
        else:
            self.log._release()
        if seed is not None:
            self.garble(random.Random(seed))
            if power and self.notes:
                (self.path / NAME).write_bytes(random.Random(seed).choice(self.notes))
        self.log = Log.open(self.path, TICK, **self.options)
        offsets = self.log.offsets
        kept = [each for each in self.records if each.upto <= offsets.get(each.supplier, NOWHERE)]
        assert len(kept) >= self.committed
        assert kept == self.records[: len(kept)]
        self.records = kept
        self.all_is_committed()

    def garble(self, drawn: random.Random) -> None:
        committed = read_committed(self.path).bytes
        last = segments_of(self.path)[-1]
        data = bytearray(last.read_bytes())
        torn = len(data) - committed
        if torn and drawn.random() < 0.5:
            del data[committed + drawn.randrange(torn) :]
        for _ in range(drawn.choice([0, 0, 1, 5])):
            if len(data) > committed:
                at = drawn.randrange(committed, len(data))
                data[at] ^= 1 << drawn.randrange(8)
        last.write_bytes(data)
        if drawn.random() < 0.3:
            last.with_name("000000000099.new").write_bytes(data[: drawn.randrange(50)])

    def expected(self) -> list[Plain]:
        """What is committed, dropped or not."""
        return placed(self.records)[: self.committed]

    @invariant()
    def it_is_as_it_says(self) -> None:
        assert self.log.next == sum(each.events for each in self.records)
        committed = self.records[: self.committed]
        assert self.log.committed == sum(each.events for each in committed)
        assert self.log.offsets == {each.supplier: each.upto for each in committed}

    @rule(most_bytes=st.sampled_from([1, 500, 10**6]))
    def read_on(self, most_bytes: int) -> None:
        try:
            found = rest(self.reader, most_bytes=most_bytes)
        except NotInLog as error:
            assert error.first == self.log.first
            self.reader.seek(None)
            found = rest(self.reader, most_bytes=most_bytes)
            assert self.read <= self.committed - len(found)
            self.read = self.committed - len(found)
        assert found == self.expected()[self.read :]
        self.read = self.committed

    @rule(data=st.data())
    def search(self, data: st.DataObject) -> None:
        expected = self.expected()
        with Reader(self.path, TICK) as reader:
            assert (reader.first, reader.committed) == (self.log.first, self.log.committed)
            found = rest(reader)
            dropped = len(expected) - len(found)
            assert found == expected[dropped:]
            assert all(not each.events or self.log.first for each in self.records[:dropped])

            time = data.draw(st.integers(-1, 100), "time")
            times = [(at + i, t) for at, *_, s, _ in found for i, (_, t, _) in enumerate(s)]
            since = [position for position, each in times if each >= time]
            assert reader.position_of(time) == min(since, default=self.log.committed)

            offset = st.tuples(st.integers(0, 3), st.integers(0, 60))
            offsets = data.draw(st.dictionaries(st.sampled_from(SUPPLIERS), offset), "offsets")
            lacked = [
                position
                for position, supplier, upto, *_ in found
                if upto > offsets.get(supplier, NOWHERE)
            ]
            assert reader.position_after(offsets) == min(lacked, default=self.log.committed)

            position = data.draw(st.integers(self.log.first, self.log.committed), "position")
            reader.seek(position)
            for at, supplier, upto, events, is_end in found:
                had = max(position - at, 0)
                if at >= position or at + len(events) > position:
                    (entry,) = reader.read(most_bytes=1)
                    assert plain(*entry) == (at + had, supplier, upto, events[had:], is_end)
            assert reader.read() == []


def test_a_log_is_a_list(request):
    rounds = request.config.getoption("rounds")
    run_state_machine_as_test(
        LogMachine,
        settings=settings(max_examples=25 * rounds or 40, stateful_step_count=40, deadline=None),
    )

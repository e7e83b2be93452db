"""Whole old segments are dropped, by size and by age; positions and offsets stay."""

from __future__ import annotations

import pytest
from log_for_tests import TICK, moved, placed, segments_of, stored, ticks

from activebroker.log import Log

SECOND = 10**9


def size(path) -> int:
    return sum(segment.stat().st_size for segment in segments_of(path))


def test_so_many_bytes_are_kept(tmp_path):
    records = [moved("gone", 3, stream=9), *(ticks("A", n, 1) for n in range(200))]
    with Log.open(tmp_path, TICK, segment_bytes=1000, keep_bytes=5000) as log:
        for record in records:
            log.append([record])
            log.commit()
            segments = segments_of(tmp_path)
            newer = size(tmp_path) - segments[0].stat().st_size
            assert size(tmp_path) >= 5000 or log.first == 0
            # The newest has grown since it was begun, when this was looked at.
            assert newer - segments[-1].stat().st_size < 5000
        assert log.first > 100
        assert stored(tmp_path) == placed(records)[1 + log.first :]
        assert (log.next, log.offsets) == (200, {"gone": (9, 3), "A": (1, 200)})
    with Log.open(tmp_path, TICK) as log:  # the header of the last segment has them
        assert (log.next, log.offsets) == (200, {"gone": (9, 3), "A": (1, 200)})
        assert log.append([ticks("A", 200, 1)]) == [200]


@pytest.mark.parametrize("reopened", [False, True])
def test_events_go_when_they_are_old(tmp_path, reopened):
    now = 1000 * SECOND

    def opened() -> Log:
        return Log.open(tmp_path, TICK, segment_bytes=1000, keep_seconds=60, clock=lambda: now)

    log = opened()
    appended = []  # when each event was
    for n in range(200):
        log.append([ticks("A", n, 1, 10**18)])  # what a supplier says of the time does not matter
        appended.append(now)
        now += SECOND
        if reopened and n % 20 == 0:
            log.close()
            log = opened()
        log.retain()
        assert all(at > now - 80 * SECOND for at in appended[log.first :])  # a segment more
        assert all(at <= now - 60 * SECOND for at in appended[: log.first])
    log.close()
    assert stored(tmp_path) == placed([ticks("A", n, 1, 10**18) for n in range(200)])[log.first :]


def test_a_segment_that_is_written_goes_once_another_has_taken_its_place(tmp_path):
    now = 0
    with Log.open(tmp_path, TICK, keep_seconds=60, clock=lambda: now) as log:
        log.append([ticks("A", 0, 5)])
        now = 59 * SECOND
        assert log.retain() == 0
        log.append([ticks("A", 5, 1)])
        now = 61 * SECOND
        assert (log.retain(), len(segments_of(tmp_path))) == (0, 2)  # event 5 is young
        now = 122 * SECOND
        assert (log.retain(), len(segments_of(tmp_path))) == (6, 1)
        now = 1000 * SECOND
        assert (log.retain(), len(segments_of(tmp_path))) == (6, 1)  # an empty one is let alone
        assert log.append([ticks("A", 6, 1)]) == [6]
        assert log.commit() == 7
    assert [position for position, *_ in stored(tmp_path)] == [6]


def test_without_a_limit_all_is_kept(tmp_path):
    with Log.open(tmp_path, TICK, segment_bytes=1) as log:
        log.append([ticks("A", n, 1) for n in range(30)])
        assert log.retain() == 0
    assert len(stored(tmp_path)) == 30

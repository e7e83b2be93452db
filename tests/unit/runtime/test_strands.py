"""The threads that filters share: few of them, each task in its order, nobody held up for good."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from activebroker.runtime import pool as pool_module
from activebroker.runtime.pool import Pool, Strand

DEADLINE = 30.0


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(most=3)
    yield pool
    eventually(lambda: not pool.threads, "threads are left")


def eventually(look: Callable[[], object], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not look():
        assert time.monotonic() < end, what
        time.sleep(0.001)


def result_of(strand: Strand, task: Callable[[], object] = threading.get_ident) -> object:
    found: list[object] = []
    done = threading.Event()
    strand.do(lambda: (found.append(task()), done.set())[0])
    assert done.wait(DEADLINE)
    return found[0]


def end(*strands: Strand) -> None:
    for strand in strands:
        strand.end()


def test_many_strands_share_few_threads_and_each_keeps_its_own(pool: Pool) -> None:
    strands = [pool.strand() for _ in range(100)]
    first = [result_of(strand) for strand in strands]
    assert len(set(first)) == len(pool.threads) == 3
    assert [result_of(strand) for strand in reversed(strands)] == first[::-1]
    end(*strands)


def test_tasks_of_a_strand_run_in_order_and_the_last_is_that_of_its_end(pool: Pool) -> None:
    strands, seen = [pool.strand() for _ in range(5)], []
    for number in range(50):
        for place, strand in enumerate(strands):
            strand.do(lambda place=place, number=number: seen.append((place, number)))
    for place, strand in enumerate(strands):
        strand.end(lambda place=place: seen.append((place, 50)))
        strand.end(lambda: seen.append("ended twice"))
    eventually(lambda: not pool.threads, "threads are left")
    for place in range(5):
        assert [number for who, number in seen if who == place] == list(range(51))


def test_who_waits_for_a_task_that_runs_long_gets_another_thread(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "LONG", 0.0)
    strands, enough = [pool.strand() for _ in range(9)], threading.Event()
    stuck, others, seen = strands[0], strands[1:], []
    begun = threading.Event()
    stuck.do(lambda: (begun.set(), enough.wait(DEADLINE))[0])
    assert begun.wait(DEADLINE)
    stuck.do(lambda: seen.append("the stuck one"))
    for strand in others:
        strand.do(lambda: seen.append("another"))
    eventually(lambda: (pool.relieve(), len(seen) == 8)[1], "others are held up")
    assert "the stuck one" not in seen, "its own tasks wait"
    enough.set()
    eventually(lambda: seen[8:] == ["the stuck one"], "it does not go on")
    end(*strands)


def test_nobody_has_to_look_while_nobody_waits(pool: Pool) -> None:
    strand = pool.strand()
    result_of(strand)
    assert pool.relieve() is None
    end(strand)


def test_a_task_that_raises_ends_nothing(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    strand = pool.strand()
    before = result_of(strand)
    for error in (ValueError("planted"), SystemExit(3)):
        strand.do(lambda error=error: (_ for _ in ()).throw(error))
        assert result_of(strand) == before
    assert caplog.text.count("a task failed that should not") == 2
    strand.end(lambda: (_ for _ in ()).throw(ValueError("at the end")))


def test_a_thread_that_waits_keeps_nothing_of_its_last_task(pool: Pool) -> None:
    class Filter:
        def close(self) -> None: ...

    strands = [pool.strand() for _ in range(6)]
    filters = [Filter() for _ in strands]
    kept = weakref.WeakSet([*strands, *filters])
    for strand, filter_ in zip(strands[:3], filters, strict=False):  # each thread has one more
        strand.end(filter_.close)
    del strand, filter_, strands[:3], filters[:3]
    eventually(lambda: len(kept) == 6, "what has ended is kept")
    end(*strands)


def test_where_the_system_gives_no_thread_strands_share_those_there_are(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = pool.strand()

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    strands = [pool.strand() for _ in range(5)]
    assert {result_of(strand) for strand in strands} == {result_of(reserve)}
    with pytest.raises(RuntimeError, match="gives this process no thread"):
        Pool().strand()
    end(reserve, *strands)

"""Many filters in one process: few threads, events that are read once, and nobody's changes seen by
another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from trading_for_tests import PATIENCE

import activebroker as ab
from activebroker import Event, FIFOFilter
from activebroker.events import ANY, Batch, encode
from activebroker.runtime import pool
from activebroker.runtime.pool import POOL, THREADS

Content = dict[str, Any]


class Read:
    """Counts how often it is read."""

    times = 0

    def __init__(self, n: int) -> None:
        self.n = n

    def __setstate__(self, state: Content) -> None:
        Read.times += 1
        vars(self).update(state)


class Spoil(FIFOFilter):
    """Changes contents in place before it forwards them."""

    def enqueue(self, event: Event) -> None:
        event.content["n"] = -1
        event.content["tags"].append("spoilt")
        super().enqueue(event)


class Even(FIFOFilter):
    """Its predicate is exact."""

    def enqueue(self, event: Event) -> None:
        if event.content["n"] % 2 == 0:
            super().enqueue(event)


class Tagged(FIFOFilter):
    """Not decided by its predicate."""

    def enqueue(self, event: Event) -> None:
        if sorted(event.content["tags"]) == ["a", "b"]:
            super().enqueue(event)


def even(content: Content) -> bool:
    return content["n"] % 2 == 0


def tagged(content: Content) -> bool:
    return sorted(content["tags"]) == ["a", "b"]


def spoiling(content: Content) -> bool:
    """Against the rule: a function only tells."""
    content.setdefault("seen", True)
    return True


@pytest.fixture(params=["supplier", "atlanta", "consumer"])
def at(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param


def test_what_one_filter_changes_no_other_sees(fabric: ab.Fabric, at: str) -> None:
    contents = [{"n": n, "tags": ["b", "a"]} for n in range(40)]
    channel = fabric.channel("events", object)
    given: list[Any] = [Spoil, even, Tagged, Spoil, Even, tagged]
    taken = [channel.derive(each, at=at).subscribe(timeout=PATIENCE) for each in given]
    with channel.supplier("A") as supplier:
        for content in contents[:3]:
            supplier.publish(content)
        supplier.publish_batch(contents[3:])
    channel.close()
    spoilt = [{"n": -1, "tags": ["b", "a", "spoilt"]}] * 40
    halves = contents[::2]
    expected = [spoilt, halves, contents, spoilt, halves, contents]
    assert [[event.content for event in each] for each in taken] == expected


def test_a_function_forwards_events_as_they_came(fabric: ab.Fabric, at: str) -> None:
    channel = fabric.channel("events", object)
    with channel.derive(spoiling, at=at).subscribe(timeout=PATIENCE) as taken:
        with channel.supplier("A") as supplier:
            supplier.publish_batch([{"n": n} for n in range(5)])
        channel.close()
        assert [event.content for event in taken] == [{"n": n} for n in range(5)]


def test_many_filters_take_few_threads(fabric: ab.Fabric) -> None:
    def above(limit: int) -> Callable[[Content], bool]:
        return lambda content: sorted([content["n"], limit])[0] == limit

    channel = fabric.channel("events", object)
    before = threading.active_count() - len(POOL.threads)
    taken = [channel.derive(above(n)).subscribe(timeout=PATIENCE) for n in range(60)]
    with channel.supplier("A") as supplier:
        supplier.publish_batch([{"n": n} for n in range(60)])
        assert threading.active_count() - before <= THREADS
    channel.close()
    assert [len(list(each)) for each in taken] == list(range(60, 0, -1))


def test_many_callbacks_take_few_threads(fabric: ab.Fabric) -> None:
    channel = fabric.channel("events", object)
    seen: list[list[int]] = [[] for _ in range(60)]
    before = threading.active_count() - len(POOL.threads)
    taken = [channel.subscribe(lambda event, to=to: to.append(event.content)) for to in seen]
    with channel.supplier("A") as supplier:
        supplier.publish_batch(list(range(50)))
        for n in range(50, 100):
            supplier.publish(n)
        assert threading.active_count() - before <= THREADS
    channel.close()
    for each in taken:
        each.join(PATIENCE)
    assert seen == [list(range(100))] * 60


def test_callbacks_that_wait_for_each_other_get_threads(
    fabric: ab.Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of them sets all others free, and shares a thread with some."""
    monkeypatch.setattr(pool, "LONG", 0.02)
    channel = fabric.channel("events", object)
    free = threading.Event()
    waits = [channel.subscribe(lambda event: free.wait(PATIENCE)) for _ in range(THREADS + 3)]
    last = channel.subscribe(lambda event: free.set())
    with channel.supplier("A") as supplier:
        supplier.publish(1)
        assert free.wait(PATIENCE)
    channel.close()
    for each in (*waits, last):
        each.join(PATIENCE)


# --- what is shared -----------------------------------------------------------------------------


def batch_of(rows: int) -> Batch:
    return encode(ANY, [Read(n) for n in range(rows)], "A", 0, 0)


def test_a_batch_and_its_slices_are_read_once_for_all_who_share_it() -> None:
    batch = batch_of(100)
    Read.times = 0
    _, events, unreadable = batch.shared()
    parts = [batch.slice(10, 50), batch.slice(10, 50).slice(5, 7), batch.slice(99, 1)]
    shared = [part.shared()[1] for part in parts]
    assert [[event.content.n for event in each] for each in shared] == [
        list(range(10, 60)),
        list(range(15, 22)),
        [99],
    ]
    assert all(event is events[event.content.n] for each in shared for event in each)
    assert Read.times == 100 and not unreadable
    assert batch.read()[1][0] is not events[0], "who may change it gets his own"


def test_however_often_a_batch_is_cut_its_parts_are_parts_of_the_whole() -> None:
    batch = batch_of(3000)
    Read.times = 0
    numbers, rest = [], batch
    while rest.num_rows:
        numbers += [event.content.n for event in rest.slice(0, 1).shared()[1]]
        rest = rest.slice(1, rest.num_rows - 1)
    assert numbers == list(range(3000)) and Read.times == 3000

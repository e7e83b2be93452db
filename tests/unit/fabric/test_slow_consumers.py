"""A slow consumer: what it costs itself and others, as its subscription says."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from brokers_for_tests import Brokers
from trading_for_tests import PATIENCE, Trade, eventually, prices, trades

import activebroker as ab
from activebroker import Event, Gap
from activebroker.core.errors import InvalidSubscription, SlowConsumer
from activebroker.events import ANY, EventType, encode
from activebroker.node.dataplane.outlet import WINDOW
from activebroker.runtime import EventQueue, SlowPolicy, backlog

LARGE = np.zeros(WINDOW // 4, np.uint8)  # a few of them use a flow's credit up


@pytest.fixture
def channel(fabric: ab.Fabric) -> ab.Channel:
    return fabric.channel("trades", Trade)


def published(channel: ab.Channel, nyse: ab.Supplier, *batches: list[float]) -> None:
    """Publish, and wait until it has come to whoever subscribes."""
    with channel.subscribe(timeout=PATIENCE) as probe:
        for batch in batches:
            nyse.publish_batch(trades(*batch))
            assert prices(islice(probe, len(batch))) == batch


def numbers(start: int, stop: int) -> list[float]:
    return [float(number) for number in range(start, stop)]


# --- dropping ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 7, 100])
@pytest.mark.parametrize(
    ("when_slow", "kept"), [("drop_oldest", numbers(90, 100)), ("drop_newest", numbers(0, 10))]
)
def test_what_is_dropped_is_counted_and_told_where_it_would_have_come(
    channel: ab.Channel, when_slow: Any, kept: list[float], size: int
) -> None:
    seen: list[float | Gap] = []
    with (
        channel.supplier("NYSE") as nyse,
        channel.subscribe(
            timeout=PATIENCE, when_slow=when_slow, keep=10, on_gap=seen.append
        ) as events,
    ):
        published(channel, nyse, *[numbers(n, min(n + size, 100)) for n in range(0, 100, size)])
        assert events.dropped == 90
        channel.close()
        for event in events:
            seen.append(event.content.price)
    gap = Gap(90, {"NYSE": (0, 89) if when_slow == "drop_oldest" else (10, 99)})
    assert seen == ([gap, *kept] if when_slow == "drop_oldest" else [*kept, gap])


def test_a_reader_that_goes_on_gets_each_gap_at_its_place(channel: ab.Channel) -> None:
    seen: list[float | Gap] = []
    with (
        channel.supplier("NYSE") as nyse,
        channel.supplier("LSE") as lse,
        channel.subscribe(
            timeout=PATIENCE, when_slow="drop_oldest", keep=4, on_gap=seen.append
        ) as events,
    ):
        published(channel, nyse, numbers(0, 6))
        seen.extend(event.content.price for event in islice(events, 3))  # one is left in hand
        published(channel, lse, numbers(0, 3))
        published(channel, nyse, numbers(6, 10))
        channel.close()
        seen.extend(event.content.price for event in events)
    assert seen == [
        Gap(2, {"NYSE": (0, 1)}),
        *[2.0, 3.0, 4.0, 5.0],
        Gap(3, {"LSE": (0, 2)}),
        *[6.0, 7.0, 8.0, 9.0],
    ]


Read = Callable[[ab.Subscription], list[float]]


def by_batches(events: ab.Subscription) -> list[float]:
    return [price for each in events.batches() for price in each.columns["price"].to_pylist()]


def by_async_for(events: ab.Subscription) -> list[float]:
    async def take() -> list[float]:
        return [event.content.price async for event in events]

    return asyncio.run(take())


@pytest.mark.parametrize("read", [prices, by_batches, by_async_for], ids=lambda read: read.__name__)
def test_an_error_of_on_gap_costs_no_events(channel: ab.Channel, read: Read) -> None:
    def on_gap(gap: Gap) -> None:
        raise ZeroDivisionError

    with (
        channel.supplier("NYSE") as nyse,
        channel.subscribe(when_slow="drop_oldest", keep=5, on_gap=on_gap) as events,
    ):
        published(channel, nyse, numbers(0, 50))
        channel.close()
        with pytest.raises(ZeroDivisionError):
            read(events)
        assert read(events) == numbers(45, 50)


def test_a_callback_hears_of_gaps(channel: ab.Channel) -> None:
    seen: list[float | Gap] = []
    begun, free = threading.Event(), threading.Event()

    def call(event: Event) -> None:
        begun.set()
        assert free.wait(PATIENCE)
        seen.append(event.content.price)

    with (
        channel.supplier("NYSE") as nyse,
        channel.subscribe(call, when_slow="drop_oldest", keep=2, on_gap=seen.append) as events,
    ):
        nyse.publish(Trade("IBM", 0.0))
        assert begun.wait(PATIENCE)
        published(channel, nyse, numbers(1, 10))
        free.set()
        channel.close()
        events.join(PATIENCE)
    assert seen == [0.0, Gap(7, {"NYSE": (1, 7)}), 8.0, 9.0]


@pytest.mark.parametrize("when_slow", ["drop_oldest", "drop_newest"])
def test_one_that_never_reads_stalls_nobody_and_holds_little(
    fabric: ab.Fabric, when_slow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "KEEP_BYTES", WINDOW)
    channel = fabric.channel("blobs", object)
    with (
        channel.subscribe(when_slow=when_slow) as never,
        channel.subscribe(timeout=PATIENCE) as reader,
        channel.supplier("source") as source,
    ):
        for number in range(30):  # many times the credit
            source.publish((number, LARGE))
            assert next(iter(reader)).content[0] == number
        channel.close()
        left = [event.content[0] for event in never]
        assert len(left) + never.dropped == 30
        assert 1 <= len(left) <= 5
        assert left == sorted(left)


def test_one_that_blocks_stalls_its_suppliers_until_it_reads(fabric: ab.Fabric) -> None:
    channel = fabric.channel("blobs", object)
    with channel.subscribe(timeout=PATIENCE) as events, channel.supplier("source") as source:
        with pytest.raises(TimeoutError):
            for number in range(1000):
                source.publish((number, LARGE), timeout=0.05)
        sent = source.published
        assert [event.content[0] for event in islice(events, sent)] == [*range(sent)]
        source.publish((sent, LARGE))
        assert next(iter(events)).content[0] == sent


# --- cutting off ------------------------------------------------------------------------------


def test_one_that_never_reads_is_cut_off_and_the_others_go_on(fabric: ab.Fabric) -> None:
    channel = fabric.channel("blobs", object)
    with (
        channel.subscribe(when_slow="disconnect", patience=0.1, timeout=PATIENCE) as never,
        channel.subscribe(timeout=PATIENCE) as reader,
        channel.supplier("source") as source,
    ):
        for number in range(20):
            source.publish((number, LARGE))
            assert next(iter(reader)).content[0] == number
        # What had come is there; then it says why there is no more, each time.
        came: list[int] = []
        for _ in range(2):
            with pytest.raises(SlowConsumer, match=r"'blobs' was cut off.*for 0\.1 s"):
                came.extend(event.content[0] for event in never)
        assert 0 < len(came) < 20
        assert came == [*range(len(came))]
        eventually(
            lambda: fabric.status()["channels"][0]["consumers"] == 1, "it is still subscribed"
        )


@pytest.mark.parametrize("when_slow", ["drop_oldest", "drop_newest", "disconnect"])
def test_over_sockets_too_it_holds_up_nobody(
    when_slow: Any, brokers: Brokers, joined: ab.Fabric
) -> None:
    with (
        ab.connect(brokers.address, brokers.key) as slow,
        ab.connect(brokers.address, brokers.key) as quick,
    ):
        channel = joined.channel("blobs", object)
        relayed = channel.derive(lambda blob: blob[0] >= 0, at="dallas")
        never = slow.channel(relayed.name).subscribe(
            when_slow=when_slow, keep=3, patience=0.1, timeout=PATIENCE
        )
        reader = quick.channel(relayed.name).subscribe(timeout=PATIENCE)
        with channel.supplier("source") as source:
            for number in range(20):
                source.publish((number, LARGE))
                assert next(iter(reader)).content[0] == number
            relayed.close()
        left: list[int] = []
        if when_slow == "disconnect":
            with pytest.raises(SlowConsumer):
                left.extend(event.content[0] for event in never)
            assert 0 < len(left) < 20
        else:
            eventually(lambda: never.dropped == 17, "not all has come")
            left.extend(event.content[0] for event in never)
            assert (len(left), never.dropped) == (3, 17)
        assert left == sorted(left)


def test_only_what_waits_makes_one_slow() -> None:
    queue = EventQueue("trades", ANY, SlowPolicy("disconnect", patience=10.0))
    batch = encode(EventType.of(Trade), trades(1, 2), "NYSE", 0, [0, 0])
    now = time.monotonic()
    assert queue.left(now + 100) is None
    queue.put(1, batch, batch.nbytes)
    left = queue.left(now)
    assert left is not None and left >= 10
    left = queue.left(now + 100)
    assert left is not None and left < 0
    assert queue.fetch(1)  # one of two: the other waits still
    assert queue.left(now + 100) == left
    assert len(list(queue.rows)) == 1
    assert queue.fetch(1)
    assert queue.left(now + 100) is None


# --- what is refused --------------------------------------------------------------------------


async def async_function(event: Event) -> None:
    pass


class AsyncCallable:
    async def __call__(self, event: Event) -> None:
        pass

    async def method(self, event: Event) -> None:
        pass


def generator(event: Event) -> Any:
    yield event


async def async_generator(event: Event) -> Any:
    yield event


@pytest.mark.parametrize(
    ("callback", "why"),
    [
        (async_function, "async_function is async.*activebroker.aio"),
        (functools.partial(async_function), "is async"),
        (AsyncCallable(), "is async"),
        (functools.partial(AsyncCallable()), "is async"),
        (AsyncCallable().method, "method is async"),
        (generator, "generator is a generator"),
        (async_generator, "async_generator is a generator"),
        (lambda: None, "one argument"),
        (lambda event, more: None, "one argument"),
        ("print", "'print' cannot be"),
    ],
)
def test_a_callback_that_would_do_nothing_is_refused(
    channel: ab.Channel, callback: Any, why: str
) -> None:
    with pytest.raises(InvalidSubscription, match=why):
        channel.subscribe(callback)


@pytest.mark.parametrize("callback", [print, lambda event, more=1: None, {}.get])
def test_what_can_be_called_with_an_event_is_accepted(channel: ab.Channel, callback: Any) -> None:
    channel.subscribe(callback).close()


def test_a_coroutine_that_nobody_awaits_ends_the_callback(channel: ab.Channel) -> None:
    events = channel.subscribe(lambda event: async_function(event))
    channel.supplier("NYSE").publish_batch(trades(1, 2))
    with pytest.raises(InvalidSubscription, match="which nobody awaits"):
        events.join(PATIENCE)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"when_slow": "drop_olddest"}, "Did you mean 'drop_oldest'"),
        ({"when_slow": None}, "no policy"),
        ({"when_slow": "drop_oldest", "keep": 0}, "keep"),
        ({"when_slow": "drop_newest", "keep": 1.5}, "keep"),
        ({"when_slow": "disconnect", "patience": 0}, "patience"),
        ({"when_slow": "disconnect", "patience": "1"}, "patience"),
    ],
)
def test_a_policy_that_is_none_is_refused(
    channel: ab.Channel, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidSubscription, match=why):
        channel.subscribe(**options)

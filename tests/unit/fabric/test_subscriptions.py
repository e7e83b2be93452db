"""Taking events: iteration, batches, callbacks, `async for`, and how each of them ends."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from trading_for_tests import PATIENCE, Trade, prices, trades

import activebroker as ab
from activebroker.core.errors import DeadlineExceeded
from activebroker.events import Event


@pytest.fixture
def channel(fabric: ab.Fabric) -> ab.Channel:
    return fabric.channel("trades", Trade)


def test_iteration_ends_with_the_channel(channel: ab.Channel) -> None:
    with channel.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        for trade in trades(1, 2, 3):
            nyse.publish(trade)
        channel.close()
        assert prices(events) == [1, 2, 3]
        assert prices(events) == []


def test_an_event_has_a_header(channel: ab.Channel) -> None:
    before = time.time_ns()
    with channel.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish(Trade("IBM", 1.0))
        nyse.publish_batch(trades(2, 3))
        channel.close()
        taken = list(events)
    assert [(event.type, event.supplier, event.seq) for event in taken] == [
        ("Trade", "NYSE", 0),
        ("Trade", "NYSE", 1),
        ("Trade", "NYSE", 2),
    ]
    times = [event.time for event in taken]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= time.time_ns()


def test_batches_are_columns(channel: ab.Channel) -> None:
    with channel.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish_batch(trades(*range(100)))
        channel.close()
        batches = list(events.batches())
    assert [value for each in batches for value in each.columns["price"].to_pylist()] == [
        *map(float, range(100))
    ]
    assert batches[0].columns.schema.names == ["$seq", "$time", "name", "price"]


def test_only_what_is_published_after_subscribing_comes(channel: ab.Channel) -> None:
    with channel.subscribe(timeout=PATIENCE) as early, channel.supplier("NYSE") as nyse:
        nyse.publish_batch(trades(1, 2))
        first = iter(early)
        assert [next(first).content.price, next(first).content.price] == [1, 2]
        with channel.subscribe(timeout=PATIENCE) as late:
            nyse.publish(Trade("IBM", 3.0))
            channel.close()
            assert [(event.seq, event.content.price) for event in late] == [(2, 3.0)]
            assert prices(first) == [3]


def test_a_timeout_says_how_long_it_waited(channel: ab.Channel) -> None:
    with channel.subscribe(timeout=0.05) as events:
        for wait in (lambda: next(iter(events)), lambda: next(events.batches())):
            with pytest.raises(DeadlineExceeded, match=r"No event came for 0\.05 s"):
                wait()
        # It is no end: what comes later can still be taken.
        channel.supplier("NYSE").publish(Trade("IBM", 1.0))
        events.timeout = PATIENCE
        assert next(iter(events)).content.price == 1.0


def test_closing_a_subscription_ends_an_iteration_in_another_thread(channel: ab.Channel) -> None:
    events = channel.subscribe()
    taken: list[list[float]] = []
    reader = threading.Thread(target=lambda: taken.append(prices(events)))
    reader.start()
    events.close()
    reader.join(PATIENCE)
    assert taken == [[]]
    events.close()


def test_a_callback_sees_every_event_in_another_thread(channel: ab.Channel) -> None:
    seen: list[tuple[float, int]] = []

    def see(event: Event) -> None:
        seen.append((event.content.price, threading.get_ident()))

    with channel.subscribe(see) as events:
        channel.supplier("NYSE").publish_batch(trades(1, 2, 3))
        channel.close()
        events.join(PATIENCE)
    assert [price for price, _ in seen] == [1, 2, 3]
    (thread,) = {thread for _, thread in seen}
    assert thread != threading.get_ident()


def test_joining_has_a_deadline(channel: ab.Channel) -> None:
    with (
        channel.subscribe(lambda event: None) as events,
        pytest.raises(DeadlineExceeded, match=r"'trades' has not ended within 0\.05 s"),
    ):
        events.join(0.05)


def _fail(event: Event) -> None:
    raise ZeroDivisionError(event.content.name)


def test_what_a_callback_raises_is_raised_by_join_once(channel: ab.Channel) -> None:
    events = channel.subscribe(_fail)
    channel.supplier("NYSE").publish_batch(trades(1, 2))
    with pytest.raises(ZeroDivisionError, match="IBM"):
        events.join(PATIENCE)
    events.join(PATIENCE)
    events.close()


def test_what_a_callback_raises_is_raised_by_close(channel: ab.Channel) -> None:
    raised = threading.Event()

    def fail(event: Event) -> None:
        raised.set()
        _fail(event)

    events = channel.subscribe(fail)
    channel.supplier("NYSE").publish(Trade("IBM", 1.0))
    assert raised.wait(PATIENCE)
    with pytest.raises(ZeroDivisionError, match="IBM"):
        events.close()


def test_a_callback_that_raises_disturbs_nobody_else(channel: ab.Channel) -> None:
    with channel.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        broken = channel.subscribe(_fail)
        nyse.publish(Trade("IBM", 1.0))
        with pytest.raises(ZeroDivisionError):
            broken.join(PATIENCE)
        nyse.publish(Trade("IBM", 2.0))
        channel.close()
        assert prices(events) == [1, 2]


def test_a_callback_may_close_its_own_subscription(channel: ab.Channel) -> None:
    seen: list[float] = []

    def see_one(event: Event) -> None:
        seen.append(event.content.price)
        events.close()

    events = channel.subscribe(see_one)
    nyse = channel.supplier("NYSE")
    nyse.publish(Trade("IBM", 1.0))
    events.join(PATIENCE)
    nyse.publish(Trade("IBM", 2.0))
    assert seen == [1]


def test_async_for(channel: ab.Channel) -> None:
    async def take() -> list[float]:
        with channel.subscribe(timeout=PATIENCE) as events:
            channel.supplier("NYSE").publish_batch(trades(1, 2, 3))
            channel.close()
            return [event.content.price async for event in events]

    assert asyncio.run(take()) == [1, 2, 3]


def test_async_for_leaves_the_loop_to_others_and_has_a_deadline(channel: ab.Channel) -> None:
    async def take() -> None:
        other = asyncio.create_task(asyncio.sleep(0.01))
        with channel.subscribe(timeout=0.05) as events, pytest.raises(DeadlineExceeded):
            async for _ in events:
                pass
        assert other.done()

    asyncio.run(take())


def test_async_for_can_be_cancelled(channel: ab.Channel) -> None:
    async def take() -> None:
        with channel.subscribe() as events:

            async def read() -> None:
                async for _ in events:
                    pass

            await asyncio.wait_for(read(), 0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(take())

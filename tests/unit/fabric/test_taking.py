"""A subscription keeps its place: however one takes events and stops, the next goes on there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from itertools import cycle, islice

import pytest
from trading_for_tests import PATIENCE, Trade, prices, trades

import activebroker as ab
from activebroker import Batch, Event
from activebroker.core.errors import ActiveBrokerError, DeadlineExceeded, Unreachable

EVENTS = [float(number) for number in range(20)]


@pytest.fixture
def channel(fabric: ab.Fabric) -> ab.Channel:
    return fabric.channel("trades", Trade)


# --- stopping ---------------------------------------------------------------------------------

# Each takes up to about five events, and stops in its own way.


def stop_a_loop(events: ab.Subscription) -> list[float]:
    return prices(islice(events, 5))


def break_a_loop(events: ab.Subscription) -> list[float]:
    taken: list[Event] = []
    for event in events:
        taken.append(event)
        if len(taken) == 5:
            break
    return prices(taken)


def ask_for_one(events: ab.Subscription) -> list[float]:
    return prices(islice(iter(events), 1))


def take_a_batch(events: ab.Subscription) -> list[float]:
    return of(islice(events.batches(), 1))


def break_an_async_loop(events: ab.Subscription) -> list[float]:
    async def take() -> list[Event]:
        taken: list[Event] = []
        async for event in events:
            taken.append(event)
            if len(taken) == 5:
                break
        return taken

    return prices(asyncio.run(take()))


def take_an_async_batch(events: ab.Subscription) -> list[float]:
    async def take() -> list[Batch]:
        async for batch in events.batches():
            return [batch]
        return []

    return of(asyncio.run(take()))


def cancel_a_reader(events: ab.Subscription) -> list[float]:
    taken: list[Event] = []

    async def read() -> None:
        async for event in events:
            taken.append(event)
            if len(taken) == 3:
                reader.cancel()
            await asyncio.sleep(0)

    async def cancel() -> None:
        nonlocal reader
        reader = asyncio.create_task(read())
        await asyncio.wait([reader])

    reader: asyncio.Task[None]
    asyncio.run(cancel())
    return prices(taken)


def raise_in_a_loop(events: ab.Subscription) -> list[float]:
    taken: list[Event] = []
    with pytest.raises(ZeroDivisionError):
        for event in events:
            taken.append(event)
            if len(taken) == 2:
                raise ZeroDivisionError
    return prices(taken)


WAYS: list[Callable[[ab.Subscription], list[float]]] = [
    stop_a_loop,
    break_a_loop,
    ask_for_one,
    break_an_async_loop,
    raise_in_a_loop,
    cancel_a_reader,
    take_a_batch,
    take_an_async_batch,
]


def of(batches: Iterable[Batch]) -> list[float]:
    return [price for batch in batches for price in batch.columns["price"].to_pylist()]


@pytest.mark.parametrize("singly", [True, False], ids=["singly", "in a batch"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_who_stops_takes_nothing_with_him(
    channel: ab.Channel, way: Callable[[ab.Subscription], list[float]], singly: bool
) -> None:
    with channel.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        if singly:
            for trade in trades(*EVENTS):
                nyse.publish(trade)
        else:
            nyse.publish_batch(trades(*EVENTS))
        channel.close()
        taken = way(events)
        assert taken
        assert taken + prices(events) == EVENTS


@pytest.mark.parametrize("size", [3, 20])
def test_all_ways_mixed_see_each_event_once_and_in_order(channel: ab.Channel, size: int) -> None:
    with channel.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        numbers = [float(number) for number in range(100)]
        for start in range(0, 100, size):
            nyse.publish_batch(trades(*numbers[start : start + size]))
        channel.close()
        taken: list[float] = []
        for way in cycle(WAYS[:4] + WAYS[6:]):
            taken += (some := way(events))
            if not some:
                break
        assert taken == numbers


def test_the_rest_of_a_batch_is_a_batch(channel: ab.Channel) -> None:
    with channel.subscribe(timeout=PATIENCE) as events:
        channel.supplier("NYSE").publish_batch(trades(*range(100)))
        stop_a_loop(events)
        rest = next(events.batches())
        assert rest.seqs.tolist() == [*range(5, 100)]


# --- deadlines and cancelling -----------------------------------------------------------------


async def with_a_deadline(events: ab.Subscription) -> Event:
    return await asyncio.wait_for(anext(aiter(events)), 0.002)


async def with_a_timeout(events: ab.Subscription) -> Event:
    async with asyncio.timeout(0.002):
        return await anext(aiter(events))


async def as_a_task(events: ab.Subscription) -> Event:
    task = asyncio.create_task(anext(aiter(events)))  # type: ignore[arg-type]
    done, _ = await asyncio.wait([task], timeout=0.002)
    if not done:
        task.cancel()
        await asyncio.wait([task])
        if task.cancelled():
            raise TimeoutError
    return task.result()


async def by_its_own_timeout(events: ab.Subscription) -> Event:
    events.timeout = 0.002
    return await anext(aiter(events))


@pytest.mark.parametrize(
    "ask",
    [with_a_deadline, with_a_timeout, as_a_task, by_its_own_timeout],
    ids=lambda a: a.__name__,
)
def test_an_async_reader_that_gives_up_again_and_again_misses_nothing(
    channel: ab.Channel, ask: Callable[[ab.Subscription], Awaitable[Event]]
) -> None:
    numbers = [float(number) for number in range(60)]

    async def take() -> tuple[list[float], int]:
        taken: list[float] = []
        given_up = 0
        with channel.subscribe() as events, channel.supplier("NYSE") as nyse:
            for start in range(0, 60, 3):
                while given_up * 3 <= start:  # it has given up before these come
                    try:
                        taken.append((await ask(events)).content.price)
                    except TimeoutError:
                        given_up += 1
                nyse.publish(Trade("IBM", numbers[start]))
                nyse.publish_batch(trades(*numbers[start + 1 : start + 3]))
            channel.close()
            while True:
                try:
                    taken.append((await ask(events)).content.price)
                except TimeoutError:
                    pass
                except StopAsyncIteration:
                    return taken, given_up

    taken, given_up = asyncio.run(take())
    assert taken == numbers
    assert given_up >= 20


def test_a_sync_reader_that_gives_up_again_and_again_misses_nothing(channel: ab.Channel) -> None:
    with channel.subscribe(timeout=0.001) as events, channel.supplier("NYSE") as nyse:
        taken: list[float] = []
        for number in range(20):
            with pytest.raises(DeadlineExceeded):
                taken += prices(events)
            nyse.publish_batch(trades(number))
            events.timeout = PATIENCE
            taken += ask_for_one(events)
            events.timeout = 0.001
        assert taken == [float(number) for number in range(20)]


# --- sharing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["channel", "subscription", "fabric"])
def test_threads_share_a_subscription_and_all_hear_of_its_end(ending: str) -> None:
    with ab.Fabric() as fabric:
        channel = fabric.channel("trades", Trade)
        events = channel.subscribe()
        taken: list[list[float]] = [[], [], []]

        def take(mine: list[float]) -> None:
            for event in events:
                mine.append(event.content.price)

        def take_batches(mine: list[float]) -> None:
            for batch in events.batches():
                mine.extend(batch.columns["price"].to_pylist())

        hows = (take, take, take_batches)
        threads = [
            threading.Thread(target=how, args=(each,))
            for how, each in zip(hows, taken, strict=True)
        ]
        for thread in threads:
            thread.start()
        nyse = channel.supplier("NYSE")
        for start in range(0, 1000, 20):
            nyse.publish_batch(trades(*range(start, start + 20)))
        if ending == "channel":
            channel.close()
        else:
            all_came = threading.Event()
            probe = channel.subscribe(lambda event: event.content.name == "end" and all_came.set())
            nyse.publish(Trade("end", -1.0))
            assert all_came.wait(PATIENCE)
            probe.close()
            (events if ending == "subscription" else fabric).close()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
    for each in taken:
        mine = [price for price in each if price >= 0]
        assert mine == sorted(mine)
    assert sorted(price for each in taken for price in each if price >= 0) == [
        *map(float, range(1000))
    ]


def test_coroutines_share_a_subscription_and_all_hear_of_its_end(channel: ab.Channel) -> None:
    async def take() -> list[list[float]]:
        with channel.subscribe() as events, channel.supplier("NYSE") as nyse:

            async def read() -> list[float]:
                mine: list[float] = []
                async for event in events:
                    mine.append(event.content.price)
                    await asyncio.sleep(0)
                return mine

            readers = [asyncio.create_task(read()) for _ in range(5)]
            for number in range(100):
                nyse.publish(Trade("IBM", float(number)))
                await asyncio.sleep(0)
            channel.close()
            return await asyncio.wait_for(asyncio.gather(*readers), PATIENCE)

    taken = asyncio.run(take())
    assert sorted(price for each in taken for price in each) == [*map(float, range(100))]


def test_a_loop_that_was_closed_amid_a_wait_is_nobody_s_trouble(channel: ab.Channel) -> None:
    with channel.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        loop = asyncio.new_event_loop()
        waiting = loop.create_task(anext(aiter(events)))  # type: ignore[arg-type]
        loop.run_until_complete(asyncio.sleep(0))
        waiting._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()
        nyse.publish(Trade("IBM", 1.0))
        assert ask_for_one(events) == [1.0]


# --- how it ends ------------------------------------------------------------------------------


class Died(BaseException):
    """What no supervisor expects."""


async def each_async(events: ab.Subscription) -> None:
    async for _ in events:
        pass


def read(events: ab.Subscription) -> None:
    for _ in events:
        pass


def read_batches(events: ab.Subscription) -> None:
    for _ in events.batches():
        pass


def read_async(events: ab.Subscription) -> None:
    asyncio.run(each_async(events))


def test_the_death_of_the_node_is_no_end_of_the_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    with ab.Fabric() as fabric:
        channel = fabric.channel("trades", Trade)
        waiting = channel.subscribe()
        events = channel.subscribe()
        called = channel.subscribe(lambda event: None)
        failures: list[BaseException] = []

        def wait() -> None:
            try:
                read(waiting)
            except ActiveBrokerError as failure:
                failures.append(failure)

        thread = threading.Thread(target=wait)
        thread.start()
        channel.supplier("NYSE").publish_batch(trades(1, 2, 3))
        assert ask_for_one(events) == [1.0]

        def die(timeout: float | None) -> None:
            raise Died

        monkeypatch.setattr(fabric._membership._runtime.transport, "receive", die)
        fabric._membership._runtime.transport.wake()
        thread.join(PATIENCE)
        # What had come before is handed out; and each iteration says that it is not the end.
        assert prices(islice(events, 2)) == [2.0, 3.0]
        for take in (read, read_batches, read_async, read):
            with pytest.raises(Unreachable, match="Died"):
                take(events)
        with pytest.raises(Unreachable, match="Died"):
            called.join(PATIENCE)
    assert [type(failure) for failure in failures] == [Unreachable]


def test_closing_leaves_what_has_come_to_be_taken(channel: ab.Channel) -> None:
    events = channel.subscribe(timeout=PATIENCE)
    channel.supplier("NYSE").publish_batch(trades(1, 2, 3))
    assert ask_for_one(events) == [1.0]
    events.close()
    assert prices(events) == [2.0, 3.0]
    assert prices(events) == []


# --- what cannot be decoded -------------------------------------------------------------------


class Torn:
    """Can be pickled, and not read back."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return int, ("torn",)


async def taken_async(events: ab.Subscription) -> list[Event]:
    return [event async for event in events]


@pytest.mark.parametrize("count", [1, 50])
@pytest.mark.parametrize("read", [list, lambda events: asyncio.run(taken_async(events))])
def test_events_that_cannot_be_decoded_are_lost_alone_and_counted(
    fabric: ab.Fabric, read: Callable[[ab.Subscription], list[Event]], count: int
) -> None:
    channel = fabric.channel("objects", object)
    contents = [Torn() if number % 10 == 7 else number for number in range(50)]
    with channel.subscribe(timeout=PATIENCE) as events, channel.supplier("S") as source:
        for start in range(0, 50, count):
            source.publish_batch(contents[start : start + count])
        channel.close()
        taken = [event.content for event in [*islice(events, 3), *read(events)]]
        assert taken == [number for number in range(50) if number % 10 != 7]
        assert len(events.errors) == 5
        assert [(each.supplier, each.seq) for each in events.errors] == [
            ("S", seq) for seq in range(7, 50, 10)
        ]
        assert all("torn" in each.error for each in events.errors)

"""activebroker.aio: the same objects for asyncio, without a thread a subscription, cancellable."""

from __future__ import annotations

import asyncio
import doctest
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest
from brokers_for_tests import Brokers
from trading_for_tests import PATIENCE, Count, Dear, Trade, eventually, prices, trades

import activebroker as ab
from activebroker import Event, aio
from activebroker import fabric as blocking
from activebroker.aio.calls import CALLS
from activebroker.core.errors import (
    Closed,
    DeadlineExceeded,
    InvalidSubscription,
    NameTaken,
    UnknownChannel,
    Unreachable,
)
from activebroker.fabric.subscription import TURN

Main = Callable[[aio.Fabric], Coroutine[Any, Any, None]]


def run(main: Main, *brokers: str) -> None:
    async def within() -> None:
        async with aio.open(ab.Fabric, brokers) as fabric:
            await main(fabric)

    asyncio.run(asyncio.wait_for(within(), 2 * PATIENCE))


def under_way() -> int:
    """How many calls are."""
    return sum(each.name == "activebroker call" for each in threading.enumerate())


async def taken(events: aio.Subscription) -> list[float]:
    return [event.content.price async for event in events]


PAIRS = [
    (blocking.Fabric, aio.Fabric),
    (blocking.Channel, aio.Channel),
    (blocking.Supplier, aio.Supplier),
    (blocking.Subscription, aio.Subscription),
    (blocking.Balancing, aio.Balancing),
]
# What others of the package use, and what is told by `await`ing.
INTERNAL = {blocking.Supplier: {"end"}}


@pytest.mark.parametrize(("sync", "wrapper"), PAIRS)
def test_each_object_has_the_methods_of_the_one_it_stands_for(sync: type, wrapper: type) -> None:
    names = {name for name in dir(sync) if not name.startswith("_")} - INTERNAL.get(sync, set())
    assert names <= set(dir(wrapper))
    for name in names:
        if not isinstance(method := getattr(sync, name), property):
            mine = inspect.signature(method).parameters
            theirs = inspect.signature(getattr(wrapper, name)).parameters
            assert list(mine) == list(theirs), name
            assert [each.default for each in mine.values()] == [
                each.default for each in theirs.values()
            ]


async def whole_program(fabric: aio.Fabric) -> None:
    channel = await fabric.channel("trades", Trade)
    dear = await channel.derive(Dear, at="atlanta", name="dear")
    count = await dear.derive(Count, at="atlanta")
    assert (dear.name, dear.parent, channel.type.name) == ("dear", "trades", "Trade")
    assert dear.extraction is not None and not dear.errors
    async with count.subscribe(timeout=PATIENCE) as events:
        nyse = await channel.supplier("NYSE")
        with pytest.raises(NameTaken):
            await channel.supplier("NYSE")
        await nyse.publish(Trade("IBM", 101.0))
        assert (await anext(events)).content.count == 1
        assert await fabric.split("atlanta", to="dallas") == [count.name]
        await dear.move("dallas")
        assert "lines" in await fabric.story(dear)
        assert await nyse.publish_batch(trades(1, 102, 103)) == 3
        await nyse.offload(to="atlanta")
        await nyse.flush()
        assert nyse.published == 4
        async with fabric.balance() as balancing:
            assert balancing.active and not balancing.moves and not balancing.failed
        assert not balancing.active
        await nyse.close()
        await channel.close()
        assert [event.content.count async for event in events] == [2, 3]
        with pytest.raises(Closed):
            await dear.subscribe()
    with pytest.raises(UnknownChannel):
        await fabric.channel("never opened")
    assert {each["name"] for each in (await fabric.status())["members"]} >= {
        *(fabric.node, "atlanta", "dallas")
    }


def test_a_whole_program() -> None:
    run(whole_program, "atlanta", "dallas")


def test_so_it_runs_with_brokers_in_processes_of_their_own(brokers: Brokers) -> None:
    async def main() -> None:
        fabric = await aio.connect(brokers.address, brokers.key)
        async with fabric:
            await whole_program(fabric)

    brokers.pid("dallas")  # it is there
    asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE))


def test_parameters_change() -> None:
    class Above(ab.FIFOFilter):
        parameters = ("limit",)
        limit = 10

        def enqueue(self, event: Event) -> None:
            if event.content.price > self.limit:
                super().enqueue(event)

    async def main(fabric: aio.Fabric) -> None:
        channel = await fabric.channel("trades", Trade)
        above = await channel.derive(Above)
        async with above.subscribe(timeout=PATIENCE) as events, channel.supplier() as nyse:
            await nyse.publish_batch(trades(9, 11))
            await above.reconfigure(limit=20)
            await nyse.publish_batch(trades(19, 21))
            await channel.close()
            assert await taken(events) == [11, 21]

    run(main)


def test_what_is_not_there_is_said() -> None:
    async def main() -> None:
        with pytest.raises(Unreachable):
            async with aio.connect("nowhere"):
                pass
        fabric = await aio.open(ab.Fabric)
        channel = await fabric.channel("trades", Trade)
        await fabric.close()
        await fabric.close()
        for attempt in (channel.subscribe(), channel.supplier(), fabric.status()):
            with pytest.raises(Closed):
                await attempt

    asyncio.run(main())


# --- threads ----------------------------------------------------------------------------------


def test_waiting_takes_no_thread_and_the_loop_is_woken_once_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(fabric: aio.Fabric) -> None:
        channel = await fabric.channel("trades", Trade)
        subscriptions = [await channel.subscribe() for _ in range(50)]
        nyse = await channel.supplier("NYSE")
        probe = channel.sync.subscribe(timeout=PATIENCE)
        eventually(lambda: not under_way(), "a call is under way")
        before = threading.active_count()
        readers = [asyncio.create_task(taken(each)) for each in subscriptions]
        await asyncio.sleep(0.02)
        assert threading.active_count() <= before
        loop = asyncio.get_running_loop()
        wakes: list[object] = []
        wake = loop.call_soon_threadsafe

        def count(callback: Any, *args: Any, **kwargs: Any) -> Any:
            wakes.append(callback)
            return wake(callback, *args, **kwargs)

        loop.call_soon_threadsafe = count  # type: ignore[method-assign]
        nyse.sync.publish(Trade("IBM", -1.0))
        for number in range(200):  # while the loop is busy
            nyse.sync.publish(Trade("IBM", float(number)))
            assert next(iter(probe))
        assert len(wakes) == 1
        loop.call_soon_threadsafe = wake  # type: ignore[method-assign]
        probe.close()
        await channel.close()
        assert await asyncio.gather(*readers) == [[-1.0, *map(float, range(200))]] * 50
        assert loop._default_executor is None  # type: ignore[attr-defined]
        # To close what has ended waits for nothing, so it takes no thread.
        with monkeypatch.context() as patched:
            patched.delattr(threading.Thread, "start")
            for each in subscriptions:
                await each.close()

    run(main)


def test_many_that_are_woken_together_share_the_turn_of_their_loop() -> None:
    async def main(fabric: aio.Fabric) -> None:
        channel = await fabric.channel("trades", Trade)
        subscriptions = [await channel.subscribe() for _ in range(32)]
        nyse = await channel.supplier("NYSE")
        probe = channel.sync.subscribe(timeout=PATIENCE)
        came = 0

        async def take(events: aio.Subscription) -> int:
            nonlocal came
            count = 0
            async for _ in events:
                came, count = came + 1, count + 1
            return count

        readers = [asyncio.create_task(take(each)) for each in subscriptions]
        await asyncio.sleep(0.02)
        nyse.sync.publish_batch([Trade("IBM", float(number)) for number in range(256)])
        for _ in zip(range(256), probe, strict=False):  # while the loop is busy
            pass
        probe.close()
        turns = [0]
        while came < 32 * 256:
            await asyncio.sleep(0)
            turns.append(came)
        assert max(after - before for before, after in pairwise(turns)) <= 2 * TURN
        await channel.close()
        assert await asyncio.gather(*readers) == [256] * 32

    run(main)


def test_calls_that_wait_are_bounded_and_closing_needs_none_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        fabric = await aio.open(ab.Fabric)
        channel = await fabric.channel("trades", Trade)
        events = await channel.subscribe()
        go_on = threading.Event()
        monkeypatch.setattr(fabric.sync, "status", lambda **options: go_on.wait(PATIENCE))
        calls = [asyncio.create_task(fabric.status()) for _ in range(99)]
        while fabric._calls._free._value or under_way() < CALLS:
            await asyncio.sleep(0.001)
        await events.close()
        for call in calls[:50]:
            call.cancel()
        await asyncio.sleep(0.02)
        assert under_way() == CALLS  # threads cannot be cancelled
        go_on.set()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert results[50:] == [True] * 49
        await fabric.close()

    asyncio.run(main())


def test_the_loop_goes_on_while_a_publisher_waits() -> None:
    async def main(fabric: aio.Fabric) -> None:
        channel = await fabric.channel("blobs", object)
        blob = bytes(1 << 20)
        async with channel.subscribe(timeout=PATIENCE) as events, channel.supplier() as source:
            count = 0

            async def publish() -> None:
                nonlocal count
                while True:
                    await source.publish((count, blob))
                    count += 1

            with pytest.raises(DeadlineExceeded, match="nothing that it had published was taken"):
                while True:  # long enough for a node that is merely slow to take what is here
                    await source.publish((count, blob), timeout=1.0)
                    count += 1
            # What was cancelled in waiting was not published.
            publishers = [asyncio.create_task(publish()) for _ in range(3)]
            await asyncio.sleep(0.02)
            for each in publishers:
                each.cancel()
            await asyncio.wait(publishers)
            assert source.published == count
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(source.publish_batch([(count, blob)] * 9), 0.02)
            assert source.published == count
            # And one that waits goes on as soon as there is room.
            publisher = asyncio.create_task(
                source.publish_batch([(count, blob), (count + 1, blob)])
            )
            for number in range(count + 2):
                assert (await anext(events)).content[0] == number
            assert await publisher == 2

    run(main)


# --- cancelling -------------------------------------------------------------------------------


async def open_subscription(channel: aio.Channel) -> object:
    return await channel.subscribe()


async def enter_subscription(channel: aio.Channel) -> None:
    async with channel.subscribe():
        raise AssertionError


async def open_supplier(channel: aio.Channel) -> object:
    return await channel.supplier("NYSE")


async def derive(channel: aio.Channel) -> object:
    return await channel.derive(Dear, name="dear")


@pytest.mark.parametrize("when", ["before the request", "after the answer"])
@pytest.mark.parametrize(
    "ask", [open_subscription, enter_subscription, open_supplier, derive], ids=lambda a: a.__name__
)
def test_what_was_cancelled_leaves_nothing_open(
    ask: Callable[[aio.Channel], Awaitable[object]], when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(fabric: aio.Fabric) -> None:
        channel = await fabric.channel("trades", Trade)
        entered, go_on = threading.Event(), threading.Event()
        request = fabric.sync._membership.request

        def held(body: Any, *patience: float) -> Any:
            monkeypatch.setattr(fabric.sync._membership, "request", request)
            if when == "before the request":
                entered.set()
                assert go_on.wait(PATIENCE)
                return request(body, *patience)
            answer = request(body, *patience)
            entered.set()
            assert go_on.wait(PATIENCE)
            return answer

        monkeypatch.setattr(fabric.sync._membership, "request", held)
        asked = asyncio.ensure_future(ask(channel))
        await asyncio.sleep(0)
        while not entered.is_set():
            await asyncio.sleep(0.001)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        go_on.set()

        eventually(
            lambda: not under_way(),
            "a call is under way",
        )
        left, *derived = (await fabric.status())["channels"]
        assert not left["consumers"] and not left["suppliers"]
        assert (
            not fabric.sync._membership._program.suppliers
            and not fabric.sync._membership._program.subscriptions
        )
        assert all(each["closed"] for each in derived)
        # And the names are free.
        assert await ask(channel) if ask is not enter_subscription else True

    run(main)


def test_a_fabric_whose_opening_was_cancelled_is_closed() -> None:
    made: list[ab.Fabric] = []
    entered, go_on = threading.Event(), threading.Event()

    def make() -> ab.Fabric:
        entered.set()
        assert go_on.wait(PATIENCE)
        made.append(ab.Fabric())
        return made[0]

    async def main() -> None:
        opening = asyncio.ensure_future(aio.open(make))
        await asyncio.sleep(0)
        assert entered.wait(PATIENCE)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(main())
    go_on.set()
    eventually(lambda: bool(made) and made[0]._membership._closed, "it is still open")


def test_what_is_under_way_when_the_loop_ends_troubles_nobody(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def status() -> str:
        entered.set()
        assert go_on.wait(PATIENCE)
        return "late"

    async def main() -> ab.Fabric:
        fabric = await aio.open(ab.Fabric)
        monkeypatch.setattr(fabric.sync, "status", status)
        asked = asyncio.create_task(fabric.status())
        await asyncio.sleep(0)
        assert entered.wait(PATIENCE)
        assert not asked.done()
        return fabric.sync

    fabric = asyncio.run(main())
    go_on.set()
    eventually(
        lambda: not under_way(),
        "the call has not ended",
    )
    assert not caplog.records
    fabric.close()


def test_cancelling_a_block_closes_what_it_had_opened() -> None:
    async def main() -> None:
        opened: list[aio.Subscription] = []
        fabrics: list[aio.Fabric] = []

        async def work() -> None:
            async with aio.open(ab.Fabric) as fabric:
                channel = await fabric.channel("trades", Trade)
                async with channel.subscribe() as events, channel.supplier():
                    fabrics.append(fabric)
                    opened.append(events)
                    await anext(events)

        task = asyncio.create_task(work())
        while not opened:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert fabrics[0].sync._membership._closed
        assert await taken(opened[0]) == []

    asyncio.run(main())


# --- callbacks --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["async", "ordinary"])
def test_a_callback_is_called_in_the_loop_for_one_event_after_the_other(kind: str) -> None:
    async def main(fabric: aio.Fabric) -> None:
        channel = await fabric.channel("trades", Trade)
        seen: list[tuple[float, threading.Thread]] = []
        inside = 0

        async def later(event: Event) -> None:
            nonlocal inside
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            see(event)
            inside -= 1

        def see(event: Event) -> None:
            seen.append((event.content.price, threading.current_thread()))

        async with (
            channel.subscribe(later if kind == "async" else see) as events,
            channel.supplier() as nyse,
        ):
            await nyse.publish_batch(trades(*range(300)))
            await channel.close()
            await events.join(PATIENCE)
            await events.join()
        assert seen == [(float(number), threading.main_thread()) for number in range(300)]

    run(main)


def test_what_an_async_callback_raises_is_raised_by_join_and_by_close() -> None:
    async def main(fabric: aio.Fabric) -> None:
        channel = await fabric.channel("trades", Trade)
        raised = asyncio.Event()

        async def fail(event: Event) -> None:
            raised.set()
            raise ZeroDivisionError(event.content.name)

        nyse = await channel.supplier()
        events = await channel.subscribe(fail)
        await nyse.publish_batch(trades(1, 2))
        with pytest.raises(ZeroDivisionError, match="IBM"):
            await events.join(PATIENCE)
        await events.join()
        other = await channel.subscribe(fail)
        raised.clear()
        await nyse.publish(Trade("IBM", 3.0))
        await raised.wait()
        with pytest.raises(ZeroDivisionError, match="IBM"):
            await other.close()
        async with channel.subscribe(fail) as waiting:
            with pytest.raises(DeadlineExceeded, match=r"has not ended within 0\.01 s"):
                await waiting.join(0.01)

    run(main)


def test_an_async_callback_may_close_its_own_subscription() -> None:
    async def main(fabric: aio.Fabric) -> None:
        channel = await fabric.channel("trades", Trade)
        seen: list[float] = []

        async def see_one(event: Event) -> None:
            seen.append(event.content.price)
            await events.close()

        events = await channel.subscribe(see_one)
        async with channel.supplier() as nyse:
            await nyse.publish(Trade("IBM", 1.0))
            await events.join(PATIENCE)
            await nyse.publish(Trade("IBM", 2.0))
        assert seen == [1]

    run(main)


def test_a_callback_that_would_do_nothing_is_refused() -> None:
    async def generator(event: Event) -> Any:
        yield event

    async def main(fabric: aio.Fabric) -> None:
        channel = await fabric.channel("trades", Trade)
        with pytest.raises(InvalidSubscription, match="generator"):
            channel.subscribe(generator)
        with pytest.raises(InvalidSubscription, match="one argument"):
            channel.subscribe(lambda: None)

    run(main)


def test_async_for_works_on_an_ordinary_subscription_too(fabric: ab.Fabric) -> None:
    channel = fabric.channel("trades", Trade)

    async def take() -> list[float]:
        return [event.content.price async for event in events]

    with channel.subscribe(timeout=PATIENCE) as events:
        channel.supplier("NYSE").publish_batch(trades(1, 2, 3))
        assert prices([next(iter(events))]) == [1]
        channel.close()
        assert asyncio.run(take()) == [2, 3]


def test_the_example_in_its_text() -> None:
    assert doctest.testmod(aio) == doctest.TestResults(failed=0, attempted=4)

"""The end of suppliers, channels and fabrics: what still arrives, what is refused, what stays."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from trading_for_tests import (
    PATIENCE,
    Count,
    Counted,
    Dear,
    Stuck,
    Trade,
    by_supplier,
    eventually,
    prices,
    trades,
)

import activebroker as ab
from activebroker.core.errors import Closed, DeadlineExceeded, UnknownChannel
from activebroker.directory import endings
from activebroker.fabric import closing
from activebroker.runtime.pool import POOL


@pytest.fixture
def channel(fabric: ab.Fabric) -> ab.Channel:
    return fabric.channel("trades", Trade)


class Slow(closing.Closing):
    """Takes all the time that there is, of a clock without hands, and is not done then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(closing.time, "monotonic", lambda: self.now)

    def close(self) -> None:
        self.now += closing.time_left(closing.CLOSING)
        raise DeadlineExceeded("not done")


@pytest.mark.parametrize("error", [None, ZeroDivisionError, KeyboardInterrupt])
def test_blocks_within_each_other_take_as_long_as_one(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException] | None
) -> None:
    with monkeypatch.context() as patched:
        slow = Slow(patched)
        with pytest.raises(error or DeadlineExceeded), slow, slow, slow:
            if error is not None:
                raise error
        assert closing.CLOSING / 2 <= slow.now <= closing.CLOSING


# --- suppliers --------------------------------------------------------------------------------


def test_after_its_close_a_supplier_publishes_no_more(channel: ab.Channel) -> None:
    with channel.subscribe(timeout=PATIENCE) as events:
        nyse = channel.supplier("NYSE")
        nyse.publish(Trade("IBM", 1.0))
        nyse.close()
        nyse.close()
        publish: list[Callable[[], object]] = [
            lambda: nyse.publish(Trade("IBM", 2.0)),
            lambda: nyse.publish_batch(trades(2, 3)),
        ]
        for attempt in publish:
            with pytest.raises(Closed, match="Supplier 'NYSE' was closed"):
                attempt()
        # Others may go on, and another of its name may come.
        with channel.supplier("NYSE") as again:
            again.publish(Trade("IBM", 4.0))
        channel.close()
        assert prices(events) == [1, 4]


def test_a_supplier_s_end_comes_behind_its_events(channel: ab.Channel) -> None:
    for at in ("supplier", "consumer", "atlanta"):
        derived = channel.derive(Count, at=at)
        with derived.subscribe(timeout=PATIENCE) as events:
            for _ in range(3):
                with channel.supplier("NYSE") as nyse:
                    nyse.publish_batch(trades(*range(1000)))
            derived.close()
            counts = [event.content.count for event in events]
        assert counts == [*range(1, 1001)] * 3  # each time a new stream, and a new filter


# --- channels ---------------------------------------------------------------------------------


def test_after_its_close_a_channel_takes_and_gives_no_more(channel: ab.Channel) -> None:
    nyse = channel.supplier("NYSE")
    channel.close()
    attempts: list[Callable[[], object]] = [
        lambda: nyse.publish(Trade("IBM", 1.0)),
        lambda: nyse.publish_batch(trades(1)),
        channel.subscribe,
        lambda: channel.derive(Dear),
        lambda: channel.supplier("LSE"),
        channel.close,
    ]
    for attempt in attempts:
        with pytest.raises(Closed, match="Channel 'trades' was closed"):
            attempt()
    nyse.close()


def test_only_the_channels_closed_last_are_remembered(
    fabric: ab.Fabric, channel: ab.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings, "CLOSED_KEPT", 3)
    oldest = fabric.channel("oldest", Trade)
    for number in range(4):
        dear = channel.derive(Dear, name=f"dear {number}")
        dear.derive(Dear, name=f"dearer {number}")
        dear.close()
    oldest.close()
    channels = {each["name"]: each["closed"] for each in fabric.status()["channels"]}
    assert channels == {"trades": False, "dear 3": True, "dearer 3": True, "oldest": True}
    for name, error in {"oldest": Closed, "dearer 3": Closed, "dear 2": UnknownChannel}.items():
        with pytest.raises(error):
            fabric.channel(name)


def test_the_name_of_a_closed_channel_is_free_for_any_type(
    fabric: ab.Fabric, channel: ab.Channel
) -> None:
    channel.close()
    with pytest.raises(Closed):
        fabric.channel("trades")
    again = fabric.channel("trades", Counted)
    with again.subscribe(timeout=PATIENCE) as events, again.supplier("NYSE") as nyse:
        nyse.publish(Counted(1.0, 2))
        again.close()
        assert [event.content for event in events] == [Counted(1.0, 2)]


def test_a_channel_closes_with_all_that_is_derived_from_it(channel: ab.Channel) -> None:
    derived = channel.derive(Dear, at="atlanta")
    below = derived.derive(Count, at="consumer")
    with below.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish_batch(trades(101, 102))
        channel.close()
        assert [event.content.count for event in events] == [1, 2]
    for each in (derived, below):
        with pytest.raises(Closed):
            each.subscribe()


def test_consumers_of_a_channel_that_never_had_a_supplier_end_too(channel: ab.Channel) -> None:
    derived = [channel.derive(Dear, at=at) for at in ("supplier", "consumer", "atlanta")]
    subscriptions = [each.subscribe(timeout=PATIENCE) for each in (channel, *derived)]
    channel.close()
    assert [list(each) for each in subscriptions] == [[], [], [], []]


# --- fabrics ----------------------------------------------------------------------------------


def test_after_its_close_a_fabric_does_nothing_more() -> None:
    fabric = ab.Fabric(brokers=["atlanta"])
    channel = fabric.channel("trades", Trade)
    derived = channel.derive(Dear, at="atlanta")
    nyse = channel.supplier("NYSE")
    fabric.close()
    attempts: list[Callable[[], object]] = [
        lambda: nyse.publish(Trade("IBM", 1.0)),
        lambda: nyse.publish_batch(trades(1)),
        lambda: fabric.channel("trades"),
        lambda: fabric.channel("quotes", Counted),
        fabric.status,
        channel.subscribe,
        lambda: channel.derive(Dear),
        lambda: channel.supplier("LSE"),
        lambda: derived.move("consumer"),
        lambda: nyse.offload(to="atlanta"),
        channel.close,
    ]
    for attempt in attempts:
        with pytest.raises(Closed, match="closed"):
            attempt()
    nyse.close()
    fabric.close()


def test_closing_a_fabric_ends_its_subscriptions() -> None:
    with ab.Fabric(brokers=["atlanta"]) as fabric:
        channel = fabric.channel("trades", Trade)
        derived = channel.derive(Dear, at="atlanta")
        seen: list[float] = []
        called = derived.subscribe(lambda event: seen.append(event.content.price))
        waiting = channel.subscribe()
        taken: list[list[float]] = []
        reader = threading.Thread(target=lambda: taken.append(prices(waiting)))
        reader.start()
        with channel.supplier("NYSE") as nyse:
            nyse.publish(Trade("IBM", 101.0))
            eventually(lambda: seen == [101.0], "the callback saw nothing")
    reader.join(PATIENCE)
    assert taken == [[101.0]]
    called.join(PATIENCE)
    called.close()
    waiting.close()


def test_a_fabric_that_is_closed_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with ab.Fabric(brokers=["atlanta", "dallas"]) as fabric:
        channel = fabric.channel("trades", Trade)
        derived = channel.derive(Count, at="atlanta")
        events = derived.subscribe(lambda event: None)
        nyse = channel.supplier("NYSE")
        nyse.publish_batch(trades(1, 2))
        derived.move("dallas")
        nyse.offload(to="atlanta")
        channel.derive(Count, at="consumer").subscribe()
        assert set(threading.enumerate()) - before
        del events, nyse
    # A filter's thread ends by itself once it has been told to.
    eventually(
        lambda: not set(threading.enumerate()) - before,
        f"left: {set(threading.enumerate()) - before}",
    )


def test_a_filter_that_never_returns_does_not_keep_a_fabric_open(tmp_path: Path) -> None:
    file = tmp_path / "stuck"
    file.touch()
    with ab.Fabric(brokers=["atlanta"]) as fabric:
        channel = fabric.channel("trades", Trade)
        stuck = channel.derive((Stuck, file), at="atlanta")
        fine = channel.derive(Dear, at="atlanta")
        with stuck.subscribe(), fine.subscribe(timeout=PATIENCE) as events:
            channel.supplier("NYSE").publish(Trade("IBM", 101.0))
            # It holds up its own channel and nothing else.
            assert next(iter(events)).content.price == 101.0
    (running,) = [thread for thread in POOL.threads if thread.running is not None]
    file.unlink()
    eventually(lambda: running.running is None, "it is stuck still")


def test_fabrics_are_apart_and_many_can_follow_each_other() -> None:
    with ab.Fabric() as first, ab.Fabric() as other:
        channels = [each.channel("trades", Trade) for each in (first, other)]
        with channels[0].subscribe(timeout=PATIENCE) as events:
            for number, channel in enumerate(channels):
                with channel.supplier("NYSE") as nyse:
                    nyse.publish(Trade("IBM", float(number)))
            channels[0].close()
            assert by_supplier(events) == {"NYSE": trades(0)}
    with ab.Fabric() as again, pytest.raises(UnknownChannel):
        again.channel("trades")


def test_an_error_in_the_block_is_not_hidden_by_the_close() -> None:
    with pytest.raises(ZeroDivisionError), ab.Fabric(brokers=["atlanta"]) as fabric:
        channel = fabric.channel("trades", Trade)
        channel.derive(Dear, at="atlanta").subscribe()
        channel.supplier("NYSE").publish(Trade("IBM", 101.0))
        raise ZeroDivisionError


def test_a_program_that_closes_nothing_ends_by_itself() -> None:
    program = """
import activebroker as ab
fabric = ab.Fabric(brokers=["atlanta"])
numbers = fabric.channel("numbers", object)
large = numbers.derive(lambda number: number > 1, at="atlanta")
events = large.subscribe(lambda event: print(event.content))
numbers.supplier("source").publish_batch([1, 2, 3])
numbers.close()
events.join(30)
fabric.channel("others", object).subscribe(lambda event: None)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n3\n", "")

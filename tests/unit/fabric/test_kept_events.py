"""Logs in an embedded fabric: what is kept, from where it is read, and what is refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import activebroker as ab
from activebroker import aio
from activebroker.core.errors import (
    DeadlineExceeded,
    EventRefused,
    InvalidFilter,
    InvalidName,
    InvalidSubscription,
    MoveFailed,
    NameTaken,
    PayloadRefused,
    UnknownPlace,
)

PATIENCE = 30.0


@dataclass(frozen=True)
class Trade:
    n: int


class Doubled(ab.FIFOFilter):
    def enqueue(self, event: ab.Event) -> None:
        super().enqueue(event)
        super().enqueue(event)


@pytest.fixture
def fabric() -> Iterator[ab.Fabric]:
    with ab.Fabric(brokers=["disk", "other"]) as fabric:
        yield fabric


@pytest.fixture
def trades(fabric: ab.Fabric, tmp_path: Path) -> ab.Channel:
    channel = fabric.channel("trades", Trade)
    channel.log(tmp_path / "trades", at="disk")
    return channel


def publish(channel: ab.Channel, *numbers: int, supplier: str = "A", **more: Any) -> None:
    with channel.supplier(supplier) as source:
        for number in numbers:
            source.publish(Trade(number))
        source.flush(PATIENCE, acknowledged=True)


def past(channel: ab.Channel, since: Any = 0, **more: Any) -> list[int]:
    events = channel.subscribe(since=since, follow=False, timeout=PATIENCE, **more)
    return [event.content.n for event in events]


def test_what_was_acknowledged_is_there_from_any_place_on(trades: ab.Channel) -> None:
    publish(trades, 0, 1, 2)
    now = datetime.now(UTC)
    publish(trades, 3, 4, supplier="B")
    assert trades.positions() == range(5)
    assert past(trades) == [0, 1, 2, 3, 4]
    assert past(trades, 3) == past(trades, now) == past(trades, now.astimezone()) == [3, 4]
    assert past(trades, datetime.now()) == past(trades, 5) == []
    assert past(trades, {"A": 2}) == [2, 3, 4]
    assert past(trades, {"A": 1, "B": 1}) == [1, 2, 4]
    assert [e.content.n for e in trades.subscribe(since=1, until=3, timeout=PATIENCE)] == [1, 2]


def test_the_past_and_the_present_join(trades: ab.Channel) -> None:
    with trades.supplier("A") as source:
        source.publish(Trade(0))
        source.flush(acknowledged=True)
        events = iter(trades.subscribe(since=0, timeout=PATIENCE))
        assert next(events).content == Trade(0)
        source.publish(Trade(1))
        assert next(events).content == Trade(1)


def test_a_log_is_continued_in_another_fabric(tmp_path: Path) -> None:
    """The same supplier's stream begins anew there, and is another one."""
    for run in range(3):
        with ab.Fabric(brokers=["disk"]) as fabric:
            channel = fabric.channel("trades", Trade)
            log = channel.log(tmp_path / "trades", at="disk")
            publish(channel, 10 * run, 10 * run + 1)
            assert past(log) == [n for each in range(run + 1) for n in (10 * each, 10 * each + 1)]


def test_the_log_of_what_a_filter_makes(fabric: ab.Fabric, tmp_path: Path) -> None:
    channel = fabric.channel("trades", Trade)
    doubled = channel.derive(Doubled, at="other")
    doubled.log(tmp_path / "doubled", at="disk")
    publish(channel, 1, 2)
    end = time.monotonic() + PATIENCE
    while len(doubled.positions()) < 4:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert past(doubled) == [1, 1, 2, 2]
    with pytest.raises(InvalidSubscription, match="give since as a time"):
        doubled.subscribe(since={"A": 1})


def test_a_filter_may_take_from_a_log(trades: ab.Channel, fabric: ab.Fabric) -> None:
    doubled = fabric.channel("trades.log", Trade).derive(Doubled, at="other")
    events = doubled.subscribe(timeout=PATIENCE)
    publish(trades, 1)
    assert [next(iter(events)).content.n for _ in range(2)] == [1, 1]


def test_a_batch_that_is_published_again_is_in_the_log_once(trades: ab.Channel) -> None:
    """And if the rows have another order the second time, those of the first time are there."""
    for rows in ([1, 2, 3], [3, 2, 1], [1, 2, 3]):
        with trades.supplier("sink", stream=7) as sink:
            assert sink.publish_batch([Trade(n) for n in rows], first_seq=1 << 32) == 3
            sink.flush(PATIENCE, acknowledged=True)
    with trades.supplier("sink", stream=7) as sink:
        sink.publish_batch([Trade(4)], first_seq=2 << 32)
        assert sink.published == (2 << 32) + 1
        with pytest.raises(EventRefused, match="expected a first_seq of 8589934593 or more"):
            sink.publish_batch([Trade(5)], first_seq=3)
        sink.flush(PATIENCE, acknowledged=True)
    assert past(trades) == [1, 2, 3, 4]
    with pytest.raises(InvalidName, match="2\\^48"):
        trades.supplier("sink", stream=1 << 48)


def test_a_large_batch_comes_into_a_log_in_one_piece(trades: ab.Channel) -> None:
    with trades.supplier("sink", stream=7) as sink:
        sink.publish_batch([Trade(n) for n in range(400_000)], first_seq=0)
        sink.flush(PATIENCE, acknowledged=True)
    assert past(trades, 399_998) == [399_998, 399_999]


def test_an_untyped_channel_has_a_log(fabric: ab.Fabric, tmp_path: Path) -> None:
    channel = fabric.channel("objects", object)
    channel.log(tmp_path / "objects", at="disk")
    with channel.supplier("A") as source:
        source.publish({"a": 1})
        source.flush(PATIENCE, acknowledged=True)
    events = channel.subscribe(since=0, follow=False, timeout=PATIENCE)
    assert [event.content for event in events] == [{"a": 1}]


def test_a_subscription_that_ends_with_the_past_leaves_nothing(
    trades: ab.Channel, fabric: ab.Fabric
) -> None:
    publish(trades, 1)
    with trades.subscribe(since=0, follow=False, timeout=PATIENCE) as events:
        assert len(list(events)) == 1
    (log,) = [each for each in fabric.status()["channels"] if each["name"] == "trades.log"]
    assert log["consumers"] == 0


def test_flush_waits_for_the_acknowledgement_no_longer_than_it_is_told(
    fabric: ab.Fabric, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from activebroker.log import Log

    channel = fabric.channel("trades", Trade)
    channel.log(tmp_path / "trades", at="disk")
    commit = Log.commit
    monkeypatch.setattr(Log, "commit", lambda log: time.sleep(0.5) or commit(log))
    with channel.supplier("A") as source:
        source.publish(Trade(1))
        with pytest.raises(DeadlineExceeded, match="acknowledged within"):
            source.flush(0.1, acknowledged=True)


@pytest.mark.parametrize(
    ("do", "error", "text"),
    [
        (lambda c, p: c.log(p / "x", at="supplier"), UnknownPlace, "is none: name one"),
        (lambda c, p: c.log(p / "x", at="dsk"), UnknownPlace, "Did you mean 'disk'"),
        (lambda c, p: c.log(p / "x", at="other"), NameTaken, "exists already"),
        (lambda c, p: c.log(p / "trades", at="disk", name="b"), PayloadRefused, "is open"),
        (lambda c, p: c.log("/proc/x", at="disk", name="b"), PayloadRefused, "could not be opened"),
        (lambda c, p: c.log(p, at="disk", segment_bytes=1), InvalidFilter, "4,096 bytes"),
        (lambda c, p: c.log(p, at="disk", keep_seconds=0), InvalidFilter, "positive"),
        (lambda c, p: c.subscribe(since="yesterday"), InvalidSubscription, "a datetime"),
        (lambda c, p: c.subscribe(since=True), InvalidSubscription, "got True"),
        (lambda c, p: c.subscribe(since=-1), InvalidSubscription, "got -1"),
        (lambda c, p: c.subscribe(since={"A": "1"}), InvalidSubscription, "sequence"),
        (lambda c, p: c.subscribe(until=3), InvalidSubscription, "give since"),
        (lambda c, p: c.subscribe(follow=False), InvalidSubscription, "give since"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(
    trades: ab.Channel, tmp_path: Path, do: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        do(trades, tmp_path)


def test_a_channel_without_a_log_says_how_to_get_one(fabric: ab.Fabric) -> None:
    channel = fabric.channel("unlogged", Trade)
    with pytest.raises(InvalidSubscription, match=r"channel.log\(path, at=broker\)"):
        channel.subscribe(since=0)
    with pytest.raises(InvalidSubscription, match=r"channel.log\(path, at=broker\)"):
        channel.positions()


def test_a_log_is_found_again_and_stays(
    trades: ab.Channel, fabric: ab.Fabric, tmp_path: Path
) -> None:
    log = trades.log(tmp_path / "trades", at="disk")
    assert log.name == "trades.log"
    with pytest.raises(MoveFailed, match="it stays at 'disk'"):
        log.move("other")
    log.close()
    assert trades.log(tmp_path / "trades", at="disk").positions() == range(0)


def test_events_of_another_type_are_refused(tmp_path: Path, fabric: ab.Fabric) -> None:
    @dataclass(frozen=True)
    class Other:
        text: str

    fabric.channel("trades", Trade).log(tmp_path / "log", at="disk").close()
    with pytest.raises(PayloadRefused, match="Trade"):
        fabric.channel("others", Other).log(tmp_path / "log", at="disk")


def test_logs_for_asyncio(tmp_path: Path) -> None:
    """Also there, a wait for what comes next may be cancelled, and loses nothing."""

    async def take() -> list[int]:
        async with aio.open(ab.Fabric, brokers=["disk"]) as fabric:
            channel = await fabric.channel("trades", Trade)
            await channel.log(tmp_path / "t", at="disk")
            got: list[int] = []
            async with channel.supplier("A") as source, channel.subscribe(since=0) as events:
                for n in range(5):
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(anext(events), 0.01)
                    await source.publish(Trade(n))
                    got.append((await asyncio.wait_for(anext(events), PATIENCE)).content.n)
                await source.flush(PATIENCE, acknowledged=True)
            async with channel.subscribe(since=1, follow=False) as events:
                assert [event.content.n async for event in events] == got[1:]
            return got

    assert asyncio.run(take()) == [0, 1, 2, 3, 4]

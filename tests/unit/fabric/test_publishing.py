"""Putting events in: one by one and many at once, by several suppliers, against slow consumers."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from trading_for_tests import PATIENCE, Trade, by_supplier, prices, trades

import activebroker as ab
from activebroker.core.errors import DeadlineExceeded, EventRefused


@dataclass(frozen=True)
class BigTrade(Trade):
    volume: int


@dataclass(frozen=True)
class Order:
    id: int


@dataclass(frozen=True)
class Document:
    text: str


@pytest.fixture
def channel(fabric: ab.Fabric) -> ab.Channel:
    return fabric.channel("trades", Trade)


def test_each_consumer_gets_every_supplier_s_events_once_and_in_order(
    channel: ab.Channel,
) -> None:
    names, expected = ("NYSE", "LSE", "TSE"), trades(*range(500))

    def publish(supplier: ab.Supplier) -> None:
        for trade in expected:
            supplier.publish(trade)

    with channel.subscribe(timeout=PATIENCE) as first, channel.subscribe(timeout=PATIENCE) as other:
        suppliers = [channel.supplier(name) for name in names]
        threads = [threading.Thread(target=publish, args=(each,)) for each in suppliers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        channel.close()
        for consumer in (first, other):
            assert by_supplier(consumer) == dict.fromkeys(names, expected)


def test_threads_may_share_a_supplier(channel: ab.Channel) -> None:
    with channel.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        threads = [
            threading.Thread(
                target=lambda part=part: [
                    nyse.publish_batch(trades(*range(part, part + 10))) for _ in range(20)
                ]
            )
            for part in range(0, 40, 10)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        channel.close()
        taken = list(events)
    assert nyse.published == 800
    assert [event.seq for event in taken] == list(range(800))
    assert sorted(prices(taken)) == sorted(float(price) for price in range(40) for _ in range(20))


TABLE = pa.table({"price": [1.0, 2.0], "name": ["IBM", "AMD"]})


@pytest.mark.parametrize(
    "rows",
    [
        [Trade("IBM", 1.0), Trade("AMD", 2.0)],
        [{"name": "IBM", "price": 1}, {"price": 2.0, "name": "AMD"}],
        TABLE,
        TABLE.to_batches()[0],
        pd.DataFrame({"name": ["IBM", "AMD"], "price": [1.0, 2.0]}, index=[7, 8]),
    ],
    ids=["objects", "mappings", "table", "batch", "pandas"],
)
def test_a_batch_may_be_published_in_many_forms(channel: ab.Channel, rows: Any) -> None:
    with channel.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish(Trade("first", 0.0))
        assert nyse.publish_batch(rows) == 2
        assert nyse.publish_batch([]) == 0
        nyse.publish(Trade("last", 3.0))
        assert nyse.published == 4
        channel.close()
        assert [(event.seq, event.content) for event in events] == [
            (0, Trade("first", 0.0)),
            (1, Trade("IBM", 1.0)),
            (2, Trade("AMD", 2.0)),
            (3, Trade("last", 3.0)),
        ]


def test_a_large_batch_arrives_whole(channel: ab.Channel) -> None:
    rows = 200_000
    table = pa.table({"name": ["IBM"] * rows, "price": pa.array(range(rows), pa.float64())})
    with channel.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        taken: list[list[int]] = []
        reader = threading.Thread(
            target=lambda: taken.extend(batch.seqs.tolist() for batch in events.batches())
        )
        reader.start()
        assert nyse.publish_batch(table) == rows
        channel.close()
        reader.join(PATIENCE)
        assert [seq for seqs in taken for seq in seqs] == list(range(rows))


def test_subclass_events_go_on_their_parent_s_channel(channel: ab.Channel) -> None:
    contents = [Trade("IBM", 1.0), BigTrade("IBM", 2.0, 100), Trade("IBM", 3.0)]
    with channel.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        for content in contents:
            nyse.publish(content)
        nyse.publish_batch([BigTrade("AMD", 4.0, 7)])
        channel.close()
        taken = list(events)
    assert [event.content for event in taken] == [*contents, BigTrade("AMD", 4.0, 7)]
    assert [event.type for event in taken] == ["Trade", "BigTrade", "Trade", "BigTrade"]
    assert [event.seq for event in taken] == [0, 1, 2, 3]


def test_a_filter_on_the_parent_s_channel_sees_subclass_events(channel: ab.Channel) -> None:
    dear = channel.derive(lambda trade: trade.price > 100)
    with dear.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish(BigTrade("IBM", 120.0, 5))
        nyse.publish(BigTrade("IBM", 90.0, 6))
        channel.close()
        assert [event.content for event in events] == [BigTrade("IBM", 120.0, 5)]


def test_a_channel_without_a_type_carries_any_picklable_object(fabric: ab.Fabric) -> None:
    anything = fabric.channel("anything", object)
    contents = ["text", 7, None, {"nested": [1, 2]}, Trade("IBM", 1.0), (1, b"two")]
    with anything.subscribe(timeout=PATIENCE) as events, anything.supplier("source") as source:
        for content in contents:
            source.publish(content)
        source.publish_batch(["a", "b"])
        anything.close()
        assert [event.content for event in events] == [*contents, "a", "b"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (Trade("IBM", "dear"), r"channel 'trades', field 'price': .*float.*'dear'"),  # type: ignore[arg-type]
        (Trade(None, 1.0), r"channel 'trades', field 'name': .*str.*None"),  # type: ignore[arg-type]
        ({"name": "IBM"}, r"channel 'trades', field 'price'"),
        (Order(7), r"channel 'trades': .*Trade.*Order"),
        (b"raw", r"channel 'trades': .*Trade.*bytes"),
    ],
)
def test_what_does_not_fit_is_refused_at_once_and_nothing_is_published(
    channel: ab.Channel, content: Any, says: str
) -> None:
    with channel.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        with pytest.raises(EventRefused, match=says):
            nyse.publish(content)
        with pytest.raises(EventRefused, match="row 1"):
            nyse.publish_batch([Trade("IBM", 1.0), content])
        assert nyse.published == 0
        nyse.publish(Trade("IBM", 2.0))
        channel.close()
        assert [(event.seq, event.content.price) for event in events] == [(0, 2.0)]


def test_an_object_that_cannot_be_pickled_is_refused(fabric: ab.Fabric) -> None:
    anything = fabric.channel("anything", object)
    with (
        anything.supplier("source") as source,
        pytest.raises(EventRefused, match=r"'anything'.*picklable|'anything'.*pickled"),
    ):
        source.publish(threading.Lock())


def test_a_consumer_that_does_not_read_bounds_what_can_be_published(fabric: ab.Fabric) -> None:
    documents = fabric.channel("documents", Document)
    page = [Document("x" * 10_000)] * 100  # a megabyte
    with documents.subscribe(timeout=PATIENCE) as events, documents.supplier("writer") as writer:
        with pytest.raises(DeadlineExceeded, match=r"'writer' of channel 'documents' could not"):
            for _ in range(1000):
                writer.publish_batch(page, timeout=0.3)
        accepted = writer.published
        assert accepted < 100 * 1000
        taken: list[int] = []
        reader = threading.Thread(target=lambda: taken.extend(e.seq for e in events))
        reader.start()
        for _ in range(10):  # the one that was refused can be published now
            writer.publish_batch(page, timeout=PATIENCE)
        documents.close()
        reader.join(PATIENCE)
    assert taken == list(range(accepted + 1000))


def test_a_consumer_that_reads_is_not_held_up_for_ever_by_one_that_does_not(
    fabric: ab.Fabric,
) -> None:
    """The slow one holds the supplier up; once it has gone, the others go on."""
    documents = fabric.channel("documents", Document)
    page = [Document("x" * 10_000)] * 100
    seen: list[int] = []
    with documents.subscribe(lambda event: seen.append(event.seq)) as events:
        slow = documents.subscribe()
        with documents.supplier("writer") as writer:
            with pytest.raises(DeadlineExceeded):
                for _ in range(1000):
                    writer.publish_batch(page, timeout=0.3)
            slow.close()
            writer.publish_batch(page, timeout=PATIENCE)
            documents.close()
            events.join(PATIENCE)
            assert seen == list(range(writer.published))


def test_large_events_are_bounded_by_their_bytes() -> None:
    page = "x" * 100_000
    with ab.Fabric() as fabric:
        pages = fabric.channel("pages", object)
        with pages.subscribe(timeout=10) as events, pages.supplier() as supplier:
            with pytest.raises(ab.errors.DeadlineExceeded):
                for _ in range(1_000):
                    supplier.publish(page, timeout=0.2)
            accepted = supplier.published
            first = list(itertools.islice(events, accepted))
            assert [event.seq for event in first] == list(range(accepted))
            assert accepted * len(page) < 60 << 20

"""A batch that nobody can read: who waits for it hears why, and others notice nothing."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from trading_for_tests import PATIENCE, Count, Counted, Trade, prices, trades

import activebroker as ab
from activebroker.core.errors import FilterStopped


def test_it_ends_the_channel_of_the_filter_that_should_have_it(
    anywhere: ab.Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = anywhere.channel("trades", Trade)
    counted = channel.derive(Count, at="atlanta")
    with (
        channel.subscribe(timeout=PATIENCE) as plain,
        counted.subscribe(timeout=PATIENCE) as events,
        channel.supplier("NYSE") as nyse,
    ):
        nyse.publish_batch(trades(1, 2))
        first = iter(events)
        assert [next(first).content for _ in range(2)] == [Counted(1, 1), Counted(2, 2)]
        monkeypatch.setattr("activebroker.matching.chunk.dump", lambda batch: [b"nonsense"])
        nyse.publish_batch(trades(3, 4))
        with pytest.raises(
            FilterStopped, match=r"'atlanta' cannot read the events of supplier 'NY"
        ):
            next(first)
        monkeypatch.undo()
        for _ in range(50):  # nobody is waited for
            nyse.publish_batch(trades(*range(100)), timeout=PATIENCE)
        channel.close()
        assert prices(plain)[:4] == [1, 2, 3, 4]


@dataclass(frozen=True)
class Checked:
    number: int

    def __post_init__(self) -> None:
        if self.number == 753:
            raise ValueError("not that one")


def publish(channel: ab.Channel) -> None:
    """What a process publishes whose class has no such check: numbers up to 1,008."""
    rows = [object.__new__(Checked) for _ in range(1009)]
    for number, row in enumerate(rows):
        row.__dict__["number"] = number
    with channel.supplier("S") as supplier:
        supplier.publish_batch(rows)
    channel.close()


GOOD = [number for number in range(1009) if number != 753]
LOST = ("S", 753, "Checked(number=753)", "ValueError: not that one")


@pytest.mark.parametrize("at", ["supplier", "consumer", "atlanta"])
def test_a_row_that_cannot_be_decoded_is_counted_where_its_filter_runs(
    anywhere: ab.Fabric, at: str
) -> None:
    channel = anywhere.channel("numbers", Checked)
    passed = channel.derive(lambda checked: hash(checked.number) >= 0, at=at)
    with passed.subscribe(timeout=PATIENCE) as events:
        publish(channel)
        assert [event.content.number for event in events] == GOOD
    assert passed.errors.wait(1)
    (each,) = passed.errors
    assert (each.supplier, each.seq, each.content, each.error) == LOST
    assert len(events.errors) == 0


def test_and_at_the_consumer_where_no_filter_runs(anywhere: ab.Fabric) -> None:
    channel = anywhere.channel("numbers", Checked)
    with channel.subscribe(timeout=PATIENCE) as events:
        publish(channel)
        assert [event.content.number for event in events] == GOOD
    (each,) = events.errors
    assert (each.supplier, each.seq, each.content, each.error) == LOST


class Local:
    """Of a module that no broker has."""


def test_an_object_whose_class_is_not_at_the_broker_is_lost_alone(joined: ab.Fabric) -> None:
    channel = joined.channel("objects", object)
    passed = channel.derive(lambda content: hash(content) >= 0, at="dallas")
    with passed.subscribe(timeout=PATIENCE) as events, channel.supplier("S") as source:
        source.publish(Local())
        source.publish_batch([Local() if number == 7 else number for number in range(50)])
        channel.close()
        assert [event.content for event in events] == [n for n in range(50) if n != 7]
    assert passed.errors.wait(2)
    assert [(each.supplier, each.seq) for each in passed.errors] == [("S", 0), ("S", 8)]
    assert all("test_broken_batches" in each.error for each in passed.errors)

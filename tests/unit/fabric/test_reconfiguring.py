"""A filter's parameters change while events flow: old values up to one event, then new ones."""

from __future__ import annotations

import itertools

import pytest
from trading_for_tests import (
    PATIENCE,
    Counted,
    Dear,
    Publishing,
    Trade,
    by_supplier,
    prices,
    trades,
)

import activebroker as ab
from activebroker import Event, FIFOFilter
from activebroker.core.errors import FilterNotPicklable, InvalidFilter, ReconfigurationFailed

PLACES = ["supplier", "atlanta", "consumer"]


@pytest.fixture
def channel(fabric: ab.Fabric) -> ab.Channel:
    return fabric.channel("trades", Trade)


class Every(FIFOFilter):
    """The prices that leave a rest; its predicate is exact."""

    parameters = ("rest",)

    def __init__(self, rest: int = 0) -> None:
        self.rest = rest

    def enqueue(self, event: Event) -> None:
        if event.content.price % 3 == self.rest:
            super().enqueue(event)


class CountEvery(FIFOFilter):
    """The same, with state."""

    output = Counted
    parameters = ("rest",)

    def __init__(self, rest: int = 0) -> None:
        self.rest = rest
        self.count = 0

    def enqueue(self, event: Event) -> None:
        if event.content.price % 3 == self.rest:
            self.count += 1
            super().enqueue(event.replace(Counted(event.content.price, self.count)))


def explains(got: list[float], rests: list[int], count: int) -> bool:
    """Whether the rests took turns in this order, each behind one price."""
    place = 0
    for price in range(count):
        want = price % 3
        if got[:1] == [float(price)]:
            while place < len(rests) and rests[place] != want:
                place += 1
            if place == len(rests):
                return False
            got = got[1:]
        elif rests[place] == want:
            place += 1  # it was not wanted any more
            if place == len(rests):
                return False
    return not got


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("filter", [Every, CountEvery])
def test_old_values_up_to_one_event_and_then_the_new_ones(
    fabric: ab.Fabric, channel: ab.Channel, filter: type[FIFOFilter], at: str
) -> None:
    derived = channel.derive(filter, at=at)
    rests = [0, 1, 2, 0, 2, 1]
    with derived.subscribe(timeout=PATIENCE) as events:
        nyse, lse = channel.supplier("NYSE"), channel.supplier("LSE")
        with Publishing(nyse, lse) as publishing:
            for rest in rests[1:]:
                publishing.go_on()
                derived.reconfigure(rest=rest)
            publishing.go_on()
        channel.close()
        streams = by_supplier(events)
    assert streams.keys() == {"NYSE", "LSE"}
    for contents in streams.values():
        assert explains([content.price for content in contents], rests, publishing.count)
        if filter is CountEvery:
            assert [content.count for content in contents] == [*range(1, len(contents) + 1)]
    assert not derived.errors


@pytest.mark.parametrize("at", PLACES)
def test_what_was_published_before_is_decided_by_the_old_values(
    channel: ab.Channel, at: str
) -> None:
    derived = channel.derive(Every, at=at)
    with derived.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish_batch(trades(0, 1, 2))
        nyse.flush()
        derived.reconfigure(rest=1)
        nyse.publish_batch(trades(3, 4, 5))
        channel.close()
        assert prices(events) == [0, 4]
    assert str(derived.extraction.predicate) == "price % 3 = 1"


def test_only_what_the_new_predicate_wants_leaves_the_supplier(
    fabric: ab.Fabric, channel: ab.Channel
) -> None:
    class Above(Dear):
        parameters = ("limit",)

    dear = channel.derive((Above, 10), at="atlanta")
    with dear.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        dear.reconfigure(limit=100)
        nyse.publish_batch(trades(*range(200)))
        assert prices(itertools.islice(events, 99)) == [*range(101, 200)]
        status = fabric.status()
    (flow,) = [flow for flow in status["nodes"]["local"]["flows"] if flow["target"] == "atlanta"]
    assert flow["sent_events"] == 99
    (stage,) = status["nodes"]["atlanta"]["stages"]
    assert stage["python_events"] == 0  # it is exact again


def test_the_values_go_with_the_filter(fabric: ab.Fabric, channel: ab.Channel) -> None:
    derived = channel.derive(CountEvery, at="atlanta")
    with derived.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish_batch(trades(0, 3))
        nyse.flush()
        derived.reconfigure(rest=1)
        derived.move("dallas")
        with channel.supplier("LSE") as lse:  # whose instance is made there
            lse.publish_batch(trades(0, 1))
        nyse.publish_batch(trades(3, 4))
        channel.close()
        assert by_supplier(events) == {
            "NYSE": [Counted(0, 1), Counted(3, 2), Counted(4, 3)],
            "LSE": [Counted(1, 1)],
        }


def test_before_there_is_a_supplier(channel: ab.Channel) -> None:
    derived = channel.derive(Every)
    derived.reconfigure(rest=2)
    with derived.subscribe(timeout=PATIENCE) as events:
        with channel.supplier("NYSE") as nyse:
            nyse.publish_batch(trades(0, 1, 2))
        channel.close()
        assert prices(events) == [2]


class Named(FIFOFilter):
    """Its parameter has a setter, which is the user's code."""

    parameters = ("rest", "name")

    def __init__(self) -> None:
        self._name = ""

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        if not name:
            raise ValueError("a name is needed")
        self._name = name

    def enqueue(self, event: Event) -> None:
        if event.content.name == self.name:
            super().enqueue(event)


@pytest.mark.parametrize("at", PLACES)
def test_a_setter_that_raises_leaves_the_filter_as_it_was(channel: ab.Channel, at: str) -> None:
    derived = channel.derive(Named, at=at)
    with derived.subscribe(timeout=PATIENCE) as events, channel.supplier("NYSE") as nyse:
        nyse.publish(Trade("", 1))
        nyse.flush()
        with pytest.raises(ReconfigurationFailed, match="as it was: ValueError: a name is needed"):
            derived.reconfigure(name="")
        nyse.publish(Trade("", 2))
        nyse.flush()
        derived.reconfigure(name="IBM")
        nyse.publish_batch([Trade("", 3), Trade("IBM", 4)])
        channel.close()
        assert prices(events) == [1, 2, 4]


def test_what_cannot_be_reconfigured_is_told(fabric: ab.Fabric, channel: ab.Channel) -> None:
    derived = channel.derive(Every, name="every")
    with pytest.raises(InvalidFilter, match=r"no parameter 'rset' to reconfigure\. Did you mean"):
        derived.reconfigure(rset=1)
    with pytest.raises(InvalidFilter, match=r"no parameter 'limit' to reconfigure\. Name it in"):
        channel.derive(Dear).reconfigure(limit=1)
    with pytest.raises(InvalidFilter, match=r"needs a parameter and its value.* Every has rest"):
        derived.reconfigure()
    with pytest.raises(FilterNotPicklable):
        derived.reconfigure(rest=(each for each in ()))
    with pytest.raises(InvalidFilter, match="where it was derived"):
        fabric.channel("every").reconfigure(rest=1)
    with pytest.raises(InvalidFilter, match="where it was derived"):
        channel.reconfigure(rest=1)


def test_where_a_supplier_has_handed_over_the_filter_stays(
    fabric: ab.Fabric, channel: ab.Channel
) -> None:
    with channel.supplier("NYSE") as nyse:
        derived = channel.derive(Every, at="atlanta")
        nyse.offload("dallas")
        with pytest.raises(ReconfigurationFailed, match="has handed it over to 'dallas'"):
            derived.reconfigure(rest=1)
        with derived.subscribe(timeout=PATIENCE) as events:
            nyse.publish_batch(trades(0, 1, 3))
            assert prices(itertools.islice(events, 2)) == [0, 3]

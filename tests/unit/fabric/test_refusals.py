"""Bad input: what is refused, by which error, and what the message tells the user to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from typing import Any

import pyarrow as pa
import pytest
from trading_for_tests import PATIENCE, Count, Dear, Trade, prices, trades

import activebroker as ab
from activebroker import Event, FIFOFilter
from activebroker.core.errors import (
    AccessDenied,
    ActiveBrokerError,
    ChannelTypeConflict,
    EventTypeError,
    FilterNotPicklable,
    InvalidFilter,
    NameTaken,
    UnknownChannel,
    UnknownField,
    UnknownPlace,
    Unreachable,
)

KEY = "k" * 40


@dataclass(frozen=True)
class Quote:
    name: str
    bid: float


@dataclass
class Guard:
    lock: threading.Thread


@pytest.fixture
def channel(fabric: ab.Fabric) -> ab.Channel:
    return fabric.channel("trades", Trade)


def still_works(channel: ab.Channel) -> None:
    """Nothing that was refused has left anything behind."""
    dear = channel.derive(Dear)
    with dear.subscribe(timeout=PATIENCE) as events, channel.supplier("probe") as probe:
        probe.publish_batch(trades(1, 101))
        channel.close()
        assert prices(events) == [101]


# --- channels ---------------------------------------------------------------------------------


def test_an_unknown_channel(fabric: ab.Fabric, channel: ab.Channel) -> None:
    with pytest.raises(UnknownChannel) as refused:
        fabric.channel("tradse")
    assert str(refused.value) == (
        "There is no channel 'tradse'. Did you mean 'trades'? Give an event type to create it: "
        "channel(name, YourDataclass), or channel(name, object) for any picklable object."
    )
    with pytest.raises(UnknownChannel, match=r"'zzz'\. Known: 'trades'\."):
        fabric.channel("zzz")
    still_works(channel)


def test_a_channel_s_second_type(fabric: ab.Fabric, channel: ab.Channel) -> None:
    with pytest.raises(ChannelTypeConflict) as refused:
        fabric.channel("trades", Quote)
    assert str(refused.value) == (
        "Channel 'trades' exists with events of type Trade; it cannot be opened with Quote. "
        "Use that type, or another channel name."
    )
    with pytest.raises(ChannelTypeConflict, match="it cannot be opened with any"):
        fabric.channel("trades", object)
    for type_ in (Trade, None):
        assert fabric.channel("trades", type_).type == channel.type
    still_works(channel)


def test_a_type_of_the_same_name_with_other_fields(fabric: ab.Fabric, channel: ab.Channel) -> None:
    other = make_dataclass("Trade", [("price", int), ("venue", str, "X")])
    with pytest.raises(ChannelTypeConflict) as refused:
        fabric.channel("trades", other)
    assert str(refused.value) == (
        "Channel 'trades' exists with events of type Trade; it cannot be opened with Trade, which "
        "lacks 'name', which has no default there, has 'price' as int64, not double. Versions of a "
        "class may differ in fields that have a default: give them one, use the same class in all "
        "processes, or another channel name."
    )


@pytest.mark.parametrize("type_", [dict, int, Guard, {"price": float}, "Trade", pa.table({})])
def test_what_is_no_event_type(fabric: ab.Fabric, type_: Any) -> None:
    with pytest.raises(EventTypeError, match=r"not a dataclass\. Declare|Guard\.lock"):
        fabric.channel("odd", type_)
    with pytest.raises(UnknownChannel):
        fabric.channel("odd")


# --- filters ----------------------------------------------------------------------------------


class NoEnqueue(FIFOFilter):
    pass


class NoBase:
    def enqueue(self, event: Event) -> None: ...


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (NoEnqueue, r"NoEnqueue has no enqueue of its own: define enqueue\(self, event\)"),
        (NoBase, r"NoBase is not a filter class: derive it from activebroker\.FIFOFilter"),
        ("price > 100", r"Expected a FIFOFilter class.*got 'price > 100'"),
    ],
)
@pytest.mark.parametrize("at", ["supplier", "atlanta"])
def test_what_is_no_filter(channel: ab.Channel, given: object, says: str, at: str) -> None:
    with pytest.raises(InvalidFilter, match=says):
        channel.derive(given, at=at)
    still_works(channel)


def test_a_filter_that_cannot_be_pickled(channel: ab.Channel) -> None:
    lock = threading.Lock()

    class Guarded(Dear):
        def enqueue(self, event: Event) -> None:
            with lock:
                super().enqueue(event)

    for at in ("supplier", "consumer", "atlanta"):
        with pytest.raises(FilterNotPicklable, match=r"Guarded cannot be shipped: .*lock"):
            channel.derive(Guarded, at=at)
    still_works(channel)


class Misspelt(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if event.content.prize > 100:
            super().enqueue(event)


def test_a_field_that_the_type_lacks(channel: ab.Channel) -> None:
    for given in (Misspelt, Misspelt(), lambda trade: trade.prize > 100):
        with pytest.raises(UnknownField) as refused:
            channel.derive(given)
        said = str(refused.value)
        assert "reads the field 'prize' (line " in said
        assert said.endswith(
            "test_refusals.py), which events of type Trade lack. Did you mean 'price'?"
        )
    still_works(channel)


def test_a_field_that_only_some_subtype_has_may_be_asked_for(channel: ab.Channel) -> None:
    channel.derive(lambda trade: getattr(trade, "volume", 0) > 5)
    channel.derive(lambda trade: hasattr(trade, "volume"))


def test_an_output_that_is_no_event_type(channel: ab.Channel) -> None:
    class Odd(Dear):
        output = dict

    with pytest.raises(EventTypeError, match=r"dict.* is not a dataclass"):
        channel.derive(Odd)
    still_works(channel)


# --- places and names -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "suggested"),
    [
        ("atlenta", "Did you mean 'atlanta'?"),
        ("suplier", "Did you mean 'supplier'?"),
        ("mars", "Known: 'local', 'atlanta', 'dallas', 'supplier', 'consumer', 'spark'."),
    ],
)
def test_an_unknown_place(
    fabric: ab.Fabric, channel: ab.Channel, place: str, suggested: str
) -> None:
    derived = channel.derive(Dear, at="atlanta")
    supplier = channel.supplier("NYSE")
    actions: list[Callable[[str], Any]] = [
        lambda place: channel.derive(Dear, at=place),
        lambda place: derived.move(to=place),
        lambda place: supplier.offload(to=place),
    ]
    for act in actions:
        with pytest.raises(UnknownPlace) as refused:
            act(place)
        said = str(refused.value)
        assert said.startswith(f"There is no broker {place!r} in the fabric. ")
        if suggested.startswith("Did"):
            assert said.endswith(suggested)
    assert len(fabric.status()["channels"]) == 2


def test_a_supplier_s_name_that_is_taken(channel: ab.Channel) -> None:
    taken = "has a supplier 'NYSE' already, in the living process 'local'"
    with channel.supplier("NYSE"), pytest.raises(NameTaken, match=taken):
        channel.supplier("NYSE")
    channel.supplier("NYSE")
    still_works(channel)


def test_suppliers_without_a_name_get_one_each(channel: ab.Channel) -> None:
    assert len({channel.supplier().name for _ in range(3)}) == 3


def test_a_channel_s_name_that_is_taken(channel: ab.Channel) -> None:
    channel.derive(Dear, name="dear")
    for name in ("dear", "trades"):
        with pytest.raises(NameTaken, match=f"A channel '{name}' exists already"):
            channel.derive(Count, name=name)
    still_works(channel)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["atlanta", "supplier"], "'supplier' cannot be a broker's name"),
        (["consumer"], "'consumer' cannot be a broker's name"),
        (["spark"], "'spark' cannot be a broker's name"),
        (["atlanta", "dallas", "atlanta"], "A node named 'atlanta' is in the fabric already"),
        (["local"], "A node named 'local' is in the fabric already"),
    ],
)
def test_a_broker_s_name_that_means_something_else(names: list[str], says: str) -> None:
    before = threading.enumerate()
    with pytest.raises(NameTaken, match=says):
        ab.Fabric(brokers=names)
    assert set(threading.enumerate()) <= set(before)


def test_a_derived_channel_takes_no_suppliers(channel: ab.Channel) -> None:
    dear = channel.derive(Dear, name="dear")
    with pytest.raises(InvalidFilter, match=r"'dear' is derived from 'trades'.* no suppliers"):
        dear.supplier("NYSE")


# --- connecting -------------------------------------------------------------------------------


def test_beyond_this_machine_a_key_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACTIVEBROKER_KEY", raising=False)
    with pytest.raises(
        AccessDenied, match=r"needs a key: pass key=\.\.\., or set ACTIVEBROKER_KEY"
    ):
        ab.connect("tcp://192.0.2.1:7400")


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize(
    "address",
    [
        *("", "127.0.0.1", "127.0.0.1:7400", "localhost:7400", "http://127.0.0.1:7400"),
        *("tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:port", "tcp://127.0.0.1:99999"),
    ],
)
def test_what_is_no_address(address: str, key: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACTIVEBROKER_KEY", raising=False)
    with pytest.raises(Unreachable, match=r"is not an address\. Expected tcp://host:port"):
        ab.connect(address, key)


def test_all_errors_have_one_base() -> None:
    errors = [each for each in vars(ab.errors).values() if isinstance(each, type)]
    for error in (each for each in errors if issubclass(each, Exception)):
        assert issubclass(error, ActiveBrokerError | Warning)
        assert error.__doc__

"""Processes whose versions of an event class differ in fields with defaults share a channel."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import activebroker as ab
from activebroker.core.errors import ChannelTypeConflict
from activebroker.events import EventType, TypeRegistry, describe, encode
from activebroker.filters import FilterRunner, FilterSpec, Payload, analyse, pack
from activebroker.filters.payload import load

PATIENCE = 30.0


class Venue(Enum):
    NYSE = 1
    XETRA = 2


def versions() -> SimpleNamespace:
    """Four versions of one class, as four processes have it; each pair differs."""

    def first() -> type:
        @dataclass(frozen=True)
        class Quote:
            name: str
            price: float

        return Quote

    def second() -> type:
        @dataclass(frozen=True)
        class Quote:
            name: str
            price: float
            volume: int = 7

        return Quote

    def third() -> type:
        @dataclass(frozen=True, kw_only=True)
        class Quote:
            venue: Venue | None = Venue.XETRA
            price: float
            tags: list[str] = field(default_factory=lambda: ["old"])
            name: str

        return Quote

    def fourth() -> type:
        @dataclass
        class Base:
            name: str
            note: str = "?"

        @dataclass
        class Quote(Base):
            volume: int = 9
            price: float = 0.0

        return Quote

    return SimpleNamespace(first=first(), second=second(), third=third(), fourth=fourth())


V = versions()
ALL = {"first": V.first, "second": V.second, "third": V.third, "fourth": V.fourth}
OWN: dict[str, list[dict[str, Any]]] = {
    "first": [{}],
    "second": [{"volume": 1}, {"volume": 100}],
    "third": [{"venue": None, "tags": []}, {"venue": Venue.NYSE, "tags": ["a", "b"]}],
    "fourth": [{"volume": 50, "note": "x"}],
}


def contents(version: str) -> list[Any]:
    return [
        ALL[version](name=name, price=price, **own)
        for name, price, own in itertools.product(["IBM", "KO"], [1.0, 200.0], OWN[version])
    ]


def seen_by(reader: type, content: Any) -> Any:
    """What a reader makes of a content, by Python alone."""
    names = {each.name for each in dataclasses.fields(reader)}
    return reader(**{name: value for name, value in vars(content).items() if name in names})


class Counts(ab.FIFOFilter):
    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event: ab.Event) -> None:
        self.seen += 1
        if self.seen % 2:
            super().enqueue(event)


class Liquid(ab.FIFOFilter):
    """Its predicate is exact, and over a field that others lack."""

    def enqueue(self, event: ab.Event) -> None:
        if event.content.volume > 5 and event.content.name == "IBM":
            super().enqueue(event)


class Unlike(ab.FIFOFilter):
    """The same for a default that decides by what it is not."""

    def enqueue(self, event: ab.Event) -> None:
        q = event.content
        if not q.volume < 5 or (q.volume == 1 and q.price > 100):
            super().enqueue(event)


class Asks(ab.FIFOFilter):
    def enqueue(self, event: ab.Event) -> None:
        q = event.content
        if hasattr(q, "volume") or getattr(q, "tags", None) == ["old"]:
            super().enqueue(event)


class Listed(ab.FIFOFilter):
    def enqueue(self, event: ab.Event) -> None:
        q = event.content
        if q.venue is Venue.XETRA or "a" in q.tags:
            super().enqueue(event)


class Repriced(ab.FIFOFilter):
    def enqueue(self, event: ab.Event) -> None:
        q = event.content
        if q.price > 100:
            super().enqueue(event.replace(dataclasses.replace(q, price=q.price / 2)))


FILTERS: list[tuple[str, object]] = [
    *itertools.product(ALL, [lambda q: q.name == "IBM", lambda q: q.price > 100, Repriced, Asks]),
    *itertools.product(["second", "fourth"], [Liquid, Unlike, lambda q: q.volume == 9]),
    ("third", Listed),
    ("third", lambda q: len(q.tags) == 1),
    ("third", Counts),
    ("first", Counts),
    ("fourth", lambda q: q.note != "?" and q.price < 5),
]


def forwarded(filter: object, reader: type, published: list[Any]) -> list[Any]:
    """What a filter of a reader forwards of one supplier's events, by Python alone."""
    seen = [seen_by(reader, content) for content in published]
    if not isinstance(filter, type):
        assert callable(filter)
        return [content for content in seen if filter(content)]
    instance: Any = filter()
    for number, content in enumerate(seen):
        instance.enqueue(ab.Event(content, "Quote", "A", number, 0))
    return [event.content for event in instance._take()]


def came(events: ab.Subscription) -> dict[str, list[Any]]:
    """By supplier, what has come until the end of the channel."""
    by_supplier: dict[str, list[Any]] = {}
    for event in events:
        by_supplier.setdefault(event.supplier, []).append(event.content)
    return by_supplier


@pytest.mark.parametrize("order", [list(ALL), list(reversed(ALL))])
@pytest.mark.parametrize("times", [1, 10])  # a few events go as lists, many as columns
def test_each_reader_gets_its_own_version(order: list[str], times: int, fabric: ab.Fabric) -> None:
    channels = {version: fabric.channel("quotes", ALL[version]) for version in order}
    readers = {
        version: channel.subscribe(timeout=PATIENCE) for version, channel in channels.items()
    }
    batches = channels["first"].subscribe(timeout=PATIENCE)
    for version, channel in channels.items():
        assert channel.type.cls is ALL[version]
        channel.supplier(version).publish_batch(contents(version) * times)
    channels["first"].close()
    for reader, events in readers.items():
        expected = {
            version: [seen_by(ALL[reader], each) for each in contents(version) * times]
            for version in ALL
        }
        assert came(events) == expected
        assert not list(events.errors)
    assert {tuple(batch.columns.schema.names[2:]) for batch in batches.batches()} == {
        ("name", "price")
    }


@pytest.mark.parametrize("at", ["supplier", "consumer", "atlanta"])
def test_a_filter_decides_on_its_own_version(at: str, fabric: ab.Fabric) -> None:
    """Whatever its predicate is over, and wherever that and the filter are."""
    channels = {version: fabric.channel("quotes", cls) for version, cls in ALL.items()}
    suppliers = {version: channel.supplier(version) for version, channel in channels.items()}
    derived = [channels[reader].derive(filter, at=at) for reader, filter in FILTERS]
    taken = [channel.subscribe(timeout=PATIENCE) for channel in derived]
    for version, supplier in suppliers.items():
        supplier.publish_batch(contents(version))
        for content in contents(version):
            supplier.publish(content)
    channels["first"].close()
    for (reader, filter), channel, events in zip(FILTERS, derived, taken, strict=True):
        expected = {
            version: made
            for version in ALL
            if (made := forwarded(filter, ALL[reader], contents(version) * 2))
        }
        assert came(events) == expected, (reader, filter)
        assert not list(channel.errors)


@pytest.mark.parametrize("reader", ["first", "third"])
def test_a_filter_moves_amid_events_of_all_versions(reader: str, fabric: ab.Fabric) -> None:
    channels = {version: fabric.channel("quotes", cls) for version, cls in ALL.items()}
    suppliers = {version: channel.supplier(version) for version, channel in channels.items()}
    counted = channels[reader].derive(Counts)
    events = counted.subscribe(timeout=PATIENCE)
    for place in ("atlanta", "dallas", "supplier", "atlanta"):
        for version, supplier in suppliers.items():
            supplier.publish_batch(contents(version))
        counted.move(to=place)
    suppliers["first"].offload(to="dallas")
    for version, supplier in suppliers.items():
        supplier.publish_batch(contents(version))
    channels["first"].close()
    assert came(events) == {
        version: forwarded(Counts, ALL[reader], contents(version) * 5) for version in ALL
    }


def test_events_of_a_subtype_of_another_version(fabric: ab.Fabric) -> None:
    """They are so to a reader, with its own class where it has one."""

    @dataclass(frozen=True)
    class Loud(V.second):
        decibels: int = 0

    newer = Loud

    @dataclass(frozen=True)
    class Loud(V.first):  # type: ignore[no-redef]
        decibels: int = 0

    older = fabric.channel("quotes", V.first).subscribe(timeout=PATIENCE)
    other = fabric.channel("quotes", V.third).subscribe(timeout=PATIENCE)
    fabric._membership.register(EventType.of(Loud))
    supplier = fabric.channel("quotes", V.second).supplier("A")
    supplier.publish(newer("IBM", 1.0, 5, 11))
    first, third = next(iter(older)), next(iter(other))
    assert (first.type, first.content) == ("Loud", Loud("IBM", 1.0, 11))
    assert isinstance(third.content, V.third)
    assert (third.type, third.content.decibels, third.content.tags) == ("Loud", 11, ["old"])


def test_who_has_no_class_has_the_defaults_of_who_opened_the_channel(fabric: ab.Fabric) -> None:
    """A process that knows the channel by its name, or a broker that lacks the filter's code."""
    old = EventType.of(V.first)
    registry = TypeRegistry()
    batch = encode(old, contents("first") * 10, "A", 0, 0)
    few = encode(old, contents("first"), "A", 0, 0)
    for version in ("second", "third", "fourth"):
        generic = registry.resolve(describe(EventType.of(ALL[version])))
        assert generic.generic
        assert describe(generic) == describe(EventType.of(ALL[version]))
        for each in (batch, few):
            read = registry.conform(each, generic).contents()
            assert [vars(made).keys() for made in read] == [
                vars(content).keys() for content in contents(version)[:1] * len(each)
            ]
            assert {str(getattr(made, "volume", made)) for made in read} <= {"7", "9"} or all(
                made.venue.name == "XETRA" and made.tags == ["old"] for made in read
            )


@pytest.mark.parametrize("runs", [True, False])
def test_a_predicate_stands_in_for_code_that_cannot_run(
    runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events that it cannot decide on columns have the defaults there, too."""
    spec, type_ = FilterSpec.of(Liquid), EventType.of(V.second)
    envelope = pack(spec, type_, analyse(spec, type_), key=b"k")
    assert envelope.exact
    if not runs:
        monkeypatch.setattr("activebroker.filters.payload.PYTHON_VERSION", (2, 7))
    payload: Payload = load(envelope, b"k", TypeRegistry())
    assert payload.stateless is not runs
    runner = FilterRunner(payload, channel="x", name="F", shared=False, stop_on_error=False)
    result = runner.run([encode(EventType.of(V.first), contents("first"), "A", 0, 0)])
    made = [vars(each) for batch in result.batches for each in batch.contents()]
    assert made == [vars(V.second("IBM", price)) for price in (1.0, 200.0)]
    assert not result.failures


def _other(**fields: Any) -> Callable[[], type]:
    return lambda: dataclasses.make_dataclass("Quote", [(n, *f) for n, f in fields.items()])


@pytest.mark.parametrize(
    ("cls", "why"),
    [
        (_other(name=[str], price=[float], lot=[int]), "adds 'lot' without a default of its type"),
        (
            _other(name=[str], price=[float], lot=[int, None]),
            "adds 'lot' without a default of its type",
        ),
        (_other(name=[str]), "lacks 'price', which has no default there"),
        (_other(name=[str], price=[int, 1]), "has 'price' as int64, not double"),
        (
            _other(name=[str], price=[float], volume=[str, ""]),
            "has 'volume' as string, not int64",  # of the version that came second
        ),
    ],
)
@pytest.mark.parametrize("at_a_derived_channel", [False, True])
def test_what_is_no_version_is_refused(
    cls: Callable[[], type], why: str, at_a_derived_channel: bool, fabric: ab.Fabric
) -> None:
    channel = fabric.channel("quotes", V.first)
    name = channel.derive(lambda q: q.price > 1).name if at_a_derived_channel else "quotes"
    fabric.channel("quotes", V.second)
    with pytest.raises(ChannelTypeConflict, match=f"which {why}.*give them one"):
        fabric.channel(name, cls())
    fabric.channel(name, V.fourth)  # what was refused left nothing behind


def test_versions_of_a_channel_are_bounded(fabric: ab.Fabric) -> None:
    def version(number: int) -> type:
        return dataclasses.make_dataclass("Quote", [("name", str), (f"f{number}", int, number)])

    for number in range(64):
        fabric.channel("quotes", version(number))
    fabric.channel("quotes", version(5))
    with pytest.raises(ChannelTypeConflict, match="64 versions of that already"):
        fabric.channel("quotes", version(64))


def test_a_described_default_is_looked_at() -> None:
    """It comes from another process."""
    from msgspec.structs import replace

    from activebroker.core.errors import ProtocolError

    good = describe(EventType.of(V.second))
    ((_, column),) = good.defaults
    two_rows = pa.record_batch([pa.array([1, 2])], ["volume"]).serialize().to_pybytes()
    for default in (b"", b"nonsense", column[:-8], two_rows):
        with pytest.raises(ProtocolError, match="event type 'Quote' is malformed"):
            TypeRegistry().resolve(replace(good, defaults=(("volume", default),)))
    with pytest.raises(ProtocolError, match="event type 'Quote' is malformed"):
        TypeRegistry().resolve(replace(good, defaults=(("other", column),)))

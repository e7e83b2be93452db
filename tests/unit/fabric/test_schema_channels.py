"""Channels of an Arrow schema, for who has tables and no class."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import activebroker as ab
from activebroker.core.errors import EventTypeError

PATIENCE = 20.0

COLUMNS: dict[str, Any] = {
    "number": pa.array([1, 2], pa.int16()),
    "price": pa.array([0.5, 2.5], pa.float32()),
    "name": pa.array(["a", "b"], pa.large_string()),
    "place": pa.array(["JFK", "JFK"]).dictionary_encode(),
    "view": pa.array(["x", None], pa.string_view()),
    "raw": pa.array([b"1", b"2"], pa.binary(1)),
    "at": pa.array([datetime(2024, 1, 1)] * 2, pa.timestamp("ms", "UTC")),
    "fare": pa.array([Decimal("1.50")] * 2, pa.decimal64(5, 2)),
    "tags": pa.array([["p"], []], pa.list_view(pa.string_view())),
    "leg": pa.array([{"city": "Rome", "gate": 4}, None]),
}
TABLE = pa.table(COLUMNS)


def test_a_schema_is_a_type_and_its_tables_are_events(fabric: ab.Fabric) -> None:
    channel = fabric.channel("rows", TABLE.schema)
    dear = channel.derive(lambda row: row.price > 1)
    with dear.subscribe(timeout=PATIENCE) as rows, channel.supplier("S") as supplier:
        supplier.publish_batch(TABLE)
        supplier.publish({**TABLE.to_pylist()[0], "price": 7.0})
        channel.close()
        got = [event.content for event in rows]
    assert [row.price for row in got] == [2.5, 7.0]
    assert (got[0].number, got[0].name, got[0].place, got[0].view) == (2, "b", "JFK", None)
    assert (got[0].raw, got[0].tags, got[0].leg) == (b"2", [], None)
    assert got[1].at == datetime(2024, 1, 1, tzinfo=UTC) and got[1].fare == Decimal("1.50")
    assert got[1].leg.city == "Rome"


def test_equal_schemas_are_one_type(fabric: ab.Fabric) -> None:
    one = fabric.channel("rows", TABLE.schema)
    assert fabric.channel("rows", pa.schema(list(TABLE.schema))).type == one.type


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([("not a name", pa.int64())]),
        pa.schema([("class", pa.int64())]),
        pa.schema([("x", pa.int64()), ("x", pa.int64())]),
        pa.schema([("x", pa.map_(pa.string(), pa.int64()))]),
        pa.schema([("x", pa.null())]),
        pa.schema([("x", pa.duration("us"))]),
        pa.schema([("x", pa.uuid())]),
        pa.schema([("x", pa.decimal256(76, 2))]),
    ],
    ids=str,
)
def test_columns_that_no_field_can_be_are_refused(fabric: ab.Fabric, schema: pa.Schema) -> None:
    with pytest.raises(EventTypeError, match="cannot be the fields of an event"):
        fabric.channel("rows", schema)


@dataclass(frozen=True)
class Quote:
    name: str
    price: float


@dataclass(frozen=True)
class VenueQuote(Quote):
    venue: str = "XNAS"


def test_a_field_that_comes_later_goes_into_a_subclass(fabric: ab.Fabric) -> None:
    """Old and new suppliers, and who knows the new field and who does not, share the channel."""
    channel = fabric.channel("quotes", Quote)
    dear = channel.derive(lambda quote: quote.price > 1)
    there = channel.derive(lambda quote: getattr(quote, "venue", "") == "XETR")
    with (
        dear.subscribe(timeout=PATIENCE) as old,
        there.subscribe(timeout=PATIENCE) as new,
        channel.supplier("old") as before,
        channel.supplier("new") as after,
    ):
        before.publish(Quote("a", 2.0))
        after.publish_batch([VenueQuote("b", 2.0, "XETR"), VenueQuote("c", 0.5, "XETR")])
        channel.close()
        assert sorted(event.content.name for event in old) == ["a", "b"]
        assert [event.content for event in new] == [
            VenueQuote("b", 2.0, "XETR"),
            VenueQuote("c", 0.5, "XETR"),
        ]


def test_a_class_that_was_defined_anew_is_told_from_the_other(fabric: ab.Fabric) -> None:
    channel = fabric.channel("quotes", Quote)
    other = dataclass(type("Quote", (), {"__annotations__": {"price": float}}))
    text = r"another class of this name; that of .*name"
    with (
        channel.supplier("S") as supplier,
        pytest.raises(ab.ActiveBrokerError, match=text),
    ):
        supplier.publish(other(1.0))

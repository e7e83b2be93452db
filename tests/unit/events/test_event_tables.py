"""Publishing tables: Arrow, pandas and lists, cast where nothing is lost and refused elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from activebroker.core.errors import EventRefused
from activebroker.events import ANY, EventType, Precision, Shape, Zone, from_table


class Status(Enum):
    OK = 0
    LATE = 1


@dataclass(frozen=True)
class Place:
    city: str
    gate: int | None = None


@dataclass(frozen=True)
class Flight:
    number: int
    carrier: str
    delay: float | None = None


@dataclass(frozen=True)
class LongFlight(Flight):
    miles: int = 0


FLIGHT = EventType.of(Flight)
FLIGHTS = [Flight(1, "DL", 2.5), Flight(2, "AA", None), Flight(3, "UA", -1.0)]
COLUMNS = {"carrier": ["DL", "AA", "UA"], "delay": [2.5, None, -1.0], "number": [1, 2, 3]}


def publish(rows: Any, type: EventType = FLIGHT) -> list[Any]:
    batches = from_table(type, rows, "flights", "JFK", 10, 99)
    return [content for batch in batches for content in batch.contents()]


def one(annotation: Any) -> EventType:
    """An event type with a single field `x`."""
    return EventType.of(dataclass(type("One", (), {"__annotations__": {"x": annotation}})))


def column(values: Any, annotation: Any, arrow: pa.DataType | None = None) -> list[Any]:
    rows = pa.table({"x": pa.array(values, arrow)})
    return [content.x for content in publish(rows, one(annotation))]


def refused(rows: Any, type: EventType = FLIGHT) -> str:
    with pytest.raises(EventRefused) as caught:
        from_table(type, rows, "flights", "JFK", 0, 0)
    assert str(caught.value).startswith("channel 'flights'")
    return str(caught.value).removeprefix("channel 'flights'")


def refused_column(values: Any, annotation: Any, arrow: pa.DataType | None = None) -> str:
    return refused(pa.table({"x": pa.array(values, arrow)}), one(annotation))


@pytest.mark.parametrize(
    "rows",
    [
        pa.table(COLUMNS),
        pa.record_batch(COLUMNS),
        pa.concat_tables([pa.table(COLUMNS).slice(0, 2), pa.table(COLUMNS).slice(2)]),
        pa.table(COLUMNS).cast(
            pa.schema([("carrier", pa.large_string()), ("delay", "float32"), ("number", "int8")])
        ),
        pd.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS, index=[7, 8, 9]).astype({"number": "int32"}),
        FLIGHTS,
        tuple(FLIGHTS),
        [{"number": f.number, "carrier": f.carrier, "delay": f.delay} for f in FLIGHTS],
    ],
)
def test_every_form_of_rows(rows):
    (batch,) = from_table(FLIGHT, rows, "flights", "JFK", 10, 99)
    assert batch.contents() == FLIGHTS
    assert batch.seqs.tolist() == [10, 11, 12]
    assert batch.times.tolist() == [99, 99, 99]
    assert batch.supplier == "JFK"
    batch.columns.validate(full=True)


def test_any_object_with_an_arrow_stream():
    class Frame:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table(COLUMNS).__arrow_c_stream__(requested_schema)

    assert publish(Frame()) == FLIGHTS


def test_no_rows():
    assert publish(pa.table(COLUMNS).slice(0, 0)) == []
    assert publish([]) == []
    assert publish(pd.DataFrame(COLUMNS).iloc[:0]) == []


def test_columns_of_the_right_type_are_not_copied():
    numbers = pa.array([1, 2, 3])
    table = pa.table({**COLUMNS, "number": numbers})
    (batch,) = from_table(FLIGHT, table, "flights", "JFK", 0, 0)
    stored = batch.columns.column(2)
    assert stored.buffers()[1].address == numbers.buffers()[1].address


def test_missing_and_unknown_columns_are_named():
    table = pa.table(COLUMNS)
    assert refused(table.drop_columns(["delay"])) == (
        ", field 'delay': expected a column of float | None, got none"
    )
    assert "field 'carier'" in refused(table.append_column("carier", table["carrier"]))
    assert "Did you mean 'carrier'?" in refused(table.append_column("carier", table["carrier"]))
    twice = table.append_column("carrier", table["carrier"])
    assert "field 'carrier': expected one column" in refused(twice)


def test_a_null_where_none_is_allowed_is_named_by_row():
    assert refused(pa.table({**COLUMNS, "number": [1, None, 3]})) == (
        ", row 1, field 'number': expected int, got null"
    )
    chunks = pa.chunked_array([["a"], ["b", None]])
    assert ", row 2, field 'carrier': expected str, got null" in refused(
        pa.table({**COLUMNS, "carrier": chunks})
    )
    assert ", row 0, field 'x'" in refused_column([None, None], int)


def test_a_list_names_the_row():
    assert ", row 1, field 'number': expected int, got str 'x'" in refused(
        [FLIGHTS[0], Flight("x", "DL")]
    )
    assert ", row 0: expected Flight, got int 3" in refused([3])


def test_a_list_may_hold_instances_of_one_subclass():
    rows = [LongFlight(1, "DL", None, 900), LongFlight(2, "DL", 1.0, 800)]
    (batch,) = from_table(FLIGHT, rows, "flights", "JFK", 0, 0)
    assert batch.type is EventType.of(LongFlight)
    assert batch.contents() == rows
    assert ", row 1: expected LongFlight as in the rows before, got Flight" in refused(
        [rows[0], FLIGHTS[0]]
    )


def test_rows_of_no_kind_are_refused():
    assert "expected an Arrow table, a data frame or a list of objects, got int 3" in refused(3)


def test_untyped_channels_take_lists():
    assert publish([1, "x", None], ANY) == [1, "x", None]
    assert "an untyped channel has no columns" in refused(pa.table(COLUMNS), ANY)


UTC_NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
LOSSLESS = [
    (int, [1, 2], pa.uint64(), [1, 2]),
    (int, [1.0, 2.0], pa.float64(), [1, 2]),
    (int | None, [None, None], pa.null(), [None, None]),
    (int | None, [None, 5], pa.int16(), [None, 5]),
    (float, [1, 2], pa.int64(), [1.0, 2.0]),
    (str, ["a", "b", "a"], pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"]),
    (bytes, [b"ab", b"cd"], pa.binary(2), [b"ab", b"cd"]),
    (datetime, [10**9], pa.timestamp("s"), [datetime(2001, 9, 9, 1, 46, 40)]),
    (datetime, [10**18 + 1000], pa.timestamp("ns"), [datetime(2001, 9, 9, 1, 46, 40, 1)]),
    (Annotated[datetime, Zone("UTC")], [UTC_NOON], pa.timestamp("ms", "Asia/Tokyo"), [UTC_NOON]),
    (date, [date(2024, 5, 1)], pa.date64(), [date(2024, 5, 1)]),
    (Annotated[Decimal, Precision(6, 2)], [5], pa.int32(), [Decimal(5)]),
    (Decimal, [Decimal("1.25")], pa.decimal128(5, 2), [Decimal("1.25")]),
    (Status, ["OK", "LATE"], pa.string(), [Status.OK, Status.LATE]),
    (Status | None, ["OK", None], pa.string(), [Status.OK, None]),
    (list[float], [[1, 2], []], pa.list_(pa.int32()), [[1.0, 2.0], []]),
    (list[int | None], [[1, None]], pa.large_list(pa.int64()), [[1, None]]),
    (list[int] | None, [[1, 2], None], pa.list_(pa.int8(), 2), [[1, 2], None]),
    (Place, [{"gate": 1, "city": "a"}], None, [Place("a", 1)]),
    (
        Place | None,
        [None, {"gate": None, "city": "a"}],
        pa.struct([("gate", pa.int8()), ("city", pa.string())]),
        [None, Place("a", None)],
    ),
    (list[Place], [[{"city": "a", "gate": 3}], []], None, [[Place("a", 3)], []]),
]


@pytest.mark.parametrize(("annotation", "values", "arrow", "wanted"), LOSSLESS)
def test_casts_that_lose_nothing(annotation, values, arrow, wanted):
    assert column(values, annotation, arrow) == wanted


LOSSY = [
    (int, [1.0, 2.5, 3.0], None, "row 1, field 'x': expected int, got double 2.5"),
    (int, [1.0, math.nan], None, "row 1, field 'x': expected int, got double nan"),
    (int, [2**63, 2**63 + 1], pa.uint64(), "row 0, field 'x': expected int, got uint64"),
    (int, ["1"], None, "field 'x': expected int, got a column of string"),
    (int, [True], None, "field 'x': expected int, got a column of bool"),
    (float, [1, 2**53 + 1], None, "row 1, field 'x': expected float, got int64 9007199254740993"),
    (float, ["1.5"], None, "expected float, got a column of string"),
    (bool, [1], None, "expected bool, got a column of int64"),
    (str, [1], None, "expected str, got a column of int64"),
    (str, [b"x"], None, "expected str, got a column of binary"),
    (bytes, ["x"], None, "expected bytes, got a column of string"),
    (datetime, [10**9, 10**18 + 1], pa.timestamp("ns"), "row 1, field 'x': expected datetime, got"),
    (datetime, [UTC_NOON], pa.timestamp("us", "UTC"), "got a column of timestamp[us, tz=UTC]"),
    (Annotated[datetime, Zone("UTC")], [0], pa.timestamp("us"), "expected datetime[UTC], got"),
    (datetime, [0, 10**12], pa.timestamp("s"), "row 1, field 'x': expected datetime"),
    (date, [0, 10**7], pa.date32(), "row 1, field 'x': expected date"),
    (date, [0], pa.timestamp("us"), "expected date, got a column of timestamp[us]"),
    (Annotated[Decimal, Precision(4, 1)], [Decimal("1.55")], None, "expected Decimal[4,1], got"),
    (Status, ["OK", "Late"], None, "row 1, field 'x': expected Status<OK,LATE>, got str 'Late'"),
    (list[int], [[1], [2, None]], None, "row 1, field 'x[1]': expected int, got null"),
    (list[int | None] | None, [None, [], [1.5]], None, "row 2, field 'x[0]': expected int"),
    (list[int], [1], None, "expected list[int], got a column of int64"),
    (Place, [{"city": "a"}], None, "field 'x.gate': expected a column of int | None, got none"),
    (Place, [{"city": None, "gate": 1}], None, "row 0, field 'x.city': expected str, got null"),
    (Place, ["a"], None, "expected Place, got a column of string"),
]


@pytest.mark.parametrize(("annotation", "values", "arrow", "text"), LOSSY)
def test_what_would_lose_something_is_refused(annotation, values, arrow, text):
    assert text in refused_column(values, annotation, arrow)


PAIR = Annotated[np.ndarray, Shape(2)]


def test_array_columns():
    for arrow in (pa.list_(pa.float64(), 2), pa.list_(pa.float32()), pa.list_(pa.int64())):
        got = column([[1, 2], [3, 4]], PAIR, arrow)
        np.testing.assert_array_equal(got, [[1.0, 2.0], [3.0, 4.0]])
    assert column([[1.0, 2.0], None], PAIR | None)[1] is None
    assert "row 1, field 'x': expected ndarray float64[2], got 1 numbers" in refused_column(
        [[1.0, 2.0], [1.0]], PAIR
    )
    assert "row 1, field 'x[1]': expected float64, got null" in refused_column(
        [[1.0, 2.0], [1.0, None]], PAIR
    ).replace("ndarray ", "").replace("[2]", "")
    assert "got a column of list" in refused_column([["a", "b"]], PAIR)
    assert "got a column of double" in refused_column([1.0], PAIR)
    small = Annotated[np.ndarray, Shape(2, dtype="int8")]
    assert "row 1, field 'x[0]': expected int8, got int64 300" in refused_column(
        [[1, 2], [300, 4]], small
    )


def test_pandas_missing_values():
    floats = pd.DataFrame({"x": [1.0, np.nan]})
    assert [c.x for c in publish(floats, one(float | None))] == [1.0, None]
    assert [c.x for c in publish(floats, one(int | None))] == [1, None]
    assert math.isnan(publish(floats, one(float))[1].x)
    assert "row 1, field 'x': expected int" in refused(floats, one(int))
    objects = pd.DataFrame({"x": pd.Series(["a", None, np.nan], dtype=object)})
    assert [c.x for c in publish(objects, one(str | None))] == ["a", None, None]
    assert "row 1, field 'x': expected str, got None" in refused(objects, one(str))
    times = pd.DataFrame({"x": [pd.Timestamp("2024-05-01"), pd.NaT]})
    assert [c.x for c in publish(times, one(datetime | None))] == [datetime(2024, 5, 1), None]


def test_pandas_objects_are_checked_one_by_one():
    frame = pd.DataFrame({"x": np.array([Status.OK, Status.LATE], dtype=object)})
    assert [c.x for c in publish(frame, one(Status))] == [Status.OK, Status.LATE]
    days = pd.DataFrame({"x": np.array([date(2024, 5, 1), "x"], dtype=object)})
    assert "row 1, field 'x': expected date, got str 'x'" in refused(days, one(date))
    arrays = pd.DataFrame({"x": [np.zeros(2), np.ones(2)]})
    np.testing.assert_array_equal([c.x for c in publish(arrays, one(PAIR))], [[0, 0], [1, 1]])


def test_pandas_columns_that_arrow_lacks():
    assert "expected float, got a column of complex128" in refused(
        pd.DataFrame({"x": [1j]}), one(float)
    )
    objects = pd.DataFrame({"x": [1], "y": np.array([object()], dtype=object)})
    assert "field 'y': expected a field of One" in refused(objects, one(int))


def test_pandas_categories_and_zones():
    frame = pd.DataFrame({"x": pd.Categorical(["OK", "LATE", "OK"])})
    assert [c.x for c in publish(frame, one(Status))] == [Status.OK, Status.LATE, Status.OK]
    zoned = pd.DataFrame({"x": pd.to_datetime(["2024-05-01 14:00"]).tz_localize("Europe/Berlin")})
    assert [c.x for c in publish(zoned, one(Annotated[datetime, Zone("UTC")]))] == [UTC_NOON]

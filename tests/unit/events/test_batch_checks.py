"""What comes as bytes is a batch of its type, or is refused before anything reads it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pytest

from activebroker.core.errors import ProtocolError
from activebroker.events import ANY, Batch, EventType, Precision, Shape, dump, encode, load
from activebroker.events.columns import checking


@dataclass
class Nothing:
    pass


@dataclass
class Leg:
    city: str
    gate: int


@dataclass
class Row:
    number: int
    name: str
    raw: bytes
    note: str | None
    tags: list[str]
    leg: Leg
    legs: list[Leg]
    perhaps: Leg | None
    several: list[Leg] | None
    fare: Annotated[Decimal, Precision(4, 2)]
    track: Annotated[np.ndarray, Shape(2)]
    nothings: list[Nothing]


ROW = EventType.of(Row)
LEG = Leg("Rome", 4)
FULL = Row(
    1,
    "ab",
    b"\xff",
    "x",
    ["p", "q"],
    LEG,
    [LEG, LEG],
    LEG,
    [LEG],
    Decimal("1.50"),
    np.ones(2),
    [Nothing()],
)
BARE = Row(2, "c", b"", None, [], LEG, [], None, None, Decimal("0.00"), np.zeros(2), [])
GOOD = [FULL, BARE] * 10


def wire(columns: pa.RecordBatch) -> bytes:
    return columns.serialize().to_pybytes()


def good() -> pa.RecordBatch:
    return encode(ROW, GOOD, "S", 0, 1).columns


def replaced(name: str, array: pa.Array) -> bytes:
    """The good batch with another column, which nobody has looked at."""
    columns = good()
    arrays = [array if f.name == name else columns.column(f.name) for f in columns.schema]
    arrays = [pa.Array._import_from_c_capsule(*each.__arrow_c_array__()) for each in arrays]
    return wire(pa.RecordBatch.from_arrays(arrays, schema=columns.schema))


def text(offsets: list[int], data: bytes, arrow: pa.DataType = pa.string()) -> pa.Array:  # noqa: B008
    offsets = offsets + [offsets[-1]] * (len(GOOD) + 1 - len(offsets))
    buffers = [None, pa.py_buffer(struct.pack(f"<{len(offsets)}i", *offsets)), pa.py_buffer(data)]
    return pa.Array.from_buffers(arrow, len(GOOD), buffers, 0)


def with_nulls(column: pa.Array) -> pa.Array:
    """The column, the last row of which is null, whatever its type says."""
    last = pa.array([False] * (len(GOOD) - 1) + [True])
    return pa.compute.if_else(last, pa.scalar(None, column.type), column)


def lists(offsets: list[int], items: pa.Array, arrow: pa.DataType) -> pa.Array:
    offsets = offsets + [offsets[-1]] * (len(GOOD) + 1 - len(offsets))
    return pa.Array.from_buffers(
        arrow,
        len(GOOD),
        [None, pa.py_buffer(struct.pack(f"<{len(offsets)}i", *offsets))],
        0,
        children=[items],
    )


def typed(name: str) -> pa.DataType:
    return ROW.schema.field(name).type


def nothings(count: int) -> pa.Array:
    arrow = typed("nothings").value_type
    return pa.Array.from_buffers(arrow, count, [None], 0)


def legs(cities: list[str | None], gates: list[int | None]) -> pa.Array:
    columns = [pa.array(cities, pa.string()), pa.array(gates, pa.int64())]
    arrow = typed("leg")
    buffers = [None]
    return pa.Array.from_buffers(arrow, len(cities), buffers, 0, children=columns)


N = len(GOOD)
BEYOND = 1 << 20
WRONG_COLUMNS: dict[str, tuple[str, Callable[[], pa.Array]]] = {
    "an offset in the middle beyond the text": ("name", lambda: text([0, BEYOND, 3], b"abc")),
    "offsets that go back": ("name", lambda: text([0, 3, 1, 3], b"abc")),
    "such offsets, where text is not ASCII": ("name", lambda: text([0, 3, 1, 4], b"ab\xc3\xa9")),
    "bytes beyond": ("raw", lambda: text([0, BEYOND, 3], b"abc", pa.binary())),
    "text that is not UTF-8": ("name", lambda: text([0, 2], b"\xff\xfe")),
    "a character cut in two": ("name", lambda: text([0, 1, 2], b"\xc3\xa9")),
    "list items beyond": (
        "tags",
        lambda: lists([0, BEYOND, 1], pa.array(["a"]), typed("tags")),
    ),
    "an offset beyond, in a list": (
        "tags",
        lambda: lists([0, 1], text([0, BEYOND, 1], b"abc").slice(0, 2), typed("tags")),
    ),
    "a null among numbers": ("number", lambda: with_nulls(good().column("number"))),
    "a null among text": ("name", lambda: with_nulls(good().column("name"))),
    "a null list": ("tags", lambda: with_nulls(good().column("tags"))),
    "a null array": ("track", lambda: with_nulls(good().column("track"))),
    "a null in a list": (
        "tags",
        lambda: lists([0, 2], pa.array(["a", None]), typed("tags")),
    ),
    "a null in a struct": ("leg", lambda: legs(["a"] * N, [1] * (N - 1) + [None])),
    "a null in a struct in a list": (
        "legs",
        lambda: lists([0, 2], legs([None, "a"], [1, 2]), typed("legs")),
    ),
    "more decimals than it may have": (
        "fare",
        lambda: pa.array([Decimal("99999.99")] * N, pa.decimal128(38, 2)).view(typed("fare")),
    ),
    "items that take no bytes, too many": (
        "nothings",
        lambda: lists([0, 2**31 - 1], nothings(2**31 - 1), typed("nothings")),
    ),
}


def poked(at: int, value: int) -> Callable[[], bytes]:
    """The good message, a number of whose metadata is another."""

    def make() -> bytes:
        data = bytearray(wire(good()))
        before = struct.pack("<q", at)
        place = data.index(before, 8)
        data[place : place + 8] = struct.pack("<q", value)
        return bytes(data)

    return make


def last_offset(value: int) -> Callable[[], bytes]:
    """The good message, the text of whose names ends somewhere else."""

    def make() -> bytes:
        column = text(list(range(N + 1)), b"x" * N)
        data = bytearray(replaced("name", column))
        place = data.index(column.buffers()[1].to_pybytes()) + 4 * N
        data[place : place + 4] = struct.pack("<i", value)
        return bytes(data)

    return make


def compressed(codec: str) -> bytes:
    options = pa.ipc.IpcWriteOptions(compression=codec)
    sink = pa.BufferOutputStream()
    writer = pa.ipc.new_stream(sink, good().schema, options=options)
    writer.write_batch(good())
    stream = pa.BufferReader(sink.getvalue())
    pa.ipc.read_message(stream)
    return pa.ipc.read_message(stream).serialize().to_pybytes()


def dictionary_message() -> bytes:
    coded = pa.array(["a", "b"]).dictionary_encode()
    sink = pa.BufferOutputStream()
    writer = pa.ipc.new_stream(sink, pa.schema([("a", coded.type)]))
    writer.write_batch(pa.record_batch([coded], names=["a"]))
    stream = pa.BufferReader(sink.getvalue())
    pa.ipc.read_message(stream)
    return pa.ipc.read_message(stream).serialize().to_pybytes()


WHOLE = wire(good())
(BODY,) = struct.unpack_from("<i", WHOLE, 4)
BODY_SIZE = len(WHOLE) - 8 - BODY
WRONG_MESSAGES: dict[str, Callable[[], bytes]] = {
    "more rows than there are": poked(N, 2**60),
    "a body longer than it is": poked(BODY_SIZE, 2**40),
    "a negative body": poked(BODY_SIZE, -1),
    "metadata longer than they are": lambda: WHOLE[:4] + struct.pack("<i", 2**31 - 1) + WHOLE[8:],
    "negative metadata": lambda: WHOLE[:4] + struct.pack("<i", -4) + WHOLE[8:],
    "an offset beyond the text": last_offset(BEYOND),
    "an offset beyond all": last_offset(2**31 - 1),
    "a negative offset": last_offset(-1),
    "cut off": lambda: WHOLE[:-64],
    "cut off in the metadata": lambda: WHOLE[:100],
    "cut off before": lambda: WHOLE[:6],
    "the form before version 0.15": lambda: b"\xff\x01\0\0" + WHOLE[8:],
    "compressed by lz4": lambda: compressed("lz4"),
    "compressed by zstd": lambda: compressed("zstd"),
    "a schema": lambda: ROW.batch_schema.serialize().to_pybytes(),
    "a dictionary": dictionary_message,
    "another batch": lambda: wire(pa.record_batch([pa.array([1])], names=["a"])),
}


@pytest.fixture(params=["of few rows", "of many"], autouse=True)
def ways(request, monkeypatch):
    """Text is checked in two ways."""
    if request.param == "of many":
        monkeypatch.setattr(checking, "FEW", 0)


def test_the_good_one_is_taken():
    assert str(load(ROW, "S", [WHOLE]).contents()) == str(GOOD)


@pytest.mark.parametrize("rows", [1, 2, 40, 1000])
def test_metadata_are_as_expected_where_there_are_rows(rows):
    for type, contents in ((ROW, (GOOD * 50)[:rows]), (ANY, [{"a": 1}] * rows)):
        data = memoryview(wire(encode(type, contents, "S", 0, 1).columns))
        assert type.layout._usual.matches(data)
        assert type.layout._usual.places == checking._find(data)


def test_metadata_in_another_form_are_read_too():
    empty = wire(good().slice(0, 0))
    assert not ROW.layout._usual.matches(memoryview(empty))
    assert load(ROW, "S", [empty]).contents() == []
    size = BODY + 64  # as a writer might that leaves room for more
    other = (
        WHOLE[:4] + struct.pack("<i", size) + WHOLE[8 : 8 + BODY] + bytes(64) + WHOLE[8 + BODY :]
    )
    assert not ROW.layout._usual.matches(memoryview(other))
    assert str(load(ROW, "S", [other]).contents()) == str(GOOD)


@pytest.mark.parametrize("name", WRONG_COLUMNS)
def test_a_wrong_column_is_refused(name):
    column, make = WRONG_COLUMNS[name]
    data = replaced(column, make())
    with pytest.raises(ProtocolError, match="a batch of Row from supplier 'S' is malformed"):
        load(ROW, "S", [data])


@pytest.mark.parametrize("name", WRONG_MESSAGES)
def test_a_wrong_message_is_refused(name):
    with pytest.raises(ProtocolError, match="a batch of Row from supplier 'S' is malformed"):
        load(ROW, "S", [WRONG_MESSAGES[name]()])


@pytest.mark.parametrize("claimed", [0, 1, 19, -1])
def test_a_count_of_nulls_that_is_not_theirs_is_refused_or_without_effect(claimed):
    columns = encode(EventType.of(Leg), [LEG] * N, "S", 0, 1).columns
    note = pa.array(["a", None] * (N // 2))
    type = EventType.of(Noted)
    arrays = [columns.column(0), columns.column(1), note]
    data = bytearray(wire(pa.RecordBatch.from_arrays(arrays, schema=type.batch_schema)))
    place = data.index(struct.pack("<qq", N, N // 2))
    data[place + 8 : place + 16] = struct.pack("<q", claimed)
    try:
        batch = load(type, "S", [bytes(data)])
    except ProtocolError:
        return
    # Without nulls Arrow reads no bitmap, and those notes are empty; -1 makes it count them.
    assert {content.note for content in batch.contents()} == {"a", {0: "", -1: None}[claimed]}


@dataclass
class Noted:
    note: str | None


def test_text_of_all_alphabets_is_taken():
    contents = [Noted(each) for each in ("Ærø", "日本", "🜁", "", "plain", None) * 5]
    type = EventType.of(Noted)
    assert load(type, "S", dump(encode(type, contents, "S", 0, 1))).contents() == contents


def test_untyped_batches_are_checked_too():
    (data,) = map(bytes, dump(encode(ANY, ["a" * 40, np.arange(9000)] * 4, "S", 0, 1)))
    assert load(ANY, "S", [data]).contents()[0] == "a" * 40
    columns = Batch("S", ANY, pa.ipc.read_record_batch(data, ANY.batch_schema)).columns
    offsets = columns.column(2).buffers()[1].to_pybytes()
    wrong = data.replace(offsets[8:24], struct.pack("<qq", 2**40, 3), 1)
    assert wrong != data
    with pytest.raises(ProtocolError, match="a batch of any"):
        load(ANY, "S", [wrong])


@dataclass
class Day:
    number: int
    day: date
    at: datetime


@dataclass
class Listed:
    days: list[date]


def test_values_that_no_event_has_cost_their_rows_only():
    type = EventType.of(Day)
    contents = [Day(i, date(2024, 1, 1), datetime(2024, 1, 1)) for i in range(40)]
    columns = encode(type, contents, "S", 100, 1).columns
    wrong: dict[int, Any] = {3: 2**31 - 1, 17: -(2**31)}
    days = np.full(40, 19723, np.int32)
    for row, day in wrong.items():
        days[row] = day
    moments = np.full(40, 1704067200_000000)
    moments[39] = 2**62
    columns = columns.set_column(3, type.batch_schema.field(3), pa.array(days).view(pa.date32()))
    moments = pa.array(moments).view(pa.timestamp("us"))
    columns = columns.set_column(4, type.batch_schema.field(4), moments)
    readable, events, unreadable = load(type, "S", [wire(columns)]).read()
    assert [event.seq for event in events] == readable.seqs.tolist()
    assert [event.content for event in events] == [
        content for content in contents if content.number not in (3, 17, 39)
    ]
    assert [each.seq for each in unreadable] == [103, 117, 139]
    assert [each.row for each in unreadable] == [3, 17, 39]
    assert "outside the calendar" in unreadable[0].reason
    assert unreadable[0].content.startswith("Day(number=3, day=")


def test_such_a_value_in_a_list_costs_its_row_only():
    type = EventType.of(Listed)
    columns = encode(type, [Listed([date(2024, 1, 1)])] * 20, "S", 0, 1).columns
    days = np.full(20, 19723, np.int32)
    days[7] = 2**31 - 1
    column = columns.column(2)
    items = pa.array(days).view(pa.date32())
    column = pa.ListArray.from_arrays(column.offsets, items, type=column.type)
    columns = columns.set_column(2, type.batch_schema.field(2), column)
    _, events, unreadable = load(type, "S", [wire(columns)]).read()
    assert len(events) == 19
    assert [each.seq for each in unreadable] == [7]

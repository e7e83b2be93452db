"""Masks over columns agree with Python on every row, or send the row to Python."""

from __future__ import annotations

import functools
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies_for_tests import (
    NUMBERS,
    OPS,
    OTHERS,
    conditions,
    conditions_on_calls,
    trees,
)

from predicate_extract import Call, Compare, Const, Defined, Field, In, IsNull, Not, Truthy
from predicate_extract.algebra.schema import can_raise
from predicate_extract.backends.columns import mask

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [0, 1, -1, 2, 3, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]),
    "k": (pa.int8(), [0, 1, -1, 2, 3, 127, -128]),
    "u": (pa.uint64(), [0, 1, 2, 255, 2**63, 2**64 - 1]),
    "f": (
        pa.float64(),
        [0.0, -0.0, 0.1, 0.5, 1.0, 2.0**53, 2.0**63, math.inf, -math.inf, math.nan],
    ),
    "g": (pa.float32(), [0.0, 0.5, 1.0, math.inf, math.nan, 0.10000000149011612]),
    "b": (pa.bool_(), [True, False]),
    "s": (pa.string(), ["", "a", "b", "ß", "\U0001f600", "\uffff"]),
    "y": (pa.binary(), [b"", b"a", b"\xff"]),
    "d": (pa.date32(), [date(2020, 1, 1), date(1969, 12, 31), date(1, 1, 1)]),
    "t": (pa.timestamp("us"), [datetime(2020, 1, 1), datetime(1969, 12, 31, 23, 59)]),
    "z": (
        pa.timestamp("us", "UTC"),
        [datetime(2020, 1, 1, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC)],
    ),
    "m": (pa.decimal128(10, 2), [Decimal("1.00"), Decimal("2.50"), Decimal("0.10")]),
    "l": (pa.list_(pa.int64()), [[], [1], [1, 2]]),
    "n": (pa.null(), [None]),
}
INNER = pa.struct([pa.field("x", pa.int64()), pa.field("y", pa.string(), nullable=False)])
FIELDS = (
    *(Field((name,)) for name in COLUMNS),
    *(Field(("r", "x")), Field(("r", "y")), Field(("nope",)), Field(("s", "x")), Field(("r",))),
    Field(("i",), (True,)),
    Field(()),
)


def rows_of(batch: pa.RecordBatch) -> list[Any]:
    def thing(value: Any) -> Any:
        if isinstance(value, dict):
            return SimpleNamespace(**{key: thing(inner) for key, inner in value.items()})
        return value

    return [thing(row) for row in batch.to_pylist()]


@cache  # a strategy is looked through when it is used first, which takes longer than drawing
def _column(name: str, nullable: bool, size: int) -> st.SearchStrategy[list[Any]]:
    value = st.sampled_from(COLUMNS[name][1])
    return st.lists(value | st.none() if nullable else value, min_size=size, max_size=size)


@cache
def _structs(size: int) -> st.SearchStrategy[list[Any]]:
    inner = st.fixed_dictionaries({"x": st.none() | st.integers(0, 3), "y": st.sampled_from("ab")})
    return st.lists(st.none() | inner, min_size=size, max_size=size)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    size = draw(st.integers(1, 6))
    arrays, fields = [], []
    for name, (type, _) in COLUMNS.items():
        nullable = type == pa.null() or draw(st.booleans())
        column = draw(_column(name, nullable, size))
        arrays.append(pa.array(column, type))
        fields.append(pa.field(name, type, nullable))
    structs = draw(_structs(size))
    arrays.append(pa.array(structs, INNER))
    fields.append(pa.field("r", INNER))
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    return batch.slice(draw(st.integers(0, size - 1)))


@settings(max_examples=300)
@given(trees(FIELDS) | conditions(FIELDS) | conditions_on_calls(FIELDS), batches())
def test_mask_agrees_with_python_or_sends_the_row_there(predicate, batch):
    found = mask(predicate, batch)
    raises = can_raise(predicate, batch.schema)
    for index, row in enumerate(rows_of(batch)):
        expected = predicate.evaluate(row)
        raised = found.raised is not None and found.raised[index]
        assert not (raised and found.true[index])
        assert raises or expected is not None, "can_raise is sound"
        if not raised:
            assert found.true[index] == expected


FAITHFUL = {
    "i": (*NUMBERS, None, "a", b"a", date(2020, 1, 1), Decimal("2.50"), Decimal(2**63)),
    "k": (*NUMBERS, None, "a", Decimal("0.1")),
    "u": (*NUMBERS, None, "a"),
    "f": (*NUMBERS, None, "a", datetime(2020, 1, 1)),
    "g": (*NUMBERS, None, "a"),
    "b": (*NUMBERS, None, "a", Decimal(1)),
    "s": (*NUMBERS, *OTHERS),
    "y": (*NUMBERS, *OTHERS),
    "d": (*NUMBERS, *OTHERS),
    "t": (*NUMBERS, *OTHERS),
    "z": (*NUMBERS, *OTHERS),
    "m": (0, 1, 2, True, None, "a", Decimal("2.50"), Decimal("0.1")),
}


@pytest.mark.parametrize("name", FAITHFUL)
@pytest.mark.parametrize("nullable", [False, True])
def test_comparisons_with_constants_are_exact(name, nullable):
    type, values = COLUMNS[name]
    column = [*values, None] if nullable else values
    batch = pa.record_batch([pa.array(column, type)], names=[name])
    for value in FAITHFUL[name]:
        for op in OPS:
            for predicate in (
                Compare(op, Field((name,)), Const(value)),
                Compare(op, Const(value), Field((name,))),
            ):
                found = mask(predicate, batch)
                raised = found.raised if found.raised is not None else [False] * len(column)
                got = [None if r else bool(t) for t, r in zip(found.true, raised, strict=True)]
                assert got == [predicate.evaluate(row) for row in rows_of(batch)], str(predicate)


@pytest.mark.parametrize("name", ["i", "f", "b", "s", "y", "d", "t", "z"])
def test_fields_of_one_type_compare_exactly(name):
    type, values = COLUMNS[name]
    pairs = [(one, two) for one in (*values, None) for two in (*values, None)]
    batch = pa.record_batch(
        [pa.array([pair[side] for pair in pairs], type) for side in (0, 1)], names=["p", "q"]
    )
    for op in OPS:
        found = mask(Compare(op, Field(("p",)), Field(("q",))), batch)
        for index, row in enumerate(rows_of(batch)):
            expected = Compare(op, Field(("p",)), Field(("q",))).evaluate(row)
            raised = found.raised is not None and found.raised[index]
            assert (None if raised else bool(found.true[index])) == expected


def test_no_rows_raise_where_nothing_is_null():
    batch = pa.record_batch({"price": [1.0, math.nan], "name": ["IBM", "SUN"]})
    predicate = Compare(">", Field(("price",)), Const(0)) & ~Compare(
        "==", Field(("name",)), Const("x")
    )
    found = mask(predicate, batch)
    assert found.raised is None
    assert found.keep is found.true


INTEGER, FLOAT = Field(("i",)), Field(("f",))
HUGE = Const(10**400)
HALF = Const(10**200)
POWER = functools.reduce(lambda term, _: Call("*", (term, INTEGER)), range(16), INTEGER)
WIDE = pa.record_batch({"i": pa.array([2**63 - 1]), "f": [0.5]})
WIDE_SCHEMA = pa.schema([column.with_nullable(False) for column in WIDE.schema])


@pytest.mark.parametrize(
    ("term", "raises"),
    [
        *((Call(name, (HUGE,)), True) for name in ("isnan", "isinf", "isfinite", "float")),
        *((Call(op, (FLOAT, HUGE)), True) for op in ("+", "-", "*", "/", "//", "%")),
        *((Call(op, (HUGE, FLOAT)), True) for op in ("+", "-", "*")),
        (Call("+", (POWER, FLOAT)), True),
        (Call("float", (Call("*", (Call("floor", (HALF,)), HALF)),)), True),
        (Call("float", (Call("neg", (POWER,)),)), True),
        (Call("max", (FLOAT, Call("abs", (HUGE,)))), False),
        (Call("str", (Const(10**5000),)), True),
        (Call("+", (Const(10**300), FLOAT)), False),
        (Call("isfinite", (Call("*", (INTEGER, INTEGER)),)), False),
    ],
)
def test_an_integer_beyond_all_floats_raises_where_it_becomes_one(term, raises):
    predicate = Compare("==", term, Const(0))
    row = SimpleNamespace(i=2**63 - 1, f=0.5)
    assert (predicate.evaluate(row) is None) is raises
    assert can_raise(predicate, WIDE_SCHEMA) or not raises
    found = mask(predicate, pa.RecordBatch.from_arrays(WIDE.columns, schema=WIDE_SCHEMA))
    assert (found.raised is not None and bool(found.raised[0])) or not raises


def test_integers_that_all_have_a_float_do_not_raise():
    for term in (
        Call("+", (Const(10**300), FLOAT)),
        Call("isfinite", (Call("*", (INTEGER, INTEGER)),)),
    ):
        assert not can_raise(Compare("==", term, Const(0)), WIDE_SCHEMA)


def test_a_field_of_another_kind_is_left_to_python():
    kind = pa.field("color", pa.string(), metadata={"activebroker.kind": "enum"})
    batch = pa.RecordBatch.from_arrays([pa.array(["RED"])], schema=pa.schema([kind]))
    for predicate in (Compare("==", Field(("color",)), Const("RED")), Truthy(Field(("color",)))):
        assert mask(predicate, batch).raised.all()
        assert can_raise(predicate, batch.schema)


def test_a_dictionary_of_strings_is_a_column_of_strings():
    batch = pa.record_batch({"s": pa.array(["a", None, "b"]).dictionary_encode()})
    assert mask(Compare("!=", Field(("s",)), Const("a")), batch).true.tolist() == [
        False,
        True,
        True,
    ]


def test_a_string_that_no_column_can_hold_is_compared_in_python():
    batch = pa.record_batch({"s": ["a", None]})
    found = mask(Compare("<", Field(("s",)), Const("\ud800")), batch)
    assert (found.true.tolist(), found.raised.tolist()) == ([True, False], [False, True])
    found = mask(In(Field(("s",)), (Const("\ud800"),)), batch)
    assert (found.true.tolist(), found.raised) == ([False, False], None)


def test_a_null_object_on_the_way_raises():
    batch = pa.record_batch({"r": pa.array([{"x": None, "y": "a"}, None], INNER)})
    found = mask(Not(IsNull(Field(("r", "x")))), batch)
    assert (found.true.tolist(), found.raised.tolist()) == ([False, False], [False, True])
    assert mask(Defined(Field(("r", "x"))), batch).true.tolist() == [True, False]

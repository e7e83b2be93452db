"""Columns and batches survive the way into Spark's types and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from activebroker.events import ANY, Batch, EventType, Shape, encode
from activebroker.spark.columns import carried, readable, reshape
from activebroker.spark.rows import Layout

NUMBERS = [
    pa.uint8(),
    pa.int16(),
    pa.uint32(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
]


@st.composite
def arrow_types(draw: st.DrawFn) -> pa.DataType:
    flat = st.one_of(
        st.sampled_from([pa.int64(), pa.string(), pa.large_binary()]),
        st.builds(pa.list_, st.sampled_from(NUMBERS), st.integers(1, 3)),
    )
    nested = st.recursive(
        flat,
        lambda inner: st.one_of(
            st.builds(pa.list_, inner),
            st.lists(inner, min_size=1, max_size=2).map(
                lambda types: pa.struct([(f"f{i}", type) for i, type in enumerate(types)])
            ),
        ),
        max_leaves=4,
    )
    return draw(nested)


def values_of(arrow: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(arrow):
        return st.fixed_dictionaries({f.name: st.none() | values_of(f.type) for f in arrow})
    if pa.types.is_fixed_size_list(arrow):
        item = values_of(arrow.value_type)
        return st.lists(item, min_size=arrow.list_size, max_size=arrow.list_size)
    if pa.types.is_list(arrow):
        return st.lists(st.none() | values_of(arrow.value_type), max_size=3)
    if pa.types.is_boolean(arrow):
        return st.booleans()
    if pa.types.is_string(arrow):
        return st.text(max_size=3)
    if pa.types.is_large_binary(arrow):
        return st.binary(max_size=3)
    return st.integers(0, 100)


@given(st.data())
def test_carried_columns_come_back(data: st.DataObject) -> None:
    arrow = data.draw(arrow_types())
    values = data.draw(st.lists(st.none() | values_of(arrow), max_size=5))
    offset = data.draw(st.integers(0, len(values)))
    array = pa.array(values, arrow).slice(offset)
    there = reshape(array, carried(arrow))
    there.validate(full=True)
    # Spark gives it back in buffers of its own, where a null takes no room.
    there = there.take(pa.array(range(len(there)), pa.int64()))
    back = reshape(there, arrow)
    back.validate(full=True)
    assert back.type == arrow
    assert back.to_pylist() == array.to_pylist()


@given(st.data())
def test_readable_columns_have_the_same_values(data: st.DataObject) -> None:
    arrow = data.draw(arrow_types())
    values = data.draw(st.lists(st.none() | values_of(arrow), max_size=5))
    array = pa.array(values, arrow).slice(data.draw(st.integers(0, len(values))))
    shown = reshape(array, readable(arrow))
    shown.validate(full=True)
    assert shown.to_pylist() == array.to_pylist()


@dataclass(frozen=True)
class Base:
    number: int
    label: str | None


@dataclass(frozen=True)
class Wide(Base):
    signal: Annotated[np.ndarray, Shape(3)]
    extra: int = 0


@dataclass(frozen=True)
class Other(Base):
    extra: str = ""


def contents(cls: type, count: int) -> list[Any]:
    own: dict[type, dict[str, Any]] = {
        Base: {},
        Wide: {"signal": np.arange(3.0), "extra": 7},
        Other: {"extra": "x"},
    }
    return [cls(number=n, label=None if n % 3 else "abc", **own[cls]) for n in range(count)]


@pytest.mark.parametrize("input", [EventType.of(Base), ANY])
@given(data=st.data())
def test_batches_of_several_types_in_one_table(input: EventType, data: st.DataObject) -> None:
    classes = [Base, Wide, Other]
    types = [EventType.of(cls) for cls in classes]
    plan = data.draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), min_size=1))
    batches = [encode(types[i], contents(classes[i], n), "JFK", 10, 5) for i, n in plan]
    indices = [i for i, _ in plan]
    starts = np.cumsum([0, *(n for _, n in plan[:-1])])
    layout = Layout(input, types)
    table = layout.table((i, 0, batch) for i, batch in zip(indices, batches, strict=True))

    kept = sorted(data.draw(st.sets(st.integers(0, table.num_rows - 1))))
    shuffled = table.take(pa.array(data.draw(st.permutations(kept)), pa.int64()))
    found = {
        number: (first, Batch("JFK", types[indices[number]], columns).events())
        for number, first, columns in layout.split(shuffled, starts, indices)
    }
    for number, batch in enumerate(batches):
        rows = [row - starts[number] for row in kept if 0 <= row - starts[number] < len(batch)]
        events = batch.events()
        if rows:
            first, got = found.pop(number)
            assert first == rows[0] + starts[number]
            assert list(map(repr, got)) == [repr(events[row]) for row in rows]
    assert not found


def test_names_that_differ_in_case_only() -> None:
    @dataclass(frozen=True)
    class Twins:
        a: int
        A: int

    assert Layout(EventType.of(Twins), [EventType.of(Twins)]).has_twins
    assert not Layout(EventType.of(Base), [EventType.of(Base)]).has_twins

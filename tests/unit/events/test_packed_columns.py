"""Columns in whatever form Arrow packs values: they are published as they are meant, or refused."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pytest

from activebroker.core.errors import EventRefused
from activebroker.events import EventType, Precision, Shape, Zone, from_table


class Color(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Place:
    city: str


# Of each kind of field: its annotation, two values, and how a column holds them.
KINDS: dict[str, tuple[Any, list[Any], pa.Array]] = {
    "int": (int, [7, 8], pa.array([7, 8])),
    "small int": (int, [7, 8], pa.array([7, 8], pa.int8())),
    "float": (float, [0.5, 1.5], pa.array([0.5, 1.5])),
    "bool": (bool, [True, False], pa.array([True, False])),
    "str": (str, ["é", "b"], pa.array(["é", "b"])),
    "large str": (str, ["é", "b"], pa.array(["é", "b"], pa.large_string())),
    "str view": (str, ["é", "b" * 50], pa.array(["é", "b" * 50], pa.string_view())),
    "bytes": (bytes, [b"a", b"b"], pa.array([b"a", b"b"])),
    "bytes view": (bytes, [b"a", b"b" * 50], pa.array([b"a", b"b" * 50], pa.binary_view())),
    "date": (date, [date(2024, 5, 1), date(1, 1, 1)], pa.array([date(2024, 5, 1), date(1, 1, 1)])),
    "datetime": (
        datetime,
        [datetime(2024, 5, 1), datetime(2024, 5, 2)],
        pa.array([datetime(2024, 5, 1), datetime(2024, 5, 2)]),
    ),
    "aware": (
        Annotated[datetime, Zone("UTC")],
        [datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 2, tzinfo=UTC)],
        pa.array([datetime(2024, 5, 1), datetime(2024, 5, 2)], pa.timestamp("us", "UTC")),
    ),
    "decimal": (
        Annotated[Decimal, Precision(5, 2)],
        [Decimal("1.50"), Decimal("2.25")],
        pa.array([Decimal("1.50"), Decimal("2.25")]),
    ),
    "enum": (Color, [Color.RED, Color.BLUE], pa.array(["RED", "BLUE"])),
    "enum view": (Color, [Color.RED, Color.BLUE], pa.array(["RED", "BLUE"], pa.string_view())),
    "list": (list[int], [[1, 2], []], pa.array([[1, 2], []])),
    "list view": (list[int], [[1, 2], []], pa.array([[1, 2], []], pa.list_view(pa.int64()))),
    "large list": (list[str], [["a"], []], pa.array([["a"], []], pa.large_list(pa.string_view()))),
    "list of optional": (list[int | None], [[1, None], []], pa.array([[1, None], []])),
    "struct": (Place, [Place("a"), Place("b")], pa.array([{"city": "a"}, {"city": "b"}])),
    "struct with a view": (
        Place,
        [Place("a"), Place("b")],
        pa.array([{"city": "a"}, {"city": "b"}], pa.struct([("city", pa.string_view())])),
    ),
}


def dictionary(values: pa.Array, nulls: bool) -> pa.Array:
    """Rows 1 and 0; with `nulls`, then one that the dictionary itself has as null."""
    at = [1, 0, 2] if nulls else [1, 0]
    return pa.DictionaryArray.from_arrays(pa.array(at), with_null(values) if nulls else values)


def dictionaries(values: pa.Array, nulls: bool) -> pa.Array:
    inner = dictionary(values, nulls)
    return pa.DictionaryArray.from_arrays(pa.array(range(len(inner)), pa.uint8()), inner)


def runs(values: pa.Array, nulls: bool) -> pa.Array:
    order = [values[1].as_py(), values[0].as_py()] + ([None] if nulls else [])
    ends = pa.array([1, 2, 3][: len(order)], pa.int32())
    return pa.RunEndEncodedArray.from_arrays(ends, pa.array(order, values.type))


def slice_of(values: pa.Array, nulls: bool) -> pa.Array:
    """Rows 1 and 0 in the middle of more, which is null."""
    first, second = values.to_pylist()
    parts = [None, second, first, None, None]
    return pa.array(parts, values.type).slice(1, 3 if nulls else 2)


def slice_of_runs(values: pa.Array, nulls: bool) -> pa.Array:
    first, second = values.to_pylist()
    order = [None, second, first, None]
    packed = pa.RunEndEncodedArray.from_arrays(
        pa.array([3, 4, 5, 9], pa.int16()), pa.array(order, values.type)
    )
    return packed.slice(3, 3 if nulls else 2)


def chunks(values: pa.Array, nulls: bool) -> pa.ChunkedArray:
    """Dictionaries that differ, which Arrow does not join where one of them holds a null."""
    one = pa.DictionaryArray.from_arrays(pa.array([1]), values)
    other = pa.DictionaryArray.from_arrays(pa.array([0]), values.slice(0, 1))
    last = pa.DictionaryArray.from_arrays(pa.array([2]), with_null(values))
    return pa.chunked_array([one, other, last] if nulls else [one, other])


def with_null(values: pa.Array) -> pa.Array:
    return pa.array([*values.to_pylist(), None], values.type)


FORMS: list[Callable[[pa.Array, bool], pa.Array | pa.ChunkedArray]] = [
    dictionary,
    dictionaries,
    runs,
    slice_of,
    slice_of_runs,
    chunks,
]


def one(annotation: Any) -> EventType:
    return EventType.of(dataclass(type("One", (), {"__annotations__": {"x": annotation}})))


def published(annotation: Any, column: Any) -> list[Any]:
    batches = from_table(one(annotation), pa.table({"x": column}), "c", "S", 5, 0)
    assert [seq for batch in batches for seq in batch.seqs] == [5 + i for i in range(len(column))]
    for batch in batches:
        batch.columns.validate(full=True)
        assert all(not column.null_count for column in batch.columns.columns) or None in [
            content.x for content in batch.contents()
        ]
    return [content.x for batch in batches for content in batch.contents()]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_values_come_out_as_they_are_meant(kind: str, form: Any) -> None:
    annotation, (first, second), column = KINDS[kind]
    assert published(annotation, form(column, False)) == [second, first]
    assert published(annotation | None, form(column, False)) == [second, first]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_null_is_found_wherever_it_hides(kind: str, form: Any) -> None:
    annotation, (first, second), column = KINDS[kind]
    assert published(annotation | None, form(column, True)) == [second, first, None]
    with pytest.raises(EventRefused, match=r"row 2, field 'x': expected .*, got null"):
        published(annotation, form(column, True))


@pytest.mark.parametrize("form", FORMS[:3])
@pytest.mark.parametrize("kind", ["int", "str", "str view"])
def test_so_it_is_inside_lists_and_structs(kind: str, form: Any) -> None:
    annotation, (first, second), column = KINDS[kind]
    place = type("Inner", (), {"__annotations__": {"v": annotation}})
    inner = dataclass(frozen=True)(place)
    for nulls in (False, True):
        items = form(column, nulls)
        listed = pa.ListArray.from_arrays(pa.array([0, len(items)], pa.int32()), items)
        struct = pa.StructArray.from_arrays([items], names=["v"])
        if nulls:
            with pytest.raises(EventRefused, match=r"row 0, field 'x\[2\]'.*got null"):
                published(list[annotation], listed)
            with pytest.raises(EventRefused, match=r"row 2, field 'x.v'.*got null"):
                published(inner, struct)
            assert published(list[annotation | None], listed) == [[second, first, None]]
        else:
            assert published(list[annotation], listed) == [[second, first]]
            assert published(inner, struct) == [inner(second), inner(first)]


@pytest.mark.parametrize(
    "column",
    [
        pa.UnionArray.from_sparse(
            pa.array([0, 1], pa.int8()), [pa.array([1, None]), pa.array([2, None])]
        ),
        pa.UnionArray.from_dense(
            pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [pa.array([1, None])]
        ),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16, None], pa.binary(16))),
        pa.ExtensionArray.from_storage(
            pa.opaque(pa.int64(), "t", "v"), pa.array([1, None], pa.int64())
        ),
        pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
        pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
    ],
    ids=["sparse", "dense", "uuid", "opaque", "map", "interval"],
)
@pytest.mark.parametrize("annotation", [int, str, list[int], Place, bytes, Color])
def test_what_has_no_such_values_is_refused_by_its_type(annotation: Any, column: Any) -> None:
    for each in (annotation, annotation | None):
        with pytest.raises(EventRefused, match=r"field 'x': expected .*, got"):
            published(each, column)


def test_an_array_keeps_its_nulls_in_sight() -> None:
    annotation = Annotated[np.ndarray, Shape(2)]
    items = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 0]), pa.array([1.5, None]))
    column = pa.FixedSizeListArray.from_arrays(items, 2)
    with pytest.raises(EventRefused, match=r"row 0, field 'x\[1\]'.*got null"):
        published(annotation, column)


@pytest.mark.parametrize(
    ("annotation", "column", "remedy"),
    [
        (datetime, pa.array([0], pa.timestamp("us", "UTC")), r"Annotated\[datetime, Zone\('UTC'\)"),
        (Annotated[datetime, Zone("UTC")], pa.array([0], pa.timestamp("us")), "tzinfo=UTC"),
    ],
)
def test_a_time_zone_that_does_not_fit_says_what_to_do(
    annotation: Any, column: Any, remedy: str
) -> None:
    with pytest.raises(EventRefused, match=remedy):
        published(annotation, column)
    value = datetime(2024, 1, 1, tzinfo=None if "tzinfo" in remedy else UTC)
    with pytest.raises(EventRefused, match=remedy):
        one(annotation).check({"x": value}, "c")


def test_what_a_refusal_quotes_is_shortened() -> None:
    for column in (
        pa.array(["x" * 1_000_000]),
        pa.array([b"\xff" * 1_000_000]),
        pa.array([["x" * 1_000_000]]),
        pa.nulls(1, pa.struct([(f"f{i}", pa.int64()) for i in range(10_000)])),
    ):
        for annotation in (int, float, Color, datetime, list[int], Decimal, Place | None):
            try:
                published(annotation, column)
            except EventRefused as refused:
                assert len(str(refused)) < 2_000


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("activebroker.events.building.MOST_BYTES", 10_000)
    return 10_000


def test_what_is_too_large_for_one_batch_becomes_several(small: int) -> None:
    texts = ["x" * (10 * i % 3_000) for i in range(200)]
    forms = [
        pa.table({"x": texts}),
        pa.table({"x": pa.chunked_array([texts[:90], texts[90:]])}),
        pa.table({"x": pa.array(texts).dictionary_encode()}),
        [{"x": text} for text in texts],
    ]
    for rows in forms:
        batches = from_table(one(str), rows, "c", "S", 5, 0)
        assert len(batches) > 10 and all(batch.nbytes <= small for batch in batches)
        assert [content.x for batch in batches for content in batch.contents()] == texts
        assert [seq for batch in batches for seq in batch.seqs] == list(range(5, 205))
    with pytest.raises(EventRefused, match="row 150"):
        from_table(one(str), [*forms[3][:150], {"x": 7}, *forms[3][150:]], "c", "S", 5, 0)


def test_a_row_that_is_too_large_is_refused_by_its_number(small: int) -> None:
    texts = ["x"] * 30
    texts[17] *= 20_000
    for rows in (pa.table({"x": texts}), [{"x": text} for text in texts]):
        with pytest.raises(EventRefused, match=r"channel 'c', row 17: .*too large, 10,000 may go"):
            from_table(one(str), rows, "c", "S", 0, 0)


def test_rows_that_begin_beyond_two_gibibytes() -> None:
    room = mmap.mmap(-1, 2**31 + 64)  # never touched: of the first row only the place is taken
    offsets = np.array([0, 2**31, 2**31 + 5, 2**31 + 10])
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(room)]
    column = pa.Array.from_buffers(pa.large_string(), 3, buffers, 0)
    assert published(str, column.slice(1)) == ["\0" * 5] * 2
    with pytest.raises(EventRefused, match=r"row 0, field 'x': expected str, got a large_string"):
        published(str, column)

"""Events without a type: any picklable object, large buffers not copied."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from activebroker.core.errors import EventRefused
from activebroker.events import ANY, build_batch, concat, dump, encode, load


@dataclass
class Note:
    text: str


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(st.lists(JSON | st.binary(max_size=9) | st.builds(Note, st.text(max_size=3)), max_size=5))
def test_round_trip(contents):
    batch = encode(ANY, contents, "S", 0, 1)
    batch.columns.validate(full=True)
    assert batch.contents() == contents
    copy = load(ANY, "S", dump(batch.slice(1, 3)))
    assert copy.contents() == contents[1:4]
    assert copy.nbytes == batch.slice(1, 3).nbytes


def test_arrays_are_views_of_the_received_buffer():
    contents = [{"x": np.arange(1000.0), "y": np.ones(3)}, 5, {"x": np.zeros((2, 2))}]
    (sent,) = dump(encode(ANY, contents, "S", 0, 1))
    received = memoryview(bytes(sent))
    batch = load(ANY, "S", [received])
    assert batch.nbytes > 8000
    for rows, wanted in ((batch, contents), (batch.slice(2, 1), contents[2:])):
        for content, original in zip(rows.contents(), wanted, strict=True):
            if isinstance(original, dict):
                for name, values in original.items():
                    np.testing.assert_array_equal(content[name], values)
                    assert np.shares_memory(content[name], np.frombuffer(received, np.uint8))
                    assert not content[name].flags.writeable


def test_filter_build_and_concat():
    contents = [np.full(4, i) for i in range(4)]
    batch = encode(ANY, contents, "S", 0, [1, 2, 3, 4])
    odd = batch.filter(np.array([False, True, False, True]))
    assert [content[0] for content in odd.contents()] == [1, 3]
    again = build_batch(ANY, odd.events())
    assert again.seqs.tolist() == [1, 3]
    assert [content[0] for content in concat([odd, again]).contents()] == [1, 3, 1, 3]


def test_what_cannot_be_pickled_is_refused_with_the_reason():
    with pytest.raises(EventRefused, match=r"can be pickled, got dict .*lambda"):
        encode(ANY, [1, {"f": lambda: 1}], "S", 0, 1)


def test_what_cannot_be_unpickled_here_is_reported(monkeypatch):
    batch = encode(ANY, [1, Note("x")], "S", 0, 1)
    monkeypatch.delitem(globals(), "Note")
    with pytest.raises(EventRefused, match=r"event 1 of .* Note.*text=.x.*cannot be decoded.*Note"):
        batch.contents()


def test_the_type_of_untyped_events_is_one_object():
    assert pickle.loads(pickle.dumps(ANY)) is ANY

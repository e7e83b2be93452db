"""Selection: what a predicate keeps of a batch, and what it may not drop."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from activebroker.events import ANY, Batch, EventType, encode
from activebroker.matching import Chunk, parse, select, union
from predicate_extract import TRUE, extract


@dataclass(frozen=True)
class Trade:
    name: str
    price: float | None


TRADE = EventType.of(Trade)
DEAR = extract(lambda trade: trade.price > 100, schema=TRADE.schema).predicate


def trades(*prices: float | None) -> Chunk:
    return Chunk(encode(TRADE, [Trade("IBM", price) for price in prices], "A", 0, 0))


def untyped(*contents: Any) -> Chunk:
    return Chunk(encode(ANY, list(contents), "A", 0, 0))


def test_everything_is_the_chunk_itself() -> None:
    chunk = trades(1.0)
    assert select(chunk, TRUE) is chunk
    assert select(chunk, parse(None)) is chunk


@pytest.mark.parametrize("text", ['{"version":99,"predicate":["always",false]}', "{}", "nonsense"])
def test_where_the_predicate_cannot_be_read_the_filter_has_to_see_everything(text: str) -> None:
    chunk = trades(1.0, 200.0)
    selected = select(chunk, parse(text))
    assert selected is not None and not selected.certain
    assert selected.batch is chunk.batch
    assert union([DEAR.to_json(), text]) is None


def test_only_what_matches_is_kept() -> None:
    part = select(trades(1.0, 200.0, 3.0, 101.0), DEAR)
    assert part is not None and part.certain
    assert part.batch.seqs.tolist() == [1, 3]
    assert select(trades(1.0, 2.0), DEAR) is None


def test_what_is_kept_whole_is_serialised_once() -> None:
    chunk = trades(200.0)
    buffers = chunk.buffers
    part = select(chunk, DEAR)
    assert part is not None and part.buffers is buffers


def test_rows_on_which_the_filter_would_raise_are_kept_and_marked() -> None:
    part = select(trades(1.0, None, 200.0), DEAR)
    assert part is not None and not part.certain
    assert part.batch.seqs.tolist() == [1, 2]


def test_untyped_contents_are_read_as_the_filter_reads_them() -> None:
    dear = extract(lambda trade: trade.price > 100).predicate
    # A dict has no attribute `price`: the filter raises there, and has to see it.
    part = select(untyped(Trade("a", 1.0), {"price": 1.0}, Trade("b", 200.0), 17), dear)
    assert part is not None and not part.certain
    assert part.batch.seqs.tolist() == [1, 2, 3]
    keyed = extract(lambda trade: trade["price"] > 100).predicate
    part = select(untyped({"price": 1.0}, {"price": 200.0}), keyed)
    assert part is not None and part.batch.seqs.tolist() == [1]


def test_contents_that_cannot_be_read_here_are_kept() -> None:
    """A broker need not have the class; the place where the filter runs has it."""
    foreign = pickle.dumps(Trade("a", 1.0)).replace(b"Trade", b"Trado")
    readable = untyped(1.0).batch
    column = pa.array([foreign], pa.large_binary())
    columns = readable.columns.set_column(2, readable.columns.schema.field(2), column)
    unreadable = Chunk(Batch("A", ANY, columns))
    dear = extract(lambda trade: trade.price > 100).predicate
    part = select(unreadable, dear)
    assert part is not None and not part.certain and part.batch.num_rows == 1


def test_beside_them_the_predicate_decides_as_always() -> None:
    good = untyped(Trade("a", 1.0), Trade("gone", 1.0), Trade("b", 200.0), Trade("c", 2.0)).batch
    pickles = good.columns.column(2).to_pylist()
    pickles[1] = pickles[1].replace(b"Trade", b"Trado")
    column = pa.array(pickles, pa.large_binary())
    columns = good.columns.set_column(2, good.columns.schema.field(2), column)
    dear = extract(lambda trade: trade.price > 100).predicate
    part = select(Chunk(Batch("A", ANY, columns)), dear)
    assert part is not None and part.batch.seqs.tolist() == [1, 2]

"""The buffer of a hand-over: what is packed is unpacked, and what does not fit is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from chunks_for_tests import NOTE, chunk, groups
from msgspec import structs

from activebroker.core.errors import ProtocolError
from activebroker.events import TypeDescription, TypeRegistry
from activebroker.matching import Chunk
from activebroker.node.handover import Item, pack, unpack
from activebroker.protocol.flows import StreamEnded
from activebroker.protocol.frame import Frame, decode, encode
from activebroker.protocol.messages import ChunkHead
from derivation.protocol import HandOver

ITEMS: list[Item] = [
    chunk(*range(20)),
    StreamEnded(0, 0, "A", (1, 21)),
    Chunk(chunk(1, 2, 3, supplier="B").batch, certain=False, upto=(7, 9)),
]


def sent(items: Sequence[Item]) -> tuple[tuple[ChunkHead, ...], list[bytes]]:
    """The heads and the buffers as they arrive."""
    heads, buffers = pack(items)
    body = HandOver(1, "atlanta", {}, heads, ())
    arrived = decode(encode(Frame(8, "atlanta", 1, 1, 1, 0, (), body))).body
    assert isinstance(arrived, HandOver) and arrived == body
    return arrived.buffer, [bytes(each) for each in buffers]


def test_what_is_packed_is_unpacked() -> None:
    items = unpack(*sent(ITEMS), TypeRegistry())
    assert [*map(groups, items)] == [[*range(20)], "StreamEnded", [1, 2, 3]]
    for item, before in zip(items, ITEMS, strict=True):
        assert item.upto == before.upto
        if isinstance(item, Chunk) and isinstance(before, Chunk):
            assert (item.certain, item.batch.supplier) == (before.certain, before.batch.supplier)
            assert item.batch.type.fingerprint == NOTE.fingerprint
    assert items[1] == ITEMS[1]
    assert unpack(*sent([]), TypeRegistry()) == ()


UNKNOWN = TypeDescription("Note", b"nonsense", None, "?")


@pytest.mark.parametrize(
    ("change", "buffers"),
    [
        ({}, []),
        ({}, [b"nonsense"]),
        ({"buffers": 0}, None),
        ({"buffers": -1}, None),
        ({"type": UNKNOWN}, None),
    ],
    ids=["none", "nonsense", "not-one", "less-than-none", "unknown-type"],
)
def test_what_is_not_as_its_heads_say_is_refused(
    change: dict[str, Any], buffers: list[bytes] | None
) -> None:
    heads, came = sent(ITEMS[:1])
    heads = tuple(structs.replace(head, **change) for head in heads)
    with pytest.raises(ProtocolError):
        unpack(heads, came if buffers is None else buffers, TypeRegistry())

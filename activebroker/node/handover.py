"""The buffer of a hand-over on the wire: a head for each item, and the batches' own buffers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from activebroker.events import TypeRegistry, describe, load
from activebroker.matching import Chunk
from activebroker.protocol.flows import StreamEnded
from activebroker.protocol.frame import Buffers
from activebroker.protocol.messages import ChunkHead

Item = Chunk | StreamEnded


def pack(items: Iterable[Item]) -> tuple[tuple[ChunkHead, ...], Buffers]:
    """The heads of the items, and the buffers that follow them."""
    heads: list[ChunkHead] = []
    buffers: list[Any] = []
    for item in items:
        if isinstance(item, StreamEnded):
            heads.append(ChunkHead(item.supplier, None, True, 0, item.upto))
            continue
        batch, parts = item.batch, item.buffers
        type_ = describe(batch.type)
        heads.append(ChunkHead(batch.supplier, type_, item.certain, len(parts), item.upto))
        buffers += parts
    return tuple(heads), buffers


def unpack(
    heads: Iterable[ChunkHead], buffers: Sequence[Any], registry: TypeRegistry
) -> tuple[Item, ...]:
    """The items again. Raises ProtocolError if the buffers are not what the heads say."""
    items: list[Item] = []
    taken = 0
    for head in heads:
        if head.type is None:
            items.append(StreamEnded(0, 0, head.supplier, head.upto))
            continue
        parts = buffers[taken : taken + head.buffers]
        taken += head.buffers
        batch = load(registry.resolve(head.type), head.supplier, parts)
        items.append(Chunk(batch, head.certain, head.upto))
    return tuple(items)

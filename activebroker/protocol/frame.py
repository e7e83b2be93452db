"""The frame: what goes over the wire between two nodes, a message and what its link adds to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from activebroker.core.decoding import UNDECODABLE
from activebroker.core.errors import ProtocolError
from activebroker.protocol.messages import Body
from activebroker.protocol.specs import Count

PROTOCOL_VERSION = 8
MOST_GAPS = 64  # that are asked for at once

Buffers = Sequence[Any]  # what follows a frame: objects with the buffer protocol


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """The head of everything on a link.

    `seq` numbers frames from 1; a `Heard` is outside the sequence and bears the last number sent.
    `ack` is the last frame received in order; `missing`, first and last of each gap, is what its
    sender asks for. `to` is the peer's incarnation as far as known (0: not yet).
    """

    version: int
    sender: str
    incarnation: int
    to: int
    seq: Count
    ack: Count
    missing: Annotated[tuple[tuple[Count, Count], ...], msgspec.Meta(max_length=MOST_GAPS)]
    body: Body


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Frame)


def encode(frame: Frame) -> bytes:
    return _encoder.encode(frame)


def decode(data: bytes | memoryview) -> Frame:
    """Raises ProtocolError for what is not a frame of this protocol version."""
    try:
        frame = _decoder.decode(data)
    except UNDECODABLE as error:
        raise ProtocolError(
            f"A peer sent what is not a frame of this protocol: {error}."
        ) from error
    if frame.version != PROTOCOL_VERSION:
        raise ProtocolError(
            f"{frame.sender!r} speaks protocol {frame.version}, this node {PROTOCOL_VERSION}. "
            "Use the same activebroker release on both sides."
        )
    return frame

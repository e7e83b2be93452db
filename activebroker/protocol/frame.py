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
MOST_GAPS = 64  # that one frame asks for

Buffers = Sequence[Any]  # what follows a frame: objects with the buffer protocol


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """The head of everything on a link."""

    version: int
    sender: str
    incarnation: int
    to: int  # the receiver's incarnation, 0 if it is not known yet
    seq: Count  # from 1; a `Heard` is outside the sequence and repeats the last number sent
    ack: Count  # the last frame that the sender has received in order
    # The gaps in what the sender has received, each as its first and last number: send them again.
    missing: Annotated[tuple[tuple[Count, Count], ...], msgspec.Meta(max_length=MOST_GAPS)]
    body: Body


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Frame)


def encode(frame: Frame) -> bytes:
    return _encoder.encode(frame)


def decode(data: bytes | memoryview) -> Frame:
    """Read a frame. Raises ProtocolError if the data is not one of this protocol version."""
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

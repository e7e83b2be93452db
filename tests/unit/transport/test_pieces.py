"""Large frames in pieces: whole again, and gone whole where a piece is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from activebroker.transport.pieces import MARK, PIECE, WHOLE, Cutter, Joiner

LARGE = [b"head", bytes(range(256)) * 400, b"", b"x" * 70_001]


def joined(joiner: Joiner, messages: Sequence[Sequence[Any]]) -> list[list[bytes]]:
    frames = []
    for mark, place, *piece in messages:
        assert mark == MARK
        if (frame := joiner.take(place, piece)) is not None:
            frames.append(list(map(bytes, frame)))
    return frames


def test_a_small_frame_is_one_message() -> None:
    parts = [b"head", bytes(WHOLE - 4)]
    assert list(Cutter().messages(parts)) == [parts]


def test_no_piece_is_larger_than_a_thin_link_takes() -> None:
    messages = list(Cutter().messages(LARGE))
    sizes = [sum(map(len, piece)) for _, _, *piece in messages]
    assert set(sizes[:-1]) == {PIECE} and 0 < sizes[-1] <= PIECE
    assert joined(Joiner(), messages) == [LARGE]


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.integers(0, 3 * PIECE), min_size=1, max_size=4), min_size=1, max_size=4),
    st.data(),
)
def test_where_pieces_are_lost_only_their_frames_are(
    sizes: list[list[int]], data: st.DataObject
) -> None:
    frames = [[bytes([n % 256]) * size for size in [WHOLE, *each]] for n, each in enumerate(sizes)]
    cutter = Cutter()
    messages = [(n, each) for n, parts in enumerate(frames) for each in cutter.messages(parts)]
    lost = data.draw(st.sets(st.integers(0, len(messages) - 1), max_size=3))
    hit = {messages[index][0] for index in lost}
    came = [message for index, (_, message) in enumerate(messages) if index not in lost]
    whole = [parts for n, parts in enumerate(frames) if n not in hit]
    # A frame that is not more than a message is not marked.
    came = [each for each in came if each[0] == MARK]
    assert joined(Joiner(), came) == [parts for parts in whole if sum(map(len, parts)) > WHOLE]

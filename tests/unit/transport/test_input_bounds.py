"""What is said of sizes is checked before memory is asked for; who may connect is bounded."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

import pytest

from activebroker.transport import newcomers
from activebroker.transport.newcomers import Newcomers
from activebroker.transport.pieces import PLACE, Joiner
from activebroker.transport.wire import FRAME_BYTES, MOST_PARTS, Malformed, Wire, laid_out

TIB = 1 << 40
HUGE = (1 << 64) - 1


@pytest.mark.parametrize(
    "sizes",
    [
        (HUGE,),
        (MOST_PARTS + 1,),
        (1, TIB),
        (1, FRAME_BYTES),
        (2, FRAME_BYTES // 2, FRAME_BYTES // 2),
        (3, HUGE, HUGE, 8),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 8, 1 << 16])
def test_a_stream_whose_sizes_lie_is_refused(sizes: tuple[int, ...], step: int) -> None:
    here, there = socket.socketpair()
    with here, there:
        wire, data = Wire(there), struct.pack(f"={len(sizes)}Q", *sizes)
        with pytest.raises(Malformed):
            for at in range(0, len(data), step):
                here.send(data[at : at + step])
                assert wire.receive() == []


def whole(*parts: bytes) -> bytes:
    return b"".join(map(bytes, laid_out(parts)))


PIECES: dict[str, Sequence[tuple[bytes, bytes]]] = {
    "no place": [(b"", b"x")],
    "a short place": [(bytes(23), b"x")],
    "1 TiB": [(PLACE.pack(1, 0, TIB), b"x")],
    "one byte too many": [(PLACE.pack(1, 0, FRAME_BYTES + 1), b"x")],
    "more than announced": [(PLACE.pack(1, 0, 8), bytes(16))],
    "more in the end": [(PLACE.pack(1, 0, 16), bytes(8)), (PLACE.pack(1, 8, 16), bytes(16))],
    "nothing at all": [(PLACE.pack(1, 0, 0), b"")],
    "sizes that lie": [(PLACE.pack(1, 0, 16), struct.pack("=2Q", 1, TIB))],
    "sizes that are missing": [(PLACE.pack(1, 0, 16), struct.pack("=2Q", 9, 8))],
    "more than its sizes say": [(PLACE.pack(1, 0, 40), whole(b"a") + bytes(16))],
}


@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
def test_pieces_that_lie_are_refused_and_do_no_harm(pieces: Sequence[tuple[bytes, bytes]]) -> None:
    joiner, good = Joiner(), whole(b"head", b"x" * 100)
    with pytest.raises(Malformed):
        for place, piece in pieces:
            assert joiner.take(place, [piece]) is None
    assert joiner.take(PLACE.pack(2, 0, len(good)), [good]) == [b"head", b"x" * 100]


class Door:
    """Newcomers, and a process that may have so many files open."""

    def __init__(self, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open: set[int] = set()
        self.cut: list[int] = []
        self.newcomers = Newcomers(self.cut.append)
        monkeypatch.setattr(newcomers, "_limit", lambda: limit)
        monkeypatch.setattr(newcomers.os, "listdir", lambda path: list(self.open))

    def come(self, *descriptors: int) -> None:
        for descriptor in descriptors:
            self.open.add(descriptor)
            self.newcomers.came(descriptor)

    def close(self, *descriptors: int) -> None:
        for descriptor in descriptors:
            self.open.discard(descriptor)
            self.newcomers.closed(descriptor)


def test_the_oldest_newcomers_are_cut_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(80, monkeypatch)  # of which 20 may be newcomers
    door.come(*range(25))
    assert door.newcomers.make_room() == 5 and door.cut == [0, 1, 2, 3, 4]
    assert door.newcomers.make_room() == 0
    assert door.newcomers.stays(5)
    door.come(25)
    assert door.newcomers.make_room() == 0


def test_some_files_stay_free(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(80, monkeypatch)  # of which 10 stay free
    door.open.update(range(100, 165))
    door.come(*range(8))
    assert door.newcomers.make_room() == 3 and door.cut == [0, 1, 2]
    assert door.newcomers.make_room() == 0, "those three will be closed"
    assert door.newcomers.may_stay()
    assert [door.newcomers.stays(number) for number in range(3, 8)] == [True] * 5
    door.close(0, 1, 2)
    door.come(8)
    assert not door.newcomers.may_stay()
    assert not door.newcomers.stays(8) and door.cut[-1] == 8
    door.close(8, 100)
    door.come(9)
    assert door.newcomers.stays(9)


def test_who_has_closed_makes_room_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZeroMQ tells of that after it has happened."""
    door = Door(80, monkeypatch)  # of which 10 stay free
    door.open.update(range(100, 170))
    door.come(*range(8))
    assert door.newcomers.make_room() == 8, "all are full"
    door.open.difference_update(range(8))
    door.newcomers.look = lambda: door.close(*range(8))
    door.come(8)
    assert not door.newcomers.stays(8), "there is no room, and none will be made"
    assert not door.newcomers.stays(8), "it has been cut"


def test_who_comes_meanwhile_makes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(80, monkeypatch)
    door.open.update(range(100, 170))
    door.come(0)
    door.newcomers.look = lambda: door.come(1, 2)
    assert not door.newcomers.stays(0)


def test_without_any_file_left_nobody_may_come(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(80, monkeypatch)

    def none_left(path: str) -> list[str]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(newcomers.os, "listdir", none_left)
    assert newcomers.room() == -10, "those that stay free are not"
    door.come(*range(10))
    assert not door.newcomers.stays(9) and door.cut == [9]
    assert door.newcomers.make_room() == 9

"""Whether anybody is there where a silent peer listens."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from activebroker.transport import knocking
from activebroker.transport.knocking import TRIES, Doors
from activebroker.transport.watching import Watch

SOON = 5.0  # seconds in which the system answers surely


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    yield made
    made.close()


@pytest.fixture
def doors(watch: Watch) -> Iterator[Doors]:
    made = Doors(watch)
    yield made
    made.close()
    assert not made._tries


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knocking, "WAIT", 0.0)


def listening(backlog: int = 100) -> socket.socket:
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    made.listen(backlog)
    return made


def address_of(listener: socket.socket) -> str:
    return f"tcp://127.0.0.1:{listener.getsockname()[1]}"


def answer(doors: Doors, watch: Watch) -> None:
    """Take what the system answers, until nothing is awaited any more."""
    while doors._tries:
        ready = watch.wait(SOON)
        assert ready, "there is no answer"
        for each in ready:
            assert isinstance(each, int)
            doors.ready(each)


def test_who_listens_is_there_though_it_never_accepts(doors: Doors, watch: Watch) -> None:
    with listening() as listener:
        doors.knock("atlanta", address_of(listener))
        answer(doors, watch)
        assert doors.absent() == []


def test_where_nobody_listens_nobody_is(doors: Doors, watch: Watch) -> None:
    with listening() as listener:
        address = address_of(listener)
    doors.knock("atlanta", address)
    answer(doors, watch)
    assert doors.absent() == ["atlanta"]
    assert doors.absent() == [], "it is told once"


def test_who_gives_no_answer_in_time_is_not_there(doors: Doors, hasty: None) -> None:
    with ExitStack() as stack:
        full = stack.enter_context(listening(0))  # the system drops what comes in vain
        for _ in range(4):
            waits = stack.enter_context(socket.socket())
            waits.setblocking(False)
            waits.connect_ex(full.getsockname())
        doors.knock("atlanta", address_of(full))
        assert len(doors._tries) == TRIES
        assert doors.absent() == ["atlanta"] and not doors._tries


def test_an_answer_in_time_is_enough_though_nobody_looked(
    doors: Doors, watch: Watch, hasty: None
) -> None:
    """It is taken before the time is looked at."""
    with listening() as listener:
        doors.knock("atlanta", address_of(listener))
        answer(doors, watch)
        assert doors.absent() == []


def test_one_who_is_asked_already_is_not_asked_again(doors: Doors) -> None:
    with listening() as listener:
        for _ in range(3):
            doors.knock("atlanta", address_of(listener))
        assert len(doors._tries) == TRIES
        doors.knock("dallas", address_of(listener))
        assert len(doors._tries) == 2 * TRIES


@pytest.mark.parametrize(
    "address",
    ["tcp://some.host:7400", "tcp://[::1", "tcp://10.0.0.1", "ipc:///tmp/x", "tcp://:7400", ""],
)
def test_nothing_is_told_of_what_cannot_be_tried(doors: Doors, hasty: None, address: str) -> None:
    doors.knock("atlanta", address)
    assert not doors._tries and doors.absent() == []


def test_where_there_is_no_room_for_a_socket_nothing_is_told(
    doors: Doors, hasty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> socket.socket:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(knocking.socket, "socket", full)
    doors.knock("atlanta", "tcp://127.0.0.1:9")
    assert doors.absent() == []


def test_the_descriptors_of_others_are_left_to_them(doors: Doors) -> None:
    assert not doors.ready(0)

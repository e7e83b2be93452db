"""What a node waits for is told, however ZeroMQ hides it."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from activebroker.transport.watching import Watch, is_readable

Socket = zmq.Socket[bytes]
SOON = 5.0  # seconds in which a message within the process arrives surely


@pytest.fixture(params=["epoll", "what the system has"])
def watch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    if request.param != "epoll":
        monkeypatch.delattr(select, "epoll", raising=False)
    elif not hasattr(select, "epoll"):
        pytest.skip("this system has no epoll")
    made = Watch()
    yield made
    made.close()


@pytest.fixture
def pair() -> Iterator[tuple[Socket, Socket]]:
    with zmq.Context() as context, paired(context) as (here, there):
        yield here, there


class paired:
    """Two sockets of ZeroMQ, connected by TCP, so that messages come when they like."""

    def __init__(self, context: zmq.Context[Socket]) -> None:
        self._sockets = context.socket(zmq.DEALER), context.socket(zmq.DEALER)

    def __enter__(self) -> tuple[Socket, Socket]:
        here, there = self._sockets
        port = here.bind_to_random_port("tcp://127.0.0.1")
        there.connect(f"tcp://127.0.0.1:{port}")
        there.send(b"there")
        assert here.recv() == b"there"
        return here, there

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            each.close(linger=0)


def test_a_socket_is_told_of_until_all_has_been_taken(
    watch: Watch, pair: tuple[Socket, Socket]
) -> None:
    here, there = pair
    watch.add(here)
    for number in range(3):
        there.send(b"%d" % number)
    for number in range(3):
        assert watch.wait(SOON) == [here]
        assert here.recv() == b"%d" % number
    assert watch.wait(0.0) == []


def test_what_came_amid_a_send_is_told(watch: Watch, pair: tuple[Socket, Socket]) -> None:
    here, there = pair
    watch.add(here)
    assert watch.wait(0.0) == []
    there.send(b"came")
    assert is_readable_soon(here)  # by which ZeroMQ has taken back that its descriptor is ready
    here.send(b"sent")
    watch.used(here)
    assert watch.wait(SOON) == [here]


@given(st.lists(st.sampled_from(["comes", "send", "take", "wait"]), max_size=30))
def test_whatever_is_done_with_a_socket_nothing_stays_unseen(steps: list[str]) -> None:
    watch = Watch()
    with zmq.Context() as context, paired(context) as (here, there):
        watch.add(here)
        under_way = 0
        for step in steps:
            if step == "comes":
                there.send(b"")
                under_way += 1
            elif step == "send":
                here.send(b"")
                watch.used(here)
            elif step == "take" and under_way:
                assert watch.wait(SOON) == [here]
                here.recv()
                under_way -= 1
            elif step == "wait":
                watch.wait(0.0)
        for _ in range(under_way):
            assert watch.wait(SOON) == [here]
            here.recv()
        assert watch.wait(0.0) == []
    watch.close()


def test_a_plain_socket_is_watched_for_room_as_long_as_that_is_asked_for(watch: Watch) -> None:
    here, there = socket.socketpair()
    with here, there:
        watch.add(here)
        assert watch.wait(0.0) == []
        watch.add(here, writable=True)
        assert watch.wait(0.0) == [here.fileno()]
        watch.add(here)
        assert watch.wait(0.0) == []
        there.send(b"x")
        assert watch.wait(0.0) == [here.fileno()]
        watch.remove(here)
        assert watch.wait(0.0) == []


def test_what_is_not_watched_any_more_is_not_told(
    watch: Watch, pair: tuple[Socket, Socket]
) -> None:
    here, there = pair
    watch.add(here)
    there.send(b"came")
    assert watch.wait(SOON) == [here]
    watch.remove(here)
    assert watch.wait(0.0) == []


def is_readable_soon(source: Socket) -> bool:
    return bool(source.poll(int(SOON * 1000))) and is_readable(source)

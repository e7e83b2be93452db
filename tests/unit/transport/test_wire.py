"""Messages over a stream socket, whatever pieces they come in."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from activebroker.transport.wire import CHUNK, VIEWS, Disconnected, Wire


@pytest.fixture
def wires() -> Iterator[tuple[Wire, Wire]]:
    here, there = socket.socketpair()
    with here, there:
        yield Wire(here), Wire(there)


def exchange(sender: Wire, receiver: Wire, messages: list[list[bytes]]) -> list[list[bytes]]:
    for parts in messages:
        sender.send(parts)
    received: list[list[bytes]] = []
    while len(received) < len(messages):
        sender.flush()
        received += [[bytes(part) for part in parts] for parts in receiver.receive()]
    return received


@given(
    st.lists(
        st.lists(
            st.one_of(
                st.binary(max_size=40),
                st.integers(0, 3 * CHUNK).map(lambda size: bytes([size % 256]) * size),
            ),
            max_size=4,
        ),
        max_size=20,
    )
)
def test_messages_arrive_as_they_were_sent(messages):
    here, there = socket.socketpair()
    with here, there:
        assert exchange(Wire(here), Wire(there), messages) == messages


def test_more_parts_than_one_system_call_takes(wires):
    messages = [[b"%d" % n] for n in range(3 * VIEWS)]
    assert exchange(*wires, messages) == messages


def test_one_byte_at_a_time(wires):
    sender, receiver = wires
    here, there = socket.socketpair()
    with here, there:
        for parts in ([b"abc", b""], [b"x" * 100], []):
            sender.send(parts)
        sender.flush()
        bytewise, received = Wire(there), []
        for byte in receiver.socket.recv(CHUNK):
            here.send(bytes([byte]))
            received += [[bytes(part) for part in parts] for parts in bytewise.receive()]
        assert received == [[b"abc", b""], [b"x" * 100], []]


def test_parts_stay_aligned(wires):
    sender, receiver = wires
    for parts in ([b"abc", bytes(16)], [b"z", bytes(8)], [bytes(CHUNK + 1), bytes(8)]):
        sender.send(parts)
    received: list[list[memoryview]] = []
    while len(received) < 3:
        sender.flush()
        received += receiver.receive()
    for _, column in received:
        assert np.frombuffer(column, np.uint8).ctypes.data % 8 == 0


def test_the_end_of_the_other_side_is_seen_by_both_ways(wires):
    sender, receiver = wires
    receiver.socket.close()
    sender.send([b"x"])
    with pytest.raises(Disconnected):
        sender.flush()
    with pytest.raises(Disconnected):
        sender.receive()


def test_a_full_socket_waits(wires):
    sender, receiver = wires
    sender.send([bytes(10 << 20)])
    sender.flush()
    assert sender.waiting
    received = []
    while not received:
        received = receiver.receive()
        sender.flush()
    assert not sender.waiting
    assert received == [[bytes(10 << 20)]]

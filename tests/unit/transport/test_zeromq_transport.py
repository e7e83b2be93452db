"""Frames between two transports, over TCP and over the short cut of one machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from activebroker.core.errors import AccessDenied, Unreachable
from activebroker.transport import Arrival, Hello, Outgoing, ZeroMQTransport, generate_key, probe
from activebroker.transport.pieces import PIECE
from activebroker.transport.same_machine import peer_socket
from activebroker.transport.zeromq import BURST, COPY_BELOW

KEY = generate_key()
LISTEN = "tcp://127.0.0.1:*"
Make = Callable[..., ZeroMQTransport]


@pytest.fixture(params=["tcp", "unix"])
def sockets(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the Unix sockets lie; for TCP, a place that is not safe for them."""
    temporary = Path(tempfile.mkdtemp(dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    if request.param == "tcp":
        monkeypatch.setattr("activebroker.transport.same_machine._directory", lambda: None)
    yield temporary
    shutil.rmtree(temporary)


@pytest.fixture
def make(sockets: Path) -> Iterator[Make]:
    made: list[ZeroMQTransport] = []

    def make(name: str, listen: str | None = LISTEN, key: str = KEY) -> ZeroMQTransport:
        made.append(ZeroMQTransport(name, key, listen))
        return made[-1]

    yield make
    for transport in made:
        transport.close()
    assert [path for path in sockets.glob("*/*") if path.is_socket()] == []


def receive(
    transport: ZeroMQTransport,
    count: int,
    patience: float = 10.0,
    sender: ZeroMQTransport | None = None,
) -> list[Outgoing]:
    """`sender` sends on meanwhile what was too much at once."""
    arrivals: list[Arrival] = []
    end = time.monotonic() + patience
    while len(arrivals) < count and time.monotonic() < end:
        arrivals += transport.receive(0.1 if sender is None else 0.0)
        if sender is not None:
            assert sender.receive(0.0) == []
    return [
        (bytes(head), [bytes(memoryview(buffer)) for buffer in buffers])
        for _, head, buffers in arrivals
    ]


def test_frames_arrive_in_order_both_ways_on_one_connection(make):
    a, b = make("a"), make("b")
    sizes = (0, 1, 100, COPY_BELOW - 1, COPY_BELOW, 3 * COPY_BELOW)
    there = [(b"%d" % n, [bytes([n]) * size, b"x"]) for n, size in enumerate(sizes)]
    a.transmit("b", b.address, there)
    assert receive(b, len(there), sender=a) == there
    back = [(b"back", []), (b"again", [b"y"])]
    b.transmit("a", None, back)  # no address: it takes the connection that is there
    assert receive(a, 2) == back


def test_many_frames_come_in_order(make):
    a, b = make("a"), make("b")
    frames = [(b"%d" % n, [b"payload"]) for n in range(2000)]
    a.transmit("b", b.address, frames)
    assert receive(b, len(frames), sender=a) == frames


def test_a_node_that_cannot_be_dialled_dials(make):
    a, b = make("a", listen=None), make("b")
    a.transmit("b", b.address, [(b"hello", [])])
    assert receive(b, 1) == [(b"hello", [])]
    b.transmit("a", None, [(b"welcome", [])])
    assert receive(a, 1) == [(b"welcome", [])]


def test_without_connection_or_address_frames_are_dropped(make):
    a = make("a")
    a.transmit("nobody", None, [(b"lost", [])])
    a.forget("nobody")


def test_a_forgotten_peer_is_dialled_anew(make):
    a, b = make("a"), make("b")
    a.transmit("b", b.address, [(b"1", [])])
    assert receive(b, 1) == [(b"1", [])]
    a.forget("b")
    a.transmit("b", b.address, [(b"2", [])])
    assert receive(b, 1) == [(b"2", [])]


ON_ONE_MACHINE = pytest.mark.parametrize("sockets", ["unix"], indirect=True)
ANSWERING = f"""
from activebroker.transport import ZeroMQTransport
node = ZeroMQTransport("b", {KEY!r}, {LISTEN!r})
print(node.address, flush=True)
while True:
    for peer, head, buffers in node.receive(None):
        if head == b"hang up":
            node.forget(peer)
        else:
            node.transmit(peer, None, [(bytes(head), [])])
"""


@pytest.fixture
def answering(sockets: Path) -> Iterator[tuple[int, str]]:
    """Another process that answers, or hangs up: its id, and its address."""
    environment = {**os.environ, "TMPDIR": str(sockets)}
    command = [sys.executable, "-c", ANSWERING]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        yield process.pid, address
        process.kill()
    path = peer_socket(KEY, address)
    assert path is not None
    path.unlink()


@ON_ONE_MACHINE
def test_a_peer_that_was_killed_has_ended(make, answering):
    a, (pid, address) = make("a"), answering
    hello = [(b"hello", [])]
    a.transmit("b", address, hello)
    assert receive(a, 1) == hello and list(a.ended()) == []
    os.kill(pid, signal.SIGKILL)
    ended: list[str] = []
    end = time.monotonic() + 10.0
    while not ended and time.monotonic() < end:
        a.receive(10.0)
        for peer in a.hung_up():
            a.transmit(peer, address, hello)
        ended += a.ended()
    assert ended == ["b"]
    assert list(a.hung_up()) == []
    a.transmit("b", address, hello)
    assert list(a.ended()) == [], "it is told once"


@ON_ONE_MACHINE
def test_a_peer_that_stands_still_has_not_ended(make, answering):
    a, (pid, address) = make("a"), answering
    a.transmit("b", address, [(b"hang up", [])])
    assert a.receive(10.0) == []
    os.kill(pid, signal.SIGSTOP)
    path = peer_socket(KEY, address)
    with ExitStack() as waiting:
        with pytest.raises(BlockingIOError):
            while True:  # until no more can wait to be accepted
                other = waiting.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                other.setblocking(False)
                other.connect(str(path))
        a.transmit("b", address, [(b"hello", [])])
        assert list(a.ended()) == []


@ON_ONE_MACHINE
def test_a_peer_that_hangs_up_and_listens_has_not_ended(make):
    a, b = make("a"), make("b")
    for _ in range(3):
        a.transmit("b", b.address, [(b"hello", [])])
        assert receive(b, 1)
        b.forget("a")
        a.receive(0.05)
        a.transmit("b", b.address, [(b"hello again", [])])
        assert list(a.ended()) == []


def test_another_key_gets_nothing_through(make):
    a, b = make("a", key=generate_key()), make("b")
    a.transmit("b", b.address, [(b"let me in", [])])
    assert receive(b, 1, patience=0.5) == []


def test_a_probe_learns_who_is_there_and_needs_the_key(make):
    node = make("node")
    node.hello = hello = Hello("node", "node", node.address)
    node.wake()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(probe, node.address, KEY, 10.0)
        while not answer.done():
            node.receive(0.01)
        assert answer.result() == hello
        refused = pool.submit(probe, node.address, generate_key(), 10.0)
        while not refused.done():
            node.receive(0.01)
        with pytest.raises(AccessDenied):
            refused.result()


def test_an_address_in_use_is_reported(make):
    with pytest.raises(Unreachable, match="another port"):
        make("b", listen=make("a").address)


def test_a_peer_that_died_and_came_back_is_dialled_anew(make):
    a, b = make("a"), make("b")
    a.transmit("b", b.address, [(b"1", [])])
    assert receive(b, 1) == [(b"1", [])]
    b.close()
    again = make("b", listen=b.address)
    # What is sent before the loss is noticed is lost; the link above asks for it again.
    frames: list[Arrival] = []
    end = time.monotonic() + 10.0
    while not frames and time.monotonic() < end:
        a.receive(0.0)
        a.transmit("b", b.address, [(b"2", [])])
        frames = again.receive(0.05)
    assert bytes(frames[0][1]) == b"2"


def test_wake_ends_the_wait(make):
    a = make("a")
    a.wake()
    assert a.receive(60.0) == []


@pytest.mark.parametrize("sockets", ["tcp"], indirect=True)
def test_a_large_frame_is_heard_of_while_it_comes(make: Make) -> None:
    here, there = make("here"), make("there", None)
    large = bytes(BURST * PIECE * 2)
    there.transmit("here", here.address, [(b"first", [large])])
    early: list[Arrival] = []
    end = time.monotonic() + 10.0
    while not (heard := here.heard()) and time.monotonic() < end:
        early += here.receive(0.1)
    assert (list(heard), early) == (["there"], [])
    ((head, (buffer,)),) = receive(here, 1)
    assert (bytes(head), len(buffer)) == (b"first", len(large))
    here.transmit("there", None, [(b"second", [large]), (b"third", [])])
    assert [bytes(head) for head, _ in receive(there, 2)] == [b"second", b"third"]

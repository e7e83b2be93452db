"""Frames between processes: one ROUTER to be dialled, one DEALER for each peer dialled.

Connections are encrypted and mutually authenticated by CURVE. The fabric's key is one CURVE
secret key that every member holds: who can compute its public half is a member. Between processes
of one user on one machine a Unix socket takes the place of TCP and CURVE, see `same_machine.py`.
"""

from __future__ import annotations

import logging
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec
import zmq

from activebroker.core.decoding import UNDECODABLE
from activebroker.core.errors import AccessDenied, ProtocolError, Unreachable
from activebroker.transport.base import Arrival, Outgoing
from activebroker.transport.complaints import Complaints
from activebroker.transport.gate import Gate
from activebroker.transport.knocking import Doors
from activebroker.transport.newcomers import Newcomers
from activebroker.transport.pieces import MARK, WHOLE, Cutter, Joiner
from activebroker.transport.same_machine import own_socket, peer_socket
from activebroker.transport.unix import UnixSockets
from activebroker.transport.watching import Watch, is_readable, told_by
from activebroker.transport.wire import Malformed

log = logging.getLogger(__name__)
WHO_ARE_YOU = b""  # instead of a frame's head; answered with a Hello
NOBLOCK, SNDMORE = int(zmq.NOBLOCK), int(zmq.SNDMORE)  # pyzmq's enums cost a microsecond each
MESSAGE_BYTES = 2 * WHOLE  # that a part may have: whoever sends a larger one is cut off
SOCKETS = 16_384  # peers that can be dialled
REFUSED = (
    zmq.Event.HANDSHAKE_FAILED_AUTH
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
)
HANDSHAKEN = zmq.Event.HANDSHAKE_SUCCEEDED
ATTEMPTS = 10  # that a node must refuse before it is the key
AGAIN = 20  # milliseconds between them
RECONNECT = 1000  # milliseconds, at most, between attempts to connect
BURST = 256  # frames taken from a socket before the others get their turn
COPY_BELOW = 256 << 10  # bytes; smaller buffers are cheaper copied than shared and freed later


class Hello(msgspec.Struct, frozen=True):
    """What a node tells to one who has only its address."""

    name: str
    directory: str  # the name of the node that keeps the directory
    directory_address: str
    refusal: tuple[str, str] | None = None  # why the name that was claimed is not to be had


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """The name that one who has only an address will bear; `replace`: whoever bears it; `again`:
    it has borne it before."""

    name: str
    replace: bool = False
    again: bool = False


Told = Callable[["tuple[str, str] | None"], None]


class ZeroMQTransport:
    """Listens at `listen` (`tcp://host:port`, port `*` for any free one) if it is given.

    `key` is the fabric's key, 40 characters of Z85, from `generate_key`.
    """

    def __init__(self, name: str, key: str, listen: str | None, hello: Hello | None = None) -> None:
        self.address: str | None = None
        self.hello = hello
        self.claimed: Callable[[Claim, Told], None] = lambda claim, told: told(None)
        self._name = name.encode()
        self._key = key
        self._secret, self._public = _key_pair(key)
        self._context = _context()
        self._watch = Watch()
        self._complaints = Complaints(log)
        self._dealers: dict[str, zmq.Socket[bytes]] = {}
        self._dialled: dict[zmq.Socket[bytes], str] = {}  # the same, the other way round
        self._dialled_by: dict[str, int] = {}  # who came through the router, by which descriptor
        self._cutter = Cutter()
        self._joiners: defaultdict[str, Joiner] = defaultdict(Joiner)
        self._heard: set[str] = set()
        self._router: zmq.Socket[bytes] | None = None
        self._newcomers = Newcomers(self._cut)
        self._unix = UnixSockets(name, self._watch, self._newcomers)
        self._doors = Doors(self._watch)
        self._gate: Gate | None = None
        # A socket pair rather than an eventfd: it exists on every system.
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._waking = self._woken.fileno()
        self._watch.add(self._woken)
        if listen is not None:
            try:
                self._listen(listen)
            except (zmq.ZMQError, OSError) as error:
                self.close()
                raise Unreachable(
                    f"Cannot listen at {listen}: {error}. Choose another port (or * for any)."
                ) from error

    def receive(self, timeout: float | None) -> list[Arrival]:
        arrivals: list[Arrival] = []
        for ready in self._watch.wait(self._unix.rest(timeout)):
            if ready == self._waking:
                self._drain_wakes()
            elif isinstance(ready, int):
                if not self._doors.ready(ready):
                    self._unix.ready(ready, arrivals)
            elif ready is self._router or ready in self._dialled:
                self._take(ready, arrivals)
            elif self._gate is not None:
                self._gate.ready(ready)
        return arrivals

    def transmit(self, peer: str, address: str | None, frames: Sequence[Outgoing]) -> None:
        if self._unix.transmit(peer, frames):
            return
        messages = (
            each for head, buffers in frames for each in self._cutter.messages([head, *buffers])
        )
        if (dealer := self._dealers.get(peer)) is not None:
            for message in messages:
                self._send(dealer, message)
        elif self._router is not None and peer in self._dialled_by:
            for message in messages:
                if not self._send(self._router, [peer.encode(), *message]):
                    del self._dialled_by[peer]
                    return
        elif address is not None and self._dial(peer, address):
            self.transmit(peer, address, frames)

    def heard(self) -> Iterable[str]:
        heard, self._heard = self._heard, set()
        return heard

    def hung_up(self) -> Iterable[str]:
        return self._unix.hung_up()

    def ended(self) -> Iterable[str]:
        return self._unix.ended()

    def knock(self, peer: str, address: str) -> None:
        self._doors.knock(peer, address)

    def absent(self) -> Iterable[str]:
        return self._doors.absent()

    def forget(self, peer: str) -> None:
        self._unix.forget(peer)
        self._joiners.pop(peer, None)
        descriptor = self._dialled_by.pop(peer, -1)
        if self._gate is not None and descriptor >= 0:
            self._gate.cut(descriptor)
        if (dealer := self._dealers.pop(peer, None)) is not None:
            del self._dialled[dealer]
            self._watch.remove(dealer)
            dealer.close(linger=0)

    def wake(self) -> None:
        try:
            self._waker.send(b"\0")
        except BlockingIOError:
            pass  # it is full of wakes already
        except OSError:
            pass  # closed in the meantime: there is nobody to wake

    def close(self) -> None:
        for peer in list(self._dealers):
            self.forget(peer)
        self._unix.close()
        self._doors.close()
        if self._router is not None:
            self._router.close(linger=0)
        if self._gate is not None:
            self._gate.close()
        self._watch.close()
        self._context.destroy(linger=0)
        self._woken.close()
        self._waker.close()

    # --- inside -------------------------------------------------------------------------------

    def _listen(self, listen: str) -> None:
        router = self._router = self._context.socket(zmq.ROUTER)
        router.curve_server = True
        router.curve_secretkey = self._secret
        router.curve_publickey = self._public
        self._gate = Gate(self._context, router, self._public, self._newcomers)
        for each in self._gate.sockets:
            self._watch.add(each)
        router.router_handover = True
        router.router_mandatory = True
        # What may be under way is bounded by the flows' credit; a limit here would drop frames.
        router.set_hwm(0)
        router.maxmsgsize = MESSAGE_BYTES
        router.bind(listen)
        self._watch.add(router)
        self.address = bytes(router.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()
        self._gate.port = urlsplit(self.address).port or 0
        if (path := own_socket(self._key, self.address)) is not None:
            self._unix.listen(path)

    def _cut(self, descriptor: int) -> None:
        if not self._unix.cut(descriptor) and self._gate is not None:
            self._gate.cut(descriptor)

    def _dial(self, peer: str, address: str) -> bool:
        """Whether frames can be sent now, or will be when the peer answers."""
        path = peer_socket(self._key, address)
        if path is not None and self._unix.dial(peer, path):
            return True
        try:
            host_of(address)  # a peer might say anything
            dealer = _client_socket(self._context, self._secret, self._public)
            dealer.routing_id = self._name
            dealer.set_hwm(0)
            dealer.connect(address)
        except (zmq.ZMQError, Unreachable) as error:
            # What was to be sent is lost; the link sends it again, and so dials again.
            what = f"Cannot connect to {peer!r} at {address}: {error}"
            self._complaints.say(f"dial {peer}", what)
            return False
        self._watch.add(dealer)
        self._dealers[peer] = dealer
        self._dialled[dealer] = peer
        return True

    def _send(self, target: zmq.Socket[bytes], parts: Sequence[Any]) -> bool:
        last = len(parts) - 1
        self._watch.used(target)
        try:
            for index, part in enumerate(parts):
                flags = NOBLOCK | (SNDMORE if index < last else 0)
                target.send(part, flags, copy=memoryview(part).nbytes < COPY_BELOW)
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                return False
            raise
        return True

    def _take(self, source: zmq.Socket[bytes], arrivals: list[Arrival]) -> None:
        routed = source is self._router
        peer = self._dialled.get(source, "")
        for _ in range(BURST):
            if source.closed or not is_readable(source):
                return
            parts = [source.recv(copy=False)]
            while parts[-1].more:
                parts.append(source.recv(copy=False))
            if routed:
                assert self._gate is not None
                identity = parts.pop(0).bytes
                descriptor = int(parts[-1].get(zmq.SRCFD)) if parts else -1
                if not self._gate.admits(descriptor):
                    continue
                if parts and parts[0].bytes == WHO_ARE_YOU:
                    self._asked(source, identity, [part.bytes for part in parts[1:]])
                    continue
                peer = identity.decode(errors="replace")
                self._dialled_by[peer] = descriptor
            try:
                self._taken(peer, parts, arrivals)
            except (Malformed, MemoryError) as error:
                self._complaints.say(peer, f"Dropped the connection to {peer!r}: it sent {error}")
                self.forget(peer)

    def _taken(self, peer: str, parts: list[zmq.Frame], arrivals: list[Arrival]) -> None:
        """Take a message: a frame, or a piece of one. Raises Malformed."""
        if not parts or (len(parts) == 1 and parts[0].bytes == MARK):
            raise Malformed("a message without parts")
        if parts[0].bytes != MARK:
            arrivals.append((peer, parts[0].bytes, [part.buffer for part in parts[1:]]))
            return
        self._heard.add(peer)
        _, place, *piece = [part.buffer for part in parts]
        if (frame := self._joiners[peer].take(place, piece)) is not None:
            if not frame:
                raise Malformed("a frame without parts")
            arrivals.append((peer, frame[0], frame[1:]))

    def _asked(self, router: zmq.Socket[bytes], peer: bytes, claims: list[bytes]) -> None:
        """Say who we are; to one who claims a name, when it is known whether it gets that."""

        def told(refusal: tuple[str, str] | None) -> None:
            if self.hello is not None and not router.closed:
                hello = msgspec.structs.replace(self.hello, refusal=refusal)
                self._send(router, [peer, msgspec.msgpack.encode(hello)])

        if not claims:
            told(None)
            return
        with suppress(*UNDECODABLE):  # who sends anything else gets no answer
            self.claimed(msgspec.msgpack.decode(claims[0], type=Claim), told)

    def _drain_wakes(self) -> None:
        self._woken.recv(4096)  # it is readable; should there be more, the next poll says so


def generate_key() -> str:
    """A new fabric key: 40 characters. Who has it may publish, subscribe and ship filters."""
    return zmq.curve_keypair()[1].decode()


def host_of(address: str) -> str:
    """The host in `tcp://host:port`; `*` stands for any port.

    Raises Unreachable for anything else.
    """
    try:
        parts = urlsplit(address.replace(":*", ":0"))
        if parts.scheme == "tcp" and parts.hostname and parts.port is not None:
            return parts.hostname
    except ValueError:  # a port that is no number
        pass
    raise Unreachable(f"{address!r} is not an address. Expected tcp://host:port.")


def probe(address: str, key: str, patience: float, claim: Claim | None = None) -> Hello:
    """Ask the node at `address` who it is, and for the name that one will bear.

    Raises Unreachable where nothing answers within `patience` seconds, AccessDenied where the
    key is not the fabric's.
    """
    host = host_of(address)
    secret, public = _key_pair(key)
    try:
        socket.getaddrinfo(host, None)
    except OSError as error:
        raise Unreachable(f"There is no host {host!r} that this machine knows: {error}.") from error
    context = zmq.Context()
    dealer = _client_socket(context, secret, public)
    dealer.reconnect_ivl = AGAIN
    dealer.reconnect_ivl_max = 0
    monitor = dealer.get_monitor_socket(int(REFUSED | HANDSHAKEN | zmq.Event.DISCONNECTED))
    try:
        try:
            dealer.connect(address)
        except zmq.ZMQError as error:
            raise Unreachable(
                f"{address!r} is not an address: {error}. Expected tcp://host:port."
            ) from error
        question = [WHO_ARE_YOU, *([] if claim is None else [msgspec.msgpack.encode(claim)])]
        dealer.send_multipart(question)
        failures, asked = 0, False
        poller = zmq.Poller()
        poller.register(dealer, zmq.POLLIN)
        poller.register(monitor, zmq.POLLIN)
        deadline = time.monotonic() + patience
        while (left := deadline - time.monotonic()) > 0:
            ready = dict(poller.poll(int(left * 1000) + 1))
            if dealer in ready:
                return _hello(dealer.recv(), address)
            if monitor not in ready:
                continue
            event, _ = told_by(monitor)
            if event == HANDSHAKEN:
                asked = True
            elif event & REFUSED:
                failures += 1
            elif asked:  # it was cut off before it could answer
                asked = False
                dealer.send_multipart(question)
            # A node with too many connections cuts some before it looks at their keys.
            if failures == ATTEMPTS:
                raise AccessDenied(
                    f"The fabric at {address} refused this key. Pass the key it was started with: "
                    "connect(address, key=...), or set ACTIVEBROKER_KEY."
                )
        raise Unreachable(
            f"Nothing answered at {address} within {patience:g} s. Is a broker listening there "
            "(`activebroker broker --listen ...`), with this key?"
        )
    finally:
        dealer.disable_monitor()
        monitor.close(linger=0)
        dealer.close(linger=0)
        context.term()


def _hello(data: bytes, address: str) -> Hello:
    try:
        return msgspec.msgpack.decode(data, type=Hello)
    except UNDECODABLE as error:
        raise ProtocolError(f"What answers at {address} is not an activebroker node.") from error


def _context() -> zmq.Context[zmq.Socket[bytes]]:
    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, SOCKETS)
    return context


def _client_socket(context: zmq.Context[Any], secret: bytes, public: bytes) -> zmq.Socket[bytes]:
    dealer: zmq.Socket[bytes] = context.socket(zmq.DEALER)
    dealer.curve_serverkey = public
    dealer.curve_secretkey = secret
    dealer.curve_publickey = public
    dealer.linger = 0
    dealer.maxmsgsize = MESSAGE_BYTES
    dealer.reconnect_ivl_max = RECONNECT
    return dealer


def _key_pair(key: str) -> tuple[bytes, bytes]:
    try:
        return key.encode(), zmq.curve_public(key.encode())
    except (zmq.ZMQError, ValueError) as error:
        raise AccessDenied(
            "The key is not a fabric key: expected 40 characters as printed by `activebroker key` "
            "or activebroker.generate_key()."
        ) from error

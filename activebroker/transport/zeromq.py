"""Frames between processes: one ROUTER to be dialled, one DEALER for each peer dialled.

Connections are encrypted and mutually authenticated by CURVE. The fabric's key is one CURVE
secret key that every member holds: who can compute its public half is a member. Between processes
of one user on one machine a Unix socket takes the place of TCP and CURVE, see `same_machine.py`.
"""

from __future__ import annotations

import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import zmq

from activebroker.core.errors import AccessDenied, ProtocolError, Unreachable
from activebroker.transport.base import Arrival
from activebroker.transport.pieces import MARK, Cutter, Joiner
from activebroker.transport.same_machine import own_socket, peer_socket
from activebroker.transport.unix import UnixSockets

if TYPE_CHECKING:
    from zmq.auth.thread import ThreadAuthenticator

WHO_ARE_YOU = b""  # instead of a frame's head; answered with a Hello
DOMAIN = "activebroker"
# Plain ints: operations on pyzmq's enums cost a microsecond each.
NOBLOCK, SNDMORE = int(zmq.NOBLOCK), int(zmq.SNDMORE)
POLLIN, POLLOUT = int(zmq.POLLIN), int(zmq.POLLOUT)
BURST = 256  # frames taken from a socket before the others get their turn
COPY_BELOW = 256 << 10  # bytes; smaller buffers are cheaper copied than shared and freed later


class Hello(msgspec.Struct, frozen=True):
    """What a node tells to one who has only its address."""

    name: str
    directory: str  # the name of the node that keeps the directory
    directory_address: str
    refusal: tuple[str, str] | None = None  # why the name that was claimed is not to be had


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """The name that one who has only an address will bear; `replace`: whoever bears it."""

    name: str
    replace: bool = False


Told = Callable[["tuple[str, str] | None"], None]


class _Members:
    """Admits who holds the fabric's key."""

    def __init__(self, public_key: bytes) -> None:
        self._public_key = public_key

    def callback(self, domain: str, key: bytes) -> bool:
        return key == self._public_key


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
        self._context = zmq.Context()
        self._poller = zmq.Poller()
        self._dealers: dict[str, zmq.Socket[bytes]] = {}
        self._dialled: dict[zmq.Socket[bytes], str] = {}  # the same, the other way round
        self._dialled_by: set[str] = set()  # who came through the router
        self._cutter = Cutter()
        self._joiners: defaultdict[str, Joiner] = defaultdict(Joiner)
        self._heard: set[str] = set()
        self._router: zmq.Socket[bytes] | None = None
        self._unix = UnixSockets(name, self._watch, self._poller.unregister)
        self._authenticator: ThreadAuthenticator | None = None
        # A socket pair rather than an eventfd: it exists on every system.
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._poller.register(self._woken, POLLIN)
        if listen is not None:
            try:
                self._listen(listen)
            except zmq.ZMQError as error:
                self.close()
                raise Unreachable(
                    f"Cannot listen at {listen}: {error}. Choose another port (or * for any)."
                ) from error

    def receive(self, timeout: float | None) -> list[Arrival]:
        milliseconds = None if timeout is None else max(0, int(timeout * 1000 + 0.999))
        arrivals: list[Arrival] = []
        for ready, _ in self._poller.poll(milliseconds):
            if isinstance(ready, zmq.Socket):
                self._take(ready, arrivals)
            elif ready == self._woken.fileno():
                self._drain_wakes()
            else:
                self._unix.ready(ready, arrivals)
        return arrivals

    def transmit(self, peer: str, address: str | None, frames: Sequence[Arrival]) -> None:
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
                    self._dialled_by.remove(peer)
                    return
        elif address is not None:
            self._dial(peer, address)
            self.transmit(peer, address, frames)

    def heard(self) -> Iterable[str]:
        heard, self._heard = self._heard, set()
        return heard

    def forget(self, peer: str) -> None:
        self._unix.forget(peer)
        self._joiners.pop(peer, None)
        self._dialled_by.discard(peer)
        if (dealer := self._dealers.pop(peer, None)) is not None:
            del self._dialled[dealer]
            self._poller.unregister(dealer)
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
        if self._authenticator is not None:
            self._authenticator.stop()
        self._unix.close()
        if self._router is not None:
            self._router.close(linger=0)
        self._context.term()
        self._woken.close()
        self._waker.close()

    # --- inside -------------------------------------------------------------------------------

    def _listen(self, listen: str) -> None:
        from zmq.auth.thread import ThreadAuthenticator  # here: it brings asyncio

        self._authenticator = ThreadAuthenticator(self._context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(
            domain=DOMAIN, credentials_provider=_Members(self._public)
        )
        router = self._router = self._context.socket(zmq.ROUTER)
        router.curve_server = True
        router.curve_secretkey = self._secret
        router.curve_publickey = self._public
        router.zap_domain = DOMAIN.encode()
        router.router_handover = True
        router.router_mandatory = True
        # What may be under way is bounded by the flows' credit; a limit here would drop frames.
        router.set_hwm(0)
        router.bind(listen)
        self._watch(router)
        self.address = bytes(router.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()
        if (path := own_socket(self._key, self.address)) is not None:
            self._unix.listen(path)

    def _watch(self, source: zmq.Socket[bytes] | socket.socket, writable: bool = False) -> None:
        self._poller.register(source, POLLIN | POLLOUT if writable else POLLIN)

    def _dial(self, peer: str, address: str) -> None:
        path = peer_socket(self._key, address)
        if path is not None and self._unix.dial(peer, path):
            return
        dealer = _client_socket(self._context, self._secret, self._public)
        dealer.routing_id = self._name
        dealer.set_hwm(0)
        dealer.connect(address)
        self._watch(dealer)
        self._dealers[peer] = dealer
        self._dialled[dealer] = peer

    def _send(self, target: zmq.Socket[bytes], parts: Sequence[Any]) -> bool:
        last = len(parts) - 1
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
            # Cheaper than the exception of a `recv` that finds nothing.
            if not int(source.getsockopt(zmq.EVENTS)) & POLLIN:
                return
            parts = [source.recv(copy=False)]
            while parts[-1].more:
                parts.append(source.recv(copy=False))
            if routed:
                identity = parts.pop(0).bytes
                if parts and parts[0].bytes == WHO_ARE_YOU:
                    self._asked(source, identity, [part.bytes for part in parts[1:]])
                    continue
                peer = identity.decode(errors="replace")
                self._dialled_by.add(peer)
            if len(parts) > 1 and parts[0].bytes == MARK:
                self._heard.add(peer)
                place, *piece = [part.buffer for part in parts[1:]]
                if (frame := self._joiners[peer].take(place, piece)) is not None:
                    arrivals.append((frame[0], frame[1:]))
            elif parts:
                arrivals.append((parts[0].bytes, [part.buffer for part in parts[1:]]))

    def _asked(self, router: zmq.Socket[bytes], peer: bytes, claims: list[bytes]) -> None:
        """Say who we are; to one who claims a name, when it is known whether it gets that."""

        def told(refusal: tuple[str, str] | None) -> None:
            if self.hello is not None and not router.closed:
                hello = msgspec.structs.replace(self.hello, refusal=refusal)
                self._send(router, [peer, msgspec.msgpack.encode(hello)])

        if not claims:
            told(None)
            return
        with suppress(msgspec.DecodeError):  # who sends anything else gets no answer
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
    host_of(address)
    secret, public = _key_pair(key)
    context = zmq.Context()
    dealer = _client_socket(context, secret, public)
    refused = (
        zmq.Event.HANDSHAKE_FAILED_AUTH
        | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
        | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    )
    monitor = dealer.get_monitor_socket(refused)
    try:
        try:
            dealer.connect(address)
        except zmq.ZMQError as error:
            raise Unreachable(
                f"{address!r} is not an address: {error}. Expected tcp://host:port."
            ) from error
        claims = [] if claim is None else [msgspec.msgpack.encode(claim)]
        dealer.send_multipart([WHO_ARE_YOU, *claims])
        poller = zmq.Poller()
        poller.register(dealer, zmq.POLLIN)
        poller.register(monitor, zmq.POLLIN)
        deadline = time.monotonic() + patience
        while (left := deadline - time.monotonic()) > 0:
            ready = dict(poller.poll(int(left * 1000) + 1))
            if dealer in ready:
                return _hello(dealer.recv(), address)
            if monitor in ready:
                monitor.recv_multipart()
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
    except msgspec.DecodeError as error:
        raise ProtocolError(f"What answers at {address} is not an activebroker node.") from error


def _client_socket(context: zmq.Context[Any], secret: bytes, public: bytes) -> zmq.Socket[bytes]:
    dealer: zmq.Socket[bytes] = context.socket(zmq.DEALER)
    dealer.curve_serverkey = public
    dealer.curve_secretkey = secret
    dealer.curve_publickey = public
    dealer.linger = 0
    return dealer


def _key_pair(key: str) -> tuple[bytes, bytes]:
    try:
        return key.encode(), zmq.curve_public(key.encode())
    except (zmq.ZMQError, ValueError) as error:
        raise AccessDenied(
            "The key is not a fabric key: expected 40 characters as printed by `activebroker key` "
            "or activebroker.generate_key()."
        ) from error

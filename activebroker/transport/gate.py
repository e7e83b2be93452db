"""Who comes in by TCP: those who hold the fabric's key, as far as there is room for them.

ZeroMQ accepts connections by itself, and asks here whether a key is the fabric's. What it does not
limit is limited here: connections under way, of which the oldest are cut, and those that would take
the last file descriptors of this process.
"""

from __future__ import annotations

import logging
import socket
from typing import Any

import zmq
from zmq.utils import z85

from activebroker.transport.complaints import Complaints
from activebroker.transport.newcomers import TOO_MANY, Newcomers, most
from activebroker.transport.watching import is_readable, told_by

log = logging.getLogger(__name__)
DOMAIN = b"activebroker"
HANDSHAKE = 10_000  # milliseconds
ASKED = "inproc://zeromq.zap.01"  # where ZeroMQ asks about keys (its RFC 27)
TOLD = "inproc://connections"
EVENTS = zmq.Event.ACCEPTED | zmq.Event.CLOSED | zmq.Event.DISCONNECTED


class Gate:
    """The gate of a router that is not bound yet. `ready` is for one of `sockets`."""

    def __init__(
        self,
        context: zmq.Context[Any],
        router: zmq.Socket[bytes],
        public_key: bytes,
        newcomers: Newcomers,
    ) -> None:
        self.port = 0  # where the router listens
        self._newcomers = newcomers
        newcomers.look = self._follow
        self._public_key = public_key
        self._complaints = Complaints(log)
        self._questions: zmq.Socket[bytes] = context.socket(zmq.REP)
        self._questions.bind(ASKED)
        router.zap_domain = DOMAIN
        router.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        router.handshake_ivl = HANDSHAKE
        router.backlog = 2 * most()  # those beyond try again after seconds
        router.monitor(TOLD, int(EVENTS))
        self._connections: zmq.Socket[bytes] = context.socket(zmq.PAIR)
        self._connections.rcvhwm = 0  # at a limit ZeroMQ's own thread would wait for us
        self._connections.connect(TOLD)
        self.sockets = (self._questions, self._connections)

    def ready(self, source: zmq.Socket[bytes]) -> None:
        if source is self._questions:
            self._answer()
        else:
            self._follow()

    def admits(self, descriptor: int) -> bool:
        """Whether who sends by this connection may stay."""
        stays = self._newcomers.stays(descriptor)
        if not stays:
            self._complaints.say("room", f"A connection to port {self.port} was {TOO_MANY}")
        return stays

    def cut(self, descriptor: int) -> None:
        """End a connection; ZeroMQ sees that its peer has closed it."""
        try:
            connection = socket.socket(fileno=descriptor)
        except OSError:
            return  # it is gone already
        try:
            # ZeroMQ may have closed it meanwhile, and the number may be another's.
            if connection.getsockname()[1:2] == (self.port,):
                connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the peer has closed it
        finally:
            connection.detach()

    def close(self) -> None:
        for each in self.sockets:
            each.close(linger=0)

    def _answer(self) -> None:
        self._follow()  # who asks has come
        version, request, _, address, _, _, *credentials = self._questions.recv_multipart()
        if [z85.encode(each) for each in credentials] != [self._public_key]:
            status, text = b"400", b"Unknown key"
        elif not self._newcomers.may_stay():
            status, text = b"300", b"No room"  # it tries again after a while
            self._complaints.say("room", f"A connection from {address.decode()} was {TOO_MANY}")
        else:
            status, text = b"200", b"OK"
        self._questions.send_multipart([version, request, status, text, b"", b""])

    def _follow(self) -> None:
        """See who comes and goes, and cut those that are too many."""
        while is_readable(self._connections):
            event, descriptor = told_by(self._connections)
            if event == zmq.Event.ACCEPTED:
                self._newcomers.came(descriptor)
            else:
                self._newcomers.closed(descriptor)
        if cut := self._newcomers.make_room():
            self._complaints.say("room", f"{cut} connections to port {self.port} were {TOO_MANY}")

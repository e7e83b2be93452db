"""Whether anybody is there where a silent peer listens: one tries to connect.

The system answers for a process that listens, however busy it is, or while it stands still: a host
that has vanished does not, and one whose process has ended refuses. So this tells the two apart
from a peer that is merely silent.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import time
from urllib.parse import urlsplit

from activebroker.transport.watching import Watch

WAIT = 1.0  # seconds for an answer
TRIES = 3  # at once: what is lost on a thin link is sent again after a second only
GONE = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ETIMEDOUT)


class Doors:
    """The connections that are tried. What they tell is `absent`, once each."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._until: dict[str, float] = {}  # by peer: when an answer is given up, or was to be
        self._tries: dict[socket.socket, str] = {}
        self._absent: list[str] = []

    def knock(self, peer: str, address: str) -> None:
        """Try, unless that is under way, or was within the last second. Nothing can be told of an
        address that would have to be looked up first, nor where there is no room for a socket."""
        try:
            parts = urlsplit(address)
            host, port = str(ipaddress.ip_address(parts.hostname or "")), parts.port
        except ValueError:
            return
        if not port or peer in self._until:
            return
        self._until[peer] = time.monotonic() + WAIT
        for _ in range(TRIES):
            if peer not in self._until or not self._try(peer, host, port):
                return

    def ready(self, descriptor: int) -> bool:
        """Take the answer at a watched socket; False if it is none of these."""
        tried = next((each for each in self._tries if each.fileno() == descriptor), None)
        if tried is None:
            return False
        peer = self._tries[tried]
        self._answered(peer, tried.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        return True

    def absent(self) -> list[str]:
        """The peers at whose doors nobody was, since this was asked before."""
        now = time.monotonic()
        for peer, until in list(self._until.items()):
            if until <= now:
                del self._until[peer]
                if self._leave(peer):  # there was no answer
                    self._absent.append(peer)
        absent, self._absent = self._absent, []
        return absent

    def close(self) -> None:
        for peer in list(self._until):
            self._leave(peer)

    def _try(self, peer: str, host: str, port: int) -> bool:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            tried = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            return False
        tried.setblocking(False)
        error = tried.connect_ex((host, port))
        if error == errno.EINPROGRESS:
            try:
                self._watch.add(tried, writable=True)
            except OSError:
                tried.close()
                return False
            self._tries[tried] = peer
            return True
        tried.close()
        self._answered(peer, error)
        return False

    def _answered(self, peer: str, error: int) -> None:
        self._leave(peer)
        if error in GONE:
            self._absent.append(peer)

    def _leave(self, peer: str) -> bool:
        """Give up what is tried; whether there was anything."""
        tries = [each for each, of in self._tries.items() if of == peer]
        for each in tries:
            del self._tries[each]
            self._watch.remove(each)
            each.close()
        return bool(tries)

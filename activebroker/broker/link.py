"""A link: everything between two nodes, in sequence, acknowledged, exactly once.

The transport may lose what is in flight when a connection breaks, and may deliver twice; the
link numbers frames, keeps them until acknowledged and sends again what the peer misses. The
receiver asks for that, on a gap or when a heartbeat overtakes what it announces; there is no
resend timer, which on a thin link would only add to the queue. How much can be unacknowledged is
bounded by the flows' credit, not here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from activebroker.broker.messages import PROTOCOL_VERSION, Body, Frame, Heard, encode

Buffers = Sequence[Any]  # objects with the buffer protocol

ACK_EVERY = 32  # frames received before an acknowledgement goes out by itself
HEARTBEAT_EVERY = 1.0  # seconds


@dataclass(slots=True)
class Link:
    """This node's end of the link to `peer`. Frames to put on the wire collect in `outgoing`.

    `addressed` is the process that it is for, if that is known before it is heard.
    """

    here: str
    incarnation: int
    peer: str
    now: float
    addressed: int = 0
    peer_incarnation: int = 0
    outgoing: list[tuple[bytes, Buffers]] = field(default_factory=list)
    announced: set[str] = field(default_factory=set)  # types the peer knows, by fingerprint
    _unacked: deque[tuple[int, bytes, Buffers]] = field(default_factory=deque)
    _sent: int = 0
    _received: int = 0
    _acked: int = 0  # the last of `_received` that we acknowledged
    _missing: bool = False  # we asked for a resend and have seen no progress since
    _sent_at: float = 0.0
    heard_at: float = 0.0

    def __post_init__(self) -> None:
        self.heard_at = self._sent_at = self.now

    def send(self, body: Body, buffers: Buffers = ()) -> None:
        """Put a message in sequence."""
        self._sent += 1
        head = self._frame(body, self._sent)
        self._unacked.append((self._sent, head, buffers))
        self.outgoing.append((head, buffers))

    def receive(self, frame: Frame, now: float) -> bool:
        """Take a frame of the peer's current incarnation; True: its body is next in order."""
        self.heard_at = now
        while self._unacked and self._unacked[0][0] <= frame.ack:
            self._unacked.popleft()
        if frame.resend:
            self.outgoing = [(head, buffers) for _, head, buffers in self._unacked]
        if isinstance(frame.body, Heard):
            if frame.seq > self._received:
                self._ask_again()
            return False
        if frame.seq == self._received + 1:
            self._received = frame.seq
            self._missing = False
            if self._received - self._acked >= ACK_EVERY:
                self._say(Heard())
            return True
        if frame.seq > self._received:
            self._ask_again()
        else:
            self._acked = min(self._acked, frame.seq - 1)  # our acknowledgement was lost
        return False

    def tick(self, now: float) -> None:
        """Called several times a second: late acknowledgements and heartbeats."""
        if self._received > self._acked or now - self._sent_at >= HEARTBEAT_EVERY:
            self._say(Heard(), resend=self._missing)
            self._sent_at = now

    def take_outgoing(self, now: float) -> list[tuple[bytes, Buffers]]:
        taken, self.outgoing = self.outgoing, []
        if taken:
            self._sent_at = now
        return taken

    def greet(self) -> None:
        """Say something, so that the transport connects."""
        self._say(Heard())

    @property
    def unacknowledged(self) -> int:
        return len(self._unacked)

    def _ask_again(self) -> None:
        if not self._missing:
            self._missing = True
            self._say(Heard(), resend=True)

    def _say(self, body: Heard, resend: bool = False) -> None:
        self.outgoing.append((self._frame(body, self._sent, resend), ()))

    def _frame(self, body: Body, seq: int, resend: bool = False) -> bytes:
        self._acked = self._received
        return encode(
            Frame(
                PROTOCOL_VERSION,
                self.here,
                self.incarnation,
                self.peer_incarnation or self.addressed,
                seq,
                self._received,
                resend,
                body,
            )
        )

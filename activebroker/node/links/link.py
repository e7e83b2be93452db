"""A link: everything between two nodes, in sequence, acknowledged, exactly once.

The transport may lose what is in flight when a connection breaks, and may deliver frames twice or
in another order. So the link numbers frames, retains them until they are acknowledged, and sends
again what the peer misses.

The receiver holds frames that come early, and asks for those that are missing: when it sees a gap,
or when a heartbeat announces frames that have not come. It asks once for all that it knows of, and
again only when none of that has come for a while. Frames that are sent again without need would
bury a slow process or a slow network in copies; so the sender has no resend timer, either.

The flows' credit bounds how much can be unacknowledged.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from itertools import islice

from activebroker.protocol.frame import MOST_GAPS, PROTOCOL_VERSION, Buffers, Frame, decode, encode
from activebroker.protocol.messages import Body, Heard

ACK_EVERY = 32  # frames received before an acknowledgement goes out by itself
HEARTBEAT_EVERY = 1.0  # seconds
ASK_EVERY = 0.5  # seconds without any of the frames that were asked for
MOST_EARLY = 4096  # frames held before their turn; later ones are asked for again


@dataclass(slots=True)
class Link:
    """This node's end of the link to `peer`."""

    here: str
    incarnation: int
    peer: str
    now: float
    addressed: int = 0  # the peer's incarnation if it is known before the peer is heard
    peer_incarnation: int = 0  # of the process that was heard
    outgoing: list[tuple[bytes, Buffers]] = field(default_factory=list)  # frames for the wire
    announced: set[str] = field(default_factory=set)  # types the peer knows, by fingerprint
    _unacked: deque[tuple[int, bytes, Buffers]] = field(default_factory=deque)
    _sent: int = 0
    _received: int = 0
    _acked: int = 0  # the last of `_received` that we acknowledged
    _early: dict[int, tuple[Body, Buffers]] = field(default_factory=dict)  # before their turn
    _announced: int = 0  # the last frame that the peer has sent, as far as we have heard
    _asked: int = 0  # we have asked for what is missing up to this frame
    _waits_since: float = 0.0  # for the frames that we have asked for
    _sent_at: float = 0.0
    heard_at: float = 0.0
    accused_at: float = -math.inf  # when the directory was told that nothing is heard

    def __post_init__(self) -> None:
        self.heard_at = self._sent_at = self.now

    def send(self, body: Body, buffers: Buffers = ()) -> None:
        """Put a message in sequence."""
        self._sent += 1
        head = self._frame(body, self._sent)
        self._unacked.append((self._sent, head, buffers))
        self.outgoing.append((head, buffers))

    def receive(self, frame: Frame, buffers: Buffers, now: float) -> list[tuple[Body, Buffers]]:
        """Take a frame of the peer's current incarnation; return the messages next in order."""
        self.heard_at = now
        while self._unacked and self._unacked[0][0] <= frame.ack:
            self._unacked.popleft()
        oldest = begin = self._unacked[0][0] if self._unacked else self._sent + 1
        for first, last in frame.missing:  # each frame once, even if the gaps overlap
            begin, end = max(first, begin), last + 1
            again = islice(self._unacked, begin - oldest, max(end, begin) - oldest)
            self.outgoing += [(head, parts) for _, head, parts in again]
            begin = max(end, begin)
        self._announced = max(self._announced, frame.seq)
        ready: list[tuple[Body, Buffers]] = []
        if not isinstance(frame.body, Heard):
            if frame.seq <= self._received:
                self._acked = min(self._acked, frame.seq - 1)  # our acknowledgement was lost
            elif frame.seq <= self._received + MOST_EARLY:
                self._early[frame.seq] = frame.body, buffers
            while (following := self._early.pop(self._received + 1, None)) is not None:
                self._received += 1
                ready.append(following)
        if ready:
            self._waits_since = now
        if self._received < self._announced and self._received >= self._asked:
            self._ask_again(now)
        elif self._received - self._acked >= ACK_EVERY:
            self._say(Heard())
        return ready

    def tick(self, now: float) -> None:
        """Called several times a second: send late acknowledgements and heartbeats, and ask for
        missing frames."""
        if self._received < self._announced and now - self._waits_since >= ASK_EVERY:
            self._ask_again(now)
        elif self._received > self._acked or now - self._sent_at >= HEARTBEAT_EVERY:
            self._say(Heard())
            self._sent_at = now

    @property
    def due(self) -> float:
        """When `tick` will have something to do."""
        if self._received > self._acked:
            return -math.inf
        heartbeat = self._sent_at + HEARTBEAT_EVERY
        if self._received < self._announced:
            return min(heartbeat, self._waits_since + ASK_EVERY)
        return heartbeat

    def take_outgoing(self, now: float) -> list[tuple[bytes, Buffers]]:
        taken, self.outgoing = self.outgoing, []
        if taken:
            self._sent_at = now
        return taken

    def greet(self) -> None:
        """Send a `Heard`, so that the transport connects."""
        self._say(Heard())

    @property
    def unacknowledged(self) -> int:
        return len(self._unacked)

    @property
    def acknowledged(self) -> int:
        """How many frames the peer has taken over."""
        return self._sent - len(self._unacked)

    def unacknowledged_bodies(self) -> list[tuple[Body, Buffers]]:
        return [(decode(head).body, buffers) for _, head, buffers in self._unacked]

    def _ask_again(self, now: float) -> None:
        gaps, last = [], self._received
        for seq in (*sorted(self._early), self._announced + 1):
            if seq > last + 1:
                gaps.append((last + 1, seq - 1))
            last = seq
        del gaps[MOST_GAPS:]
        self._asked, self._waits_since = gaps[-1][1], now
        self._say(Heard(), tuple(gaps))

    def _say(self, body: Heard, missing: tuple[tuple[int, int], ...] = ()) -> None:
        self.outgoing.append((self._frame(body, self._sent, missing), ()))

    def _frame(self, body: Body, seq: int, missing: tuple[tuple[int, int], ...] = ()) -> bytes:
        self._acked = self._received
        return encode(
            Frame(
                PROTOCOL_VERSION,
                self.here,
                self.incarnation,
                self.peer_incarnation or self.addressed,
                seq,
                self._received,
                missing,
                body,
            )
        )

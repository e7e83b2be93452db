"""The other nodes, as this one knows them: members, links, and which have fallen silent."""

from __future__ import annotations

from activebroker.node.effects import Transmit
from activebroker.node.links.link import Link
from activebroker.protocol.flows import FlowOpened
from activebroker.protocol.frame import PROTOCOL_VERSION, Buffers, Frame, encode
from activebroker.protocol.messages import GRACE, Body, Expelled, Heard
from activebroker.protocol.specs import Member

LOST_AFTER = 10.0  # seconds of silence
QUIET_AFTER = 1.5  # seconds of silence before a `Knock`; more than between two heartbeats
GONE_KEPT = 4096


class Peers:
    """The members, and a link for each peer. `flush` returns what is for the transport."""

    def __init__(self, me: Member) -> None:
        self.me = me
        self.members: dict[str, Member] = {me.name: me}
        self.links: dict[str, Link] = {}
        self._gone: dict[tuple[str, int], None] = {}  # the last incarnations that were lost
        self._to_greet: dict[str, None] = {}  # peers that have hung up since the last tick

    def send(self, to: str, body: Body, now: float, buffers: Buffers = ()) -> None:
        self.link(to, now).send(body, buffers)

    def greet(self, to: str, now: float) -> None:
        """Make the transport connect, so that a peer that cannot dial us can answer."""
        self.link(to, now).greet()

    def link(self, peer: str, now: float) -> Link:
        if (link := self.links.get(peer)) is not None:
            return link
        member = self.members.get(peer)
        link = self._new_link(peer, member.incarnation if member is not None else 0, now)
        # A process that was lost is sent nothing more: it would take a second link for the first.
        if (peer, link.addressed) not in self._gone:
            self.links[peer] = link
        return link

    def _new_link(self, peer: str, incarnation: int, now: float) -> Link:
        return Link(self.me.name, self.me.incarnation, peer, now, incarnation)

    def incarnation(self, peer: str) -> int:
        """The incarnation of a node as its frames say; 0 if it has not been heard."""
        if peer == self.me.name:
            return self.me.incarnation
        return self.links[peer].peer_incarnation if peer in self.links else 0

    def reached(self, peer: str) -> int:
        """The incarnation of a node that our frames may have reached; 0 if none can have: the node
        has not been heard, and we cannot dial it."""
        if (link := self.links.get(peer)) is None:
            return 0
        member = self.members.get(peer)
        dialled = member is not None and member.address is not None
        return link.peer_incarnation or (link.addressed if dialled else 0)

    def is_known(self, frame: Frame) -> bool:
        """Whether the frame is from the process that we have a link with, and for this one, as
        nearly all frames are. Then none of the special cases below applies."""
        link = self.links.get(frame.sender)
        return (
            link is not None
            and link.peer_incarnation == frame.incarnation
            and frame.to in (0, self.me.incarnation)
        )

    def is_gone(self, frame: Frame) -> bool:
        """Whether the frame is from an incarnation that was lost."""
        return (frame.sender, frame.incarnation) in self._gone

    def is_stale(self, frame: Frame) -> bool:
        """Whether the frame, with its acknowledgement, is for an earlier process of our name."""
        return frame.to not in (0, self.me.incarnation)

    def is_succeeded(self, member: Member) -> bool:
        """Whether we have a link with another incarnation of a member."""
        link = self.links.get(member.name)
        return link is not None and link.peer_incarnation not in (0, member.incarnation)

    def is_successor(self, member: Member) -> bool:
        """Whether the messages that wait for a new member were meant for an earlier process of its
        name: the directory announces a process before anything else about it."""
        if (link := self.links.get(member.name)) is None or link.peer_incarnation:
            return False
        return link.addressed != member.incarnation

    def is_greeting(self, frame: Frame) -> bool:
        """Whether the frame only introduces a process that is not a member yet."""
        member = self.members.get(frame.sender)
        known = member is not None and member.incarnation == frame.incarnation
        return frame.seq == 0 and frame.sender not in self.links and not known

    def answer(self, frame: Frame, body: Heard | Expelled) -> Transmit:
        """Send a message to a frame's sender, outside any link."""
        head = encode(
            Frame(
                PROTOCOL_VERSION,
                self.me.name,
                self.me.incarnation,
                frame.incarnation,
                0,
                0,
                (),
                body,
            )
        )
        return Transmit(frame.sender, None, [(head, ())])

    def restarted(self, frame: Frame) -> bool:
        """Whether the sender is a new incarnation of a peer that we have a link with. If the
        directory has not announced it, messages that wait were for an earlier process."""
        link = self.links.get(frame.sender)
        if link is None:
            return False
        if known := link.peer_incarnation or link.addressed:
            return known != frame.incarnation
        return link.unacknowledged > 0 and frame.sender not in self.members

    def receive(self, frame: Frame, buffers: Buffers, now: float) -> list[tuple[Body, Buffers]]:
        """Take a frame; return the messages to handle next."""
        if (link := self.links.get(frame.sender)) is None:
            link = self._new_link(frame.sender, frame.incarnation, now)
            self.links[frame.sender] = link
        link.peer_incarnation = frame.incarnation
        return link.receive(frame, buffers, now)

    def greet_soon(self, peer: str) -> None:
        """Let the transport connect again at the next tick: not at once, since a peer may hang up
        again and again."""
        if peer in self.links:
            self._to_greet[peer] = None

    def heard(self, peer: str, now: float) -> None:
        """Part of a frame has come from a peer."""
        if (link := self.links.get(peer)) is not None:
            link.heard_at = now

    def silent(self, now: float) -> list[str]:
        """The peers that have not been heard for too long."""
        return [peer for peer, link in self.links.items() if now - link.heard_at > LOST_AFTER]

    def is_quiet(self, peer: str, now: float) -> bool:
        """Whether a peer should have been heard by now."""
        link = self.links.get(peer)
        return link is not None and now - link.heard_at > QUIET_AFTER

    def accuse(self, peer: str, now: float) -> bool:
        """Whether it is time to accuse a silent peer, for the first time or again."""
        link = self.links[peer]
        if now - link.accused_at <= GRACE:
            return False
        link.accused_at = now
        return True

    def gives_up(self, peer: str) -> bool:
        """Whether a peer that we drop waits for a flow from us and cannot know that it will not
        come: the peer had to dial us, and never did."""
        link = self.links[peer]
        waiting = (body for body, _ in link.unacknowledged_bodies())
        return not link.peer_incarnation and any(isinstance(each, FlowOpened) for each in waiting)

    def drop(self, peer: str) -> None:
        """Forget a lost peer, and never listen to that process again."""
        if incarnation := self.reached(peer):
            self.see_off(peer, incarnation)
        self.links.pop(peer, None)

    def see_off(self, peer: str, incarnation: int) -> None:
        """Never listen to a process again."""
        self._gone[peer, incarnation] = None
        if len(self._gone) > GONE_KEPT:
            del self._gone[next(iter(self._gone))]

    def tick(self, now: float) -> None:
        for peer in self._to_greet:
            if (link := self.links.get(peer)) is not None:
                link.greet()
        self._to_greet.clear()
        for link in self.links.values():
            link.tick(now)

    def flush(self, now: float) -> list[Transmit]:
        """All that the links have for the wire. Frames for a node that is no member and has not
        been heard stay here: they would reach the next process of that name, which would take them
        for the begin of its own link."""
        transmits = []
        for peer, link in self.links.items():
            if link.outgoing and (link.peer_incarnation or peer in self.members):
                member = self.members.get(peer)
                address = member.address if member is not None else None
                transmits.append(Transmit(peer, address, link.take_outgoing(now)))
        return transmits

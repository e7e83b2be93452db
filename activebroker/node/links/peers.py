"""The other nodes, as this one knows them: members, links, and who has fallen silent."""

from __future__ import annotations

from activebroker.node.effects import Transmit
from activebroker.node.links.link import Link
from activebroker.protocol.frame import PROTOCOL_VERSION, Buffers, Frame, encode
from activebroker.protocol.messages import GRACE, Body, Expelled, FlowOpened, Heard
from activebroker.protocol.specs import Member

LOST_AFTER = 10.0  # seconds of silence
QUIET_AFTER = 1.5  # the same, to see whether anybody is there: more than between two heartbeats
GONE_KEPT = 4096


class Peers:
    """One link a peer. The driver's transport is reached through `flush`."""

    def __init__(self, me: Member) -> None:
        self.me = me
        self.members: dict[str, Member] = {me.name: me}
        self.links: dict[str, Link] = {}
        self._gone: dict[tuple[str, int], None] = {}  # the last incarnations that were lost
        self._to_greet: dict[str, None] = {}  # who has hung up since the last look

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
        # Who was lost gets nothing more: it would take a second link for the first.
        if (peer, link.addressed) not in self._gone:
            self.links[peer] = link
        return link

    def _new_link(self, peer: str, incarnation: int, now: float) -> Link:
        return Link(self.me.name, self.me.incarnation, peer, now, incarnation)

    def incarnation(self, peer: str) -> int:
        """The incarnation of a node that there is a link with; 0: unknown."""
        if peer == self.me.name:
            return self.me.incarnation
        return self.links[peer].peer_incarnation if peer in self.links else 0

    def reached(self, peer: str) -> int:
        """The incarnation that there is a link with; 0 where nothing of ours can have come to it:
        it has not been heard, and we cannot dial it."""
        if (link := self.links.get(peer)) is None:
            return 0
        member = self.members.get(peer)
        dialled = member is not None and member.address is not None
        return link.peer_incarnation or (link.addressed if dialled else 0)

    def is_known(self, frame: Frame) -> bool:
        """Whether the frame is what nearly all are: of the process that there is a link with, and
        for this one. Then it is nothing of what is asked below."""
        link = self.links.get(frame.sender)
        return (
            link is not None
            and link.peer_incarnation == frame.incarnation
            and frame.to in (0, self.me.incarnation)
        )

    def is_gone(self, frame: Frame) -> bool:
        """Whether the frame is of an incarnation that was lost."""
        return (frame.sender, frame.incarnation) in self._gone

    def is_stale(self, frame: Frame) -> bool:
        """Whether the frame, and what it acknowledges, is for an earlier process of our name."""
        return frame.to not in (0, self.me.incarnation)

    def is_succeeded(self, member: Member) -> bool:
        """Whether there is a link with another incarnation of a member."""
        link = self.links.get(member.name)
        return link is not None and link.peer_incarnation not in (0, member.incarnation)

    def is_successor(self, member: Member) -> bool:
        """Whether what waits for a new member was meant for an earlier process of its name: the
        directory tells of a process before it tells of anything that concerns it."""
        if (link := self.links.get(member.name)) is None or link.peer_incarnation:
            return False
        return link.addressed != member.incarnation

    def is_greeting(self, frame: Frame) -> bool:
        """Whether the frame only tells who somebody is that is no member yet."""
        member = self.members.get(frame.sender)
        known = member is not None and member.incarnation == frame.incarnation
        return frame.seq == 0 and frame.sender not in self.links and not known

    def answer(self, frame: Frame, body: Heard | Expelled) -> Transmit:
        """Say something outside of any link to a frame's sender."""
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
        """Whether the sender is a new incarnation of a peer that we have a link with. What waits
        for one of whom the directory has not told was meant for an earlier process, see above."""
        link = self.links.get(frame.sender)
        if link is None:
            return False
        if known := link.peer_incarnation or link.addressed:
            return known != frame.incarnation
        return link.unacknowledged > 0 and frame.sender not in self.members

    def receive(self, frame: Frame, buffers: Buffers, now: float) -> list[tuple[Body, Buffers]]:
        """What is the next to handle."""
        if (link := self.links.get(frame.sender)) is None:
            link = self._new_link(frame.sender, frame.incarnation, now)
            self.links[frame.sender] = link
        link.peer_incarnation = frame.incarnation
        return link.receive(frame, buffers, now)

    def greet_soon(self, peer: str) -> None:
        """Let the transport connect anew; not at once, to one that hangs up time and again."""
        if peer in self.links:
            self._to_greet[peer] = None

    def heard(self, peer: str, now: float) -> None:
        """Something has come from a peer, if no whole frame yet."""
        if (link := self.links.get(peer)) is not None:
            link.heard_at = now

    def silent(self, now: float) -> list[str]:
        """Peers that have not been heard for too long."""
        return [peer for peer, link in self.links.items() if now - link.heard_at > LOST_AFTER]

    def is_quiet(self, peer: str, now: float) -> bool:
        """Whether a peer should have been heard by now."""
        link = self.links.get(peer)
        return link is not None and now - link.heard_at > QUIET_AFTER

    def accuse(self, peer: str, now: float) -> bool:
        """Whether it is time to say that a peer is silent; time and again, as long as it is."""
        link = self.links[peer]
        if now - link.accused_at <= GRACE:
            return False
        link.accused_at = now
        return True

    def gives_up(self, peer: str) -> bool:
        """Whether dropping a peer takes a flow from it that it waits for, and cannot know: it had
        to dial us, and never did."""
        link = self.links[peer]
        waiting = (body for body, _ in link.unacknowledged_bodies())
        return not link.peer_incarnation and any(isinstance(each, FlowOpened) for each in waiting)

    def drop(self, peer: str) -> None:
        """Forget a lost peer; its incarnation is never listened to again."""
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
        """All that the links want on the wire. What is for one who is no member, and has not been
        heard, stays here: it would reach the next process of that name, which would take it for the
        begin of its own link."""
        transmits = []
        for peer, link in self.links.items():
            if link.outgoing and (link.peer_incarnation or peer in self.members):
                member = self.members.get(peer)
                address = member.address if member is not None else None
                transmits.append(Transmit(peer, address, link.take_outgoing(now)))
        return transmits

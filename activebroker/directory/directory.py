"""The directory: the part of one node that knows the whole fabric and changes it, one request at a
time.

A request becomes a change (see `requests.py`): of the members in `membership.py`, of channels in
`channels.py`, of where filters run in `moves.py` and `reconfiguration.py`.
"""

from __future__ import annotations

import math

from activebroker.core.errors import Unreachable
from activebroker.directory.channels import Channels
from activebroker.directory.checkpoints import Checkpoints
from activebroker.directory.context import PATIENCE, Context, Done, Outside
from activebroker.directory.deaths import Budget
from activebroker.directory.endings import Endings
from activebroker.directory.leases import Leases
from activebroker.directory.membership import Membership
from activebroker.directory.moves import Moves
from activebroker.directory.parts import SUPPLIER, Derived
from activebroker.directory.placing import Placing
from activebroker.directory.reconfiguration import reconfigure
from activebroker.directory.recoveries import Recoveries
from activebroker.directory.report import report
from activebroker.directory.requests import (
    Change,
    ChangeEnded,
    MoveEnded,
    Obstacle,
    RequestQueue,
)
from activebroker.directory.stories import Stories
from activebroker.directory.wiring import Wiring
from activebroker.protocol.messages import CheckpointTaken, OutletDrained, PeerSuspected
from activebroker.protocol.requests import (
    ChangeRequest,
    ClaimName,
    CloseChannel,
    CloseSupplier,
    Derive,
    Dismiss,
    FindLog,
    Join,
    Leave,
    Move,
    Offload,
    OpenChannel,
    OpenSupplier,
    Question,
    Reconfigure,
    ReportStatus,
    Subscribe,
    TellStory,
    Unsubscribe,
)
from activebroker.protocol.specs import Member
from derivation.initiator import DeadlinePassed
from derivation.protocol import Prepared, Refused, Started


class Directory:
    """The directory. `budget` is what recovery may cost. Call `settle` after each input."""

    def __init__(self, me: Member, outside: Outside, budget: Budget) -> None:
        self._context = context = Context(me, outside)
        self.graph = context.graph
        self.members = context.members
        self._queue = queue = RequestQueue(context)
        self.planned = queue.planned
        self._stories = Stories(context, queue)
        self._wiring = wiring = Wiring(context)
        self._leases = Leases(context)
        self._checkpoints = Checkpoints(context, wiring, queue)
        self._recoveries = Recoveries(context, wiring, self._checkpoints, budget)
        self._endings = endings = Endings(
            context, wiring, queue, self._checkpoints, self._recoveries
        )
        self._moves = Moves(context, wiring, queue, self._checkpoints, endings)
        placing = Placing(context, wiring, queue, self._moves, endings, self._recoveries)
        self._channels = Channels(context, wiring, endings, placing, self._leases)
        self._membership = Membership(context, queue, endings, self._leases)

    def request(self, body: Question | ChangeRequest, done: Done) -> None:
        """Answer a question, or queue a change; `done` gets the result or the error.

        A question does not wait for changes under way: they are what its user asks about.
        """
        match body:
            case ReportStatus():
                report(self._context, self._stories, done)
            case TellStory(channel):
                self._stories.tell(channel, done)
            case ClaimName():
                self._membership.claim(body, done)
            case Dismiss(name):
                self._membership.dismiss(name, done)
            case _:
                if isinstance(body, Join):
                    self._membership.announced(body.member)
                if (bearer := self._membership.bearer(body)) is None:
                    self._submit(body, done)
                else:
                    self._membership.prove(bearer, lambda: self._submit(body, done))

    def _submit(self, body: ChangeRequest, done: Done) -> None:
        change = self._change(body)
        node = getattr(body, "node", None)
        if node is not None:
            change = self._for(node, change)
        # A request to give something up is carried out, however late.
        gives_up = isinstance(body, Unsubscribe | CloseSupplier | CloseChannel)
        patience = math.inf if gives_up else PATIENCE
        self._queue.submit(change, done, self._obstacle(body), patience)

    def _change(self, body: ChangeRequest) -> Change:
        """The change that a request asks for."""
        match body:
            case Join():
                return self._membership.join(body)
            case Leave():
                return self._membership.leave(body)
            case OpenChannel():
                return self._channels.open(body)
            case CloseChannel():
                return self._channels.close(body)
            case OpenSupplier():
                return self._channels.open_supplier(body)
            case CloseSupplier():
                return self._channels.close_supplier(body)
            case Subscribe():
                return self._channels.subscribe(body)
            case FindLog():
                return self._channels.find_log(body)
            case Unsubscribe():
                return self._channels.unsubscribe(body)
            case Derive():
                return self._channels.derive(body)
            case Move():
                return self._moves.move(body)
            case Offload():
                return self._moves.offload(body)
            case Reconfigure():
                return reconfigure(self._wiring, body)

    def tick(self) -> None:
        """Called several times a second."""
        self._queue.expire()

    def timer_fired(self, kind: str, name: str) -> None:
        """A timer that was set with this kind and name has run out."""
        match kind:
            case "move":
                self._queue.move_on(int(name), DeadlinePassed())
            case "lease":
                end, obstacle = self._channels.end_unheld(name), self._obstacle(CloseChannel(name))
                self._queue.submit(end, lambda result, error: None, obstacle, math.inf)
            case "recover":
                go_on = self._endings.go_on(name)
                self._queue.submit(go_on, lambda result, error: None, patience=math.inf)

    def settle(self) -> bool:
        """Handle the facts that an input has led to. Returns whether there were any."""
        facts = self._queue.facts
        if not facts:
            return False
        while facts:
            match facts.popleft():
                case ChangeEnded():
                    self._leases.review()
                case MoveEnded(planned, finish, late):
                    self._stories.ended(planned, finish)
                    if late:
                        self._moves.ended_late(planned, finish)
        self._queue.go_on()
        return True

    def _obstacle(self, body: ChangeRequest) -> Obstacle:
        """What a request has to wait for: a channel changes only while none of its filters
        moves."""

        def obstacle() -> str | None:
            name = getattr(body, "channel", None)
            if isinstance(body, CloseChannel):
                name = body.name
            if name is None or (channel := self.graph.channels.get(name)) is None:
                return None
            root = channel.root
            for planned in self._queue.overdue():
                if planned.channel.root is root:
                    return f"Channel {planned.plan.channel!r} is still moving"
            whole = isinstance(body, Move | Offload | Reconfigure | CloseChannel)
            relays = (relay.name for relay in self.graph.relays_of(root))
            if whole and any(map(self._recoveries.waits, relays)):
                return f"A relay of channel {root.name!r} waits for a place to go on"
            for each in self.graph.below(root):
                if each.next is not None:
                    return f"The filter of channel {each.name!r} is still changing"
                if whole and self._recoveries.waits(each.name):
                    return f"The filter of channel {each.name!r} waits for a place to go on"
            if isinstance(channel, Derived):
                beside = isinstance(body, Derive) and body.at == SUPPLIER
                if channel.returning and (beside or isinstance(body, Reconfigure)):
                    return f"Channel {name!r} is still on its way to its suppliers"
                if beside and self._recoveries.waits(name):
                    return f"The filter of channel {name!r} waits for a place to go on"
            if isinstance(body, OpenSupplier):
                relayed = [each.own for each in self.graph.relays_of(channel)]
                for outlet in (*channel.left.values(), *relayed):
                    if outlet.supplier == body.supplier and outlet.id not in channel.outlets:
                        return f"Events of the supplier {outlet.supplier!r} before are on their way"
            return None

        return obstacle

    def _for(self, node: str, change: Change) -> Change:
        """A change that a node asked for; it fails if that process is no longer a member."""
        asked = self.members.get(node)

        def carry_out() -> Change:
            if self.members.get(node) is not asked:
                raise Unreachable(f"{node!r} was lost before its turn came.")
            return (yield from change)

        return carry_out()

    def told(self, source: str, body: CheckpointTaken | OutletDrained | PeerSuspected) -> None:
        """Take news from a node. One that has left goes on for a while, and its filters are
        elsewhere by then."""
        if source not in self.members:
            return
        match body:
            case CheckpointTaken():
                self._checkpoints.taken(body)
            case OutletDrained(outlet, stopped):
                self._endings.drained(outlet, stopped)
            case PeerSuspected():
                self._membership.judge(source, body)

    def answered(self, body: Prepared | Refused | Started) -> None:
        """Take an answer of a party to a move."""
        self._queue.move_on(body.move, body)

    def lost(self, node: str) -> None:
        """A member fell silent: all that it had is gone."""
        self._membership.lost(node)

    def ended(self, node: str) -> None:
        """The process of a member has ended."""
        self._membership.ended(node)

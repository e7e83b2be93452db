"""The directory: the one node that knows the whole fabric and changes it, one change at a time.

Each request is a method that is a change (see `changes.py`). How parts of the fabric end, and how
they move, is in `endings.py` and `derivations.py`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

from activebroker.core.errors import (
    ActiveBrokerError,
    Closed,
    InvalidFilter,
    NameTaken,
    PayloadRefused,
    UnknownChannel,
    Unreachable,
    suggestion,
)
from activebroker.directory.changes import PATIENCE, Change, Changes, Done, Obstacle
from activebroker.directory.checkpoints import Checkpoints
from activebroker.directory.deaths import Budget
from activebroker.directory.derivations import Derivations
from activebroker.directory.endings import Endings
from activebroker.directory.graph import Graph
from activebroker.directory.leases import Leases
from activebroker.directory.migration import Migration
from activebroker.directory.names import (
    channel_named,
    free_name,
    open_names,
    place_named,
)
from activebroker.directory.parts import SUPPLIER, Derived, Outlet, Port, Root
from activebroker.directory.placing import Placing
from activebroker.directory.reconfiguration import reconfigure
from activebroker.directory.recoveries import Recoveries
from activebroker.directory.recovery import Recovery
from activebroker.directory.report import report
from activebroker.directory.stories import Stories
from activebroker.directory.versions import add_version, share_versions
from activebroker.directory.wiring import Wiring
from activebroker.protocol.messages import (
    GRACE,
    Body,
    CallBody,
    ChangeRequest,
    CheckpointTaken,
    ClaimName,
    CloseChannel,
    CloseOutlet,
    CloseSupplier,
    Derive,
    Join,
    Leave,
    MembersChanged,
    Move,
    Offload,
    OpenChannel,
    OpenOutlet,
    OpenSupplier,
    OutletDrained,
    PeerSuspected,
    Question,
    Reconfigure,
    ReportNode,
    ReportStatus,
    Subscribe,
    TellStory,
    Unsubscribe,
)
from activebroker.protocol.specs import Member

log = logging.getLogger(__name__)
FORGOTTEN = 10.0  # seconds after which an accusation has nothing to do with one before
AT_ONCE = 0.5  # seconds in which the bearer of a name answers, if another process asks for it
SOON = 3.0  # the same, if one asks that has borne it before: two do not take it from each other


class Directory:
    """`call(node, body, patience, done)` asks a node for something, `tell(node, body)` tells it;
    `expel(node)` takes a member for lost; `incarnation(node)` is that of the process heard last,
    0 if none is. `set_timer(key, after)` lets `timer_fired` be called, None takes it back."""

    def __init__(
        self,
        me: Member,
        call: Callable[[str, CallBody, float, Done], None],
        tell: Callable[[str, Body], None],
        set_deadline: Callable[[int, float | None], None],
        set_timer: Callable[[str, float | None], None],
        now: Callable[[], float],
        expel: Callable[[str], None],
        incarnation: Callable[[str], int],
        budget: Budget = Budget(),  # noqa: B008 - a frozen value
    ) -> None:
        self.members: dict[str, Member] = {me.name: me}
        self._joining: dict[str, Member] = {}  # who waits for its turn to be a member
        self._me = me.name
        self.graph = Graph()
        self._expel = expel
        self._incarnation = incarnation
        self._now = now
        self._answered: dict[tuple[str, str], float] = {}  # when the accused did so, by accuser
        self._call = call
        self._wiring = Wiring(self.graph, self.members, self._call_member, tell)
        self._changes = Changes(
            self._call_member,
            tell,
            set_deadline,
            now,
            lambda *ended: self._stories.ended(*ended),
            lambda *ended: self._derivations.ended_late(*ended),
            lambda: self._leases.review(),
        )
        self._stories = Stories(me.name, self._changes, self._call_member, now)
        self._checkpoints = Checkpoints(self._wiring, self._changes)
        self._leases = Leases(
            self.graph,
            lambda channel, after: set_timer(f"lease {channel}", after),
            now,
            self._end_unheld,
        )
        recovery = Recovery(me.name, self._wiring, expel)
        self._recoveries = Recoveries(
            self._wiring,
            self._checkpoints,
            recovery,
            budget,
            lambda name, after: set_timer(f"recover {name}", after),
            now,
        )
        self._endings = Endings(self._wiring, self._changes, self._checkpoints, self._recoveries)
        self._derivations = Derivations(
            me.name, self._wiring, self._changes, self._checkpoints, self._endings
        )
        self._placing = Placing(
            self._wiring,
            self._changes,
            self._derivations,
            self._endings,
            recovery,
            self._recoveries.waits,
        )

    def request(self, body: Question | ChangeRequest, done: Done) -> None:
        """Queue a change; `done` gets its result or its error.

        What only looks does not wait for changes under way: they are what one looks for.
        """
        match body:
            case ReportStatus():
                report(
                    self.members, self.graph, self._stories, self._wiring.call, done, self._now()
                )
            case TellStory(channel):
                self._stories.tell(channel, done)
            case ClaimName():
                self._claim(body, done)
            case _:
                if isinstance(body, Join):
                    self._joining[body.member.name] = body.member
                if (bearer := self._bearer(body)) is None:
                    self._submit(body, done)
                else:
                    self._prove(bearer, lambda: self._submit(body, done))

    def _submit(self, body: ChangeRequest, done: Done) -> None:
        change = self._change(body)
        node = getattr(body, "node", None)
        if node is not None:
            change = self._for(node, change)
        # What is given up is taken down sooner or later, whether or not anybody still waits for it.
        gives_up = isinstance(body, Unsubscribe | CloseSupplier | CloseChannel)
        patience = math.inf if gives_up else PATIENCE
        self._changes.submit(change, done, self._obstacle(body), patience)

    def _change(self, body: ChangeRequest) -> Change:
        """What a request changes, when its turn comes."""
        match body:
            case Join():
                return self._join(body)
            case Leave():
                return self._leave(body)
            case OpenChannel():
                return self._open_channel(body)
            case CloseChannel():
                return self._close_channel(body)
            case OpenSupplier():
                return self._open_supplier(body)
            case CloseSupplier():
                return self._close_supplier(body)
            case Subscribe():
                return self._subscribe(body)
            case Unsubscribe():
                return self._unsubscribe(body)
            case Derive():
                return self._derive(body)
            case Move():
                return self._derivations.move(body)
            case Offload():
                return self._derivations.offload(body)
            case Reconfigure():
                return reconfigure(self._wiring, body)

    def _call_member(self, node: str, body: CallBody, patience: float, done: Done) -> None:
        if node in self.members:
            self._call(node, body, patience, done)
        else:
            done(None, Unreachable(f"{node!r} is not in the fabric any more."))

    def tick(self) -> None:
        """Called several times a second."""
        self._changes.expire()

    def timer_fired(self, kind: str, name: str) -> None:
        """A timer that was set with the key `kind name`."""
        if kind == "lease":
            self._leases.run_out(name)
        elif kind == "recover":
            go_on = self._endings.go_on(name)
            self._changes.submit(go_on, lambda result, error: None, patience=math.inf)

    def _obstacle(self, body: ChangeRequest) -> Obstacle:
        """What a request has to wait for: a channel is changed when nothing of it moves."""

        def obstacle() -> str | None:
            name = getattr(body, "channel", None)
            if isinstance(body, CloseChannel):
                name = body.name
            if name is None or (channel := self.graph.channels.get(name)) is None:
                return None
            root = channel.root
            for migration in self._changes.overdue():
                if migration.channel.root is root:
                    return f"Channel {migration.plan.channel!r} is still moving"
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
        """A change that a node asked for, unless it is lost by then; not for its successor."""
        asked = self.members.get(node)

        def carry_out() -> Change:
            if self.members.get(node) is not asked:
                raise Unreachable(f"{node!r} was lost before its turn came.")
            return (yield from change)

        return carry_out()

    def told(self, source: str, body: CheckpointTaken | OutletDrained | PeerSuspected) -> None:
        """Take news from a node."""
        match body:
            case CheckpointTaken():
                self._checkpoints.taken(body)
            case OutletDrained(outlet, stopped):
                self._endings.drained(outlet, stopped)
            case PeerSuspected():
                self._judge(source, body)

    def lost(self, node: str) -> None:
        """A member fell silent: what it had is gone."""
        self._joining.pop(node, None)
        if node in self.members:
            log.warning("process %r is lost: it does not answer; %s", node, self.graph.at(node))
        self._see_off(node)
        self._endings.forget_subscriptions(node)
        self._changes.submit_first(self._lose(node))
        self._changes.lost(node)

    def ended(self, node: str) -> None:
        """The process of a member has ended: nobody waits for its silence. But where there is no
        other broker, it may be started again, and has as long for that as when it is silent."""
        if (member := self.members.get(node)) is None:
            return
        brokers = {each.name for each in self.members.values() if each.is_broker}
        if not member.is_broker or brokers - {node, self._me}:
            self._expel(node)

    def migration(self, derivation: int) -> Migration | None:
        """A third-party derivation that is under way."""
        return self._changes.migration(derivation)

    # --- names --------------------------------------------------------------------------------

    def _claim(self, body: ClaimName, done: Done) -> None:
        """Free the name of a node for a new process, unless it is borne by a living one.

        It does not wait for changes; that the old one is gone is a change before those that the
        new one asks for.
        """

        def proved() -> None:
            if self._bears(body.name):
                taken = (
                    f"A node named {body.name!r} is in the fabric already, and answers: choose "
                    "another name, or close that one."
                )
                done(None, NameTaken(taken))
            else:
                done(None, None)

        if body.replace and self._bears(body.name) and body.name != self._me:
            self._expel(body.name)
        self._prove(body.name, proved, SOON if body.again else AT_ONCE)

    def _bears(self, name: str) -> Member | None:
        """The process of this name, also one that is still about to be a member: it has the name
        from the claim on, however long it has to wait for its turn."""
        return self.members.get(name) or self._joining.get(name)

    def _bearer(self, body: ChangeRequest) -> str | None:
        """Another process that bears the name which a request is for."""
        bearer: str | None = None
        if isinstance(body, OpenSupplier):
            channel = self.graph.channels.get(body.channel)
            own = None if channel is None else channel.outlet(body.supplier)
            bearer = None if own is None else own.node
        elif isinstance(body, Derive):
            known = self.graph.channels.get(body.name or "")
            if isinstance(known, Derived) and known.owned and not known.closed:
                bearer = known.owner
        return None if bearer == getattr(body, "node", None) else bearer

    def _prove(self, name: str, then: Callable[[], None], patience: float = AT_ONCE) -> None:
        """Take a member for lost that does not answer within `patience` seconds; then go on."""
        if (bearer := self._bears(name)) is None or name == self._me:
            then()
            return

        def answered(result: Any, error: ActiveBrokerError | None) -> None:
            if error is not None and self._bears(name) is bearer:
                self._expel(name)
            then()

        self._call(name, ReportNode(), patience, answered)

    # --- members ------------------------------------------------------------------------------

    def _join(self, body: Join) -> Change:
        member = body.member
        if self._joining.get(member.name) is member:
            del self._joining[member.name]
        known = self.members.get(member.name)
        if known is not None and known.incarnation != member.incarnation:
            raise NameTaken(
                f"A node named {member.name!r} is in the fabric already: choose another name."
            )
        if self._incarnation(member.name) != member.incarnation:
            raise Unreachable(f"{member.name!r} was lost before its turn came.")
        self.members[member.name] = member
        what, where = "broker" if member.is_broker else "process", member.address
        log.info("%s %r joined, at %s", what, member.name, where or "no address")
        self._tell_members()
        return tuple(self.members.values())
        yield []  # a change is a generator, this one without a call

    def _leave(self, body: Leave) -> Change:
        log.info("process %r leaves; %s", body.name, self.graph.at(body.name))
        self._see_off(body.name)
        yield from self._endings.lose(body.name, died=False)
        return None

    def _lose(self, node: str) -> Change:
        yield from self._endings.lose(node, died=True)

    def _see_off(self, name: str) -> None:
        for pair in [pair for pair in self._answered if name in pair]:
            del self._answered[pair]
        if self.members.pop(name, None) is not None:
            self._leases.disown(name)
            self._tell_members()

    def _tell_members(self) -> None:
        changed = MembersChanged(tuple(self.members.values()))
        for name in self.members:
            self._wiring.tell(name, changed)

    def _judge(self, accuser: str, accusation: PeerSuspected) -> None:
        """A member hears nothing of another. One that does not answer us either has to go.

        One that does may have stood still: then it will be heard again. Only if it is accused once
        more when it has answered for a while, one of the two has to go. At once does one that
        cannot be dialled, and was never heard by the other, which has given it up: whichever of the
        two tells.
        It does not wait for changes: they may wait for what cannot come.
        """
        accused = accusation.peer
        one, other = self.members.get(accuser), self.members.get(accused)
        if one is None or other is None or other.incarnation != accusation.incarnation:
            return
        if other.address is None and not accusation.heard:
            self._expel(accused)
            return

        def answered(result: Any, error: ActiveBrokerError | None) -> None:
            if self.members.get(accuser) is not one or self.members.get(accused) is not other:
                return
            if error is not None:
                self._expel(accused)
                return
            if one.address is None and not accusation.heard and accuser not in result.links:
                self._expel(accuser)
                return
            now = self._now()
            ago = now - self._answered.get((accuser, accused), -math.inf)
            if ago > FORGOTTEN:
                self._answered[accuser, accused] = now
            elif ago >= GRACE:
                del self._answered[accuser, accused]
                self._expel(self._worse(accuser, accused))

        self._wiring.call(accused, ReportNode(), PATIENCE, answered)

    def _worse(self, accuser: str, accused: str) -> str:
        """Whom to do without: a broker can be replaced."""
        if self.members[accuser].is_broker and not self.members[accused].is_broker:
            return accuser
        return accused

    # --- channels -----------------------------------------------------------------------------

    def _open_channel(self, body: OpenChannel) -> Change:
        channel = self.graph.channels.get(body.name)
        if channel is None or (channel.closed and body.type is not None):
            if body.type is None:
                raise UnknownChannel(
                    f"There is no channel {body.name!r}."
                    + suggestion(body.name, open_names(self.graph))
                    + " Give an event type to create it: channel(name, YourDataclass), or "
                    "channel(name, object) for any picklable object."
                )
            channel = self.graph.channels[body.name] = Root(body.name, body.type)
        elif channel.closed:
            raise Closed(f"Channel {body.name!r} was closed.{channel.ended}")
        if body.type is not None:
            add_version(channel, body.type)
        return channel.info
        yield []

    def _close_channel(self, body: CloseChannel) -> Change:
        yield from self._endings.close(channel_named(self.graph, body.name))
        return None

    # --- suppliers and consumers --------------------------------------------------------------

    def _open_supplier(self, body: OpenSupplier) -> Change:
        channel = channel_named(self.graph, body.channel)
        if isinstance(channel, Derived):
            raise InvalidFilter(
                f"Channel {channel.name!r} is derived from {channel.parent.name!r}: its events "
                "come from its filter, it takes no suppliers."
            )
        if (own := channel.outlet(body.supplier)) is not None:
            raise NameTaken(
                f"Channel {channel.name!r} has a supplier {body.supplier!r} already, in the living "
                f"process {own.node!r}: close it there first, or choose another name."
            )
        outlet = Outlet(self.graph.new_id(), body.node, body.supplier)
        try:
            yield [(body.node, OpenOutlet(outlet.id, channel.name, body.supplier))]
        except ActiveBrokerError:
            self._wiring.ask(
                body.node, CloseOutlet(outlet.id, finished=False)
            )  # should it come yet
            raise
        channel.outlets[outlet.id] = outlet
        try:
            yield from self._placing.connect(channel)
        except ActiveBrokerError:
            yield from self._endings.remove_supplier(channel, body.supplier)
            raise
        return outlet.id

    def _close_supplier(self, body: CloseSupplier) -> Change:
        channel = self.graph.channels.get(body.channel)
        if isinstance(channel, Root) and not channel.closed:
            yield from self._endings.remove_supplier(channel, body.supplier)
        return None

    def _subscribe(self, body: Subscribe) -> Change:
        channel = channel_named(self.graph, body.channel)
        channel.ports[body.port] = Port(body.port, body.node)
        try:
            yield from self._placing.connect(channel)
        except ActiveBrokerError:
            yield from self._wiring.remove_port(channel, body.port)
            raise
        return None

    def _unsubscribe(self, body: Unsubscribe) -> Change:
        channel = self.graph.channels.get(body.channel)
        if channel is not None:
            yield from self._wiring.remove_port(channel, body.port)
        return None

    # --- derived channels ---------------------------------------------------------------------

    def _derive(self, body: Derive) -> Change:
        parent = channel_named(self.graph, body.channel)
        nodes, engine = place_named(self.members, parent, body.at, body.node)
        if body.envelope.shared and body.at == SUPPLIER:
            raise InvalidFilter(
                f"Filter {body.envelope.name} is shared (one instance for all suppliers) and so "
                "cannot run at 'supplier': choose 'consumer', 'spark' or a broker."
            )
        name = body.name or free_name(self.graph, f"{parent.name}.{body.envelope.name}")
        known = self.graph.channels.get(name)
        if known is not None and not known.closed:
            if isinstance(known, Derived) and self._adopts(known, body):
                known.owned, known.lease = True, body.lease
                return known.info
            if isinstance(known, Root) or known.owned or known.lease is None:
                raise NameTaken(f"A channel {name!r} exists already: choose another name.")
            if self._leases.taken(known):
                raise NameTaken(
                    f"A channel {name!r} exists already and is still taken, though "
                    f"{known.owner!r}, which derived it, is gone: open it by its name, or choose "
                    "another name."
                )
            yield from self._endings.close(known)  # an orphan
        child = Derived(
            name,
            body.envelope.output,
            parent=parent,
            envelope=body.envelope,
            at=body.at,
            asked=body.at,
            owner=body.node,
            lease=body.lease,
        )
        share_versions(child, parent)
        self.graph.channels[name] = child
        try:
            if body.at != SUPPLIER:
                yield from self._wiring.deploy(child, nodes, engine)
            yield from self._placing.connect(parent)
            if child.closed and child.instead:
                raise PayloadRefused(child.instead)
            if child.closed:  # with what it is derived from
                raise Unreachable(child.ended.strip())
        except ActiveBrokerError:
            yield from self._wiring.remove_stages(child)
            self.graph.channels.pop(name, None)
            yield from self._wiring.feed_relays(parent)
            raise
        return child.info

    def _adopts(self, known: Derived, body: Derive) -> bool:
        """Whether a process asks for what one of its name had derived, and others still take."""
        ours = not known.owned and known.owner == body.node
        return ours and (known.parent.name, known.envelope) == (body.channel, body.envelope)

    def _end_unheld(self, channel: Derived, why: str) -> None:
        def end() -> Change:
            if channel.runs_out is not None:
                log.info("channel %r ends:%s", channel.name, why)
                channel.ended = why
                yield from self._endings.close(channel)

        obstacle = self._obstacle(CloseChannel(channel.name))
        self._changes.submit(end(), lambda result, error: None, obstacle, math.inf)

"""The members of the fabric: names are claimed, processes join and leave, and are taken for lost if
they do not answer."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

from activebroker.core.errors import (
    ActiveBrokerError,
    NameTaken,
    UnknownPlace,
    Unreachable,
    suggestion,
)
from activebroker.directory.context import PATIENCE, Context, Done
from activebroker.directory.endings import Endings
from activebroker.directory.leases import Leases
from activebroker.directory.parts import Derived
from activebroker.directory.requests import Change, RequestQueue
from activebroker.protocol.messages import GRACE, MembersChanged, PeerSuspected
from activebroker.protocol.orders import ReportNode, StepDown
from activebroker.protocol.requests import (
    ChangeRequest,
    ClaimName,
    Derive,
    Join,
    Leave,
    OpenSupplier,
)
from activebroker.protocol.specs import Member

log = logging.getLogger(__name__)
FORGOTTEN = 10.0  # seconds after which an accusation has nothing to do with the one before
AT_ONCE = 0.5  # seconds in which a member has to answer if another process claims its name
# The same if the other process had the name before, so that two processes do not take it from each
# other in turn.
SOON = 3.0


class Membership:
    def __init__(
        self, context: Context, queue: RequestQueue, endings: Endings, leases: Leases
    ) -> None:
        self._context = context
        self._outside = context.outside
        self._me = context.me
        self._graph = context.graph
        self._members = context.members
        self._queue = queue
        self._endings = endings
        self._leases = leases
        self._joining: dict[str, Member] = {}  # processes whose request to join waits
        self._answered: dict[tuple[str, str], float] = {}  # when, by accuser and accused

    # --- names --------------------------------------------------------------------------------

    def claim(self, body: ClaimName, done: Done) -> None:
        """Free the name of a node for a new process, unless a living one has it.

        A claim does not wait for changes. The loss of the old process is itself a change, which
        comes before those that the new process asks for.
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
            self._outside.expel(body.name)
        self.prove(body.name, proved, SOON if body.again else AT_ONCE)

    def _bears(self, name: str) -> Member | None:
        """The process of this name. One that waits to join has its name already."""
        return self._members.get(name) or self._joining.get(name)

    def bearer(self, body: ChangeRequest) -> str | None:
        """Another process that has the name of the supplier or the channel that a request wants
        to make."""
        bearer: str | None = None
        if isinstance(body, OpenSupplier):
            channel = self._graph.channels.get(body.channel)
            own = None if channel is None else channel.outlet(body.supplier)
            bearer = None if own is None else own.node
        elif isinstance(body, Derive):
            known = self._graph.channels.get(body.name or "")
            if isinstance(known, Derived) and known.owned and not known.closed:
                bearer = known.owner
        return None if bearer == getattr(body, "node", None) else bearer

    def prove(self, name: str, then: Callable[[], None], patience: float = AT_ONCE) -> None:
        """Take a member for lost unless it answers within `patience` seconds; then call `then`."""
        if (bearer := self._bears(name)) is None or name == self._me:
            then()
            return

        def answered(result: Any, error: ActiveBrokerError | None) -> None:
            if error is not None and self._bears(name) is bearer:
                self._outside.expel(name)
            then()

        self._outside.call(name, ReportNode(), patience, answered)

    # --- members come and go ------------------------------------------------------------------

    def announced(self, member: Member) -> None:
        """A process asks to join; it has its name from now on."""
        self._joining[member.name] = member

    def join(self, body: Join) -> Change:
        member = body.member
        if self._joining.get(member.name) is member:
            del self._joining[member.name]
        known = self._members.get(member.name)
        if known is not None and known.incarnation != member.incarnation:
            raise NameTaken(
                f"A node named {member.name!r} is in the fabric already: choose another name."
            )
        if self._outside.incarnation(member.name) != member.incarnation:
            raise Unreachable(f"{member.name!r} was lost before its turn came.")
        self._members[member.name] = member
        what, where = "broker" if member.is_broker else "process", member.address
        log.info("%s %r joined, at %s", what, member.name, where or "no address")
        self._tell_members()
        return tuple(self._members.values())
        yield []  # a change is a generator, this one without a call

    def leave(self, body: Leave) -> Change:
        log.info("process %r leaves; %s", body.name, self._graph.at(body.name))
        self._see_off(body.name)
        yield from self._endings.lose(body.name, died=False)
        return None

    def dismiss(self, name: str, done: Done) -> None:
        """Ask a broker to leave. It does so by itself, with what its process has to end."""
        others = [each for each in self._members.values() if each.name != self._me]
        brokers = [each.name for each in others if each.is_broker]
        if name in brokers:
            self._context.call(name, StepDown(), PATIENCE, done)
            return
        why = " It has the directory, and ends with the fabric." if name == self._me else ""
        done(
            None,
            UnknownPlace(f"There is no broker {name!r} to stop.{why}" + suggestion(name, brokers)),
        )

    def lost(self, node: str) -> None:
        """A member fell silent: all that it had is gone."""
        self._joining.pop(node, None)
        if node in self._members:
            log.warning("process %r is lost: it does not answer; %s", node, self._graph.at(node))
        self._see_off(node)
        self._endings.forget_subscriptions(node)
        self._queue.submit_first(self._lose(node))
        self._queue.lost(node)

    def ended(self, node: str) -> None:
        """The process of a member has ended, so take it for lost at once. If it is the only broker
        beside this node, it may be started again, and has as long for that as a silent one."""
        if (member := self._members.get(node)) is None:
            return
        brokers = {each.name for each in self._members.values() if each.is_broker}
        if not member.is_broker or brokers - {node, self._me}:
            self._outside.expel(node)

    def _lose(self, node: str) -> Change:
        yield from self._endings.lose(node, died=True)

    def _see_off(self, name: str) -> None:
        for pair in [pair for pair in self._answered if name in pair]:
            del self._answered[pair]
        if self._members.pop(name, None) is not None:
            self._leases.disown(name)
            self._tell_members()

    def _tell_members(self) -> None:
        changed = MembersChanged(tuple(self._members.values()))
        for name in self._members:
            self._context.tell(name, changed)

    def judge(self, accuser: str, accusation: PeerSuspected) -> None:
        """A member hears nothing of another one. Decide which of the two to expel, if any.

        If the accused does not answer this node either, it is expelled. If it answers, it may have
        been suspended and will be heard again. One of the two is expelled only when the accusation
        comes again some seconds after that answer.

        A member that cannot be dialled, and has never been heard by the other, is expelled at once:
        the other one has given it up. This holds for accuser and accused.

        This does not wait for changes, since they may wait for what cannot come.
        """
        accused = accusation.peer
        one, other = self._members.get(accuser), self._members.get(accused)
        if one is None or other is None or other.incarnation != accusation.incarnation:
            return
        if other.address is None and not accusation.heard:
            self._outside.expel(accused)
            return

        def answered(result: Any, error: ActiveBrokerError | None) -> None:
            if self._members.get(accuser) is not one or self._members.get(accused) is not other:
                return
            if error is not None:
                self._outside.expel(accused)
                return
            if one.address is None and not accusation.heard and accuser not in result.links:
                self._outside.expel(accuser)
                return
            now = self._context.now
            ago = now - self._answered.get((accuser, accused), -math.inf)
            if ago > FORGOTTEN:
                self._answered[accuser, accused] = now
            elif ago >= GRACE:
                del self._answered[accuser, accused]
                self._outside.expel(self._worse(accuser, accused))

        self._context.call(accused, ReportNode(), PATIENCE, answered)

    def _worse(self, accuser: str, accused: str) -> str:
        """Which of the two to expel: rather a broker, since others can replace it."""
        if self._members[accuser].is_broker and not self._members[accused].is_broker:
            return accuser
        return accused

"""Moves and offloads as changes: which are refused, and what becomes of those that fail."""

from __future__ import annotations

from activebroker.core.errors import InvalidFilter, MoveFailed, UnknownPlace, suggestion
from activebroker.directory.checkpoints import Checkpoints
from activebroker.directory.context import Context
from activebroker.directory.endings import Endings
from activebroker.directory.names import channel_named, place_named
from activebroker.directory.parts import SUPPLIER, Channel, Derived, Flow, Made, Outlet, Relay
from activebroker.directory.planning import PlannedMove, plan_move, plan_offload
from activebroker.directory.requests import Attempt, Change, RequestQueue
from activebroker.directory.wiring import Wiring
from activebroker.protocol.orders import ReportNode
from activebroker.protocol.requests import Move, Offload
from derivation.protocol import Finish, Outcome
from derivation.story import held_up_by

PATIENCE = 2.0  # seconds for a party of an overdue move to say which parties it waits for


class Moves:
    def __init__(
        self,
        context: Context,
        wiring: Wiring,
        queue: RequestQueue,
        checkpoints: Checkpoints,
        endings: Endings,
    ) -> None:
        self._me = context.me  # the initiator
        self._graph = context.graph
        self._members = context.members
        self._wiring = wiring
        self._queue = queue
        self._checkpoints = checkpoints
        self._endings = endings

    def move(self, body: Move) -> Change:
        """Move a derived channel's filter. Raises MoveFailed, or an error about the request."""
        channel = channel_named(self._graph, body.channel)
        if not isinstance(channel, Derived):
            raise InvalidFilter(
                f"Channel {channel.name!r} is not derived, there is no filter to move. To hand a "
                "supplier's fan-out to a broker use supplier.offload(to=...)."
            )
        if channel.home:
            raise MoveFailed(
                f"Channel {channel.name!r} is a log: it stays at {channel.home!r}, where its disk "
                "is."
            )
        parent = channel.parent
        nodes, engine = place_named(self._members, parent, body.to, body.node)
        if channel.envelope.shared and body.to == SUPPLIER:
            raise InvalidFilter(
                f"Filter {channel.envelope.name} is shared and cannot run at 'supplier'."
            )
        if body.to == SUPPLIER:
            feeds = [outlet for outlet, _ in self._graph.feeds(channel)]
            nodes = list({outlet.node: None for outlet in feeds})
            relays = [relay for each in feeds if (relay := self._graph.relay_at(each)) is not None]
            if relays:
                raise MoveFailed(
                    f"Channel {channel.name!r} stays where it was: supplier {relays[0].supplier!r} "
                    f"has handed it over to {relays[0].at!r} and cannot take it back."
                )
            if not nodes:
                raise UnknownPlace(
                    f"Channel {parent.name!r} has no supplier now, so there is no place "
                    "'supplier' to move to."
                )
        children = self._graph.children(channel)
        bound = [each for each in children if each.at == SUPPLIER and not each.closed]
        if bound:
            raise MoveFailed(
                f"Channel {bound[0].name!r} is derived from {channel.name!r} at 'supplier', in the "
                f"process that runs {channel.name!r}: move {bound[0].name!r} first."
            )
        now = [(stage.node, stage.engine) for stage in channel.stages.values()]
        recovers = body.to != SUPPLIER or parent.recovers
        stays = now == [(node, engine) for node in nodes]
        if stays and (body.to == channel.at or recovers == channel.recovers):
            # It may just have been lost, and nobody has noticed.
            answers = yield Attempt([(node, ReportNode()) for node in nodes], body.patience)
            if None in answers:
                lost = nodes[answers.index(None)]
                raise MoveFailed(
                    f"Channel {channel.name!r} was at {lost!r} already, which does not answer any "
                    "more."
                )
            self._graph.relocate(channel, body.to)
            channel.asked = body.to
            return None
        yield from self.move_to(channel, nodes, engine, body)
        return None

    def move_to(self, channel: Derived, nodes: list[str], engine: str, body: Move) -> Change:
        """Move a filter to the nodes of a place. Raises MoveFailed, or Unreachable if the filter's
        suppliers or consumers cannot reach them."""
        planned = plan_move(self._graph, self._me, channel, nodes, engine, body)
        self._wiring.check(planned.pairs())
        self._wiring.greet(planned.pairs())
        yield from self._carry_out(planned)

    def offload(self, body: Offload) -> Change:
        """Hand a supplier's fan-out, or a part of it, to a relay. Raises as `move` does."""
        channel = channel_named(self._graph, body.channel)
        if (own := channel.outlet(body.supplier)) is None:
            raise UnknownPlace(
                f"Channel {channel.name!r} has no supplier {body.supplier!r}."
                + suggestion(
                    body.supplier, (o.supplier for o in channel.outlets.values() if o.supplier)
                )
            )
        nodes, _ = place_named(self._members, channel, body.to, own.node)
        moved = self._handed_over(channel, own, body.consumers)
        if nodes == [own.node]:
            return None
        planned = plan_offload(self._graph, self._me, channel.root, own, moved, nodes[0], body)
        self._wiring.check(planned.pairs())
        self._wiring.greet(planned.pairs())
        yield from self._carry_out(planned)
        return None

    def _handed_over(
        self, channel: Channel, own: Outlet, consumers: tuple[str, ...] | None
    ) -> list[Flow]:
        """The flows of a supplier that an offload hands over. Flows inside its own node stay: they
        use no link."""
        flows = [
            flow
            for flow in self._graph.out_of(own.id)
            if not flow.inlet.relays and flow.inlet.node != own.node
        ]
        by = [each for each in self._graph.relays_of(channel, own.supplier) if each.newcomers]
        if by and not flows:
            raise MoveFailed(
                f"Supplier {own.supplier!r} has handed its fan-out to {by[0].at!r} already."
            )
        if consumers is None:
            return flows
        served = list(dict.fromkeys(flow.inlet.node for flow in flows))
        unknown = [name for name in consumers if name not in served]
        if unknown or not consumers:
            what = f"{unknown[0]!r} is none of them" if unknown else "none was named"
            known = ", ".join(map(repr, served)) or "none now"
            raise UnknownPlace(
                f"An offload of some consumers needs the names of processes that supplier "
                f"{own.supplier!r} serves itself, and {what}. It serves: {known}."
            )
        return [flow for flow in flows if flow.inlet.node in consumers]

    def _carry_out(self, planned: PlannedMove) -> Change:
        name = planned.plan.channel
        finish: Finish = yield planned
        outcome, reason = finish.outcome, finish.reason
        if outcome is Outcome.ROLLED_BACK:
            self._checkpoints.accept(planned.channel.name)  # those that waited for the end
            raise MoveFailed(f"Channel {name!r} stays where it was: {reason}.")
        # Overdue or not, the swaps are under way and will arrive: the new picture holds.
        channel = planned.channel
        planned.commit(self._graph)
        self._checkpoints.accept(channel.name)
        self._wiring.expect(planned.new_flows)
        if outcome is Outcome.OVERDUE:
            blame = yield from self._blame(planned)
            raise MoveFailed(f"Channel {name!r} is still moving: {reason}{blame}.")
        if outcome is Outcome.FAILED:
            yield from self._end_failed(planned, reason)
            raise MoveFailed(
                f"Channel {name!r} could not complete the switch-over: {reason}{_now(channel)}."
            )

    def _blame(self, planned: PlannedMove) -> Change:
        """The parties that hold up an overdue move, if others than those its initiator waits
        for."""
        plan = planned.plan
        asked = [party for party in plan.involved if party in self._members]
        answers = yield Attempt([(party, ReportNode()) for party in asked], PATIENCE)
        waits: dict[str, list[str]] = {}
        for party, answer in zip(asked, answers, strict=True):
            for part in [] if answer is None else answer.moves:
                if part.move == plan.move:
                    waits.setdefault(party, []).extend(part.waits_for)
        first = planned.machine.waiting_for
        blamed = [party for party in held_up_by(first, waits) if party not in first]
        return f", held up by {', '.join(map(repr, blamed))}" if blamed else ""

    def _end_failed(self, planned: PlannedMove, reason: str) -> Change:
        """Let the filter or the relay go on from its last checkpoint, or end the channel."""
        channel = planned.channel
        if isinstance(channel, Relay):
            yield from self._endings.lose_relay(channel)
            return
        old = tuple(planned.old_stages.items())
        lost = f"Channel {channel.name!r} could not complete its switch-over: {reason}"
        yield from self._endings.recover(channel, lost, old)

    def ended_late(self, planned: PlannedMove, finish: Finish) -> None:
        """A move has ended after its request was answered, since it was overdue."""
        if finish.outcome is Outcome.FAILED:
            self._queue.submit_first(self._end_failed(planned, finish.reason))
        else:
            self._checkpoints.accept(planned.channel.name)


def _now(made: Made) -> str:
    """Where the filter or the relay of a failed move is now."""
    if isinstance(made, Relay):
        return f"; the relay goes on at {made.at!r}" if made.stages else "; it has ended"
    return "; it has ended" if made.closed else f"; its filter goes on at {made.at!r}"

"""How channels, suppliers, relays and filters end: closed by a user, or lost with their node."""

from __future__ import annotations

import logging

from activebroker.directory.checkpoints import Checkpoints
from activebroker.directory.context import Context
from activebroker.directory.parts import SUPPLIER, Channel, Derived, Inlet, Relay, Root, Stage
from activebroker.directory.recoveries import Recoveries
from activebroker.directory.recovery import Stages
from activebroker.directory.requests import Attempt, Calls, Change, RequestQueue
from activebroker.directory.wiring import Wiring
from activebroker.protocol.messages import CallBody
from activebroker.protocol.orders import (
    AbandonInlet,
    CloseInlet,
    CloseOutlet,
    FinishFlow,
    ForgetSubscriber,
    ReleaseInlet,
    ReportSent,
    Undeploy,
)

log = logging.getLogger(__name__)
CLOSED_KEPT = 100  # closed channels that the status still shows


class Endings:
    """Takes parts of the fabric down. A filter or relay that is lost goes on at another place, if
    there is one."""

    def __init__(
        self,
        context: Context,
        wiring: Wiring,
        queue: RequestQueue,
        checkpoints: Checkpoints,
        recoveries: Recoveries,
    ) -> None:
        self._context = context
        self._graph = context.graph
        self._members = context.members
        self._wiring = wiring
        self._queue = queue
        self._checkpoints = checkpoints
        self._recoveries = recoveries

    # --- what is closed -----------------------------------------------------------------------

    def close(self, top: Channel) -> Change:
        """End a channel and all below it; its consumers get what was published before."""
        if isinstance(top, Derived):
            ends = yield from self._finish(top)
        else:
            ends = [(each.node, CloseOutlet(each.id, True)) for each in top.outlets.values()]
        calls: Calls = []
        for channel in self._graph.subtree(top):
            channel.closed = True
            for outlet in channel.outlets.values():
                for flow in self._graph.out_of(outlet.id):
                    calls.append(self._complete(flow.inlet))
            calls += [(each.node, CloseOutlet(each.id, True)) for each in channel.left.values()]
            # Consumers of a channel that never had a supplier, and relays.
            calls += [self._complete(inlet) for inlet in channel.inlets.values()]
        yield from self._wiring.tidy([*dict.fromkeys(calls), *ends])
        yield from self._forget(top)

    def _finish(self, top: Derived) -> Change:
        """The calls that let a filter end when it has all that was published before."""
        on_its_way = yield from self._on_its_way(top)
        calls: Calls = []
        for inlet in self._graph.feeding_inlets(top):
            calls.append(self._complete(inlet))
            for flow in self._graph.into(inlet.id):
                after = on_its_way.get(flow.outlet.id, {})
                calls.append((flow.outlet.node, FinishFlow(flow.outlet.id, flow.id, after)))
        return [*calls, *self._wiring.close_flows(top.parent, [], top.name)]

    def _on_its_way(self, top: Derived) -> Change:
        """How far suppliers have sent events to the relays that feed a filter, by the relay's
        outlet."""
        flows = [flow for stage_id in top.stages for flow in self._graph.into(stage_id)]
        by = {flow.outlet.id: self._graph.relay_at(flow.outlet) for flow in flows}
        relays = [(outlet, relay) for outlet, relay in by.items() if relay is not None]
        sent = yield Attempt(
            [(relay.own.node, ReportSent(relay.own.id, relay.name)) for _, relay in relays]
        )
        return {outlet: at or {} for (outlet, _), at in zip(relays, sent, strict=True)}

    def _complete(self, inlet: Inlet) -> tuple[str, CallBody]:
        flows = tuple(flow.id for flow in self._graph.into(inlet.id))
        return inlet.node, CloseInlet(inlet.id, flows)

    def _forget(self, top: Channel) -> Change:
        """Take a closed channel and all below it out of the picture."""
        for channel in self._graph.subtree(top):
            channel.closed = True
            for relay in self._graph.relays_of(channel):
                self._remove_relay(relay)
            for outlet in list(channel.outlets.values()):
                self._graph.remove_outlet(channel, outlet.id)
            if isinstance(channel, Derived):
                for stage_id in list(channel.stages):
                    self._graph.displace(channel, stage_id)
                channel.checkpoint, channel.returning, channel.next = None, False, None
                self._checkpoints.forget(channel.name)
                self._recoveries.forget(channel.name)
            channel.inlets.clear()
            channel.subscribers.clear()
            channel.left.clear()
        self._graph.bury(top, CLOSED_KEPT)
        yield from self._wiring.feed_relays(top.root)

    def remove_supplier(self, channel: Root, supplier: str) -> Change:
        """End a supplier's outlet. The supplier's relays stay until they have passed on all its
        events."""
        if (own := channel.outlet(supplier)) is None:
            return
        yield from self._wiring.tidy([(own.node, CloseOutlet(own.id, finished=False))])
        self._graph.remove_outlet(channel, own.id)
        if own.node in self._members and not own.drained:
            channel.left[own.id] = own
        self._retire()

    def drained(self, outlet_id: int, stopped: bool) -> None:
        """An outlet has ended and retains nothing any more. `stopped`: an error stopped its
        filter."""
        for each in self._graph.channels.values():
            if (outlet := each.outlets.get(outlet_id)) is not None:
                outlet.drained = True
                if stopped and isinstance(each, Derived):
                    self._stopped(each, each.stages[outlet_id])
            if each.left.pop(outlet_id, None) is not None:
                self._checkpoints.accept(each.name)
                self._queue.go_on()
        for relay in self._graph.relays.values():
            if (outlet := relay.outlets.get(outlet_id)) is not None:
                outlet.drained = True
                if stopped:
                    relay.stopped = True
                    self._context.ask(relay.own.node, ForgetSubscriber(relay.own.id, relay.name))
        self._retire()

    def _stopped(self, channel: Derived, stage: Stage) -> None:
        """A filter has ended before its channel: retain nothing for it, and do not recover it."""
        serving = [flow.outlet for flow in self._graph.into(stage.id)]
        before = self._graph.retaining(channel.parent, channel.name)
        alone = len(channel.stages) == 1  # else each stage has the streams of its own node
        channel.stopped = alone
        for outlet in (*serving, *(each for each in before if alone or each.node == stage.node)):
            self._context.ask(outlet.node, ForgetSubscriber(outlet.id, channel.name))

    def _retire(self) -> None:
        """Remove the relays that have passed on all events of a supplier that has left.

        A relay that is cut off from a living supplier is not done: one of the two nodes will be
        taken for lost.
        """
        for relay in list(self._graph.relays.values()):
            left = relay.own.id not in relay.parent.outlets
            if left and all(outlet.drained for outlet in relay.outlets.values()):
                if relay.stopped:  # its node has told everybody the reason
                    for stage in relay.stages.values():
                        self._context.ask(stage.node, Undeploy(stage.id))
                self._remove_relay(relay)
                self._queue.go_on()

    def _remove_relay(self, relay: Relay) -> None:
        self._graph.remove_relay(relay)
        self._checkpoints.forget(relay.name)
        self._recoveries.forget(relay.name)

    # --- what is lost -------------------------------------------------------------------------

    def forget_subscriptions(self, node: str) -> None:
        """Retain nothing for the subscriptions of a lost node: changes under way may wait for
        their acknowledgements."""
        for channel in self._graph.channels.values():
            for inlet in channel.inlets.values():
                if inlet.node == node and inlet.makes is None:
                    serving = [flow.outlet for flow in self._graph.into(inlet.id)]
                    for outlet in (*serving, *self._graph.retaining(channel, inlet.subscriber)):
                        self._context.ask(
                            outlet.node, ForgetSubscriber(outlet.id, inlet.subscriber)
                        )

    def lose(self, name: str, died: bool) -> Change:
        """A node is gone, with all it had. `died`: it did not leave by itself."""
        if died:
            yield from self._recoveries.died(name)
        for channel in list(self._graph.channels.values()):
            if isinstance(channel, Root):
                for outlet in list(channel.outlets.values()):
                    if outlet.node == name and outlet.supplier is not None:
                        yield from self.remove_supplier(channel, outlet.supplier)
            for inlet in list(channel.inlets.values()):
                if inlet.node == name and inlet.makes is None:
                    yield from self._wiring.remove_inlet(channel, inlet.id)
        # Of two lost filters, the one that takes the other's events goes on first.
        for channel in reversed(self._graph.derived_downwards()):
            lost = [each for each in channel.stages.values() if each.node == name]
            lost_with = [each for each in channel.left.values() if each.node == name]
            stays_with_suppliers = channel.at == SUPPLIER and not channel.beside
            if lost_with or (lost and not stays_with_suppliers):
                yield from self._lose_filter(channel, name)
            elif lost:
                yield from self._lose_stages(channel, lost)
            for outlet in lost_with:
                channel.left.pop(outlet.id, None)
        for root in self._graph.roots:
            root.left = {id: each for id, each in root.left.items() if each.node != name}
        for relay in list(self._graph.relays.values()):
            if any(stage.node == name for stage in relay.stages.values()):
                yield from self.lose_relay(relay)
            elif relay.own.node == name and not relay.fed:
                # What is on its way still arrives; a subscriber that is lost now cannot have it
                # sent again.
                yield from self._wiring.tidy(
                    (outlet.node, ForgetSubscriber(outlet.id, subscriber))
                    for outlet in relay.outlets.values()
                    for subscriber in relay.subscribers
                )

    def _lose_stages(self, channel: Derived, lost: list[Stage]) -> Change:
        """Suppliers are gone, and with them the filters there: the channel goes on with its other
        stages."""
        outlets = tuple(stage.id for stage in lost)
        for stage in lost:
            self._graph.displace(channel, stage.id)
        yield from self._wiring.tidy(
            (inlet.node, ReleaseInlet(inlet.id, outlets)) for inlet in channel.inlets.values()
        )

    def _lose_filter(self, channel: Derived, node: str) -> Change:
        """A node is gone where a derived channel's filter was, or where an outlet of it retained
        events from before a move."""
        if (moving := self._queue.move_of(channel.name)) is not None:
            self._queue.give_up(moving, f"{node!r} was lost")
            return  # it is recovered when that has failed
        yield from self.recover(
            channel, f"{node!r}, which ran the filter of channel {channel.name!r}, is gone"
        )

    def recover(self, channel: Derived, lost: str, also: Stages = ()) -> Change:
        """Let a filter go on from its last checkpoint, or end the channel. `lost`: what has
        happened, in words. `also`: see `Recovery`."""
        if channel.next is not None:
            channel.next = None  # the filter goes on with the checkpoint's parameters
            self._queue.submit(self._wiring.narrow(channel), lambda result, error: None)
        if why := (yield from self._recoveries.recover(channel, also)):
            yield from self._wiring.tidy((node, Undeploy(stage, True)) for node, stage in also)
            remedy = "Repair its filter, if it is the cause, and derive the channel again."
            yield from self.abandon(channel, f"{lost}, and {why}. {remedy}")

    def go_on(self, name: str) -> Change:
        """Try again to recover a filter or relay that had to wait."""
        if not self._recoveries.waits(name):
            return
        match self._graph.made(name):
            case Derived() as channel:
                yield from self.recover(channel, f"What ran the filter of channel {name!r} is gone")
            case Relay() as relay:
                yield from self.lose_relay(relay)

    def lose_relay(self, relay: Relay) -> Change:
        """Recover a relay whose place is gone. If no other place takes it, close its supplier."""
        if relay.name not in self._graph.relays:
            return  # its channel was closed meanwhile
        self._checkpoints.forget(relay.name)
        if relay.stopped:
            yield from self._end_served(relay)
            self._remove_relay(relay)
            self._queue.go_on()
        elif why := (yield from self._recoveries.recover(relay)):
            log.warning("supplier %r ends with its relay %r: %s", relay.supplier, relay.name, why)
            yield from self.remove_supplier(relay.parent, relay.supplier)
            self._remove_relay(relay)
            yield from self._wiring.tidy(self._wiring.close_flows(relay.parent, [], relay.name))
            self._queue.go_on()

    def _end_served(self, relay: Relay) -> Change:
        """The place of a relay that was stopped is gone: end those of its subscribers that did not
        hear that it was stopped."""
        reason = (
            f"What {relay.at!r} passed on of supplier {relay.supplier!r} could not go on. "
            "Subscribe, or derive, again."
        )
        for inlet in relay.wanting:
            if isinstance(inlet.makes, Derived):
                yield from self.abandon(inlet.makes, reason)
            else:
                yield from self._wiring.tidy([(inlet.node, AbandonInlet(inlet.id, reason))])
                yield from self._wiring.remove_inlet(relay.parent, inlet.id)

    def abandon(self, top: Derived, reason: str) -> Change:
        """A channel's filter is gone for good: end the channel for its consumers, with all below
        it."""
        log.warning("channel %r ends: %s", top.name, reason)
        calls: Calls = []
        for channel in (top, *self._graph.below(top)):
            channel.ended = f" {reason}"
            stages = channel.stages.values()
            calls += [(stage.node, Undeploy(stage.id, True)) for stage in stages]
            calls += [(each.node, CloseOutlet(each.id, True)) for each in channel.left.values()]
            consumers = [each for each in channel.inlets.values() if each.makes is None]
            if channel is top:
                for stage in stages:
                    calls += self._wiring.stop_feeding(channel, stage)
            calls += [(inlet.node, AbandonInlet(inlet.id, reason)) for inlet in consumers]
        # The channel may have no stage now, and `stop_feeding` has not been called for it then.
        outlets = top.parent.outlets.values()
        calls += [(each.node, ForgetSubscriber(each.id, top.name)) for each in outlets]
        yield from self._wiring.tidy(calls)
        yield from self._forget(top)

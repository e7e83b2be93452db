"""How a program's node leaves a fabric that it has lost, and the program's next node goes on.

The node leaves behind what the next one needs: the events that were published and cannot be
acknowledged any more; how far suppliers, subscriptions and filters have come; and the subscribers
that it served.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from activebroker.core.errors import Unreachable
from activebroker.events import Batch, load
from activebroker.matching import Chunk
from activebroker.node.dataplane.inlets import Inlets
from activebroker.node.dataplane.outlets import Outlets, Succession
from activebroker.node.dataplane.plane import Plane
from activebroker.node.dataplane.stages import Stages
from activebroker.node.effects import Depart, EndSupplier, ForgetPeer, Legacy, SetTimer
from activebroker.node.links.peers import Peers
from activebroker.protocol.flows import Events
from activebroker.protocol.frame import Buffers
from activebroker.protocol.messages import Body
from activebroker.protocol.specs import Offset, Offsets, later

# Seconds that outlets wait for the subscribers of the node before. That is less than a `close` that
# waits for them allows, and more than the time between two attempts to join again.
AWAITED = 8.0
DEPARTURE = 5.0  # seconds after which a node leaves a fabric, even if something is under way


class Departing:
    """A node's departure from a fabric that it has lost."""

    def __init__(
        self,
        plane: Plane,
        outlets: Outlets,
        inlets: Inlets,
        stages: Stages,
        peers: Peers,
        before: Legacy | None,
    ) -> None:
        self.departs = before is not None  # first bring what was published to its subscribers
        self._plane = plane
        self._context = plane.context
        self._outlets = outlets
        self._inlets = inlets
        self._stages = stages
        self._peers = peers
        self._left: Legacy | None = None  # what it leaves behind, while it has not gone
        self._served: tuple[str, ...] = ()  # the nodes that it served
        self._done = False
        self._unacknowledged: dict[int, list[Batch]] = {}  # by supplier's stream
        if before is not None:
            # Let outlets wait until the subscribers of before are back.
            outlets.succeed(Succession(before.subscribers, before.streams))
            stages.filtered = before.filtered
            self._context.effects.append(SetTimer("awaited", AWAITED))

    @property
    def under_way(self) -> bool:
        return self._left is not None

    def begin(self, left: Legacy) -> None:
        """The fabric is lost: bring what was published to its subscribers, and end all flows."""
        self._left = left
        self._served = tuple(dict.fromkeys(self._targets()))
        self._context.effects.append(SetTimer("departure", DEPARTURE))
        for stage in self._plane.stages.values():
            stage.wind_up()
            self._plane.touch(stage.spec.id)
        for outlet in self._plane.outlets.values():
            outlet.lift_credit()
            if outlet.supplier is not None and not outlet.ended:
                outlet.end(retains=True)

    def end_if_done(self) -> None:
        """End when nothing is under way any more, here or to the nodes that we serve. It takes a
        second look, since by then these nodes have our acknowledgements."""
        links = [self._peers.links[each] for each in self._served if each in self._peers.links]
        gone = all(inlet.quiet for inlet in self._plane.inlets.values())
        gone = gone and not any(outlet.flows for outlet in self._plane.outlets.values())
        done = gone and not any(link.unacknowledged for link in links)
        if done and self._done:
            self.end()
        self._done = done

    def end(self) -> None:
        if (left := self._left) is not None:
            self._left = None
            self._context.effects.append(Depart(self._complete(left)))
            self.forget_peers()

    def abandon(self, reason: str, acknowledged: Mapping[int, int]) -> None:
        """Drop everything: without the directory it is of no use, and no other node listens any
        more.

        Flows get no end from here: for the nodes that they lead to, this node is lost.
        """
        for stage_id in list(self._plane.stages):
            self._stages.discard(stage_id)
        for inlet_id in list(self._plane.inlets):
            self._inlets.abandon(inlet_id, reason)
        for outlet in self._plane.outlets.values():
            if not outlet.ended:
                upto = acknowledged.get(outlet.id)
                end = EndSupplier(outlet.id, False, Unreachable(reason), upto)
                self._context.effects.append(end)
            self._outlets.abandon(outlet, Unreachable(reason))
        self.forget_peers()

    def forget_peers(self) -> None:
        for each in list(self._peers.links):  # a successor may have the name by now
            self._context.effects.append(ForgetPeer(each))
        self._peers.links.clear()

    # --- what is left behind ------------------------------------------------------------------

    def left(self, reason: str) -> Legacy:
        """What this node would leave behind now; `_complete` adds what only the end shows."""
        return Legacy(reason, self._subscribers(), streams=self._streams())

    def departed(self, reason: str) -> Legacy:
        """What this node leaves behind if it ends now."""
        return self._complete(self.left(reason))

    def note_lost(self, peer: str) -> None:
        """Note the events that may not have come to a peer from which this node parts."""
        link = self._peers.links.get(peer)
        sent = self._events_of(link.unacknowledged_bodies()) if link is not None else ()
        self._note((*sent, *self._waiting_for(peer)))

    def acknowledged(self) -> dict[int, int]:
        """By supplier's outlet: all events before this number were taken over by all their
        subscribers."""
        outlets = self._plane.outlets
        upto = {each.id: each.acknowledged for each in outlets.values() if each.supplier}
        links = self._peers.links.values()
        under_way = (each for link in links for each in link.unacknowledged_bodies())
        for stream, batch in self._events_of(under_way):
            for outlet in upto:
                if outlets[outlet].stream == stream:
                    upto[outlet] = min(upto[outlet], batch.first_seq)
        return upto

    def _complete(self, left: Legacy) -> Legacy:
        for peer in (*self._peers.links, self._context.here):
            self.note_lost(peer)
        self._note(self._events_under_way())  # these came to a peer, where a move may lose them
        inlets, stages = self._plane.inlets.values(), self._plane.stages.values()
        return replace(
            left,
            unacknowledged=self._unacknowledged,
            received={inlet.id: dict(inlet.received) for inlet in inlets if inlet.direct},
            filtered={
                stage.spec.channel: later(stage.inlet.since, stage.saving.inputs)
                for stage in stages
                if stage.inlet.direct
            },
        )

    def _note(self, events: Iterable[tuple[int, Batch]]) -> None:
        for stream, batch in events:
            self._unacknowledged.setdefault(stream, []).append(batch)

    def _events_of(self, bodies: Iterable[tuple[Body, Buffers]]) -> Iterator[tuple[int, Batch]]:
        """The events in messages that this node has sent, each batch with its stream."""
        for body, buffers in bodies:
            if isinstance(body, Events):
                type_ = self._context.registry.get(body.type)
                assert type_ is not None  # it was sent from here
                yield body.upto[0], load(type_, body.supplier, buffers)

    def _waiting_for(self, target: str) -> Iterator[tuple[int, Batch]]:
        """The events of suppliers here that wait for credit of a node, each batch with its
        stream."""
        for outlet in self._plane.outlets.values():
            for flow in outlet.flows.values():
                if outlet.supplier is not None and flow.spec.target == target:
                    for item in flow.waiting:
                        if isinstance(item, Chunk):
                            yield outlet.stream, item.batch

    def _events_under_way(self) -> Iterator[tuple[int, Batch]]:
        """The events of suppliers here that are retained for subscribers, or wait for filters here,
        each batch with its stream."""
        streams = set()
        for outlet in self._plane.outlets.values():
            if outlet.supplier is not None:
                streams.add(outlet.stream)
                for subscriber in outlet.subscribers.values():
                    for _, _, item in subscriber.retained:
                        if isinstance(item, Chunk):
                            yield outlet.stream, item.batch
        for stage in self._plane.stages.values():
            for chunk in stage.waiting():
                if (stream := chunk.upto[0]) in streams:
                    yield stream, chunk.batch

    def _subscribers(self) -> dict[str, dict[str, Offsets]]:
        """By channel, the subscribers that outlets here serve or await, each with the offsets
        where the streams of suppliers here began for it."""
        served = {
            channel: {name: dict(began) for name, began in subscribers.items()}
            for channel, subscribers in self._outlets.awaited.items()
        }
        for outlet in self._plane.outlets.values():
            there = served.setdefault(outlet.channel, {})
            for name, subscriber in outlet.subscribers.items():
                if not subscriber.closed:
                    began = there.setdefault(name, {})
                    if outlet.supplier is not None and subscriber.began is not None:
                        began[outlet.supplier] = subscriber.began
        return served

    def _streams(self) -> dict[tuple[str, str], Offset]:
        """How far the streams of suppliers here have come, by channel and supplier."""
        return {
            (each.channel, each.supplier): max(at, each.begins or at)
            for each in self._plane.outlets.values()
            if each.supplier is not None and (at := each.offsets.get(each.supplier))
        }

    def _targets(self) -> Iterator[str]:
        """The nodes to which events are sent from here."""
        for outlet in self._plane.outlets.values():
            yield from (flow.spec.target for flow in outlet.flows.values())

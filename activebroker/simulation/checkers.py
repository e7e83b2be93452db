"""The contract: what suppliers handed over against what each consumer received.

A violation is a line `kind: what`. Nothing here knows how events travel, but for `bounds` and
`forgotten`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise

from activebroker.matching import Chunk
from activebroker.node.dataplane.logged import LogOutlet
from activebroker.node.dataplane.outlet import RETAINED, WINDOW
from activebroker.node.dataplane.stage import WORK_BYTES, Stage
from activebroker.node.dataplane.states import BUSY, StageState
from activebroker.simulation.allowance import Allowance
from activebroker.simulation.contents import Element, Fits, Stream
from activebroker.simulation.host import Host, Intake
from activebroker.simulation.machines import leftovers, served
from activebroker.simulation.reference import REASON, Seen
from activebroker.simulation.rows import seen_in
from activebroker.simulation.scenario import HUB
from activebroker.simulation.users import Consumer, Users

MOST_SHOWN = 12


def seen_by(intake: Intake) -> dict[str, list[Seen]]:
    """What a subscription got, by supplier."""
    seen: dict[str, list[Seen]] = {}
    for batch in intake.batches:
        events = seen.setdefault(batch.supplier, [])
        events += seen_in(batch)
    return seen


def compare(
    got: Sequence[Seen],
    expected: Sequence[Seen],
    latest: int,
    complete: bool,
    gaps: int = 0,
    back: int = 0,
) -> str | None:
    """How what was got of one supplier breaks the contract, if it does.

    It must be a run without gaps of `expected`, that begins with the event at `latest` or one
    before it and, if it is to be `complete`, goes to the end. Where the process of a consumer has
    joined again so often, it may have so many `gaps`, all before the event at `back`.
    """
    latest = max(latest, back) if gaps else latest
    if not got:
        if complete and latest < len(expected):
            return f"missing: nothing came of {_few(expected[latest:])}"
        return None
    places = {seen: place for place, seen in enumerate(expected)}
    known = {(n, group) for n, group, _ in expected}
    for seen in got:
        if seen not in places:
            kind = "state" if seen[:2] in known else "foreign"
            return f"{kind}: {seen} is not of {_few(expected)}"
    order = [places[seen] for seen in got]
    if len(set(order)) < len(order):
        return f"once: {_few(got)}"
    if order != sorted(order):
        return f"order: {_few(got)}"
    if order[0] > latest:
        return f"missing: begins with {got[0]}, without {_few(expected[latest : order[0]])}"
    jumps = [there for here, there in pairwise(order) if there > here + 1]
    if len(jumps) > gaps or any(there > back for there in jumps):
        gone = [each for each in expected[order[0] : order[-1]] if each not in got]
        return f"missing: {_few(gone)} in between"
    if complete and (rest := expected[max(order[-1] + 1, back if gaps else 0) :]):
        return f"missing: {_few(rest)} at the end"
    return None


def deliveries(users: Users, allowance: Allowance) -> Iterator[str]:
    """Whether all consumers saw what they must, of one content of each channel."""
    for supplier in users.suppliers:
        if supplier.supply is not None and supplier.supply.closed is None:
            supplier.supply.close(finished=False)  # the streams of the dead end with their channel
    for channel in users.channels:
        mine = [each for each in users.consumers if each.channel is channel and each.subscribed]
        if not mine and not any(each.parent is channel for each in users.channels):
            continue
        cut = {each.name for each in users.suppliers if allowance.cut(each, channel)}
        suppliers = channel.content.root.raw
        got = [seen_by(consumer.intake) for consumer in mine]
        for consumer, seen in zip(mine, got, strict=True):
            for name in seen:
                if name not in suppliers:
                    yield f"foreign: {_where(consumer)} got events of {name}"
        for name in suppliers:
            subscribers = [
                Subscriber(each, seen.get(name, ()), name, channel.content.sure, name not in cut)
                for each, seen in zip(mine, got, strict=True)
            ]
            right: list[Stream] = []
            found: list[str] = []
            for stream in channel.content.possible(name, fitting(subscribers)):
                if wrong := next(
                    filter(None, (subscriber.wrong(stream) for subscriber in subscribers)), None
                ):
                    found.append(wrong)
                else:
                    right.append(stream)
            if right:
                channel.content.settled[name] = right
            else:
                # Where it is not known what is right, the mildest way to see it.
                yield min(found, key=lambda wrong: wrong.startswith(("foreign", "state")))


class Subscriber:
    """What one consumer got of one supplier, and what it should have: it is to be `complete` if
    the consumer is there to its end. Not `sure`: events that are none for a consumer may have been
    none for a filter before."""

    def __init__(
        self,
        consumer: Consumer,
        got: Sequence[Seen],
        supplier: str,
        sure: bool,
        whole: bool,
    ) -> None:
        self._where = f"{_where(consumer)}, of {supplier}"
        self._sure = sure
        self._got = [each for each in got if sure or each[2] != REASON]
        self._gaps = consumer.gaps
        self._complete = whole and consumer.there and consumer.intake.error is None
        reached, again = consumer.latest_start.get(supplier, 0), consumer.back.get(supplier, 0)
        absent = consumer.absent.get(supplier)
        if absent is not None and (absent.expelled or not absent.alive):
            reached = again = sys.maxsize  # it never came back
        self._reached, self._again = reached, again
        self._places = {seen: place for place, seen in enumerate(self._got)}
        self.strict = sure and not self._gaps

    def wrong(self, stream: Stream) -> str | None:
        """How a content of the channel does not fit what it got."""
        elements = [e for e in stream if e.event is not None and (self._sure or e.readable)]
        expected = [element.seen for element in elements]
        latest = sum(element.raw <= self._reached for element in elements)
        back = sum(element.raw <= self._again for element in elements)
        wrong = compare(self._got, expected, latest, self._complete, self._gaps, back)
        if wrong is None:
            return None
        kind, _, what = wrong.partition(": ")
        return f"{kind}: {self._where}: {what}"

    def fits(self, before: Element | None, after: Element) -> bool:
        """Whether there may be a right content in which these follow each other; only for a
        `strict` one, which has no gaps in what it got."""
        place = self._places.get(after.seen)
        if place is None and self._complete and after.raw > self._reached:
            return False
        last = None if before is None else self._places.get(before.seen)
        if place is None:
            return last is None or last == len(self._got) - 1
        return place == 0 if last is None else place == last + 1


def fitting(subscribers: Sequence[Subscriber]) -> Fits:
    strict = [subscriber for subscriber in subscribers if subscriber.strict]
    return lambda before, after: all(subscriber.fits(before, after) for subscriber in strict)


def endings(users: Users, allowance: Allowance) -> Iterator[str]:
    """Whether everything that was asked for was answered, and every subscription has ended."""
    for what, host, answer in users.requests:
        if not host.alive:
            continue
        if not answer.done:
            yield f"unanswered: {host.name} {what}"
        elif answer.error is not None and not allowance.refusal(answer.error):
            yield f"refused: {host.name} {what}: {answer.error!r}"
    for consumer in users.consumers:
        there = consumer.there or (consumer.waits and consumer.host.expelled)
        if there and not consumer.intake.ended:
            yield f"unended: {_where(consumer)} was not told of the end"
        elif there and not allowance.end(consumer):
            yield f"error: {_where(consumer)} ended with {consumer.intake.error!r}"


def nothing_left(host: Host) -> Iterator[str]:
    """Whether all that users had made is gone from a node.

    Timers of calls to the dead run out by themselves, later than is waited for here. Why a filter
    has stopped is remembered for good where its channel was closed when somebody died.
    """
    left = leftovers(host.node)
    if host.world.deaths:
        left.pop("stopped", None)
    if host.executors:
        left["executors"] = host.executors
    if timers := [key for key in host.timers if key != "tick" and not host.world.deaths]:
        left["timers"] = timers
    for what, value in left.items():
        yield f"left: {what} at {host.name}: {value}"


def membership(host: Host) -> Iterator[str]:
    """Whether a process was taken for lost only after a silence, and then has ended all it had."""
    if not host.expelled:
        return
    if not host.may_be_lost:
        yield f"expelled: {host.name} was alive, was heard, and is taken for lost"
    for outlet, supply in host.supplies.items():
        if supply.closed is None:
            yield f"unended: supplier {outlet} at {host.name}, which is lost, was not told"


def leases(users: Users) -> Iterator[str]:
    """Whether derived channels live as long as somebody holds them, and no longer.

    To be called when their leases have run out, and nothing was asked for since.
    """
    world = users.world
    ended = served(world.hosts[HUB].node)
    held: dict[str, None] = {}
    stopped: dict[str, None] = {}
    for channel in reversed(users.channels):  # those that are derived from others before these
        owner = channel.owner
        if channel.closed and ended.get(channel.name, "") is not None:
            continue  # else who asked for it may have died before anybody heard
        owned = owner is not None and owner.alive and not owner.expelled
        taken = any(
            each.channel is channel and each.there and not (each.host.expelled or each.intake.ended)
            for each in users.consumers
        )
        if channel.name in stopped or any(
            each.channel is channel and each.there and each.intake.error is not None
            for each in users.consumers
        ):  # who has heard that a filter was stopped has its subscription until it is closed
            stopped[channel.name] = None
            if channel.parent is not None:
                stopped[channel.parent.name] = None
        if owned or taken or channel.name in held:
            held[channel.name] = None
            why = ended.get(channel.name) or ""  # none if it has ended with what it is derived from
            if channel.parent is not None and not why:
                held[channel.parent.name] = None
            if "nobody has taken it" in why:
                yield f"lease: {channel.name} has ended, and is held"
        elif channel.parent is None or channel.name in stopped:
            continue
        elif ended.get(channel.name, "") is None:
            yield f"lease: nobody holds {channel.name}, and it is there"


def bounds(host: Host, largest: int) -> Iterator[str]:
    """Whether what waits at a node is within the windows. `largest`: bytes of a published batch."""
    # A piece of work may be over its limit by a batch, and a filter may forward each event twice.
    emission = 2 * (WORK_BYTES + largest)
    plane = host.node.plane
    for outlet in plane.outlets.values():
        for flow in outlet.flows.values():
            waiting = sum(item.nbytes for item in flow.waiting if isinstance(item, Chunk))
            # A flow that resumes begins with all that was retained for its subscriber.
            most = emission + (RETAINED if flow.spec.resumes else 0)
            if not -emission <= flow.credit <= WINDOW:
                yield f"bounds: credit {flow.credit} of flow {flow.spec.id} at {host.name}"
            if waiting > most:
                yield f"bounds: {waiting} bytes wait in flow {flow.spec.id} at {host.name}"
        for name, subscriber in outlet.subscribers.items():
            if subscriber.retained_bytes > RETAINED + emission:
                held = subscriber.retained_bytes
                yield f"bounds: {held} bytes are retained for {name} at {host.name}"
    for inlet in plane.inlets.values():
        for into in inlet.flows.values():
            held = sum(item.nbytes for item in into.held if isinstance(item, Chunk))
            if held > WINDOW + emission:
                yield f"bounds: {held} bytes of flow {into.id} are held at {host.name}"
    for stage in plane.stages.values():
        inbox = sum(item.nbytes for _, item in stage._inbox if isinstance(item, Chunk))
        # Also of flows that have ended since; and one more for what a hand-over brought.
        flows = {id(flow) for flow, _ in stage._inbox} | set(map(id, stage.inlet.flows.values()))
        if inbox > (WINDOW + emission) * (1 + len(flows)):
            yield f"bounds: {inbox} bytes wait for the filter {stage.spec.id} at {host.name}"


def forgotten(host: Host) -> Iterator[str]:
    """Whether something at a node can go on, or end, and was not looked at with the last input.

    The next tick may make up for it, so that all arrives, only later.
    """
    node = host.node
    plane = node.plane
    for id, stage in plane.stages.items():
        if _can_go_on(stage):
            yield f"forgotten: filter {id} at {host.name} can go on"
    for id, outlet in plane.outlets.items():
        if outlet.supplier is not None and outlet.ready is (id in node.outlets.blocked):
            yield f"forgotten: supplier {id} at {host.name} does not hear whether to go on"
        if isinstance(outlet, LogOutlet) and outlet.lacking:
            yield f"forgotten: log {id} at {host.name} is to be read for {outlet.lacking}"
        if outlet.drained and not (id in plane.stages and plane.stages[id].moving):
            yield f"forgotten: outlet {id} at {host.name} has ended"
    for id, inlet in plane.inlets.items():
        if id not in plane.stages and (inlet.complete or inlet.error is not None):
            yield f"forgotten: subscription {id} at {host.name} has ended"


def _can_go_on(stage: Stage) -> bool:
    """Whether a stage has something to do; a checkpoint may wait for the next tick."""
    if stage.outlet.ended:
        waits = stage.state in BUSY or stage.state is StageState.LOADING
        return not waits and (stage.state is not StageState.ENDED or stage.backlog > 0)
    if stage.state is not StageState.IDLE or not stage.outlet.ready:
        return False
    return stage.backlog > 0 or stage.inlet.complete or stage.inlet.error is not None


def _where(consumer: Consumer) -> str:
    return f"consumer {consumer.inlet} of {consumer.channel.name} at {consumer.host.name}"


def _few(events: Sequence[object]) -> str:
    shown = ", ".join(map(str, events[:MOST_SHOWN]))
    return f"[{shown}]" if len(events) <= MOST_SHOWN else f"[{shown}, … {len(events)} in all]"

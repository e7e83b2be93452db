"""Whether each event that a filter loses is told, once, to who derived its channel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from activebroker.simulation.contents import Content, Element, Stream
from activebroker.simulation.edge import PLANTED
from activebroker.simulation.reference import (
    REASON,
    Faulty,
    Rated,
    envelope_of,
)
from activebroker.simulation.users import Channel, Users
from predicate_extract import Predicate

Lost = tuple[str, int, str]  # supplier, sequence number, error
RAISED = {
    Faulty: "ValueError: planted, on {}",
    Rated: "ZeroDivisionError: integer division or modulo by zero",
}


def losses(users: Users) -> Iterator[str]:
    """To be called when the deliveries have settled what each channel consists of.

    Where somebody has died, an event may be told twice, as its filter goes on from a checkpoint,
    or not, if who knew it has died. Where a filter was stopped, or a batch was none, what came
    after that was not lost by the filter.
    """
    world = users.world
    for channel in users.channels:
        if channel.parent is None or channel.owner is None:
            continue
        reports = [each for each in channel.owner.reports if each.channel == channel.name]
        shown = Counter(
            (each.supplier, each.seq, each.error)
            for report in reports
            for each in report.samples
            if each.error != PLANTED
        )
        must, may = _foreseen(channel)
        if foreign := [each for each in shown if each not in may]:
            yield f"shown: {channel.name} has not lost {foreign[:3]}"
        if world.deaths or world.costly:
            continue
        if twice := [each for each in shown if shown[each] > may[each]]:
            yield f"shown: {channel.name} has lost {twice[:3]} once, and tells it again"
        told = sum(report.count for report in reports)
        all_shown = told == sum(shown.values())
        if all_shown and (missing := [each for each in must if shown[each] < must[each]]):
            yield f"shown: {channel.name} has lost {missing[:3]}, and nobody is told"
        if not sum(must.values()) <= told <= sum(may.values()):
            yield f"shown: {channel.name} has lost {sum(must.values())}, and tells of {told}"


def _foreseen(channel: Channel) -> tuple[Counter[Lost], Counter[Lost]]:
    """What a channel's filter must have lost, and what it may have."""
    must: Counter[Lost] = Counter()
    may: Counter[Lost] = Counter()
    content, parent = channel.content, channel.content.parent
    assert parent is not None
    for supplier in content.root.raw:
        begun = content.until.get(supplier, 0)
        over = content.closed_since
        end = None if over is None else over.get(supplier, 0)
        always: Counter[Lost] | None = None
        for stream in parent.possible(supplier):
            may |= _lost(content, supplier, stream)
            inside = [e for e in stream if e.raw > begun and (end is None or e.raw <= end)]
            sure = _lost(content, supplier, inside, surely=True)
            always = sure if always is None else always & sure
        must += always or Counter()
    return must, may


def _lost(content: Content, supplier: str, stream: Stream, surely: bool = False) -> Counter[Lost]:
    """The events of a stream that a filter loses; `surely`: that come to it, decoded or not."""
    filter = content.filter
    assert filter is not None
    envelope = envelope_of(filter)
    predicate = None if envelope.predicate is None else Predicate.from_json(envelope.predicate)
    found: Counter[Lost] = Counter()
    for element in stream:
        if element.event is None or (error := _error(content, element, surely)) is None:
            continue
        if surely and predicate is not None and predicate.evaluate(element.event.content) is False:
            continue
        found[supplier, element.event.seq, error] += 1
    return found


def _error(content: Content, element: Element, surely: bool) -> str | None:
    filter = content.filter
    assert filter is not None and element.event is not None
    if not element.readable:
        passes = envelope_of(filter).exact or not (content.parent and content.parent.sure)
        return None if surely and passes else REASON
    if element.event.content.group == 3 and filter in RAISED:
        return RAISED[filter].format(element.event.content.n)
    return None

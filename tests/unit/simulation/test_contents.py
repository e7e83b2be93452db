"""What a channel may consist of: all ways at once come to what each of them comes to alone."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activebroker.events import Event
from activebroker.simulation.checkers import Subscriber, fitting
from activebroker.simulation.contents import Change, Content, Stream
from activebroker.simulation.host import Intake
from activebroker.simulation.reference import (
    GROUPS,
    ITEM,
    Above,
    Count,
    CountAbove,
    CountAll,
    Deadly,
    Faulty,
    HoldBack,
    Item,
    Seen,
    Twice,
    envelope_of,
)
from activebroker.simulation.users import Channel, Consumer
from activebroker.simulation.world import World

END = -1  # in place of a group
envelope_of(Count)  # before hypothesis looks: an analysis makes room on the stack, for good


def root_of(groups: list[int], unreadable: int | None = None) -> Content:
    root = Content()
    for n, group in enumerate(groups):
        event = Event(Item(n, group, "", b""), ITEM.name, "s", n, n)
        root.hand_over("s", None if group == END else event, n != unreadable)
    return root


def shape(stream: Stream) -> tuple[tuple[int, Seen | None], ...]:
    return tuple((each.raw, each.seen if each.event else None) for each in stream)


def traces(content: Content) -> list[str | None]:
    (stream,) = content.possible("s")
    return [None if each.event is None else f"{each.seen[0]}{each.seen[2]}" for each in stream]


def exactly(content: Content) -> Iterator[Content]:
    """The same once for each way, of which nothing is left open."""
    lengths = content.lengths()["s"]
    starts = range(content.since.get("s", 0), content.until.get("s", 0) + 1)
    ends: list[int | None] = [None]
    if content.closed_since is not None:
        told = content.closed_until
        last = told["s"] if told is not None else lengths
        ends = [*([] if told else [None]), *range(content.closed_since["s"], last + 1)]
    changes = [
        [
            *([None] if change.may_fail else []),
            *range(change.since["s"], (change.until or {"s": lengths})["s"] + 1),
        ]
        for change in content.changes
    ]
    for start, end, *places in itertools.product(starts, ends, *changes):
        come = [place for place in places if place is not None]
        if come != sorted(come):
            continue
        over = None if end is None else {"s": end}
        yield Content(
            content.filter,
            content.parent,
            since={"s": start},
            until={"s": start},
            closed_since=over,
            closed_until=over,
            changes=[
                Change(change.groups, {"s": place}, {"s": place}, may_fail=False)
                for change, place in zip(content.changes, places, strict=True)
                if place is not None
            ],
        )


def each_alone(content: Content) -> dict[tuple[tuple[int, Seen | None], ...], Stream]:
    above = content.parent
    assert above is not None
    found: dict[tuple[tuple[int, Seen | None], ...], Stream] = {}
    for stream in above.possible("s"):
        for one in exactly(content):
            one.parent = Content(Twice, above, settled={"s": [stream]})
            one.parent.parent = above.root
            (made,) = one.possible("s")
            found[shape(made)] = made
    return found


@st.composite
def contents(draw: st.DrawFn) -> Content:
    length = draw(st.integers(1, 7))
    groups = draw(st.lists(st.sampled_from([0, 1, 2, 3, END]), min_size=length, max_size=length))
    root = root_of(groups, draw(st.none() | st.integers(0, length - 1)))
    place = st.integers(0, length)

    def span() -> tuple[dict[str, int], dict[str, int]]:
        first, last = sorted((draw(place), draw(place)))
        return {"s": first}, {"s": last}

    parent = root
    if draw(st.booleans()):
        since, until = span()
        parent = Content(draw(st.sampled_from([Twice, Count])), root, since=since, until=until)
    since, until = span()
    filter = draw(
        st.sampled_from([Above, CountAbove, Count, CountAll, HoldBack, Faulty, Deadly, Twice])
    )
    content = Content(filter, parent, since=since, until=until)
    if draw(st.booleans()):
        content.closed_since, closed = span()
        content.closed_until = draw(st.sampled_from([closed, None]))
    if filter in (Above, CountAbove):
        for _ in range(draw(st.integers(0, 2))):
            since, until = span()
            known, may_fail = draw(st.booleans()), draw(st.booleans())
            change = Change(draw(st.sampled_from(GROUPS)), since, until if known else None)
            change.may_fail = may_fail
            content.changes.append(change)
    return content


@given(content=contents())
def test_all_ways_at_once_come_to_what_each_comes_to(content: Content) -> None:
    found = [shape(each) for each in content.possible("s")]
    assert len(found) == len(set(found))
    assert set(found) == set(each_alone(content))


@given(content=contents(), data=st.data())
def test_none_is_given_up_that_fits_what_consumers_got(
    content: Content, data: st.DataObject, hosts: World
) -> None:
    ways = each_alone(content)
    if not ways:
        return
    sure = content.sure
    taken = data.draw(st.sampled_from(sorted(ways, key=str)))
    events = [seen for _, seen in taken if seen is not None]
    first = data.draw(st.integers(0, len(events)))
    last = data.draw(st.integers(first, len(events)))
    reached = {"s": data.draw(st.integers(0, 8))}
    consumer = Consumer(Channel("x", content), hosts.hosts["east"], 7, Intake(None))
    consumer.subscribed, consumer.latest_start = True, reached
    if data.draw(st.booleans()):
        consumer.gaps, consumer.back = 1, reached
    whole = data.draw(st.booleans())
    subscriber = Subscriber(consumer, events[first:last], "s", sure, whole)
    right = {key for key, stream in ways.items() if subscriber.wrong(stream) is None}
    found = list(content.possible("s", fitting([subscriber])))
    assert {shape(stream) for stream in found if subscriber.wrong(stream) is None} == right
    assert found  # by which to tell what is wrong, if all is


@pytest.fixture(scope="module")
def hosts() -> World:
    return World(random.Random(1), ("east",))


def test_what_filters_make_of_a_stream() -> None:
    root = root_of([0, 3, END, 2, 1])
    assert traces(Content(Count, root)) == ["0/1", "1/2", None, "3/1", "4/2"]
    assert traces(Content(CountAll, root)) == ["0/1", "1/2", None, "3/3", "4/4"]
    assert traces(Content(Faulty, root)) == ["0/1", None, "3/1", "4/2"]
    assert traces(Content(HoldBack, root)) == ["0", "1", None, "3"]
    assert traces(Content(Deadly, root)) == ["0/1"]
    assert traces(Content(Above, root)) == ["0", None, "4"]


def test_where_it_begins_changes_and_ends() -> None:
    root = root_of([0, 0, 0, 2, 0])
    at = {"s": 1}
    assert traces(Content(Count, root, since=at, until=at)) == ["1/1", "2/2", "3/3", "4/4"]
    over = {"s": 3}
    closed = Content(HoldBack, root, closed_since=over, closed_until=over)
    assert traces(closed) == ["0", "1", "2", None]
    changed = Content(CountAbove, root, changes=[Change((2,), over, over, may_fail=False)])
    assert traces(changed) == ["0/1", "1/2", "2/3", "3/4"]


def test_of_ten_million_ways_few_are_gone_to_their_end(hosts: World) -> None:
    groups = [n * n % 4 for n in range(400)]
    root = root_of(groups)
    changes = [Change((2, 3), {"s": 10}, {"s": 380}), Change((0, 1), {"s": 20}, {"s": 390})]
    content = Content(CountAbove, root, until={"s": 300}, changes=changes)
    (right,) = Content(
        CountAbove,
        root,
        since={"s": 7},
        until={"s": 7},
        changes=[
            Change((2, 3), {"s": 101}, {"s": 101}, may_fail=False),
            Change((0, 1), {"s": 202}, {"s": 202}, may_fail=False),
        ],
    ).possible("s")
    consumer = Consumer(Channel("x", content), hosts.hosts["east"], 7, Intake(None), True)
    subscriber = Subscriber(consumer, [each.seen for each in right if each.event], "s", True, True)
    found = list(content.possible("s", fitting([subscriber])))
    assert len(found) < 400
    assert [shape(each) for each in found if subscriber.wrong(each) is None] == [shape(right)]

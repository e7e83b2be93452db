"""When filters move by themselves, and that it comes to rest."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from math import fsum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derivation.balance import Balance, BrokerLoad, Decision
from derivation.split import FilterLoad, MoveTo

PERIOD = 5.0  # seconds between two looks
LIMIT, LOW = 0.8, 0.2


class World:
    """Brokers in virtual time; what a policy decides is carried out at once."""

    def __init__(self, brokers: Iterable[BrokerLoad], policy: Balance | None = None) -> None:
        self.now = 0.0
        self.policy = policy or Balance(LIMIT, LOW)
        self.filters = {each.name: {f.channel: f for f in each.filters} for each in brokers}
        self.moves: list[tuple[float, MoveTo]] = []
        self.reasons: list[str] = []

    def load(self, broker: str) -> float:
        return fsum(round(each.load, 9) for each in self.filters[broker].values())

    def place(self, channel: str) -> str:
        return next(name for name, here in self.filters.items() if channel in here)

    def arrive(self, broker: str, *filters: FilterLoad) -> None:
        self.filters[broker] |= {each.channel: each for each in filters}

    def look(self, measured: Callable[[FilterLoad], FilterLoad] = lambda each: each) -> Decision:
        brokers = [
            BrokerLoad(name, tuple(measured(each) for each in here.values()))
            for name, here in self.filters.items()
        ]
        decision = self.policy.decide(self.now, brokers)
        for move in decision.moves:
            here = self.filters[self.place(move.channel)]
            self.filters[move.to][move.channel] = here.pop(move.channel)
            self.moves.append((self.now, move))
        if decision.reason:
            self.reasons.append(decision.reason)
        self.now += PERIOD
        return decision

    def run(self, seconds: float) -> list[tuple[str, str]]:
        """What moves meanwhile: channels, and where to."""
        before, end = len(self.moves), self.now + seconds
        while self.now < end:
            self.look()
        return [(move.channel, move.to) for _, move in self.moves[before:]]


def world(policy: Balance | None = None, /, **loads: dict[str, float] | list[FilterLoad]) -> World:
    """Of each broker the filters' loads by name."""
    return World(
        (
            BrokerLoad(
                name,
                tuple(
                    [FilterLoad(*each) for each in here.items()] if isinstance(here, dict) else here
                ),
            )
            for name, here in loads.items()
        ),
        policy,
    )


def scaled(each: FilterLoad, factor: float) -> FilterLoad:
    return replace(each, load=each.load * factor)


# --- what it does ---------------------------------------------------------------------------------


def test_one_move_relieves_a_loaded_broker_and_goes_where_most_room_is() -> None:
    there = world(a={"x": 0.5, "y": 0.3, "z": 0.2}, b={"u": 0.4}, c={"v": 0.3})
    assert there.run(600) == [("y", "c")]
    assert there.reasons == ["'a' was over its limit: 1.00 of 0.80 CPUs"]


def test_as_many_move_as_have_to() -> None:
    there = world(a=dict.fromkeys("stuvwxyz", 0.15), b={}, c={})
    assert len(there.run(600)) == 4
    assert max(map(there.load, "abc")) <= LIMIT


def test_what_is_over_the_limit_for_a_short_time_only_is_left_alone() -> None:
    there = world(a={"x": 0.5, "y": 0.2}, b={})
    for look in range(100):
        factor = 3.0 if look % 10 == 5 else 0.2
        there.look(partial(scaled, factor=factor))
    assert not there.moves


def test_the_limit_serves_where_its_margin_does_not() -> None:
    there = world(a={"x": 0.75, "y": 0.75}, b={})
    assert there.run(600) == [("x", "b")]


def test_what_can_go_goes_where_that_is_too_little() -> None:
    there = world(a={"giant": 0.9, "small": 0.1}, b={"u": 0.3})
    assert there.run(600) == [("small", "b")]
    assert there.reasons[-1] == (
        "'a' stays over its limit of 0.80 CPUs: no other broker has room for a part of what it does"
    )


@pytest.mark.parametrize(
    "loads",
    [
        {"a": {"giant": 0.9}, "b": {}},
        {"a": {"x": 0.5, "y": 0.4}, "b": {"u": 0.7}, "c": {"v": 0.7}},
        {"a": {"x": 0.5, "y": 0.4}},
    ],
)
def test_where_nothing_helps_nothing_moves_and_it_says_so(
    loads: dict[str, dict[str, float]],
) -> None:
    there = world(**loads)
    assert there.run(600) == []
    (reason,) = {*there.reasons}
    assert "no other broker has room" in reason


def test_dependants_move_with_what_they_derive_from_and_go_first() -> None:
    tree = [FilterLoad("root", 0.1), FilterLoad("leaf", 0.4, "root"), FilterLoad("x", 0.45)]
    assert world(a=tree, b={"u": 0.3}).run(600) == [("leaf", "b")]
    heavy_root = [FilterLoad("root", 0.3), FilterLoad("leaf", 0.01, "root"), FilterLoad("x", 0.6)]
    there = world(a=heavy_root, b={"u": 0.45})
    assert there.run(600) == [("leaf", "b"), ("root", "b")]


def test_what_may_not_move_stays_and_what_it_derives_from_too() -> None:
    tree = [FilterLoad("root", 0.5), FilterLoad("leaf", 0.1, "root", movable=False)]
    there = world(a=[*tree, FilterLoad("x", 0.3)], b={"u": 0.3})
    assert there.run(600) == [("x", "b")]
    assert world(a=tree[:1] + tree[1:] + [FilterLoad("y", 0.0)], b={}).run(600) == []


def test_an_idle_broker_is_emptied_into_one_in_use() -> None:
    there = world(a={"x": 0.4}, b={"y": 0.05, "z": 0.02}, c={})
    assert there.run(55) == []
    assert there.run(60) == [("y", "a"), ("z", "a")]
    assert there.reasons == ["'b' was idle: 0.07 CPUs"]
    assert there.run(600) == []


def test_an_idle_broker_is_not_emptied_where_not_all_fits() -> None:
    assert world(a={"x": 0.45}, b={"y": 0.1}, c={}).run(600) == []
    stays = [FilterLoad("y", 0.0, movable=False), FilterLoad("z", 0.0)]
    assert world(a={"x": 0.1}, b=stays).run(600) == [("x", "b")]


def test_low_0_merges_only_what_does_nothing() -> None:
    there = world(Balance(LIMIT, 0.0), a={"x": 0.1}, b={"y": 0.01}, c={"z": 0.0})
    assert there.run(600) == [("z", "b")]


def test_a_split_does_not_make_work_for_a_merge() -> None:
    """What would be idle by itself goes to a broker in use."""
    there = world(a=dict.fromkeys("abcdefghijklmnopq", 0.05), b={}, c={"u": 0.25})
    assert {to for _, to in there.run(600)} == {"c"}


def test_brokers_that_take_part_in_a_move_are_not_judged_until_they_have_settled() -> None:
    there = world(Balance(LIMIT, LOW, settle=30), a={"x": 0.5, "y": 0.5}, b={}, c={})
    while not there.moves:
        there.look()
    (begun, _), *_ = there.moves
    there.arrive("b", FilterLoad("late", 0.6))
    while len(there.moves) < 2:
        there.look()
    assert there.moves[1][0] >= begun + 30 + 10


def test_what_filters_that_catch_up_report_is_not_believed() -> None:
    there = world(a={"x": 0.5, "y": 0.5}, b={})
    while not there.moves:
        there.look()
    for _ in range(3):
        there.look(lambda each: FilterLoad(each.channel, 5.0))
    assert there.run(600) == []


def test_it_decides_the_same_in_any_order_of_filters() -> None:
    filters = [FilterLoad(name, 0.2) for name in "pqrstu"]
    orders = [filters, filters[::-1]]
    assert len({tuple(world(a=order, b={}, c={}).run(300)) for order in orders}) == 1


# --- what always holds ----------------------------------------------------------------------------


@st.composite
def fabrics(draw: st.DrawFn) -> list[BrokerLoad]:
    """Up to five brokers with up to twelve filters, some derived from others."""
    names = [f"f{number}" for number in range(draw(st.integers(0, 12)))]
    brokers: dict[str, list[FilterLoad]] = {f"b{n}": [] for n in range(draw(st.integers(1, 5)))}
    loads = st.floats(0, 1.2) | st.sampled_from([0.0, 0.1, 0.2, 0.4, 0.8])
    for number, name in enumerate(names):
        parent = draw(st.none() | st.sampled_from(names[:number])) if number else None
        movable = draw(st.integers(0, 9)) > 0
        here = brokers[draw(st.sampled_from(sorted(brokers)))]
        here.append(FilterLoad(name, draw(loads), parent, movable))
    return [BrokerLoad(name, tuple(filters)) for name, filters in brokers.items()]


@settings(max_examples=60)
@given(fabrics())
def test_constant_loads_come_to_rest(brokers: list[BrokerLoad]) -> None:
    there = World(brokers)
    count = sum(len(each.filters) for each in brokers)
    fixed = {f.channel: each.name for each in brokers for f in each.filters if not f.movable}
    # All that can ever move: each filter once by splits, then with each merge of a broker.
    most = count * len(brokers)
    over_before = fsum(max(0.0, there.load(name) - LIMIT) for name in there.filters)
    quiet = 0
    while quiet < 900 / PERIOD:
        over = {name for name in there.filters if there.load(name) > LIMIT}
        decision = there.look()
        quiet = 0 if decision.moves else quiet + 1
        assert len(there.moves) <= most
        assert not {move.to for move in decision.moves} & over, "no target was over its limit"
        assert {name for name in there.filters if there.load(name) > LIMIT} <= over
    assert there.run(600) == [], "silent for ten minutes"
    over_after = fsum(max(0.0, there.load(name) - LIMIT) for name in there.filters)
    assert over_after <= over_before
    assert all(there.place(channel) == name for channel, name in fixed.items())


@given(fabrics(), st.lists(st.floats(0.5, 1.5), min_size=20, max_size=20))
def test_every_decision_names_what_is_there_and_makes_sense(
    brokers: list[BrokerLoad], factors: list[float]
) -> None:
    there = World(brokers, Balance(LIMIT, LOW, smoothing=0, patience=0, calm=0, settle=0))
    for factor in factors:
        before = {channel: name for name, here in there.filters.items() for channel in here}
        decision = there.look(partial(scaled, factor=factor))
        moved = [move.channel for move in decision.moves]
        assert len({*moved}) == len(moved), "none moves twice"
        for move in decision.moves:
            source = before[move.channel]
            assert move.to != source
            assert there.load(move.to) * factor <= LIMIT * (1 + 1e-9)
            for each in there.filters[move.to].values():  # no filter leaves its dependants behind
                if each.parent == move.channel and each.channel in moved:
                    assert moved.index(each.channel) < moved.index(move.channel)
            assert not any(each.parent == move.channel for each in there.filters[source].values())


# --- how well it does -----------------------------------------------------------------------------


def fewest_moves(loads: list[float]) -> int:
    """No plan has fewer: so many have to leave the broker at which all arrive."""
    left = sorted(loads)
    while fsum(left) > LIMIT:
        left.pop()
    return len(loads) - len(left)


@pytest.mark.parametrize("brokers", [3, 4])
@pytest.mark.parametrize("seed", range(25))
def test_consumers_that_arrive_at_one_broker(brokers: int, seed: int) -> None:
    """Over a minute, with noise of 20 %: no broker ends over its limit, by few moves, for good.

    One that is just below its limit may be relieved late, by a single move.
    """
    chance = random.Random(seed)
    total = 0.75 * LIMIT * brokers  # what a fabric may be asked to do
    loads: list[float] = []
    while fsum(loads) + 0.3 < total:
        loads.append(chance.uniform(0.05, 0.3))
    there = World([BrokerLoad(f"b{number}") for number in range(brokers)])
    due = sorted(chance.uniform(0, 60) for _ in loads)

    def measured(each: FilterLoad) -> FilterLoad:
        """Filters of one process share a CPU: they cannot use more than there is."""
        share = min(1.0, 1.0 / there.load(there.place(each.channel)))
        return FilterLoad(each.channel, each.load * share * chance.uniform(0.8, 1.2))

    def run(until: float) -> None:
        while there.now < until:
            while due and due[0] <= there.now:
                due.pop(0)
                number = len(loads) - len(due) - 1
                there.arrive("b0", FilterLoad(f"f{number:02}", loads[number]))
            there.look(measured)

    for until in (240, 240 + 600):
        run(until)
        assert max(map(there.load, there.filters)) <= LIMIT
        assert len(there.moves) <= 1.5 * fewest_moves(loads), there.moves
    assert sum(at >= 240 for at, _ in there.moves) <= 1, there.moves


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"limit": 0.0}, "limit must be more than 0 CPU seconds a second, not 0.0"),
        ({"limit": float("nan")}, "limit must be more than 0"),
        ({"limit": float("inf")}, "limit must be more than 0"),
        ({"low": -0.1}, "low must be from 0 to half the limit of 0.8, not -0.1"),
        ({"low": 0.5}, "low must be from 0 to half the limit"),
        ({"settle": -1.0}, "settle must be 0 seconds or more, not -1.0"),
        ({"smoothing": float("nan")}, "smoothing must be 0 seconds or more"),
    ],
)
def test_numbers_that_make_no_sense(numbers: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Balance(**numbers)


def test_what_is_named_twice() -> None:
    x = FilterLoad("x", 0.1)
    with pytest.raises(ValueError, match="channel 'x' is named twice"):
        Balance().decide(0.0, [BrokerLoad("a", (x,)), BrokerLoad("b", (x,))])
    with pytest.raises(ValueError, match="broker is named twice"):
        Balance().decide(0.0, [BrokerLoad("a"), BrokerLoad("a")])

"""Which filters leave a broker that has too much to do."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derivation.split import FilterLoad, MoveTo, split


@st.composite
def brokers(draw: st.DrawFn) -> list[FilterLoad]:
    """The filters of a broker; some derive from others there, some from elsewhere."""
    names = draw(st.lists(st.text("abcdef", min_size=1, max_size=3), unique=True, max_size=10))
    loads = st.floats(0, 1e9) | st.integers(0, 5).map(float)
    return [
        FilterLoad(name, draw(loads), draw(st.sampled_from([None, "elsewhere", *names[:n]])))
        for n, name in enumerate(names)
    ]


def moved(load: list[FilterLoad]) -> list[str]:
    moves = split(load, "dallas")
    assert all(move.to == "dallas" for move in moves)
    return [move.channel for move in moves]


@given(brokers())
def test_what_moves_and_what_stays_differ_by_one_filter_at_most(load: list[FilterLoad]) -> None:
    idle = not any(each.load for each in load)
    own = {each.channel: Fraction(1) if idle else Fraction(each.load) for each in load}
    goes = sum(own[channel] for channel in moved(load))
    assert abs(sum(own.values()) - 2 * goes) <= max(own.values(), default=0)


@given(brokers(), st.randoms(use_true_random=False))
def test_it_depends_on_nothing_but_what_is_there(load: list[FilterLoad], random: object) -> None:
    shuffled = [*load]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert split(shuffled, "dallas") == split(load, "dallas")


@given(brokers())
def test_no_filter_leaves_before_its_dependants(load: list[FilterLoad]) -> None:
    gone: list[str] = []
    for channel in moved(load):
        assert {each.channel for each in load if each.parent == channel} <= {*gone}
        gone.append(channel)
    assert len({*gone}) == len(gone)


@given(brokers())
def test_something_always_stays_and_what_moves_has_a_load(load: list[FilterLoad]) -> None:
    goes = moved(load)
    assert not load or len(goes) < len(load)
    busy = [each.channel for each in load if each.load]
    if len(busy) >= 2 or (not busy and len(load) >= 2):
        assert goes
    if len(busy) == 1:
        assert not goes
    # A tree or branch never moves for nothing.
    roots = [each for each in load if each.channel in goes and each.parent not in goes]
    for root in roots:
        assert not busy or branch_load(load, root.channel) > 0


def branch_load(load: list[FilterLoad], channel: str) -> float:
    (own,) = (each.load for each in load if each.channel == channel)
    return own + sum(branch_load(load, each.channel) for each in load if each.parent == channel)


@pytest.mark.parametrize(
    ("load", "goes"),
    [
        ([], []),
        ([FilterLoad("a", 5)], []),
        ([FilterLoad("a", 5), FilterLoad("b", 5)], ["a"]),
        ([FilterLoad("a", 5), FilterLoad("b", 0), FilterLoad("c", 0)], []),
        ([FilterLoad("a", 0), FilterLoad("b", 0), FilterLoad("c", 0)], ["a"]),
        ([FilterLoad("a", 6), FilterLoad("b", 3), FilterLoad("c", 2), FilterLoad("d", 1)], ["a"]),
        ([FilterLoad("a", 9), FilterLoad("b", 4), FilterLoad("c", 4)], ["c", "b"]),
        # A whole tree rather than parts of two.
        (
            [
                FilterLoad("a", 1),
                FilterLoad("b", 2, "a"),
                FilterLoad("c", 2),
                FilterLoad("d", 1, "c"),
            ],
            ["b", "a"],
        ),
        # A chain is cut where its load halves, and its end moves.
        ([FilterLoad("a", 3), FilterLoad("b", 1, "a"), FilterLoad("c", 2, "b")], ["c", "b"]),
        # One filter does nearly all: the branch that goes beyond half is nearer to it.
        ([FilterLoad("a", 1), FilterLoad("b", 9, "a")], ["b"]),
    ],
)
def test_examples(load: list[FilterLoad], goes: list[str]) -> None:
    assert moved(load) == goes


def test_what_is_not_movable_stays_and_what_it_derives_from_too() -> None:
    tree = [FilterLoad("a", 4), FilterLoad("b", 1, "a", movable=False), FilterLoad("c", 1, "b")]
    assert moved([*tree, FilterLoad("d", 2)]) == ["c", "d"]


def test_moves_name_the_channel_and_the_broker() -> None:
    load = [FilterLoad("a", 1.0), FilterLoad("b", 1.0)]
    assert split(load, "dallas") == (MoveTo("a", "dallas"),)


@pytest.mark.parametrize("load", [-1.0, float("nan"), float("inf")])
def test_a_load_is_a_number_and_not_negative(load: float) -> None:
    with pytest.raises(ValueError, match="load of 'a' must be 0 or more"):
        FilterLoad("a", load)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="named twice"):
        split([FilterLoad("a", 1), FilterLoad("a", 2)], "dallas")
    with pytest.raises(ValueError, match="derived from itself"):
        split([FilterLoad("a", 1, "b"), FilterLoad("b", 1, "a"), FilterLoad("c", 1)], "dallas")

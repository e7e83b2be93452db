"""Random streams through a keyed filter come to what a plain model of it comes to: however they are
cut into batches, wherever the filter moves, and if the keys are divided among several runners."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from keyed_for_tests import Asked, Model, Teller, Told, batch, keyed, told

PART = {"LHR": 0, "CDG": 1, "ÅRN": 2, "": 0, None: 1}
KEYS = st.sampled_from(list(PART))
ASKED = st.builds(
    lambda key, do, by: (key, do, by),
    KEYS,
    st.sampled_from(["pass", "pass", "set", "set", "cancel", "raise"]),
    st.integers(-20, 80),
)
STEPS = st.lists(st.tuples(ASKED, st.integers(-25, 40)), max_size=60)


def stream(steps: list[tuple[Any, int]]) -> list[Asked]:
    """Events whose times go on and back."""
    times = accumulate((by for _, by in steps), lambda time, by: max(0, time + by))
    return [Asked(key, at, do, by) for ((key, do, by), _), at in zip(steps, times, strict=True)]


@given(
    st.dictionaries(st.sampled_from(["JFK", "EWR"]), STEPS, min_size=1),
    st.randoms(use_true_random=False),
)
def test_a_stream_comes_to_what_the_model_comes_to(streams: dict[str, Any], chance: Any) -> None:
    runner = keyed(Teller)
    events = {supplier: stream(steps) for supplier, steps in streams.items()}
    done = dict.fromkeys(events, 0)
    found: dict[str, list[Told]] = {supplier: [] for supplier in events}
    lost = 0
    while left := [supplier for supplier in events if done[supplier] < len(events[supplier])]:
        supplier, size = chance.choice(left), chance.choice((1, 3, 20))
        first = done[supplier]
        part = events[supplier][first : first + size]
        result = runner.run([batch(part, supplier, first)])
        found[supplier] += told(result)
        lost += len(result.failures)
        done[supplier] += len(part)
        if chance.random() < 0.3:  # it moves
            states = runner.snapshot()
            if chance.random() < 0.5:
                runner = keyed(Teller)
                runner.restore(states)
    for supplier in events:
        found[supplier] += told(runner.run([supplier]))
    models = {supplier: Model().run(asked) for supplier, asked in events.items()}
    assert found == {supplier: model.end() for supplier, model in models.items()}
    assert lost == sum(model.lost for model in models.values())


@given(STEPS, st.integers(1, 7))
def test_a_stream_may_be_divided_by_key(steps: list[Any], size: int) -> None:
    events = stream(steps)
    newest = list(accumulate((each.at for each in events), max))
    parts = [keyed(Teller) for _ in range(3)]
    found: dict[str | None, list[Told]] = {}
    for first in range(0, len(events), size):
        rows = range(first, min(first + size, len(events)))
        for number, runner in enumerate(parts):
            own = [row for row in rows if PART[events[row].key] == number]
            if own:
                # What a part is told is the newest time of these events alone, at each of them.
                at = [max(each.at for each in events[first : row + 1]) for row in own]
                part = batch([events[row] for row in own], "JFK")
                sort(told(runner.run_batch(part, at, "JFK")), found)
            sort(told(runner.advance("JFK", newest[rows[-1]])), found)
    for runner in parts:
        sort(told(runner.end_all()), found)
    whole: dict[str | None, list[Told]] = {}
    sort(Model().run(events).end(), whole)
    assert found == whole


def sort(told: list[Told], by_key: dict[str | None, list[Told]]) -> None:
    for each in told:
        by_key.setdefault(each.key, []).append(each)

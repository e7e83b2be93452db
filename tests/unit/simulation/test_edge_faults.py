"""What fails at a node's edge, rows that are no events, and what is made of them."""

from __future__ import annotations

import functools
import random
from collections import Counter

import pytest

from activebroker.core.errors import ActiveBrokerError, FilterStopped, ProtocolError, Unreachable
from activebroker.simulation import edge, rows
from activebroker.simulation.allowance import explains
from activebroker.simulation.contents import Content
from activebroker.simulation.drawing import draw
from activebroker.simulation.edge import Cost
from activebroker.simulation.host import Intake
from activebroker.simulation.reference import (
    REASON,
    Count,
    Few,
    group_of,
)
from activebroker.simulation.run import run
from activebroker.simulation.scenario import TOUCHY, Scenario
from activebroker.simulation.users import Channel, Consumer
from activebroker.simulation.world import World


@functools.cache
def drawn() -> list[Scenario]:
    return [draw(seed) for seed in range(1000)]


@pytest.mark.parametrize("size", [4, 20])
def test_a_consumer_has_word_of_each_row_that_is_none_at_its_place(size: int) -> None:
    batch = rows.batch_of(rows.TOUCHY, "s1", range(5, 5 + size), 0)
    seen = rows.seen_in(batch)
    assert [n for n, _, _ in seen] == list(range(5, 5 + size))
    assert [n for n, _, trace in seen if trace == REASON] == [
        n for n in range(5, 5 + size) if rows.refuses(n)
    ]


def test_such_a_row_is_lost_at_a_filter_that_decodes_it_and_passes_one_that_does_not() -> None:
    root = Content()
    meant, readable = rows.without_checks(rows.batch_of(rows.TOUCHY, "s1", range(4), 0))
    for event, is_one in zip(meant.events(), readable, strict=True):
        root.hand_over("s1", event, is_one)
    (counted,) = Content(Count, root).possible("s1")
    assert [e.seen[0] for e in counted] == [0, 2, 3]
    (passed,) = Content(Few, root).possible("s1")
    assert [e.seen for e in passed] == [
        (n, group_of(n), REASON if rows.refuses(n) else "") for n in range(4) if group_of(n) != 1
    ]


ERRORS: list[tuple[Cost, ActiveBrokerError, bool]] = [
    (Cost("x.Count"), FilterStopped(edge.PLANTED), True),
    (Cost("x"), FilterStopped(edge.PLANTED), False),
    (Cost("x.Count"), FilterStopped("something else"), False),
    (Cost("x.Count"), ActiveBrokerError(edge.PLANTED), False),
    (Cost("x.Count"), Unreachable(f"'atlanta' cannot run it: {edge.PLANTED}."), True),
    (Cost("x.Count"), Unreachable(f"It could not go on: {edge.STOPPED}."), True),
    (Cost("x"), Unreachable(f"It could not go on: {edge.STOPPED}."), False),
    (Cost("x.Count"), Unreachable("It could not go on."), False),
    (Cost(suppliers=("s1",)), Unreachable(f"It could not go on: {edge.STOPPED}."), True),
    (Cost(inlet=7), Unreachable(f"It could not go on: {edge.STOPPED}."), False),
    (Cost(inlet=7), ActiveBrokerError(edge.UNDELIVERED), True),
    (Cost(inlet=8), ActiveBrokerError(edge.UNDELIVERED), False),
    (Cost(suppliers=("s1",)), ProtocolError("cannot read the events of 's1'"), True),
    (Cost(suppliers=("s1",)), FilterStopped("cannot read the events of 's1'"), True),
    (Cost(suppliers=("s1",)), ProtocolError("cannot read the events of 's2'"), False),
    (Cost(suppliers=("s1",)), ProtocolError("took too long for 's1'"), False),
]


@pytest.mark.parametrize(("cost", "error", "explained"), ERRORS)
def test_what_a_subscription_may_end_with(
    cost: Cost, error: ActiveBrokerError, explained: bool
) -> None:
    world = World(random.Random(1), ("west",))
    root = Channel("x", Content())
    channel = Channel("x.Count", Content(Count, root.content), root)
    consumer = Consumer(channel, world.hosts["west"], 7, Intake(None), subscribed=True)
    assert not explains(world, consumer, error)
    world.costly.append(cost)
    assert explains(world, consumer, error) is explained


def test_the_mix_is_that_of_the_docs() -> None:
    def share(kinds: list[bool]) -> float:
        return sum(kinds) / len(kinds)

    touchy = [any(s.do == "publish" and s.choice > TOUCHY for s in each.steps) for each in drawn()]
    at_edge = [any(fault.do in ("fail", "garble") for fault in each.faults) for each in drawn()]
    assert 0.05 < share(touchy) < 0.09 and 0.06 < share(at_edge) < 0.1


def test_each_kind_takes_effect() -> None:
    counts: Counter[str] = Counter()
    for scenario in drawn():
        if any(fault.do in ("fail", "garble") for fault in scenario.faults):
            outcome = run(scenario, record=False)
            assert not outcome.violations
            counts.update(outcome.counts)
    kinds = ["failed RunStage", "failed LoadStage", "failed Deliver", "frames garbled"]
    assert all(counts[kind] for kind in kinds), counts

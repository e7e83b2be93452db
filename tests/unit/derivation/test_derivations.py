"""Whole derivations in any order of happenings: how they end, and what the consumer sees."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from parties_for_tests import Derivation

from derivation.initiator import InitiatorState
from derivation.protocol import Finish, Outcome

EVENTS = 6

shapes = st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.booleans())


def play(run: Derivation, data: st.DataObject, fault: Callable[[], None] | None = None) -> None:
    """Let what happens next be drawn, until nothing can; somewhere amid it, the fault."""
    before = data.draw(st.integers(0, 60)) if fault is not None else -1
    while ready := run.ready():
        if before == 0 and fault is not None:
            fault()
        else:
            run.go_on(ready[data.draw(st.integers(0, len(ready) - 1))])
        before -= 1


def everything(run: Derivation) -> bool:
    """Whether each supplier's events came once, in order, and through one running count."""
    whole = [(number, number + 1) for number in range(EVENTS)]
    return all(got == whole for got in run.delivered.values())


@given(shapes, st.data())
@settings(max_examples=80)
def test_without_faults_it_completes_and_nothing_is_lost(
    shape: tuple[int, int, int, bool], data: st.DataObject
) -> None:
    run = Derivation(*shape, EVENTS)
    play(run, data)
    assert [each.outcome for each in run.outcomes] == [Outcome.COMPLETED]
    assert run.initiator.state is InitiatorState.COMPLETED
    assert everything(run)


@given(shapes, st.data())
@settings(max_examples=50)
def test_a_refusal_rolls_it_back_and_the_filter_stays(
    shape: tuple[int, int, int, bool], data: st.DataObject
) -> None:
    run = Derivation(*shape, EVENTS)
    run.refuses = data.draw(st.sampled_from(run.plan.destinations))
    play(run, data)
    (finish,) = run.outcomes
    assert finish.outcome == Outcome.ROLLED_BACK
    assert finish.reason == f"{run.refuses!r} refused: it cannot be loaded"
    assert everything(run)


@given(shapes, st.data())
@settings(max_examples=50)
def test_past_its_deadline_it_is_rolled_back_or_completes_late(
    shape: tuple[int, int, int, bool], data: st.DataObject
) -> None:
    run = Derivation(*shape, EVENTS)
    play(run, data, run.pass_deadline)
    outcomes = [each.outcome for each in run.outcomes]
    assert outcomes in (
        [Outcome.COMPLETED],
        [Outcome.OVERDUE, Outcome.COMPLETED],
        [Outcome.ROLLED_BACK],
    )
    if outcomes != [Outcome.COMPLETED]:
        assert any(repr(party) in run.outcomes[0].reason for party in run.places)
    assert everything(run)


@given(shapes, st.data())
@settings(max_examples=50)
def test_a_lost_source_costs_only_its_own_events(
    shape: tuple[int, int, int, bool], data: st.DataObject
) -> None:
    run = Derivation(*shape, EVENTS)
    lost = data.draw(st.sampled_from([*run.sources]))
    play(run, data, lambda: run.lose(lost))
    (finish,) = run.outcomes
    assert finish == Finish(Outcome.COMPLETED) or finish == Finish(
        Outcome.ROLLED_BACK, f"{lost!r} was lost"
    )
    # What it had sent on the old flow may be lost, and on the new one not.
    got = run.delivered.pop(lost)
    numbers = [number for number, _ in got]
    assert numbers == sorted(set(numbers))
    assert [count for _, count in got] == [*range(1, len(got) + 1)]
    assert everything(run)


@given(shapes, st.data())
@settings(max_examples=50)
def test_a_lost_origin_is_named_unless_it_had_handed_over(
    shape: tuple[int, int, int, bool], data: st.DataObject
) -> None:
    run = Derivation(*shape, EVENTS)
    lost = data.draw(st.sampled_from(run.plan.origins))
    play(run, data, lambda: run.lose(lost))
    (finish,) = run.outcomes
    assert finish == Finish(Outcome.COMPLETED) or f"{lost!r} was lost" in finish.reason
    for got in run.delivered.values():
        # What it had forwarded, and the consumer had not got, is lost with it.
        assert got == sorted(set(got))
        assert all(count == number + 1 for number, count in got)


@given(shapes, st.data())
@settings(max_examples=50)
def test_a_lost_destination_rolls_it_back_or_ends_the_channel(
    shape: tuple[int, int, int, bool], data: st.DataObject
) -> None:
    run = Derivation(*shape, EVENTS)
    lost = data.draw(st.sampled_from(run.plan.destinations))
    play(run, data, lambda: run.lose(lost))
    (finish,) = run.outcomes
    assert finish == Finish(Outcome.COMPLETED) or finish.reason == f"{lost!r} was lost"
    for got in run.delivered.values():
        assert got == [(number, number + 1) for number in range(len(got))]
    if finish.outcome == Outcome.ROLLED_BACK:
        assert everything(run)

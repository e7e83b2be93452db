"""Derivations under any losses, refusals and deadlines, step by step, then left to settle.

At every step the consumer has an unbroken beginning of each supplier's stream, through one running
count; at the end the derivation has ended, and nothing is lost but what the lost had.
"""

from __future__ import annotations

from failures_for_tests import FailingDerivation
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from derivation.destination import DestinationState
from derivation.initiator import ENDED
from derivation.origin import OriginState
from derivation.protocol import Outcome
from derivation.source import SourceState

EVENTS = 6
WHOLE = [(number, number + 1) for number in range(EVENTS)]


class DerivationsThatFail(RuleBasedStateMachine):
    @initialize(
        shape=st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.booleans()),
        refuses=st.sampled_from([*[None] * 8, "destination-0", "destination-1"]),
        lead=st.integers(0, 100),
        stride=st.integers(1, 12),
    )
    def begin(
        self, shape: tuple[int, int, int, bool], refuses: str | None, lead: int, stride: int
    ) -> None:
        """Most of what can fail does so late: it has a `lead` of steps."""
        self.all = FailingDerivation(*shape, EVENTS)
        self.all.refuses = refuses if refuses in self.all.places else None
        self.go_on([stride * step for step in range(lead)])

    @precondition(lambda self: self.all.ready())
    @rule(streams=st.lists(st.integers(0, 30), min_size=1, max_size=6))
    def go_on(self, streams: list[int]) -> None:
        """Messages and events arrive, suppliers publish, filters work: one stream at a time."""
        for which in streams:
            if ready := self.all.ready():
                self.all.go_on(ready[which % len(ready)])

    @precondition(lambda self: self.all.ready())
    @rule(which=st.integers(0, 30), times=st.integers(2, 8))
    def one_is_quick(self, which: int, times: int) -> None:
        ready = self.all.ready()
        stream = ready[which % len(ready)]
        for _ in range(times):
            if stream in self.all.ready():
                self.all.go_on(stream)

    @precondition(lambda self: len(self.all.lost) < 3)
    @rule(which=st.integers(0, 30))
    def lose(self, which: int) -> None:
        if left := self.all.left:
            self.all.lose(left[which % len(left)])

    @precondition(lambda self: self.all.deadline)
    @rule()
    def pass_deadline(self) -> None:
        self.all.pass_deadline()

    def teardown(self) -> None:
        """All that is under way arrives, and no deadline has to pass for the derivation to end."""
        while ready := self.all.ready():
            self.all.go_on(ready[0])
            self.nothing_is_lost_doubled_or_reordered()
        self.it_has_ended()

    @invariant()
    def nothing_is_lost_doubled_or_reordered(self) -> None:
        for got in self.all.delivered.values():
            assert got == WHOLE[: len(got)]

    @precondition(lambda self: not self.all.ready())
    @rule()
    def it_has_ended(self) -> None:
        run = self.all
        *before, outcome = [each.outcome for each in run.outcomes]
        assert run.initiator.state in ENDED
        assert before in ([], [Outcome.OVERDUE])
        assert not run.deadline
        assert not {*run.plan.origins, *run.plan.destinations}.isdisjoint(run.lost) or (
            outcome != Outcome.FAILED and self.complete(run.sources)
        )
        if outcome == Outcome.COMPLETED:
            self.it_runs_at_the_destinations()
        elif outcome == Outcome.ROLLED_BACK:
            self.all_is_as_before()

    def it_runs_at_the_destinations(self) -> None:
        run = self.all
        for name in run.left:
            if name in run.sources:
                assert run.sources[name].state is SourceState.SWAPPED
            elif name in run.plan.origins:
                assert run.places[name].machine.state is OriginState.HANDED_OVER
                assert not run.places[name].running
            else:
                assert run.places[name].machine.state is DestinationState.COMPLETED
                assert run.places[name].running

    def all_is_as_before(self) -> None:
        run = self.all
        for name in run.left:
            if name in run.sources:
                assert run.sources[name].state is SourceState.ATTACHED
                assert run.swaps[name].origin in run.lost or self.complete([name])
            elif name in run.plan.origins:
                assert run.places[name].machine.state is OriginState.CANCELLED
                assert run.places[name].running
            else:
                assert run.places[name].machine.state is DestinationState.CANCELLED
                assert not run.places[name].running
                assert not run.places[name].inbox

    def complete(self, sources: object) -> bool:
        """Whether all events of those of the sources that are not lost were delivered."""
        return all(self.all.delivered[name] == WHOLE for name in sources if name in self.all.left)


TestDerivationsThatFail = DerivationsThatFail.TestCase
TestDerivationsThatFail.settings = settings(max_examples=300, stateful_step_count=30)


def test_what_a_lost_source_sent_behind_a_gap_is_not_taken() -> None:
    run = FailingDerivation(1, 1, 1, False, EVENTS)
    publish, old_flow = ("source-0", "source-0", "publish"), ("source-0", "origin-0", 0)

    def all_but(*held: object) -> None:
        while ready := [stream for stream in run.ready() if stream not in held]:
            run.go_on(ready[0])

    for _ in range(3):
        run.go_on(publish)
    run.go_on(old_flow)  # the first event arrives; two, and the ACK, stay under way
    all_but(publish, old_flow)
    all_but(old_flow)
    assert run.sources["source-0"].state is SourceState.SWAPPED
    assert len(run.places["destination-0"].inbox) == EVENTS - 3
    run.lose("source-0")
    all_but()
    assert [each.outcome for each in run.outcomes] == [Outcome.COMPLETED]
    assert run.delivered == {"source-0": WHOLE[:1]}

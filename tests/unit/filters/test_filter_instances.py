"""The instances of a filter: one a supplier or one for all, their hooks and their state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from running_for_tests import Dear, Name, Pairs, runner, seqs, trades

from activebroker.events import Batch, Event
from activebroker.filters import FIFOFilter, RunResult


class Counting(FIFOFilter):
    """Forwards a `Name` for each event and hook: which it was, and how many there were."""

    output = Name

    def __init__(self, start: int = 0, log: list[str] | None = None) -> None:
        self.seen = start
        self.log = [] if log is None else log
        self.last: Event | None = None

    def _say(self, what: str) -> None:
        self.log.append(what)
        if self.last is not None:
            super().enqueue(self.last.replace(Name(f"{what} {self.seen}")))

    def on_start(self) -> None:
        self.log.append("start")

    def enqueue(self, event: Event) -> None:
        self.seen += 1
        self.last = event
        self._say("event")

    def on_idle(self) -> None:
        self._say("idle")

    def on_end(self) -> None:
        self._say("end")


def said(result: RunResult) -> list[tuple[str, str]]:
    return [(each.supplier, name.name) for each in result.batches for name in each.contents()]


def test_every_supplier_has_its_own_instance() -> None:
    items: Sequence[Batch | str] = [
        trades(1, 2, supplier="NYSE"),
        trades(1, supplier="LSE"),
        "NYSE",
        trades(3, supplier="LSE", first=1),
    ]
    assert said(runner(Counting).run(items)) == [
        ("NYSE", "event 1"),
        ("NYSE", "event 2"),
        ("LSE", "event 1"),
        ("NYSE", "end 2"),
        ("LSE", "event 2"),
    ]


def test_instances_do_not_share_a_mutable_argument() -> None:
    run = runner((Counting, 0, []))
    run.run([trades(1, supplier="NYSE"), trades(1, supplier="LSE")])
    logs = [instance.log for instance in run._instances.values() if isinstance(instance, Counting)]
    assert logs == [["start", "event"], ["start", "event"]]


def test_a_shared_filter_sees_all_suppliers_and_outlives_each() -> None:
    run = runner(Counting, shared=True)
    items: Sequence[Batch | str] = [
        trades(1, 2, supplier="NYSE"),
        "NYSE",
        trades(1, supplier="LSE"),
    ]
    assert said(run.run(items)) == [
        ("NYSE", "event 1"),
        ("NYSE", "event 2"),
        ("LSE", "event 3"),
    ]
    assert said(run.end_all()) == [("LSE", "end 3")]


def test_the_end_of_a_stream_may_forward_what_was_held_back() -> None:
    run = runner(Pairs)
    assert seqs(run.run([trades(1), "NYSE"])) == [0]
    # A supplier of this name that comes later starts afresh.
    assert seqs(run.run([trades(1, 2)])) == [0, 1]
    run.run([trades(3, first=2), trades(9, supplier="LSE")])
    assert seqs(run.end_all()) == [2, 0]
    assert run.end_all() == RunResult()


def test_the_end_of_an_unknown_stream_is_nothing() -> None:
    assert runner(Counting).run(["nobody"]) == RunResult()


def test_idle_is_told_to_every_instance() -> None:
    run = runner(Counting)
    run.run([trades(1, supplier="NYSE"), trades(1, 2, supplier="LSE")])
    assert said(run.idle()) == [("NYSE", "idle 1"), ("LSE", "idle 2")]


@pytest.mark.parametrize("hook", ["on_start", "on_idle", "on_end"])
def test_a_hook_that_raises_is_a_failure_without_a_number(hook: str) -> None:
    def broken(self: Any) -> None:
        raise RuntimeError(hook)

    cls = type("Broken", (Dear,), {hook: broken})
    run = runner(cls)
    results = [run.run([trades(101)]), run.idle(), run.end_all()]
    (failure,) = [failure for result in results for failure in result.failures]
    assert (failure.supplier, failure.seq) == ("NYSE", -1)
    assert failure.error == f"RuntimeError: {hook}"
    assert seqs(results[0]) == [0]


def test_the_policy_stop_counts_for_hooks_too() -> None:
    class Broken(Dear):
        def on_start(self) -> None:
            raise RuntimeError("no")

    result = runner(Broken, stop=True).run([trades(101), trades(102, first=1)])
    assert (result.stopped, result.batches, len(result.failures)) == (True, [], 1)


def test_the_state_goes_on_at_another_place() -> None:
    old = runner(Counting)
    old.run([trades(1, 2, supplier="NYSE"), trades(1, supplier="LSE")])
    states = old.snapshot()
    assert set(states) == {"NYSE", "LSE"}
    new = runner(Counting)
    new.restore(states)
    assert said(new.run([trades(3, supplier="NYSE", first=2)])) == [("NYSE", "event 3")]
    assert said(new.idle()) == [("NYSE", "idle 3"), ("LSE", "idle 1")]
    # on_start ran where the stream started.
    logs = [instance.log for instance in new._instances.values() if isinstance(instance, Counting)]
    assert [log.count("start") for log in logs] == [1, 1]


def test_the_snapshot_is_a_copy() -> None:
    old = runner(Counting)
    old.run([trades(1)])
    states = old.snapshot()
    old.run([trades(2, first=1)])
    new = runner(Counting)
    new.restore(states)
    assert said(new.idle()) == [("NYSE", "idle 1")]


def test_a_filter_may_choose_its_own_snapshot() -> None:
    class Chooses(Counting):
        def snapshot(self) -> bytes:
            return b"%d" % self.seen

        def restore(self, state: bytes) -> None:
            self.seen = int(state)

    old, new = runner(Chooses), runner(Chooses)
    old.run([trades(1, 2, 3)])
    assert old.snapshot() == {"NYSE": b"3"}
    new.restore(old.snapshot())
    assert said(new.run([trades(4, first=3)])) == [("NYSE", "event 4")]


def test_a_shared_filter_has_one_state() -> None:
    old, new = runner(Counting, shared=True), runner(Counting, shared=True)
    old.run([trades(1, supplier="NYSE"), trades(1, supplier="LSE")])
    states = old.snapshot()
    assert len(states) == 1
    new.restore(states)
    assert said(new.run([trades(2, supplier="NYSE", first=1)])) == [("NYSE", "event 3")]


def test_closed_it_forgets_everything() -> None:
    run = runner(Pairs)
    run.run([trades(1)])
    run.close()
    assert run.end_all() == RunResult()
    assert run.snapshot() == {}

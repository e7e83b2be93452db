"""The outlet of a log: each subscriber gets all that it wants, once and in order, from where it
begins, be it early, late or slow, and holds up nobody."""

from __future__ import annotations

from typing import Any

import pytest
from chunks_for_tests import chunk, groups
from hypothesis import given, settings
from hypothesis import strategies as st

from activebroker.core.errors import NotInLog, flatten
from activebroker.matching import Chunk
from activebroker.node.dataplane.logged import LogOutlet
from activebroker.node.dataplane.outlet import WINDOW, OutFlow
from activebroker.node.effects import LogRead, ReadLog
from activebroker.node.logwriter import LogWriter
from activebroker.protocol.flows import FlowEnded, StreamEnded
from activebroker.protocol.specs import FlowSpec, Offsets, Since
from activebroker.simulation.logs import MemoryLog
from predicate_extract import extract

ALL = Since()
EVEN = extract(lambda note: note.group % 2 == 0).predicate.to_json()


class Logged:
    """A log's outlet with its log, and what it has handed on, by flow."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.writer = LogWriter(self.log)
        self.sent: dict[int, list[Any]] = {}
        self.outlet = LogOutlet(1, "late.log", self._carry)
        self.asked: list[ReadLog] = []
        self.counts: dict[str, int] = {}

    def _carry(self, flow: OutFlow, item: Any) -> None:
        self.sent.setdefault(flow.spec.id, []).append(item)

    def open(
        self,
        flow: int,
        log: Since | None = None,
        predicate: str | None = None,
        since: Offsets | None = None,
        resumes: bool = False,
        subscriber: str = "",
    ) -> None:
        spec = FlowSpec(
            flow,
            1,
            "here",
            50,
            "there",
            predicate,
            since=since or {},
            subscriber=subscriber or f"inlet {flow}",
            resumes=resumes,
            log=log,
        )
        self.outlet.open(spec)

    def append(self, item: Chunk | StreamEnded) -> None:
        self.writer.append([item])
        if isinstance(item, Chunk):
            self.outlet.emit(item)
        else:
            self.outlet.end_stream(item.supplier, item.upto)

    def events(self, *numbers: int, supplier: str = "A", size: int = 0) -> None:
        first = self.counts.get(supplier, 0)
        self.counts[supplier] = first + len(numbers)
        self.append(chunk(*numbers, supplier=supplier, first=first, size=size))

    def end(self, supplier: str = "A") -> None:
        self.counts[supplier] = self.counts.get(supplier, 0) + 1
        self.append(StreamEnded(0, 0, supplier, (1, self.counts[supplier])))

    def ask(self) -> None:
        self.asked += self.outlet.reads()

    def answer(self) -> None:
        self.outlet.read(self.writer.read(self.asked.pop(0)))

    def settle(self) -> None:
        self.ask()
        while self.asked:
            self.answer()
            self.ask()

    def got(self, flow: int) -> list[Any]:
        found: list[Any] = []
        for item in self.sent.get(flow, []):
            shown = groups(item)
            found += [shown] if isinstance(shown, str) else shown
        return found

    def take(self, flow: int) -> None:
        """The consumer has consumed all that it was sent."""
        credit = self.outlet.flows[flow].credit if flow in self.outlet.flows else WINDOW
        self.outlet.return_credit(flow, WINDOW - credit)


@pytest.fixture
def logged() -> Logged:
    return Logged()


def test_one_that_comes_gets_what_comes_then(logged: Logged) -> None:
    logged.events(1, 2)
    logged.open(7)
    logged.events(3)
    assert list(logged.outlet.reads()) == []
    assert logged.got(7) == [3]


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        (ALL, [1, 2, 3, 4, 5]),
        (Since(position=2), [3, 4, 5]),
        (Since(position=4), [5]),
        (Since(time=0), [1, 2, 3, 4, 5]),
        (Since(time=1), []),
        (Since(seqs={"A": 2}), [3, 4, 5]),
        (Since(seqs={"A": 2, "B": 1}), [3, 5]),
        (Since(seqs={"B": 0, "nobody": 3}), [1, 2, 3, 4, 5]),
        (Since(had={"A": (1, 3)}), [4, 5]),
        (Since(until=3), [1, 2, 3]),
        (Since(position=1, until=2), [2]),
        (Since(position=3, until=3), []),
    ],
)
def test_a_late_one_begins_where_it_says(logged: Logged, since: Since, expected: list[int]) -> None:
    logged.events(1, 2, 3)
    logged.events(4, supplier="B")
    logged.events(5, supplier="B")
    logged.open(7, since)
    logged.settle()
    ended = ["FlowEnded"] if since.until is not None else []
    assert logged.got(7) == expected + ended
    if since.until is None:
        logged.events(6)
        assert logged.got(7) == [*expected, 6]


def test_one_that_wants_what_there_is_ends_there(logged: Logged) -> None:
    logged.events(1, 2)
    logged.open(7, Since(ends=True))
    logged.ask()
    logged.events(3)
    logged.answer()
    logged.settle()
    assert logged.got(7) == [1, 2, "FlowEnded"]


def test_one_that_ends_later_waits_for_that(logged: Logged) -> None:
    logged.open(7, Since(until=2))
    logged.settle()
    logged.events(1)
    logged.settle()
    assert logged.got(7) == [1]
    logged.events(2, 3)
    logged.settle()
    assert logged.got(7) == [1, 2, "FlowEnded"]


def test_a_predicate_selects_of_what_was_and_of_what_comes(logged: Logged) -> None:
    logged.events(1, 2, 3, 4)
    logged.open(7, ALL, EVEN)
    logged.settle()
    logged.events(5, 6)
    assert logged.got(7) == [2, 4, 6]


def test_a_changed_predicate_holds_from_the_events_that_come_next(logged: Logged) -> None:
    logged.events(1, 2, 3)
    logged.open(7, ALL, EVEN)
    logged.outlet.set_predicate("inlet 7", None)
    logged.events(5)
    logged.settle()
    logged.events(7)
    assert logged.got(7) == [2, 5, 7]


def test_a_slow_one_holds_up_nobody_and_misses_nothing(logged: Logged) -> None:
    big = WINDOW // 4
    logged.open(7)
    logged.open(8)
    for number in range(12):
        assert logged.outlet.ready
        logged.events(number, size=big)
        logged.take(8)
        logged.settle()
    assert logged.got(8) == list(range(12))
    assert len(logged.got(7)) < 6
    waiting = sum(len(flow.waiting) for flow in logged.outlet.flows.values())
    assert waiting == 0  # what it lacks is not in memory
    while len(logged.got(7)) < 12:
        logged.take(7)
        logged.settle()
    assert logged.got(7) == list(range(12))
    assert logged.outlet.all_acknowledged({"A": (1, 12)})


def test_the_end_of_a_stream_comes_once_and_after_its_events(logged: Logged) -> None:
    logged.events(1)
    logged.open(7, ALL)
    logged.ask()  # before the end is there
    logged.end()
    logged.answer()
    logged.settle()
    logged.open(8, ALL)
    logged.settle()
    logged.events(2, supplier="B")
    assert logged.got(7) == logged.got(8) == [1, "StreamEnded", 2]


def test_one_without_credit_gets_the_end_of_a_stream(logged: Logged) -> None:
    logged.open(7)
    logged.events(1, size=WINDOW + 1)
    logged.end()
    logged.settle()
    assert logged.got(7) == [1, "StreamEnded"]


def test_the_channel_ends_for_each_after_all_that_it_wants(logged: Logged) -> None:
    logged.events(1, 2)
    logged.open(7, ALL)
    logged.open(8)
    logged.outlet.end(finished=True)
    assert logged.got(8) == ["FlowEnded"]
    assert not logged.outlet.drained
    logged.settle()
    assert logged.got(7) == [1, 2, "FlowEnded"]
    assert logged.sent[7][-1].finished
    assert logged.outlet.drained


def test_one_that_comes_after_the_end_gets_all_of_it(logged: Logged) -> None:
    logged.events(1)
    logged.outlet.end(finished=True)
    logged.open(7, ALL)
    logged.settle()
    assert logged.got(7) == [1, "FlowEnded"]


def test_what_is_no_longer_kept_ends_the_flow_with_an_error(logged: Logged) -> None:
    logged.events(1)
    logged.events(2)
    logged.open(7, ALL)
    logged.log.drop_before(1)
    logged.settle()
    assert logged.got(7) == [2]  # all that is left
    logged.open(8, Since(position=0))
    (asked,) = logged.outlet.reads()
    error = flatten(NotInLog("gone"))
    logged.outlet.read(LogRead(1, asked.flow, 0, error=error))
    (end,) = logged.sent[8]
    assert isinstance(end, FlowEnded) and end.error == error
    logged.outlet.read(LogRead(1, 99, 0, error=error))  # of a flow that is gone


@pytest.mark.parametrize("first", ["the old one ends", "the new one begins"])
def test_another_flow_goes_on_where_the_subscriber_is(logged: Logged, first: str) -> None:
    """As when a filter that takes from the log moves."""
    logged.events(1, 2, 3)
    logged.open(7, Since(had={"A": (1, 1)}), subscriber="late")
    logged.settle()
    logged.outlet.flows[7].credit = 0
    logged.events(4)
    logged.events(5)
    if first == "the old one ends":
        logged.outlet.end_flow(7)
        logged.open(8, subscriber="late")
    else:
        logged.open(8, subscriber="late")
        logged.outlet.end_flow(7)
    assert logged.got(7) == [2, 3, "FlowEnded"]
    logged.settle()
    logged.events(6)
    assert logged.got(8) == [4, 5, 6]


@pytest.mark.parametrize("first", ["the old one ends", "the new one begins"])
def test_what_is_read_for_a_flow_that_has_ended_is_read_anew(logged: Logged, first: str) -> None:
    logged.events(1, 2, 3)
    logged.open(7, Since(had={"A": (1, 1)}), subscriber="late")
    logged.ask()
    if first == "the old one ends":
        logged.outlet.end_flow(7)
    logged.open(8, subscriber="late")
    logged.outlet.end_flow(7)
    logged.answer()
    logged.settle()
    assert logged.got(8) == [2, 3]


def test_one_that_resumes_begins_after_what_it_has(logged: Logged) -> None:
    logged.events(1, 2)
    logged.events(3, supplier="B")
    logged.open(7, subscriber="late")
    logged.events(4)
    logged.outlet.lost("there")
    logged.events(5)
    logged.open(8, since={"A": (1, 3), "B": (1, 1)}, resumes=True, subscriber="late")
    logged.settle()
    logged.events(6)
    assert logged.got(8) == [5, 6]


steps = st.one_of(
    st.tuples(st.just("events"), st.sampled_from("AB"), st.integers(1, 3)),
    st.tuples(st.just("end"), st.sampled_from("AB"), st.just(0)),
    st.tuples(st.just("open"), st.sampled_from(["now", "all", "even"]), st.integers(0, 9)),
    st.tuples(st.just("ask"), st.just(""), st.just(0)),
    st.tuples(st.just("answer"), st.just(""), st.just(0)),
    st.tuples(st.just("take"), st.just(""), st.integers(0, 3)),
    st.tuples(st.just("close"), st.just(""), st.integers(0, 3)),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(steps, max_size=30), st.sampled_from([0, 0, WINDOW // 2]))
def test_each_gets_what_it_wants_whatever_comes_when(
    script: list[tuple[str, str, int]], size: int
) -> None:
    """Against a plain list: what is in the log from where each begins."""
    logged, everything, opened = Logged(), [], {}
    number, flows = 0, 10
    for do, which, count in script:
        match do:
            case "events":
                numbers = list(range(number, number + count))
                number += count
                logged.events(*numbers, supplier=which, size=size)
                everything += numbers
            case "end":
                logged.end(which)
                everything.append("StreamEnded")
            case "open":
                begin = len(everything) if which == "now" else 0
                if which == "now" and everything[-1:] == ["StreamEnded"]:
                    continue  # an end has the position of the next event
                opened[flows] = which, begin
                since, predicate = (
                    None if which == "now" else ALL,
                    EVEN if which == "even" else None,
                )
                logged.open(flows, since, predicate)
                flows += 1
            case "ask":
                logged.ask()
            case "answer" if logged.asked:
                logged.answer()
            case "take" if 10 + count in opened:
                logged.take(10 + count)
            case "close":
                logged.outlet.close(10 + count)
                opened.pop(10 + count, None)
    logged.outlet.end(finished=True)
    for _ in range(len(everything) + 2):
        logged.settle()
        for flow in opened:
            logged.take(flow)
    for flow, (which, begin) in opened.items():
        wanted = [
            each
            for each in everything[begin:]
            if which != "even" or isinstance(each, str) or each % 2 == 0
        ]
        assert logged.got(flow) == [*wanted, "FlowEnded"]
    assert logged.outlet.drained

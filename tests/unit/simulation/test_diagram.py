from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from activebroker.simulation.diagram import lines, page, story
from activebroker.simulation.outcome import Happening, Outcome
from activebroker.simulation.scenario import Scenario

Route = tuple[str, str, str, int | None]
PREPARE: Route = ("hub", "PrepareMove", "dallas", None)


def outcome(*history: Happening) -> Outcome:
    return Outcome(Scenario(7), ("order: <7> came late",), history)


def rows(*history: Happening, move: int | None = None) -> list[str]:
    """The lines of a text diagram without times, and blanks made one."""
    header, *shown = story(outcome(*history), move).splitlines()
    assert header.split()[0] == "seconds"
    return [re.sub(" +", " ", row[12:]).strip() for row in shown]


def happening(at: float, kind: str, place: str, what: str, other: str = "") -> Happening:
    return Happening(at, kind, place, what, other)


def sent(at: float, *, kind: str = "send", route: Route = PREPARE) -> Happening:
    place, what, other, move = route
    return Happening(at, kind, place, what, other, move)


LANES = (happening(0.0, "step", "hub", "x"), happening(0.0, "step", "dallas", "y"))


def test_lanes_are_the_hosts_in_the_order_in_which_they_appear() -> None:
    text = story(outcome(*LANES, happening(0.0, "step", "a-long-name", "z")))
    header, first, _, third = text.splitlines()
    assert header.split() == ["seconds", "hub", "dallas", "a-long-name"]
    lane = header.index("dallas") + 3
    assert first[lane] == "|" and first[header.index("hub") + 3] == "#"
    assert third[header.index("a-long-name") + 3] == "#"
    assert first.endswith(" x")


def test_marks() -> None:
    assert rows(
        happening(0.1, "step", "east", "moves x to dallas"),
        happening(0.2, "fault", "east", "crash"),
        happening(0.3, "state", "east", "origin: RUNNING -> AWAITING_END_MARKERS"),
        happening(0.4, "see", "east", "consumer 1: event of A 3"),
    ) == [
        "# moves x to dallas",
        "! FAULT crash",
        "* origin: RUNNING -> AWAITING_END_MARKERS",
        "= sees consumer 1: event of A 3",
    ]


def test_a_cut_is_marked_at_both_ends_and_healing_everywhere() -> None:
    lane = happening(0.0, "step", "west", "z")
    cut = happening(0.1, "fault", "hub", "cut off for 2 s", "west")
    heals = happening(0.2, "fault", "network", "heals")
    assert rows(*LANES, lane, cut, heals)[3:] == [
        "! | ! FAULT cut off for 2 s",
        "! ! ! FAULT heals",
    ]


def test_a_message_that_nothing_crosses_is_one_line() -> None:
    assert rows(*LANES, sent(0.1), sent(0.1025, kind="arrive"))[2:] == [
        "o------>| PrepareMove (+2.5 ms)"
    ]


def test_a_message_that_something_crosses_is_two_lines() -> None:
    crossing = happening(0.101, "fault", "dallas", "pause 0.1 s")
    assert rows(*LANES, sent(0.1), crossing, sent(0.1025, kind="arrive"))[2:] == [
        "o......>| PrepareMove (+2.5 ms)",
        "| ! FAULT pause 0.1 s",
        ".......>| PrepareMove (arrives)",
    ]


def test_what_happens_elsewhere_does_not_cross() -> None:
    elsewhere = happening(0.101, "step", "west", "subscribes")
    shown = rows(*LANES, sent(0.1), elsewhere, sent(0.102, kind="arrive"))
    assert [row.split()[-1] for row in shown] == ["x", "y", "ms)", "subscribes"]


def test_arrows_go_to_the_left_as_well() -> None:
    back = ("dallas", "Prepared", "hub", None)
    shown = rows(*LANES, sent(0.1, route=back), sent(0.2, kind="arrive", route=back))
    assert shown[2] == "|<------o Prepared (+100.0 ms)"


def test_a_dropped_message_is_one_line_and_its_repetition_arrives() -> None:
    assert rows(*LANES, sent(0.1), sent(0.1, kind="drop"), sent(0.2), sent(0.21, kind="arrive"))[
        2:
    ] == ["o------x| PrepareMove (dropped)", "o------>| PrepareMove (+10.0 ms)"]


def test_what_is_dropped_as_it_is_sent_is_not_what_was_sent_before() -> None:
    history = (sent(0.1), sent(0.2), sent(0.2, kind="drop"), sent(0.3, kind="arrive"))
    assert rows(*LANES, *history)[2:] == [
        "o......>| PrepareMove (+200.0 ms)",
        "o------x| PrepareMove (dropped)",
        ".......>| PrepareMove (arrives)",
    ]


def test_a_repeated_message_arrives_twice() -> None:
    history = (sent(0.1), sent(0.1, kind="repeat"), *(sent(t, kind="arrive") for t in (0.2, 0.3)))
    assert rows(*LANES, *history)[2:] == [
        "o......>| PrepareMove (+100.0 ms)",
        "o::::::>| PrepareMove (again, +200.0 ms)",
        ".......>| PrepareMove (arrives)",
        ".......>| PrepareMove (arrives)",
    ]


def test_what_never_arrives_says_so() -> None:
    assert rows(*LANES, sent(0.1))[2] == "o......>| PrepareMove (never arrives)"


def events(count: int) -> list[Happening]:
    return [
        each
        for n in range(count)
        for each in (
            happening(n / 10, "send", "hub", f"events of A {n}..{n + 1}", "dallas"),
            happening(n / 10 + 0.05, "arrive", "hub", f"events of A {n}..{n + 1}", "dallas"),
        )
    ]


def test_long_runs_of_events_are_folded() -> None:
    history = (*LANES, *events(40), happening(4.0, "see", "dallas", "consumer 1: event of B 7"))
    assert rows(*history)[2:] == [
        ": : events of A 0..40, B 7..7: sent hub>dallas x40, arrived hub>dallas x40, "
        "seen by dallas x1, until 4.0000"
    ]


def test_few_events_are_shown() -> None:
    assert rows(*LANES, *events(1))[2:] == ["o------>| events of A 0..1 (+50.0 ms)"]


def test_one_derivation_with_what_happens_meanwhile() -> None:
    ours, other = ("hub", "Proceed", "dallas", 12), ("hub", "Proceed", "dallas", 13)
    history = (
        *LANES,
        sent(0.1, route=ours),
        sent(0.11, route=other),
        happening(0.12, "fault", "dallas", "pause"),
        sent(0.13, kind="arrive", route=ours),
        happening(0.2, "fault", "dallas", "crash"),
    )
    assert [row.split(" ", 1)[1] for row in rows(*history, move=12)] == [
        "Proceed (+30.0 ms) #12",
        "! FAULT pause",
        "Proceed (arrives) #12",
    ]
    assert list(lines(history, move=99)) == []


def test_joining_is_folded() -> None:
    joining = [sent(n / 10) for n in range(5)] + [sent(1.0, kind="arrive")]
    assert rows(*joining, *LANES)[:2] == [
        ": : the hosts join, in 5 messages, until 1.0000",
        "# | x",
    ]


def test_long_lines_are_cut() -> None:
    text = story(outcome(*LANES, happening(0.0, "step", "hub", "z" * 500)), width=90)
    assert max(map(len, text.splitlines())) == 90


@pytest.mark.parametrize("history", [(), (*LANES, sent(0.1), *events(9), sent(0.2, kind="drop"))])
def test_the_page_is_well_formed_and_complete(history: tuple[Happening, ...]) -> None:
    text = page(outcome(*history))
    drawings = [ElementTree.fromstring(svg) for svg in re.findall("<svg.*?</svg>", text, re.S)]
    assert len(drawings) == 2
    texts = [each.text for svg in drawings for each in svg.iter("text")]
    for line in lines(history):
        assert f"{line.at:.4f}" in texts
    assert "order: &lt;7&gt; came late" in text
    assert "<script" not in text
    assert "Seed 7, the whole run" in text


def test_names_cannot_break_out_of_the_page() -> None:
    text = page(outcome(happening(0.0, "step", "<b>", "</svg><script>")))
    assert "<b>" not in text and "<script>" not in text

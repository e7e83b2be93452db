"""The four machines one by one: the normal run, what they ignore, what they refuse."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

import pytest

from derivation import destination, initiator, origin
from derivation.destination import Destination, DestinationState
from derivation.initiator import Initiator, InitiatorState
from derivation.machine import Machine, Transition, UnexpectedInput
from derivation.origin import Origin, OriginState
from derivation.protocol import (
    Cancel,
    CancelDeadline,
    CaptureState,
    End,
    EndFlow,
    Finish,
    ForgetSaved,
    HandOver,
    MergeBuffer,
    OpenFlow,
    Outcome,
    Output,
    PartyLost,
    Plan,
    Prepare,
    Prepared,
    Proceed,
    Refused,
    RemoveFilter,
    RequestSwap,
    RestoreState,
    SaveFilter,
    Send,
    SetDeadline,
    Started,
    StartFilter,
    StopFilter,
    Swap,
)
from derivation.source import Source, SourceState
from derivation.story import Step

JFK = Swap("jfk", old=(1,), new=11, destination="dallas", origin="atlanta")
LGA = Swap("lga", old=(2,), new=12, destination="dallas", origin="atlanta")
PLAN = Plan(
    move=7,
    channel="late",
    initiator="directory",
    origins=("atlanta",),
    destinations=("dallas",),
    swaps=(JFK, LGA),
    outputs=(Output("atlanta", flow=3), Output("elsewhere", flow=4)),
)
ENDED = [CancelDeadline(), *(Send(who, End(7)) for who in ("atlanta", "dallas", "jfk", "lga"))]
BOOM = ("FilterStopped", "boom")
HANDED_OVER = HandOver(7, "atlanta", {"jfk": b"1"}, ("last",), ended=(1, 2))


# --- the normal run ---------------------------------------------------------------------------


def test_the_initiator_prepares_then_requests_the_swaps_then_finishes() -> None:
    machine = Initiator(PLAN, patience=5.0)
    assert machine.handle(initiator.Begun(), 100.0) == [
        Send("atlanta", Prepare(PLAN)),
        Send("dallas", Prepare(PLAN)),
        SetDeadline(105.0),
    ]
    assert [*machine.waiting_for] == ["atlanta", "dallas"]
    assert machine.handle(Prepared(7, "dallas"), 101.0) == []
    assert [*machine.waiting_for] == ["atlanta"]
    assert machine.handle(Prepared(7, "atlanta"), 102.0) == [
        Send("atlanta", Proceed(7)),
        Send("jfk", RequestSwap(7, JFK)),
        Send("lga", RequestSwap(7, LGA)),
        SetDeadline(107.0),
    ]
    assert [*machine.waiting_for] == ["dallas"]
    assert machine.handle(Started(7, "dallas"), 103.0) == [
        *ENDED,
        Finish(Outcome.COMPLETED),
    ]
    assert machine.state is InitiatorState.COMPLETED


def test_the_source_ends_the_old_flows_and_opens_the_new_one_once() -> None:
    machine = Source()
    offload = Swap("jfk", old=(1, 2, 3), new=9, destination="dallas")
    assert machine.handle(RequestSwap(7, offload), 0.0) == [
        EndFlow(1),
        EndFlow(2),
        EndFlow(3),
        OpenFlow(9),
    ]
    assert machine.handle(RequestSwap(7, offload), 0.0) == []


def test_the_origin_goes_on_until_the_last_ack_then_hands_over() -> None:
    machine = Origin(PLAN, "atlanta")
    assert machine.handle(Prepare(PLAN), 0.0) == [Send("directory", Prepared(7, "atlanta"))]
    assert machine.handle(origin.EndMarkerReceived(2), 0.0) == []
    assert [*machine.awaited] == [1]
    assert machine.handle(Proceed(7), 0.0) == []
    assert machine.handle(origin.EndMarkerReceived(1), 0.0) == [CaptureState()]
    captured = origin.StateCaptured({"jfk": b"1"}, buffer=(("lga", "last"),))
    assert machine.handle(captured, 0.0) == [
        Send("dallas", HANDED_OVER),
        EndFlow(3),
        RemoveFilter(),
    ]


def test_an_origin_that_would_be_lost_with_its_filter_saves_it_first() -> None:
    machine = Origin(replace(PLAN, saves=True), "atlanta", draining={5: "gone"})
    assert machine.handle(Prepare(PLAN), 0.0) == [SaveFilter()]
    assert machine.handle(origin.EndMarkerReceived(5), 0.0) == []
    assert machine.handle(origin.FilterSaved(), 0.0) == [Send("directory", Prepared(7, "atlanta"))]
    assert machine.handle(Cancel(7), 0.0) == [ForgetSaved()]


def test_an_origin_forgets_what_it_saved_for_nothing() -> None:
    machine = Origin(replace(PLAN, saves=True), "atlanta")
    machine.handle(Prepare(PLAN), 0.0)
    assert machine.handle(Cancel(7), 0.0) == [ForgetSaved()]


def test_the_origin_waits_for_the_permission_to_proceed() -> None:
    machine = Origin(PLAN, "atlanta")
    machine.handle(Prepare(PLAN), 0.0)
    assert machine.handle(origin.EndMarkerReceived(1), 0.0) == []
    assert machine.handle(origin.EndMarkerReceived(2), 0.0) == []
    assert machine.handle(Proceed(7), 0.0) == [CaptureState()]


def test_the_origin_waits_for_flows_that_end_anyway() -> None:
    machine = Origin(PLAN, "atlanta", draining={5: "gone"})
    for input in (Prepare(PLAN), origin.EndMarkerReceived(1), origin.EndMarkerReceived(2)):
        machine.handle(input, 0.0)
    assert machine.handle(Proceed(7), 0.0) == []
    assert machine.handle(origin.EndMarkerReceived(5), 0.0) == [CaptureState()]


def test_each_destination_gets_its_own_suppliers_and_the_first_the_rest() -> None:
    swaps = (
        Swap("ewr", old=(1,), new=11, destination="ewr", origin="atlanta"),
        Swap("jfk", old=(2,), new=12, destination="jfk", origin="atlanta"),
    )
    plan = Plan(
        move=7,
        channel="late",
        initiator="directory",
        origins=("atlanta",),
        destinations=("ewr", "jfk"),
        swaps=swaps,
        suppliers=(("EWR", "ewr"), ("JFK", "jfk")),
    )
    machine = Origin(plan, "atlanta")
    for input in (
        Prepare(PLAN),
        origin.EndMarkerReceived(1),
        origin.EndMarkerReceived(2),
        Proceed(7),
    ):
        machine.handle(input, 0.0)
    state = {"EWR": b"e", "JFK": b"j", "gone": b"g"}
    buffer = (("JFK", 1), ("gone", 2), ("EWR", 3), ("JFK", 4))
    assert machine.handle(origin.StateCaptured(state, buffer), 0.0) == [
        Send("ewr", HandOver(7, "atlanta", {"EWR": b"e", "gone": b"g"}, (2, 3), ended=(1,))),
        Send("jfk", HandOver(7, "atlanta", {"JFK": b"j"}, (1, 4), ended=(2,))),
        RemoveFilter(),
    ]


def test_the_destination_takes_state_then_buffer_then_runs() -> None:
    machine = Destination(PLAN, "dallas")
    assert [*machine.waiting_for] == ["dallas"], "it has to be loaded here"
    assert machine.handle(destination.Loaded(), 0.0) == [Send("directory", Prepared(7, "dallas"))]
    assert machine.handle(destination.BeginMarkerReceived(12), 0.0) == []
    assert machine.handle(HANDED_OVER, 0.0) == [
        RestoreState({"jfk": b"1"}),
        MergeBuffer(HANDED_OVER),
        StartFilter(),
    ]
    assert machine.state.name == "RUNNING"
    assert [*machine.waiting_for] == ["jfk"]
    assert machine.handle(destination.BeginMarkerReceived(11), 0.0) == [
        Send("directory", Started(7, "dallas"))
    ]
    assert machine.state.name == "COMPLETED"


def test_the_destination_may_be_handed_everything_before_it_has_loaded() -> None:
    machine = Destination(PLAN, "dallas")
    for input in (
        HANDED_OVER,
        destination.BeginMarkerReceived(11),
        destination.BeginMarkerReceived(12),
    ):
        assert machine.handle(input, 0.0) == []
    assert machine.handle(destination.Loaded(), 0.0) == [
        Send("directory", Prepared(7, "dallas")),
        RestoreState({"jfk": b"1"}),
        MergeBuffer(HANDED_OVER),
        StartFilter(),
        Send("directory", Started(7, "dallas")),
    ]


def test_the_relay_of_an_offload_starts_when_its_mark_is_there() -> None:
    swap = Swap("jfk", old=(1, 2), new=9, destination="dallas")
    plan = Plan(7, "flights", "directory", (), ("dallas",), (swap,))
    machine = Destination(plan, "dallas")
    assert machine.handle(destination.Loaded(), 0.0) == [Send("directory", Prepared(7, "dallas"))]
    assert machine.handle(destination.BeginMarkerReceived(9), 0.0) == [
        StartFilter(),
        Send("directory", Started(7, "dallas")),
    ]


def test_the_relay_of_an_offload_starts_when_its_supplier_is_lost_before_the_mark() -> None:
    swap = Swap("jfk", old=(1, 2), new=9, destination="dallas")
    plan = Plan(7, "flights", "directory", (), ("dallas",), (swap,))
    machine = Destination(plan, "dallas")
    machine.handle(destination.Loaded(), 0.0)
    assert machine.handle(PartyLost("jfk"), 0.0) == [
        StartFilter(),
        Send("directory", Started(7, "dallas")),
    ]


def test_where_the_filter_was_stopped_the_channel_ends_at_the_destination() -> None:
    machine = Origin(PLAN, "atlanta")
    for input in (
        Prepare(PLAN),
        origin.EndMarkerReceived(1),
        origin.EndMarkerReceived(2),
        Proceed(7),
    ):
        machine.handle(input, 0.0)
    hand_over, *_ = machine.handle(origin.StateCaptured({}, (), error=BOOM), 0.0)
    assert isinstance(hand_over, Send)
    subscriber = Destination(PLAN, "dallas")
    subscriber.handle(destination.Loaded(), 0.0)
    assert subscriber.handle(hand_over.message, 0.0) == [
        StopFilter(BOOM),
        Send("directory", Started(7, "dallas")),
    ]


# --- refusals, deadlines, losses --------------------------------------------------------------

ROLLED_BACK = [Send("atlanta", Cancel(7)), Send("dallas", Cancel(7)), CancelDeadline()]


@pytest.mark.parametrize(
    ("input", "reason"),
    [
        (Refused(7, "dallas", "no numpy here"), "'dallas' refused: no numpy here"),
        (PartyLost("jfk"), "'jfk' was lost"),
        (initiator.DeadlinePassed(), "no answer from 'dallas' within 5 s"),
    ],
)
def test_before_the_swaps_a_derivation_is_rolled_back_and_says_why(
    input: object, reason: str
) -> None:
    machine = Initiator(PLAN, patience=5.0)
    machine.handle(initiator.Begun(), 0.0)
    machine.handle(Prepared(7, "atlanta"), 0.0)
    assert machine.handle(input, 1.0) == [*ROLLED_BACK, Finish(Outcome.ROLLED_BACK, reason)]
    assert machine.handle(Prepared(7, "dallas"), 2.0) == []


@pytest.mark.parametrize(
    ("input", "effects"),
    [
        (PartyLost("jfk"), []),  # the destination knows what to do without it
        (
            PartyLost("dallas"),
            [*ENDED, Finish(Outcome.FAILED, "'dallas' was lost")],
        ),
        (
            Refused(7, "dallas", "its state is gone"),
            [*ENDED, Finish(Outcome.FAILED, "at 'dallas': its state is gone")],
        ),
        (
            initiator.GivenUp("'atlanta' was lost"),
            [*ENDED, Finish(Outcome.FAILED, "'atlanta' was lost")],
        ),
        (
            initiator.DeadlinePassed(),
            [Finish(Outcome.OVERDUE, "the switch-over waits for 'dallas'")],
        ),
    ],
)
def test_after_the_swaps_a_derivation_goes_forward_or_ends_the_channel(
    input: object, effects: list[object]
) -> None:
    machine = Initiator(PLAN, patience=5.0)
    machine.handle(initiator.Begun(), 0.0)
    machine.handle(Prepared(7, "atlanta"), 0.0)
    machine.handle(Prepared(7, "dallas"), 0.0)
    assert machine.handle(input, 1.0) == effects


def test_what_is_overdue_can_still_complete() -> None:
    machine = Initiator(PLAN, patience=5.0)
    for input in (
        initiator.Begun(),
        Prepared(7, "atlanta"),
        Prepared(7, "dallas"),
        initiator.DeadlinePassed(),
    ):
        machine.handle(input, 0.0)
    assert machine.handle(Started(7, "dallas"), 60.0)[-1] == Finish(Outcome.COMPLETED)


def test_a_destination_that_cannot_load_says_why_and_leaves_nothing() -> None:
    machine = Destination(PLAN, "dallas")
    assert machine.handle(destination.LoadFailed("no numpy here"), 0.0) == [
        Send("directory", Refused(7, "dallas", "no numpy here")),
        RemoveFilter(),
    ]


@pytest.mark.parametrize("loaded", [False, True])
def test_a_cancelled_destination_drops_its_filter_once(loaded: bool) -> None:
    machine = Destination(PLAN, "dallas")
    if loaded:
        machine.handle(destination.Loaded(), 0.0)
    assert machine.handle(Cancel(7), 0.0) == [RemoveFilter()]
    assert machine.handle(Cancel(7), 0.0) == []


def test_a_destination_does_without_a_lost_source() -> None:
    machine = Destination(PLAN, "dallas")
    for input in (
        destination.Loaded(),
        destination.BeginMarkerReceived(11),
        HANDED_OVER,
    ):
        machine.handle(input, 0.0)
    assert machine.handle(PartyLost("nobody"), 0.0) == []
    assert machine.handle(PartyLost("lga"), 0.0) == [Send("directory", Started(7, "dallas"))]


def test_a_lost_origin_takes_the_state_with_it() -> None:
    machine = Destination(PLAN, "dallas")
    machine.handle(destination.Loaded(), 0.0)
    reason = "'atlanta' was lost, and the filter's state with it"
    assert machine.handle(PartyLost("atlanta"), 0.0) == [
        Send("directory", Refused(7, "dallas", reason))
    ]


def test_an_origin_that_has_handed_over_is_not_missed() -> None:
    machine = Destination(PLAN, "dallas")
    machine.handle(HANDED_OVER, 0.0)
    assert machine.handle(PartyLost("atlanta"), 0.0) == []


# --- the tables, complete ---------------------------------------------------------------------

# What a state takes, what it ignores ("strays"); all else is the caller's mistake.
EXPECTED: dict[type[Machine], dict[Enum, tuple[str, str]]] = {
    Initiator: {
        InitiatorState.IDLE: ("Begun", ""),
        InitiatorState.PREPARING: ("Prepared Refused PartyLost DeadlinePassed", ""),
        InitiatorState.SWAPPING: (
            "Started Refused PartyLost GivenUp DeadlinePassed",
            "Prepared",
        ),
        **dict.fromkeys(
            (InitiatorState.COMPLETED, InitiatorState.FAILED, InitiatorState.ROLLED_BACK),
            ("", "Prepared Refused Started PartyLost DeadlinePassed"),
        ),
    },
    Source: {
        SourceState.ATTACHED: ("RequestSwap", ""),
        SourceState.SWAPPED: ("", "RequestSwap"),
    },
    Origin: {
        OriginState.RUNNING: ("Prepare", ""),
        OriginState.SAVING: ("FilterSaved EndMarkerReceived Cancel", ""),
        OriginState.AWAITING_END_MARKERS: ("Proceed EndMarkerReceived Cancel", ""),
        OriginState.CAPTURING: ("StateCaptured", ""),
        OriginState.HANDED_OVER: ("", ""),
        OriginState.CANCELLED: ("", ""),
    },
    Destination: {
        DestinationState.LOADING: (
            "Loaded LoadFailed BeginMarkerReceived HandOver PartyLost Cancel",
            "",
        ),
        DestinationState.PREPARED: ("BeginMarkerReceived HandOver PartyLost Cancel", ""),
        DestinationState.RUNNING: ("BeginMarkerReceived PartyLost Cancel", ""),
        DestinationState.COMPLETED: ("Cancel", "BeginMarkerReceived PartyLost"),
        DestinationState.CANCELLED: (
            "",
            "Loaded LoadFailed BeginMarkerReceived PartyLost Cancel",
        ),
    },
}
INPUTS: dict[type[Machine], list[object]] = {
    Initiator: [
        initiator.Begun(),
        Prepared(7, "dallas"),
        Refused(7, "dallas", "why"),
        Started(7, "dallas"),
        PartyLost("dallas"),
        initiator.GivenUp("why"),
        initiator.DeadlinePassed(),
    ],
    Source: [RequestSwap(7, JFK)],
    Origin: [
        Prepare(PLAN),
        origin.FilterSaved(),
        Proceed(7),
        origin.EndMarkerReceived(1),
        origin.StateCaptured({}, ()),
        Cancel(7),
    ],
    Destination: [
        destination.Loaded(),
        destination.LoadFailed("why"),
        destination.BeginMarkerReceived(11),
        HANDED_OVER,
        PartyLost("jfk"),
        Cancel(7),
    ],
}


def _new(machine: type[Machine]) -> Machine:
    if machine is Initiator:
        return Initiator(PLAN, patience=5.0)
    if machine is Source:
        return Source()
    return Origin(PLAN, "atlanta") if machine is Origin else Destination(PLAN, "dallas")


@pytest.mark.parametrize("cls", list(EXPECTED), ids=lambda cls: cls.__name__)
def test_every_state_takes_ignores_or_refuses_every_input(cls: type[Machine]) -> None:
    machine = _new(cls)  # put into each state by hand; a refused input must leave it there
    assert set(EXPECTED[cls]) == set(type(machine.state))
    names = {type(input).__name__ for input in INPUTS[cls]}
    for state, (taken, ignored) in EXPECTED[cls].items():
        assert {*taken.split(), *ignored.split()} <= names
        for input in INPUTS[cls]:
            name = type(input).__name__
            handler = machine.table.get((state, type(input)), "refused")
            if name in taken.split():
                assert isinstance(handler, Transition), (state, name)
            elif name in ignored.split():
                assert handler is None, (state, name)
            else:
                machine.state = state
                with pytest.raises(UnexpectedInput, match=f"in state {state.name} cannot take"):
                    machine.handle(input, 0.0)
                assert machine.state is state


def test_the_story_has_a_line_an_input_with_times_states_and_effects() -> None:
    machine = Origin(PLAN, "atlanta")
    machine.handle(Prepare(PLAN), 1.5)
    machine.handle(origin.EndMarkerReceived(1), 2.0)
    with pytest.raises(UnexpectedInput):
        machine.handle(Prepare(PLAN), 3.0)
    assert machine.story() == (
        Step(
            1.5,
            "RUNNING",
            "Prepare(plan=Plan of 'late')",
            "AWAITING_END_MARKERS",
            ("Prepared(move=7, party='atlanta') to 'directory'",),
        ),
        Step(2.0, "AWAITING_END_MARKERS", "EndMarkerReceived(flow=1)", "AWAITING_END_MARKERS", ()),
    )

"""The machines of one plan, each by itself, and every input that may come to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st
from parties_for_tests import Derivation

from derivation import destination, initiator, origin, source
from derivation.machine import Machine
from derivation.protocol import (
    Cancel,
    HandOver,
    PartyLost,
    Plan,
    Prepare,
    Prepared,
    Proceed,
    Refused,
    RequestSwap,
    Started,
)

# How many sources, origins and destinations, and whether the origins save the filter first; without
# origins it is an offload.
shapes = st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(1, 2), st.booleans())


def plan_of(shape: tuple[int, int, int, bool]) -> Plan:
    sources, origins, destinations, saves = shape
    plan = Derivation(sources, max(origins, 1), destinations, saves, events=0).plan
    if origins:
        return plan
    swaps = tuple(replace(swap, origin=None) for swap in plan.swaps)
    return replace(plan, origins=(), swaps=swaps, outputs=())


def machines(plan: Plan) -> dict[str, Callable[[], Machine]]:
    """How each machine of a plan is made, by the name of its party."""
    made: dict[str, Callable[[], Machine]] = {
        plan.initiator: lambda: initiator.Initiator(plan, patience=5.0)
    }
    made |= {swap.source: source.Source for swap in plan.swaps}
    made |= {here: lambda here=here: origin.Origin(plan, here) for here in plan.origins}
    made |= {
        here: lambda here=here: destination.Destination(plan, here) for here in plan.destinations
    }
    return made


def inputs(plan: Plan) -> list[object]:
    """Every input to any machine of the plan; contents as far as they make a difference."""
    sources = [swap.source for swap in plan.swaps]
    hosts = [*plan.origins, *plan.destinations]
    parties = [*sources, *hosts]
    state, buffer = dict.fromkeys(sources, b"1"), tuple((name, "event") for name in sources)
    return [
        initiator.Begun(),
        *(Prepared(1, party) for party in hosts),
        *(Refused(1, party, "why") for party in hosts),
        *(Started(1, party) for party in plan.destinations),
        *(PartyLost(party) for party in parties),
        initiator.GivenUp("why"),
        initiator.DeadlinePassed(),
        *(RequestSwap(1, swap) for swap in plan.swaps),
        Prepare(plan),
        origin.FilterSaved(),
        Proceed(1),
        *(
            origin.EndMarkerReceived(flow, lost)
            for swap in plan.swaps
            for flow in swap.old
            for lost in (False, True)
        ),
        origin.StateCaptured({}, ()),
        origin.StateCaptured(state, buffer),
        origin.StateCaptured({}, (), error=("FilterStopped", "boom")),
        destination.Loaded(),
        destination.LoadFailed("why"),
        *(destination.BeginMarkerReceived(swap.new) for swap in plan.swaps),
        *(
            HandOver(1, where, kept, buffer, (), error)
            for where in plan.origins
            for kept, error in (({}, None), (state, None), ({}, ("FilterStopped", "boom")))
        ),
        Cancel(1),
    ]

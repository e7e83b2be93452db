"""What requests wait for at the directory, and for how long."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from picture_for_tests import LOW, envelope
from whole_for_tests import Whole

from activebroker.core.errors import DeadlineExceeded
from activebroker.directory.context import PATIENCE
from activebroker.directory.parts import SUPPLIER
from activebroker.protocol.messages import OutletDrained
from activebroker.protocol.requests import (
    ChangeRequest,
    CloseChannel,
    Derive,
    Move,
    Offload,
    OpenChannel,
    OpenSupplier,
    Reconfigure,
    Subscribe,
)


@pytest.fixture
def bench() -> Whole:
    return Whole()


SUBSCRIBE = Subscribe("x.Late", "c", 902)
MOVE, CLOSE = Move("x.Late", "hub", "c", 1.0), CloseChannel("x.Late")
BESIDE = Derive("x.Late", "x.New", envelope(), SUPPLIER, "c")
RECONFIGURE = Reconfigure("x.Late", envelope(LOW), "c", 1.0)
AGAIN = OpenSupplier("x", "A", "a")
OBSTACLES: list[tuple[Callable[[Whole], None], list[ChangeRequest], str]] = [
    (
        Whole.is_changing,
        [SUBSCRIBE, MOVE, CLOSE],
        "The filter of channel 'x.Late' is still changing",
    ),
    (
        Whole.is_returning,
        [BESIDE, RECONFIGURE],
        "Channel 'x.Late' is still on its way to its suppliers",
    ),
    (
        Whole.waits_for_a_place,
        [MOVE, CLOSE, RECONFIGURE, BESIDE, Offload("x", "A", "hub", 1.0)],
        "The filter of channel 'x.Late' waits for a place to go on",
    ),
    (
        Whole.relay_waits_for_a_place,
        [MOVE, CLOSE],
        "A relay of channel 'x' waits for a place to go on",
    ),
    (Whole.moves_still, [SUBSCRIBE, MOVE, CLOSE, AGAIN], "Channel 'x.Late' is still moving"),
    (Whole.supplier_has_left, [AGAIN], "Events of the supplier 'A' before are on their way"),
]


@pytest.mark.parametrize(
    ("way", "body", "text"),
    [(way, body, text) for way, bodies, text in OBSTACLES for body in bodies],
)
def test_a_request_waits_until_its_way_is_clear_and_not_for_ever(
    bench: Whole, way: Callable[[Whole], None], body: ChangeRequest, text: str
) -> None:
    way(bench)
    bench.asked.clear()
    ending, other = bench.ask(body), bench.ask(OpenChannel("y", bench.trade.x.type))
    assert bench.asked == [] and not ending.done
    assert other.done, "others do not wait with it"
    bench.time += PATIENCE + 1.0
    bench.directory.tick()
    if isinstance(body, CloseChannel):
        assert not ending.done, "what is given up is taken down sooner or later"
    else:
        assert isinstance(ending.error, DeadlineExceeded)
        assert str(ending.error) == f"{text}, for more than {PATIENCE:g} s."


@pytest.mark.parametrize(
    ("way", "body"),
    [
        (Whole.is_returning, SUBSCRIBE),
        (Whole.is_returning, MOVE),
        (Whole.is_returning, Derive("x.Late", "x.New", envelope(), "b2", "c")),
        (Whole.has_a_relay, AGAIN),
        (Whole.has_a_relay, BESIDE),
        (Whole.waits_for_a_place, SUBSCRIBE),
        (Whole.relay_waits_for_a_place, SUBSCRIBE),
        (Whole.supplier_has_left, OpenSupplier("x", "B", "a")),
        (Whole.supplier_has_left, SUBSCRIBE),
    ],
)
def test_what_does_not_concern_it_does_not_wait(
    bench: Whole, way: Callable[[Whole], None], body: ChangeRequest
) -> None:
    way(bench)
    bench.asked.clear()
    bench.told.clear()
    ending = bench.ask(body)
    assert ending.done or bench.asked or bench.told


def test_a_request_goes_on_when_its_way_is_clear(bench: Whole) -> None:
    bench.supplier_has_left()
    ending = bench.ask(AGAIN)
    bench.directory.told("a", OutletDrained(bench.trade.own.id))
    bench.work()
    assert ending.done and ending.error is None

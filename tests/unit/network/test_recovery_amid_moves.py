"""Brokers and suppliers die while filters move, and soon after: nothing is lost or comes twice."""

from __future__ import annotations

import pytest
from scene_for_tests import COUNTED, FOUND_LOST, Scene, Source

from activebroker.core.errors import ActiveBrokerError, Closed
from activebroker.protocol.requests import CloseChannel, Derive, Move
from activebroker.simulation.machines import machines
from activebroker.simulation.reference import Count, HoldBack, envelope_of
from derivation.initiator import InitiatorState

WHILE = range(0, 240, 12)  # milliseconds after the request, in which a move is over


class Moving:
    """A filter that counts, suppliers A at east and B at hub, and a consumer at west."""

    def __init__(self, seed: int, at: str) -> None:
        self.scene = Scene(seed)
        self.sources = [self.scene.supplier("east", "A"), self.scene.supplier("hub", "B")]
        self.derived = self.scene.derive(Count, at)
        self.sink = self.scene.subscribe("west", self.derived)
        self.looks_on = self.scene.subscribe("west", "x")
        self.publish(0, 1)

    def publish(self, *groups: int) -> None:
        for source in self.sources:
            if source.host.alive:
                source.publish(*groups)

    def move(self, to: str, milliseconds: int, *dead: str) -> None:
        """Who is `dead` dies so long after the request; publish before that and after it."""
        answer = self.scene.begin_move(self.derived, to)
        self.scene.net.run_for(milliseconds / 1000)
        self.publish(2)
        for host in dead:
            self.scene.net.kill(host)
        self.publish(3)
        self.scene.net.run_until(lambda: answer.done)
        self.scene.net.run_for(FOUND_LOST)
        self.publish(0, 1)

    def finish(self) -> None:
        self.scene.finish(self.sink, self.looks_on)

    def check(self, *sources: Source) -> None:
        for source in sources:
            assert self.sink.of(source.name) == COUNTED
            assert self.looks_on.of(source.name) == ["0", "1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("at", "to", "dead"),
    [
        ("atlanta", "dallas", "atlanta"),
        ("atlanta", "dallas", "dallas"),
        ("supplier", "dallas", "dallas"),
        ("atlanta", "supplier", "atlanta"),
    ],
)
@pytest.mark.parametrize("milliseconds", WHILE)
def test_a_broker_dies_amid_a_move(at: str, to: str, dead: str, milliseconds: int) -> None:
    moving = Moving(milliseconds, at)
    moving.move(to, milliseconds, dead)
    moving.finish()
    moving.check(*moving.sources)


@pytest.mark.parametrize(
    ("at", "to", "dead"),
    [
        ("supplier", "dallas", ["east"]),
        ("supplier", "dallas", ["east", "dallas"]),
        ("atlanta", "supplier", ["east"]),
        ("atlanta", "supplier", ["east", "atlanta"]),
    ],
)
@pytest.mark.parametrize("milliseconds", WHILE)
def test_a_supplier_that_dies_amid_a_move_takes_only_its_own(
    at: str, to: str, dead: list[str], milliseconds: int
) -> None:
    moving = Moving(milliseconds, at)
    moving.move(to, milliseconds, *dead)
    moving.finish()
    moving.check(moving.sources[1])
    for sink, made in ((moving.sink, COUNTED), (moving.looks_on, ["0", "1", "2", "3"])):
        got = sink.of("A")
        assert got == made[: len(got)]


def test_a_filter_that_has_come_to_its_suppliers_is_lost_with_them() -> None:
    """And no sooner does the directory hold anything for it, or the suppliers keep anything."""
    moving = Moving(0, "atlanta")
    moving.scene.move(moving.derived, "supplier")
    moving.scene.net.run_for(FOUND_LOST)
    moving.publish(2)
    moving.scene.net.run_for(FOUND_LOST)
    channel = moving.scene.derived(moving.derived)
    assert channel.checkpoint is None and not channel.recovers
    for source in moving.sources:
        outlet = source.host.node.plane.outlets[source.outlet]
        assert not outlet.unacknowledged and not any(
            each.retains for each in outlet.subscribers.values()
        )
    moving.scene.net.kill("east")
    moving.scene.net.run_for(FOUND_LOST)
    moving.publish(3)
    moving.finish()
    assert moving.sink.of("A") == COUNTED[:3]
    assert moving.sink.of("B") == COUNTED[:4]


def test_a_move_from_the_suppliers_that_is_rolled_back_leaves_nothing_kept() -> None:
    moving = Moving(0, "supplier")
    moving.scene.net.refusing.add("dallas")
    with pytest.raises(ActiveBrokerError, match="stays where it was"):
        moving.scene.move(moving.derived, "dallas")
    moving.publish(2, 3, 0, 1)
    moving.scene.settle()
    for source in moving.sources:
        outlet = source.host.node.plane.outlets[source.outlet]
        assert not outlet.unacknowledged and not any(
            each.retains for each in outlet.subscribers.values()
        )
    moving.finish()
    moving.check(*moving.sources)


@pytest.mark.parametrize("milliseconds", range(0, 60, 4))
def test_a_filter_that_has_just_gone_on_elsewhere_moves(milliseconds: int) -> None:
    """What consumers have already is not made for them once more at the third place."""
    moving = Moving(milliseconds, "atlanta")
    moving.scene.net.run_for(0.2)
    moving.scene.net.kill("atlanta")
    scene = moving.scene
    scene.net.run_until(lambda: scene.places(moving.derived) != ["atlanta"])
    scene.net.run_for(milliseconds / 1000)
    moving.move("supplier", 0)
    moving.finish()
    moving.check(*moving.sources)


def test_the_end_of_a_flow_that_is_lost_on_its_way_is_a_loss() -> None:
    """All that the old place made is settled, and it dies with the end of its flow unsent: what
    follows that would wait for it, were the filter not put together again."""
    moving = Moving(0, "atlanta")
    scene = moving.scene
    scene.settle()
    answer = scene.begin_move(moving.derived, "dallas")
    atlanta, west = scene.host("atlanta").node, scene.host("west").node
    scene.net.run_until(lambda: bool(atlanta.moves._origins))
    scene.net.network.cut("atlanta", "west", 100.0)
    scene.net.run_until(lambda: answer.done)
    scene.net.kill("atlanta")
    scene.net.run_for(FOUND_LOST)
    assert west.plane.inlets
    moving.publish(2, 3, 0, 1)
    moving.finish()
    moving.check(*moving.sources)


def test_who_moves_a_filter_is_told_where_it_goes_on() -> None:
    scene = Scene()
    scene.supplier("east", "A").publish(0)
    derived = scene.derive(Count, "atlanta")
    moving = scene.begin_move(derived, "dallas")
    hub, swapping = scene.host("hub").node, InitiatorState.SWAPPING
    scene.net.run_until(lambda: swapping in [each.state for each in machines(hub).values()])
    scene.net.kill("dallas")
    scene.net.run_until(lambda: moving.done)
    (place,) = scene.places(derived)
    assert str(moving.error) == (
        f"Channel {derived!r} could not complete the switch-over: 'dallas' was lost; "
        f"its filter goes on at {place!r}."
    )


@pytest.mark.parametrize("milliseconds", range(0, 120, 8))
def test_a_process_that_restarts_twice_joins(milliseconds: int) -> None:
    """The second one is gone before its wish to join is granted."""
    scene = Scene(milliseconds)
    for _ in range(2):
        scene.net.kill("atlanta")
        scene.net.run_for(milliseconds / 1000)
        scene.net.join(scene.net.restart("atlanta"))
        scene.net.run_for(milliseconds / 1000)
    scene.net.run_until(lambda: scene.host("atlanta").joined)
    source = scene.supplier("east", "A")
    sink = scene.subscribe("west", scene.derive(HoldBack, "atlanta"))
    source.publish(0, 1)
    scene.finish(sink)
    assert sink.traces == ["0", "1"]


def test_a_supplier_that_leaves_behind_a_full_window_does_not_hold_up_a_move() -> None:
    """It has more to publish than is kept for the filter, which has to settle that as it moves."""
    scene = Scene()
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "atlanta")
    sink = scene.subscribe("west", derived, pace=1.0)
    for _ in range(40):
        source.publish(0, blob=1 << 20)
    scene.net.run_for(2.5)
    assert source.supply.waiting, "the supplier is not held up"
    scene.close_supplier(source)
    assert source.supply.waiting, "it has left, and not all of it has gone"
    moving = scene.begin_move(derived, "dallas")
    scene.net.run_until(lambda: moving.done)
    scene.settle()
    assert sink.traces == [f"{n}/{n + 1}" for n in range(40)]
    scene.finish(sink)


@pytest.mark.parametrize("to", ["dallas", "hub"])
def test_who_is_lost_to_the_old_place_only_begins_once_more_at_the_new_one(to: str) -> None:
    """What it sent there is lost, the broker is the one that goes, and had nothing left to do."""
    scene = Scene()
    source = scene.supplier("east", "A")
    derived = scene.derive(Count, "atlanta")
    sink = scene.subscribe("west", derived)
    source.publish(0, 1)
    scene.settle()
    scene.net.network.cut("east", "atlanta", 30.0)
    source.publish(2)
    answer = scene.begin_move(derived, to)
    scene.net.run_until(lambda: answer.done)
    source.publish(3)
    scene.net.run_for(FOUND_LOST)
    assert scene.places(derived) == [to]
    source.publish(0, 1)
    scene.finish(sink)
    assert sink.traces == COUNTED


def test_a_filter_has_come_to_its_suppliers_though_it_was_to_move_on() -> None:
    """What it made before is safe while it waits for a move that is then rolled back."""
    moving = Moving(0, "atlanta")
    scene = moving.scene
    scene.net.refusing.add("dallas")
    first, second = (scene.begin_move(moving.derived, to) for to in ("supplier", "dallas"))
    scene.net.run_until(lambda: second.done)
    assert first.error is None and "stays where it was" in str(second.error)
    scene.settle()
    assert not scene.derived(moving.derived).returning
    scene.derive(HoldBack, "supplier", moving.derived)
    moving.publish(2, 3, 0, 1)
    moving.finish()
    moving.check(*moving.sources)


def test_who_waits_for_a_filter_to_come_to_its_suppliers_hears_that_it_was_closed() -> None:
    moving = Moving(0, "atlanta")
    scene = moving.scene
    west = scene.host("west")
    west.pause()  # it settles nothing
    moving.publish(2)
    scene.ask("hub", Move(moving.derived, "supplier", "hub", scene.patience))
    beside = Derive(moving.derived, "", envelope_of(HoldBack), "supplier", "hub")
    derive = scene.begin("hub", beside)
    close = scene.begin("hub", CloseChannel("x"))
    scene.net.run_for(2.0)
    assert not derive.done and not close.done
    west.resume()
    scene.net.run_until(lambda: close.done)
    scene.net.run_until(lambda: derive.done, within=1.0)
    assert isinstance(derive.error, Closed)
    scene.settle()
    scene.check_nothing_left()


@pytest.mark.parametrize("milliseconds", WHILE)
def test_one_that_has_to_wait_before_it_goes_on_is_nowhere_until_then(milliseconds: int) -> None:
    """It is on its way to two suppliers, of which one dies, and with it the last other broker."""
    scene = Scene(milliseconds, patience=3.0)
    scene.net.kill("dallas")
    scene.net.run_for(FOUND_LOST)
    sources = [scene.supplier("east", "A"), scene.supplier("atlanta", "B")]
    derived = scene.derive(Count, "consumer")
    sink = scene.subscribe("west", derived)
    for source in sources:
        source.publish(0, 1)
    scene.begin_move(derived, "supplier")
    scene.net.run_for(milliseconds / 1000)
    scene.net.kill("atlanta")
    scene.net.run_for(FOUND_LOST)
    sources[0].publish(2, 3, 0, 1)
    scene.finish(sink)
    assert sink.of("A") == COUNTED

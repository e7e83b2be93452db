"""What a filter leaves behind that was stopped because a node could not run it: nothing."""

from __future__ import annotations

import pytest
from scene_for_tests import FOUND_LOST, Scene, Sink, Source

from activebroker.core.errors import Closed, FilterStopped, ReconfigurationFailed
from activebroker.node.dataplane import inlets
from activebroker.node.dataplane.outlet import RETAINED
from activebroker.node.effects import ChangeFilter, Deliver, InletClosed, RunStage
from activebroker.protocol.requests import CloseSupplier, Reconfigure
from activebroker.simulation.edge import PLANTED, UNDELIVERED
from activebroker.simulation.reference import Above, Count, CountAbove, envelope_of


@pytest.mark.parametrize("at", ["supplier", "atlanta"])
def test_its_supplier_can_leave_and_come_back_under_its_name(at: str) -> None:
    """It is stopped at the very end of the stream, of which it would have to settle that."""
    scene = Scene()
    east = scene.supplier("east", "s1")
    sink = scene.subscribe("west", scene.derive(Count, at))
    east.publish(0, 1)
    scene.settle()
    scene.net.failing.append(RunStage)
    scene.close_supplier(east)
    scene.settle()
    assert sink.traces == ["0/1", "1/2"]
    assert isinstance(sink.intake.error, FilterStopped) and str(sink.intake.error) == PLANTED
    again = scene.supplier("east", "s1")
    others = scene.subscribe("west", "x")
    again.publish(0)
    scene.settle()
    assert others.traces == ["0"]
    scene.finish(others)


def test_it_does_not_go_on_elsewhere_when_its_broker_dies() -> None:
    """It is not fed any more: at another place it would wait for good."""
    scene = Scene()
    east = scene.supplier("east", "s1")
    channel = scene.derive(Count, "atlanta")
    sink = scene.subscribe("west", channel)
    scene.net.failing.append(RunStage)
    east.publish(0)
    scene.settle()
    assert isinstance(sink.intake.error, FilterStopped)
    scene.unsubscribe(sink)
    scene.net.kill("atlanta")
    scene.net.run_for(FOUND_LOST)
    assert not scene.host("dallas").executors
    with pytest.raises(Closed, match=r"ran the filter of channel 'x\.Count', is gone"):
        scene.subscribe("west", channel)
    scene.finish()


def stopped_relay(scene: Scene) -> tuple[Source, Sink]:
    """One at atlanta, for west, gets nonsense. Returns its supplier, and who is beside that."""
    east = scene.supplier("east", "s1")
    sink, beside = scene.subscribe("west", "x"), scene.subscribe("east", "x")
    scene.offload(east, "atlanta")
    east.host.garbles_until = scene.net.env.now + 0.01
    east.publish(0)
    scene.settle()
    assert isinstance(sink.intake.error, FilterStopped) and "cannot read" in str(sink.intake.error)
    return east, beside


def test_a_stopped_relay_s_supplier_can_leave_and_come_back_under_its_name() -> None:
    scene = Scene()
    east, _ = stopped_relay(scene)
    scene.close_supplier(east)
    again = scene.supplier("east", "s1")
    sink = scene.subscribe("west", "x")
    again.publish(0)
    scene.settle()
    assert sink.traces == ["0"]
    scene.finish(sink)


def test_nothing_is_kept_for_a_stopped_relay() -> None:
    scene = Scene()
    east, beside = stopped_relay(scene)
    for _ in range(10):
        east.publish(0, blob=RETAINED // 4)
        scene.settle()
    assert len(beside.traces) == 11
    scene.finish(beside)


def test_who_comes_when_a_stopped_relay_is_lost_is_served_by_its_supplier() -> None:
    scene = Scene()
    east, _ = stopped_relay(scene)
    late = scene.subscribe("dallas", "x")
    counted = scene.subscribe("dallas", scene.derive(Count, "dallas"))
    scene.settle()
    for each in (late, counted):
        assert isinstance(each.intake.error, FilterStopped)
    scene.net.kill("atlanta")
    scene.net.run_for(FOUND_LOST)
    again = scene.derive(Count, "dallas", name="again")
    after = [scene.subscribe("dallas", each) for each in ("x", again)]
    east.publish(0)
    scene.settle()
    assert [each.traces for each in after] == [["1"], ["1/1"]]
    scene.finish(*after)


def test_who_fails_when_the_end_of_a_stream_is_on_its_way_does_not_hold_up_a_relay() -> None:
    scene = Scene()
    east, other = scene.supplier("east", "s1"), scene.supplier("dallas", "s2")
    sink = scene.subscribe("west", "x")
    scene.offload(east, "atlanta")
    scene.settle()
    scene.net.network.cut("west", "atlanta", 1.0)  # the relay hears of it when it has ended
    scene.net.failing.append(Deliver)
    other.publish(0)
    scene.close_supplier(east)
    scene.settle()
    assert str(sink.intake.error) == UNDELIVERED
    again = scene.supplier("east", "s1")
    late = scene.subscribe("west", "x")
    again.publish(0)
    scene.settle()
    assert late.of("s1") == ["0"]
    scene.finish(late)


def test_who_fails_when_it_has_the_end_of_a_stream_does_not_hold_up_a_relay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inlets, "ACKNOWLEDGE_EVERY", 1000.0)  # it says at a tick what it has
    scene = Scene()
    east, _ = scene.supplier("east", "s1"), scene.supplier("dallas", "s2")
    sink = scene.subscribe("west", "x")
    scene.offload(east, "atlanta")
    closing = scene.begin("east", CloseSupplier("x", "s1"))
    inlet = sink.host.node.plane.inlets[sink.inlet]
    scene.net.run_until(lambda: bool(inlet.leaving))
    sink.host.give(InletClosed(sink.inlet))  # as where a delivery fails
    scene.settle()
    assert closing.done
    again = scene.supplier("east", "s1")
    late = scene.subscribe("west", "x")
    again.publish(0)
    scene.settle()
    assert late.traces == ["0"]
    scene.finish(late)


def test_one_that_is_stopped_when_its_channel_is_closed_is_forgotten() -> None:
    scene = Scene()
    sink = scene.subscribe("west", scene.derive(Count, "atlanta"))
    scene.net.failing.append(RunStage)
    scene.finish()  # whose checks find what is left
    assert str(sink.intake.error) == PLANTED


def test_who_comes_when_it_was_stopped_amid_a_change_is_told_why() -> None:
    scene = Scene()
    east = scene.supplier("east", "s1")
    channel = scene.derive(CountAbove, "atlanta")
    sink = scene.subscribe("west", channel)
    scene.settle()
    scene.net.network.cut("east", "atlanta", 1.0)  # the change waits for what was sent before
    scene.net.failing.append(RunStage)
    east.publish(0, 2)
    with pytest.raises(ReconfigurationFailed, match="its filter has ended"):
        scene.ask("west", Reconfigure(channel, envelope_of(CountAbove, (2,)), "west", 5.0))
    late = scene.subscribe("dallas", channel)
    scene.settle()
    for each in (sink, late):
        assert isinstance(each.intake.error, FilterStopped) and str(each.intake.error) == PLANTED
    scene.finish()


def test_one_that_cannot_take_its_new_parameters_says_so_though_others_can() -> None:
    scene = Scene()
    sources = scene.supplier("east", "s1"), scene.supplier("west", "s2")
    channel = scene.derive(Above, "supplier")
    sink = scene.subscribe("dallas", channel)
    change = Reconfigure(channel, envelope_of(Above, (2,)), "west", 5.0)
    scene.net.failing.append(ChangeFilter)
    with pytest.raises(
        ReconfigurationFailed,
        match=r"has changed, but '(east|west)' could not \(Planted: ",
    ):
        scene.ask("west", change)
    for source in sources:
        source.publish(0, 2)
    scene.settle()
    assert sorted(sink.traces) == ["0", "1"], "one as it was, one with its new ones"
    scene.ask("west", change)
    for source in sources:
        source.publish(0, 2)
    scene.settle()
    assert sorted(sink.traces)[2:] == ["3", "3"]
    scene.finish(sink)

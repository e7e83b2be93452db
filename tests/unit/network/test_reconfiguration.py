"""Filters get other parameters while nodes are lost, move, or stand still."""

from __future__ import annotations

import pytest
from scene_for_tests import FOUND_LOST, Scene, Sink

from activebroker.core.errors import ReconfigurationFailed
from activebroker.protocol.requests import Reconfigure
from activebroker.simulation.reference import Above, Count, envelope_of


def reconfigure(scene: Scene, channel: str, *groups: int, patience: float = 5.0) -> None:
    scene.ask("west", Reconfigure(channel, envelope_of(Above, groups), "west", patience))


def numbers(sink: Sink, supplier: str) -> list[int]:
    return [int(trace.partition("/")[0]) for trace in sink.of(supplier)]


def test_where_one_of_its_suppliers_is_held_up_it_says_so_and_can_be_tried_again() -> None:
    scene = Scene()
    east, west = scene.supplier("east", "s1"), scene.supplier("west", "s2")
    channel = scene.derive(Above, "supplier")
    sink = scene.subscribe("dallas", channel, pace=10.0)
    for _ in range(8):
        east.publish(0, blob=1 << 20)
    with pytest.raises(ReconfigurationFailed, match="has changed, but 'east' did not get so far"):
        reconfigure(scene, channel, 2)
    for source in (east, west):
        source.publish(0, 1, 2, 3)
    scene.net.run_for(200.0)
    assert numbers(sink, "s1") == [*range(8), 8, 9], "as it was"
    assert numbers(sink, "s2") == [2]
    reconfigure(scene, channel, 3)
    for source in (east, west):
        source.publish(0, 1, 2, 3)
    scene.settle()
    assert numbers(sink, "s1") == [*range(8), 8, 9, 15]
    assert numbers(sink, "s2") == [2, 7]
    scene.finish(sink)


def test_a_filter_that_was_put_together_again_changes_at_its_suppliers() -> None:
    """What its consumers have of one supplier is no business of its place at the other."""
    scene = Scene()
    east, west = scene.supplier("east", "s1"), scene.supplier("west", "s2")
    channel = scene.derive(Above, "atlanta")
    sink = scene.subscribe("dallas", channel)
    east.publish(0)
    scene.settle()
    scene.net.kill("atlanta")
    scene.net.run_for(FOUND_LOST)
    scene.move(channel, "supplier")
    reconfigure(scene, channel, 1)
    for source in (east, west):
        source.publish(0, 1)
    scene.settle()
    assert (numbers(sink, "s1"), numbers(sink, "s2")) == ([0, 2], [1])
    scene.finish(sink)


@pytest.mark.parametrize("milliseconds", range(0, 1200, 100))
def test_what_it_did_not_want_is_not_offered_again_with_the_new_values(milliseconds: int) -> None:
    """Who feeds it is lost, and it with it, or they are not."""
    scene = Scene()
    east = scene.supplier("east", "s1")
    counted = scene.derive(Count, "atlanta")
    channel = scene.derive(Above, "dallas" if milliseconds % 200 else "atlanta", counted)
    sink = scene.subscribe("west", channel)
    east.publish(0, 2, 1, 3, 2)
    scene.settle()
    reconfigure(scene, channel, 2)
    scene.net.run_for(milliseconds / 1000)
    east.publish(0, 2)
    scene.net.kill("atlanta")
    scene.net.run_for(FOUND_LOST)
    east.publish(2)
    scene.settle()
    assert sink.of("s1") == ["0/1", "2/3", "6/7", "7/8"]
    scene.finish(sink)


def test_what_a_closed_supplier_has_under_way_is_decided_by_the_old_values() -> None:
    scene = Scene()
    east = scene.supplier("east", "s1")
    channel = scene.derive(Above, "atlanta")
    sink = scene.subscribe("west", channel)
    scene.net.network.cut("east", "atlanta", 3.0)
    east.publish(0, 2)
    scene.close_supplier(east)
    reconfigure(scene, channel, 2, patience=8.0)
    scene.settle()
    assert numbers(sink, "s1") == [0]
    scene.finish(sink)

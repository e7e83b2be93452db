"""The recovery that docs/derivation.md works through is what the nodes do, with its numbers."""

from __future__ import annotations

from scene_for_tests import FOUND_LOST, Scene

from activebroker.matching import Chunk
from activebroker.simulation.reference import Count


def counted(events: range) -> list[str]:
    return [f"{number}/{number + 1}" for number in events]


def test_the_recovery_can_be_played() -> None:
    scene = Scene()
    jfk = scene.supplier("east", "JFK")
    derived = scene.derive(Count, "dallas")
    consumer = scene.subscribe("west", derived)
    channel = scene.derived(derived)
    subscriber = scene.host("east").node.plane.outlets[jfk.outlet].subscribers[derived]

    def kept() -> list[int]:
        chunks = [item for _, _, item in subscriber.retained if isinstance(item, Chunk)]
        return [event.content.n for each in chunks for event in each.batch.events()]

    for _ in range(7):
        jfk.publish(0)
    scene.net.run_until(lambda: channel.checkpoint is not None and not kept())
    for _ in range(7, 10):
        jfk.publish(0)
    scene.net.run_until(lambda: len(consumer.traces) == 10)
    jfk.publish(0)
    jfk.publish(0)
    scene.net.kill("dallas")

    assert kept() == [7, 8, 9, 10, 11]
    assert channel.checkpoint is not None
    assert channel.checkpoint.inputs["JFK"][1] == channel.checkpoint.outputs["JFK"][1] == 7
    assert consumer.traces == counted(range(10))

    scene.net.run_for(FOUND_LOST)
    assert scene.places(derived) == ["atlanta"]
    assert consumer.traces == counted(range(12))
    (outlet,) = scene.host("atlanta").node.plane.outlets.values()
    (flow,) = outlet.flows.values()
    assert (outlet.emitted_events, flow.sent_events) == (5, 2)

"""What the directory refuses, in words that help; the picture of the fabric stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from scene_for_tests import Scene

from activebroker.balancing.placed import Placed
from activebroker.core.errors import (
    ActiveBrokerError,
    ChannelTypeConflict,
    Closed,
    InvalidFilter,
    MoveFailed,
    NameTaken,
    PayloadRefused,
    ProtocolError,
    UnknownChannel,
    UnknownPlace,
)
from activebroker.events import EventType
from activebroker.events.wire import describe
from activebroker.protocol.requests import (
    CloseSupplier,
    Join,
    Move,
    Offload,
    OpenChannel,
    OpenSupplier,
    ReportStatus,
    Subscribe,
    Unsubscribe,
)
from activebroker.protocol.specs import Member
from activebroker.simulation.reference import Count, CountAll, Few


@dataclass(frozen=True)
class Other:
    x: int


Ask = Callable[[Scene], object]
OTHER = describe(EventType.of(Other))

REFUSALS: list[tuple[Ask, type[ActiveBrokerError], str]] = [
    (lambda s: s.ask("east", OpenChannel("z", None)), UnknownChannel, "no channel 'z'"),
    (lambda s: s.ask("east", OpenChannel("x", OTHER)), ChannelTypeConflict, "another channel name"),
    (lambda s: s.supplier("west", "A"), NameTaken, "has a supplier 'A' already"),
    (
        lambda s: s.ask("west", OpenSupplier("x.Count", "B", "west")),
        InvalidFilter,
        "takes no suppliers",
    ),
    (lambda s: s.subscribe("west", "x.Cuont"), UnknownChannel, "Did you mean 'x.Count'"),
    (lambda s: s.derive(Count, "atlanta"), NameTaken, "choose another name"),
    (lambda s: s.derive(Few, "atlantis"), UnknownPlace, "Did you mean 'atlanta'"),
    (lambda s: s.derive(Few, "east"), UnknownPlace, "no broker 'east'"),
    (lambda s: s.derive(CountAll, "supplier"), InvalidFilter, "cannot run at 'supplier'"),
    (lambda s: s.derive(Few, "atlanta", parent="z"), UnknownChannel, "no channel 'z'"),
    (lambda s: s.move("x", "atlanta"), InvalidFilter, "is not derived"),
    (lambda s: s.move("x.Count", "atlantis"), UnknownPlace, "Did you mean 'atlanta'"),
    (lambda s: s.move("x.CountAll", "supplier"), InvalidFilter, "cannot run at 'supplier'"),
    (lambda s: s.move("x.Few", "atlanta"), MoveFailed, "move 'x.Few.Count' first"),
    (lambda s: s.ask("east", Offload("x", "B", "atlanta", 9.0)), UnknownPlace, "no supplier 'B'"),
    (lambda s: s.ask("east", Offload("x", "A", "atlantis", 9.0)), UnknownPlace, "no broker"),
    (
        lambda s: s.ask("east", Join(Member("west", None, False, 99))),
        NameTaken,
        "choose another name",
    ),
]


@pytest.mark.parametrize(("ask", "error", "text"), REFUSALS)
def test_a_refusal_says_what_to_do_and_changes_nothing(
    ask: Ask, error: type[ActiveBrokerError], text: str
) -> None:
    scene = Scene()
    source = scene.supplier("east", "A")
    scene.derive(Count, "atlanta")
    scene.derive(CountAll, "dallas")
    scene.derive(Few, "supplier")
    scene.derive(Count, "supplier", "x.Few")
    sink = scene.subscribe("west", "x.Count")
    directory = scene.directory

    def picture() -> object:
        graph = directory.graph
        channels = [
            (c.name, c.closed, list(c.outlets), list(c.inlets)) for c in graph.channels.values()
        ]
        filters = [(c.at, list(c.stages)) for c in graph.derived]
        return channels, filters, list(graph.flows), list(directory.members)

    before = picture()
    with pytest.raises(error, match=text):
        ask(scene)
    assert picture() == before
    source.publish(0, 1)
    scene.settle()
    assert sink.traces == ["0/1", "1/2"]
    scene.close()
    scene.settle()
    scene.check_nothing_left()


def test_a_closed_channel_is_closed_until_it_is_opened_anew() -> None:
    scene = Scene()
    source = scene.supplier("east", "A")
    scene.derive(Count, "atlanta")
    scene.close()
    for ask in (
        lambda: scene.subscribe("west", "x"),
        lambda: scene.subscribe("west", "x.Count"),
        lambda: scene.supplier("west", "B"),
        lambda: scene.derive(Few, "atlanta"),
        lambda: scene.move("x.Count", "dallas"),
        lambda: scene.close(),
        lambda: scene.ask("east", OpenChannel("x", None)),
    ):
        with pytest.raises(Closed, match="was closed"):
            ask()
    scene.close_supplier(source)  # is over already: nothing to do
    scene.ask("east", OpenChannel("x", OTHER))
    scene.subscribe("west", "x")
    scene.close()
    scene.settle()


def test_what_was_below_a_channel_stays_closed_when_that_cannot_be_derived_anew() -> None:
    scene = Scene()
    scene.supplier("east", "A")
    few = scene.derive(Few, "atlanta")
    below = scene.derive(Count, "supplier", few)
    scene.close(few)
    scene.net.unloadable.add(few)
    with pytest.raises(PayloadRefused):
        scene.derive(Few, "dallas")
    with pytest.raises(Closed, match=f"{below!r} was closed"):
        scene.subscribe("west", below)
    assert Placed(scene.ask("west", ReportStatus())).at("atlanta") == {}
    scene.settle()


def test_leaving_twice_is_no_fault() -> None:
    scene = Scene()
    sink = scene.subscribe("west", "x")
    scene.unsubscribe(sink)
    scene.ask("west", Unsubscribe("x", sink.inlet))
    scene.ask("west", CloseSupplier("x", "nobody"))
    scene.settle()


def test_an_offload_is_done_once_and_to_the_own_node_not_at_all() -> None:
    scene = Scene()
    source = scene.supplier("atlanta", "A")
    sink = scene.subscribe("west", "x")
    scene.offload(source, "atlanta")
    scene.offload(source, "dallas")
    with pytest.raises(MoveFailed, match="to 'dallas' already"):
        scene.offload(source, "hub")
    source.publish(0)
    scene.settle()
    assert sink.traces == ["0"]


def test_only_the_directory_answers_what_concerns_the_fabric() -> None:
    scene = Scene()
    node = scene.host("east").node
    errors: list[ActiveBrokerError | None] = []
    node._serve(Subscribe("x", "west", 1), lambda result, error: errors.append(error))
    (error,) = errors
    assert isinstance(error, ProtocolError) and "it is at 'hub'" in str(error)


def test_status_shows_the_fabric_even_amid_a_change() -> None:
    scene = Scene(patience=5.0)
    source = scene.supplier("east", "A")
    scene.derive(Count, "atlanta")
    scene.offload(source, "dallas")
    stuck = scene.begin("west", Move("x.Count", "dallas", "west", 5.0))
    status = scene.ask("west", ReportStatus())
    assert {member.name for member in status.members} == set(scene.net.hosts)
    channels = {channel.name: channel for channel in status.channels}
    assert channels["x"].suppliers == ["A"]
    assert channels["x.Count"].filter == "Count"
    assert set(status.nodes) == set(scene.net.hosts)
    scene.settle()
    assert stuck.done

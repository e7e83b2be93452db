"""Each checker fails on a bad history, made by hand, and passes on the good one."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from activebroker.core.errors import (
    ActiveBrokerError,
    Closed,
    DeadlineExceeded,
    FilterStopped,
    Unreachable,
    revive,
)
from activebroker.directory.parts import Derived, Outlet, Root
from activebroker.events import Event, EventType, encode
from activebroker.events.wire import describe
from activebroker.matching import Chunk
from activebroker.node.dataplane.inlet import LOST
from activebroker.node.dataplane.outlet import RETAINED, WINDOW
from activebroker.node.effects import InletOpened
from activebroker.protocol.messages import CheckpointTaken
from activebroker.protocol.requests import OpenSupplier
from activebroker.protocol.specs import Checkpoint, FlowSpec, StageSpec
from activebroker.simulation import checkers
from activebroker.simulation.allowance import Allowance
from activebroker.simulation.contents import Content
from activebroker.simulation.host import Answered, Host, Intake, Supply
from activebroker.simulation.reference import (
    ITEM,
    Count,
    HoldBack,
    Item,
    Seen,
    envelope_of,
)
from activebroker.simulation.scenario import Fault, Options, Scenario, Step
from activebroker.simulation.users import Channel, Consumer, Supplier, Users
from activebroker.simulation.world import World

EVENTS: list[Seen] = [(n, n % 4, f"/{n + 1}") for n in range(6)]


@pytest.mark.parametrize(
    ("got", "kind"),
    [
        ([*EVENTS[:3], EVENTS[2], *EVENTS[3:]], "once"),
        ([EVENTS[0], EVENTS[2], EVENTS[1], *EVENTS[3:]], "order"),
        ([*EVENTS[:2], *EVENTS[3:]], "missing"),
        (EVENTS[:-1], "missing"),
        (EVENTS[3:], "missing"),
        ([], "missing"),
        ([*EVENTS, (6, 2, "/7")], "foreign"),
        ([*EVENTS[:3], (3, 3, "/1"), *EVENTS[4:]], "state"),
    ],
)
def test_what_breaks_the_contract(got: list[Seen], kind: str) -> None:
    wrong = checkers.compare(got, EVENTS, latest=2, complete=True)
    assert wrong is not None and wrong.startswith(f"{kind}: ")


@pytest.mark.parametrize("start", [0, 1, 2])
def test_what_keeps_the_contract(start: int) -> None:
    assert checkers.compare(EVENTS[start:], EVENTS, latest=2, complete=True) is None
    assert checkers.compare(EVENTS[start:-1], EVENTS, latest=2, complete=False) is None
    assert checkers.compare([], EVENTS, latest=2, complete=False) is None
    assert checkers.compare([], EVENTS, latest=6, complete=True) is None


GAPS: list[tuple[list[Seen], int, int, bool]] = [
    ([*EVENTS[:2], *EVENTS[4:]], 1, 4, True),
    ([*EVENTS[:2], *EVENTS[4:]], 1, 3, False),  # the last of it was published when it was back
    ([EVENTS[0], EVENTS[2], EVENTS[4], EVENTS[5]], 1, 4, False),
    ([EVENTS[0], EVENTS[2], EVENTS[4], EVENTS[5]], 2, 4, True),
    (EVENTS[:3], 1, 6, True),
    (EVENTS[:3], 1, 5, False),
    (EVENTS[4:], 1, 4, True),
    (EVENTS[5:], 1, 4, False),
    ([], 1, 6, True),
    ([], 1, 5, False),
    ([EVENTS[0], EVENTS[1], EVENTS[1], *EVENTS[4:]], 1, 4, False),
]


@pytest.mark.parametrize(("got", "gaps", "back", "right"), GAPS)
def test_what_a_consumer_may_miss_whose_process_has_joined_again(
    got: list[Seen], gaps: int, back: int, right: bool
) -> None:
    wrong = checkers.compare(got, EVENTS, latest=0, complete=True, gaps=gaps, back=back)
    assert (wrong is None) is right


# --- whole runs -----------------------------------------------------------------------------------


class Scene:
    """One supplier s1 of channel x, and one consumer of a channel derived from it."""

    def __init__(self, content: Content | None = None) -> None:
        self.world = World(random.Random(1), ("east", "west"))
        self.world.begin()
        self.users = Users(self.world, Options())
        self.root = Channel("x", Content())
        self.derived = Channel(
            "x.Count", content or Content(Count, self.root.content), parent=self.root
        )
        self.derived.content.parent = self.root.content
        self.users.channels = [self.root, self.derived]
        east, west = self.world.hosts["east"], self.world.hosts["west"]
        self.supplier = Supplier(self.root, "s1", east, supply=Supply(lambda batch: None))
        self.users.suppliers = [self.supplier]
        self.consumer = Consumer(self.derived, west, 7, Intake(None), subscribed=True)
        self.consumer.intake.ended = True
        self.users.consumers = [self.consumer]

    def publish(self, count: int) -> None:
        for n in range(count):
            content = Item(n, n % 4, "", b"")
            self.root.content.hand_over("s1", Event(content, ITEM.name, "s1", n, n))

    def see(self, *events: Seen, supplier: str = "s1") -> None:
        contents = [Item(n, group, trace, b"") for n, group, trace in events]
        self.consumer.intake.batches.append(encode(ITEM, contents, supplier, 0, 0))

    def allowance(self, *faults: Fault, patience: float = 20.0) -> Allowance:
        scenario = Scenario(0, Options(patience=patience), faults=faults)
        return Allowance(self.world, scenario)

    def deliveries(self) -> list[str]:
        return list(checkers.deliveries(self.users, self.allowance()))

    def endings(self) -> list[str]:
        return list(checkers.endings(self.users, self.allowance()))


def test_all_of_a_supplier_is_seen_in_one_state() -> None:
    scene = Scene()
    scene.publish(4)
    scene.see(*EVENTS[:2])
    scene.see(*EVENTS[2:4])
    assert scene.deliveries() == []


def test_a_state_that_begins_anew_amid_the_stream_is_found() -> None:
    scene = Scene()
    scene.publish(4)
    scene.see(*EVENTS[:2], (2, 2, "/1"), (3, 3, "/2"))
    (wrong,) = scene.deliveries()
    assert wrong.startswith("state: consumer 7 of x.Count at west, of s1")


def test_events_of_nobody_are_foreign() -> None:
    scene = Scene()
    scene.see((0, 0, "/1"), supplier="s9")
    (wrong,) = scene.deliveries()
    assert wrong.startswith("foreign: ") and "s9" in wrong


def test_a_channel_derived_amid_the_stream_begins_at_one_event_for_all() -> None:
    scene = Scene(Content(Count, since={"s1": 1}, until={"s1": 3}))
    again = replace(scene.consumer, inlet=8, intake=Intake(None))
    again.intake.ended = True
    scene.users.consumers.append(again)
    scene.publish(4)
    scene.see((2, 2, "/1"), (3, 3, "/2"))
    again.intake.batches = list(scene.consumer.intake.batches)
    assert scene.deliveries() == []
    again.intake.batches = [encode(ITEM, [Item(3, 3, "/1", b"")], "s1", 0, 0)]
    assert len(scene.deliveries()) == 1


def test_what_begins_too_late_or_too_early_is_found() -> None:
    for first, kind in ((0, "state"), (2, None), (4, "missing")):
        scene = Scene(Content(Count, since={"s1": 1}, until={"s1": 3}))
        scene.publish(6)
        scene.see(*((n, n % 4, f"/{n + 1 - first}") for n in range(first, 6)))
        found = [wrong.partition(":")[0] for wrong in scene.deliveries()]
        assert bool(found) == (kind is not None)


def test_a_channel_closed_amid_the_stream_ends_at_one_event_and_frees_what_was_held() -> None:
    for last, right in ((1, False), (2, True), (3, True), (4, True), (5, False)):
        content = Content(HoldBack, closed_since={"s1": 2}, closed_until={"s1": 4})
        scene = Scene(content)
        scene.publish(6)
        scene.see(*((n, n % 4, "") for n in range(last)))
        assert (scene.deliveries() == []) is right


def test_the_end_of_a_stream_is_part_of_it() -> None:
    scene = Scene(Content(HoldBack))
    scene.publish(2)
    scene.root.content.hand_over("s1", None)
    scene.see((0, 0, ""))
    assert [wrong.partition(":")[0] for wrong in scene.deliveries()] == ["missing"]
    scene.see((1, 1, ""))
    assert scene.deliveries() == []


# --- what a death may cost ------------------------------------------------------------------------


def test_the_last_of_a_dead_supplier_may_be_missing_but_no_hole_and_nothing_twice() -> None:
    for seen, kinds in (
        (EVENTS[:2], []),
        ([EVENTS[0], EVENTS[2]], ["missing"]),
        ([*EVENTS[:2], EVENTS[1]], ["once"]),
    ):
        scene = Scene()
        scene.publish(4)
        scene.see(*seen)
        scene.world.kill("east")
        assert [wrong.partition(":")[0] for wrong in scene.deliveries()] == kinds


@pytest.mark.parametrize("lost", [False, True])
def test_who_came_while_a_supplier_was_out_of_reach_misses_what_is_lost_with_it(lost: bool) -> None:
    scene = Scene()
    scene.publish(4)
    east = scene.world.hosts["east"]
    scene.consumer.absent = {"s1": east}
    scene.supplier.host = Host(scene.world, east.member) if lost else east  # its next process
    east.alive = not lost
    assert [wrong.partition(":")[0] for wrong in scene.deliveries()] == ["missing"] * (not lost)


def test_only_a_death_excuses_a_subscription_that_ends_early() -> None:
    """And only where its filter could not go on elsewhere."""
    scene = Scene()
    excused = [
        revive(LOST),
        Unreachable("'dallas' is gone, and it could not go on elsewhere."),
    ]
    for error in excused:
        scene.consumer.intake.error = error
        assert [wrong.partition(":")[0] for wrong in scene.endings()] == ["error"]
    scene.world.kill("east")
    for error in excused:
        scene.consumer.intake.error = error
        assert scene.endings() == []
    for other in (Unreachable("gone"), FilterStopped("no"), FilterStopped(LOST[1])):
        scene.consumer.intake.error = other
        assert [wrong.partition(":")[0] for wrong in scene.endings()] == ["error"]


def test_a_subscription_has_to_end() -> None:
    scene = Scene()
    scene.consumer.intake.ended = False
    assert [wrong.partition(":")[0] for wrong in scene.endings()] == ["unended"]


def test_every_request_is_answered_and_only_as_it_may_be() -> None:
    scene = Scene()
    answer = Answered(lambda result: None, lambda: None)
    scene.users.requests = [("asks", scene.world.hosts["east"], answer)]
    assert [wrong.partition(":")[0] for wrong in scene.endings()] == ["unanswered"]
    answer.done = True
    assert scene.endings() == []
    answer.error = Closed("Channel 'x' was closed.")
    assert scene.endings() == []
    answer.error = Unreachable("'dallas' does not answer.")
    assert [wrong.partition(":")[0] for wrong in scene.endings()] == ["refused"]
    scene.world.kill("west")
    assert scene.endings() == []
    answer.error = ActiveBrokerError("The directory failed: KeyError(7)")
    assert [wrong.partition(":")[0] for wrong in scene.endings()] == ["refused"]


def test_the_directory_may_wait_in_vain_where_frames_are_lost_for_long() -> None:
    scene = Scene()
    late = DeadlineExceeded("'dallas' did not answer OpenFlow within 10 s.")
    for loss, at, excused in ((0.2, 11.0, True), (0.2, 1.0, False), (0.0, 11.0, False)):
        scenario = Scenario(0, Options(loss=loss), (Step(at, "publish"),))
        assert Allowance(scene.world, scenario).refusal(late) is excused


# --- nodes ----------------------------------------------------------------------------------------


def test_what_is_left_at_a_node_is_found() -> None:
    scene = Scene()
    scene.world.settle()
    host = scene.world.hosts["east"]
    assert list(checkers.nothing_left(host)) == []
    host.give(InletOpened(3))
    host.request(OpenSupplier("z", "s1", "east"))
    left = list(checkers.nothing_left(host))
    assert [line.split()[1] for line in left] == ["inlets", "calls", "timers"]


@dataclass(frozen=True)
class Blob:
    bytes: bytes


def test_what_waits_beyond_the_windows_is_found() -> None:
    scene = Scene()
    outlet = scene.world.hosts["east"].node.outlets.open(1, "x", "s1")
    outlet.open(FlowSpec(2, 1, "east", 3, "west"))
    host = scene.world.hosts["east"]
    assert list(checkers.bounds(host, 1000)) == []
    outlet.flows[2].credit = WINDOW + 1
    assert [line.partition(":")[0] for line in checkers.bounds(host, 1000)] == ["bounds"]


@pytest.mark.parametrize(("resumes", "found"), [(False, ["bounds"]), (True, [])])
def test_a_flow_that_resumes_begins_with_all_that_was_retained(
    resumes: bool, found: list[str]
) -> None:
    scene = Scene()
    host = scene.world.hosts["east"]
    outlet = host.node.outlets.open(1, "x", "s1")
    for flow_id, again in ((2, False), (4, resumes)):
        outlet.close(2)
        outlet.open(
            FlowSpec(
                *(flow_id, 1, "east", 3, "west"),
                subscriber="x.Count",
                recovers=True,
                resumes=again,
            ),
            retains=True,
        )
    large = encode(EventType.of(Blob), [Blob(b"x" * RETAINED)], "s1", 0, 1)
    outlet.flows[4].waiting.append(Chunk(large, upto=(1, 1)))
    assert [line.partition(":")[0] for line in checkers.bounds(host, 1000)] == found
    outlet.flows[4].waiting.append(Chunk(large, upto=(1, 2)))
    assert [line.partition(":")[0] for line in checkers.bounds(host, 1000)] == ["bounds"]


def test_what_is_kept_beyond_its_bound_is_found() -> None:
    scene = Scene()
    host = scene.world.hosts["east"]
    outlet = host.node.outlets.open(1, "x", "s1")
    outlet.open(FlowSpec(2, 1, "east", 3, "west", subscriber="x.Count", recovers=True))
    outlet.subscribers["x.Count"].retained_bytes = RETAINED
    assert list(checkers.bounds(host, 1000)) == []
    outlet.subscribers["x.Count"].retained_bytes += 1 << 23
    assert [line.partition(":")[0] for line in checkers.bounds(host, 1000)] == ["bounds"]


def test_what_could_go_on_at_a_node_and_does_not_is_found() -> None:
    scene = Scene()
    host = scene.world.hosts["east"]
    node, plane = host.node, host.node.plane
    supplier = node.outlets.open(1, "x", "s1")
    stage = node.stages.open(StageSpec(7, "x.Count", "python", None, "east"))
    node.stages.start(stage)
    node.inlets.open(InletOpened(9))
    node.stages.go_on()
    assert list(checkers.forgotten(host)) == []
    node.outlets.blocked[1] = None
    assert list(checkers.forgotten(host)) == [
        "forgotten: supplier 1 at east does not hear whether to go on"
    ]
    supplier.end()
    node.outlets.blocked.clear()
    for id in (7, 9):
        plane.inlets[id].close(())
    assert list(checkers.forgotten(host)) == [
        "forgotten: filter 7 at east can go on",
        "forgotten: outlet 1 at east has ended",
        "forgotten: subscription 9 at east has ended",
    ]
    stage.outlet.end()
    assert list(checkers.forgotten(host)) == [
        "forgotten: filter 7 at east can go on",
        "forgotten: outlet 1 at east has ended",
        "forgotten: outlet 7 at east has ended",
        "forgotten: subscription 9 at east has ended",
    ]


def test_what_a_closed_channel_leaves_in_the_picture_is_found() -> None:
    scene = Scene()
    directory = scene.world.hosts["hub"].node.directory
    assert directory is not None
    channel = directory.graph.channels["x"] = Derived(
        "x",
        describe(ITEM),
        parent=Root("y", describe(ITEM)),
        envelope=envelope_of(Count),
        at="hub",
        asked="hub",
        owner="hub",
    )
    channel.left[5] = Outlet(5, "east", "s1")
    channel.checkpoint = Checkpoint({}, {}, {})
    left = list(checkers.nothing_left(scene.world.hosts["hub"]))
    assert [line.split(" of ")[0] for line in left] == ["left: left", "left: checkpoint"]
    directory._checkpoints.waiting["x"] = {7: CheckpointTaken("x", 7, channel.checkpoint)}
    (wait, *_) = checkers.nothing_left(scene.world.hosts["hub"])
    assert wait.startswith("left: checkpoints that wait")

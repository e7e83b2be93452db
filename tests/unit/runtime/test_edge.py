"""What goes wrong at a node's edge costs what it belongs to; anything else ends the node, aloud."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

import activebroker as ab
from activebroker.core.errors import (
    Closed,
    DeadlineExceeded,
    FilterStopped,
    PayloadRefused,
    Unreachable,
)
from activebroker.node.dataplane.failing import instead
from activebroker.node.effects import (
    AppendLog,
    CancelTimer,
    ChangeFilter,
    Deliver,
    Depart,
    DrainSupplier,
    Effect,
    EndSubscription,
    EndSupplier,
    ForgetPeer,
    FrameArrived,
    Knock,
    LeaveFabric,
    LoadStage,
    ReadLog,
    Reply,
    RestoreStage,
    ResumeOutlet,
    RunStage,
    SetTimer,
    ShowFailures,
    SnapshotStage,
    Transmit,
    UnloadStage,
)
from activebroker.protocol.requests import ReportStatus
from activebroker.runtime import Runtime
from activebroker.runtime.workers import Workers
from activebroker.transport import LocalTransport

PATIENCE = 30.0


class Planted(Exception):
    """What a test lets go wrong."""


@dataclass(frozen=True)
class Tick:
    n: int


class Odd(ab.FIFOFilter):
    """Runs in Python: its predicate is not exact."""

    def __init__(self) -> None:
        self.seen = 0

    def enqueue(self, event: ab.Event) -> None:
        self.seen += 1
        if self.seen % 2:
            super().enqueue(event)


@pytest.fixture
def fabric() -> Iterator[ab.Fabric]:
    with ab.Fabric() as fabric:
        yield fabric


def eventually(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def raising(*_: Any, **__: Any) -> Any:
    raise Planted("planted")


# --- what ends the node -----------------------------------------------------------------------

BREAKS: dict[str, Callable[[Runtime], None]] = {
    "receive": lambda node: setattr(node.transport, "receive", raising),
    "heard": lambda node: setattr(node.transport, "heard", raising),
    "handle": lambda node: setattr(node._node, "handle", raising),
    "an effect": lambda node: setattr(node._timers, "set", raising),
    "transmit": lambda node: setattr(node.transport, "transmit", raising),
    "timers": lambda node: setattr(node._timers, "due", raising),
    "publish": lambda node: setattr(node, "_publish", raising),
    "relieve": lambda node: setattr(node, "_patience", raising),
}


@pytest.mark.parametrize("where", BREAKS)
def test_a_fault_of_its_own_ends_the_node_and_everybody_hears_it(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    fabric = ab.Fabric(brokers=["atlanta"])
    node = fabric._membership._runtime
    channel = fabric.channel("ticks", Tick)
    supplier, subscription = channel.supplier("A"), channel.subscribe()
    supplier.publish(Tick(0))
    assert next(iter(subscription)).content == Tick(0)
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            list(subscription)
        except Unreachable as error:
            raised.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    node._timers.set("idle 1", 0.0)
    BREAKS[where](node)
    deadline = time.monotonic() + PATIENCE
    with pytest.raises(Unreachable, match="'local' of this process has failed") as publishing:
        while time.monotonic() < deadline:
            supplier.publish(Tick(1))
            fabric._membership.tell(ReportStatus())
            time.sleep(0.001)  # so that it is idle at times
    waiting.join(PATIENCE)
    assert isinstance(node.failure, Planted)
    assert isinstance(publishing.value.__cause__, Planted)
    assert len(raised) == 1 and isinstance(raised[0].__cause__, Planted)
    attempts: list[Callable[[], object]] = [
        lambda: supplier.publish(Tick(2)),
        lambda: supplier.publish_batch([Tick(2)]),
        lambda: list(subscription),
        lambda: list(subscription),
        channel.subscribe,
        lambda: channel.supplier("B"),
        lambda: fabric.channel("ticks"),
        fabric.status,
    ]
    for attempt in attempts:
        with pytest.raises(Unreachable, match="has failed and ended, with Planted: planted"):
            attempt()
    critical = [each for each in caplog.records if each.levelno == logging.CRITICAL]
    assert len(critical) == 1 and critical[0].exc_info is not None
    began = time.monotonic()
    with suppress(Unreachable):  # where events were lost, of which more elsewhere
        fabric.close()
    assert time.monotonic() - began < 5
    assert not node._thread.is_alive()


@pytest.mark.parametrize(
    ("owner", "part"), [(Runtime, "_end_users"), (Workers, "close"), (LocalTransport, "close")]
)
def test_what_fails_at_the_end_keeps_nothing_else_from_ending(
    owner: type, part: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[type] = []

    def note(owner: type) -> Callable[..., None]:
        close = owner.close  # type: ignore[attr-defined]
        return lambda self: ended.append(owner) or close(self)

    for each in (Workers, LocalTransport):
        monkeypatch.setattr(each, "close", note(each))
    monkeypatch.setattr(owner, part, raising)
    fabric = ab.Fabric()
    fabric.close()
    assert ended == [each for each in (Workers, LocalTransport) if each is not owner]
    assert isinstance(fabric._membership._runtime.failure, Planted)
    assert caplog.text.count("has failed and ends") == 1


# --- what costs its connection, or its flow ---------------------------------------------------


def test_what_a_peer_sends_costs_its_connection(
    fabric: ab.Fabric, caplog: pytest.LogCaptureFixture
) -> None:
    node = fabric._membership._runtime
    forgotten: list[str] = []
    node.transport.forget = forgotten.append  # type: ignore[method-assign]
    for head in (b"", b"+", b"no frame", b"\x98" + b"\x00" * 8):
        node.transport._queue.put(("stranger", head, ()))  # type: ignore[attr-defined]
    eventually(lambda: len(forgotten) == 4)
    assert set(forgotten) == {"stranger"} and node.failure is None
    assert "Dropped the connection to 'stranger'" in caplog.text
    channel = fabric.channel("ticks", Tick)
    with channel.subscribe(timeout=PATIENCE) as events, channel.supplier("A") as supplier:
        supplier.publish(Tick(1))
        assert next(iter(events)).content == Tick(1)


STAGE_WORK = ("load", "do")


@pytest.mark.parametrize("failing", STAGE_WORK)
def test_work_that_cannot_be_given_to_a_worker_costs_its_filter(
    failing: str, fabric: ab.Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the system gives this process no more threads."""
    channel = fabric.channel("ticks", Tick)
    workers = fabric._membership._runtime._workers
    beside = channel.subscribe(timeout=PATIENCE)
    supplier = channel.supplier("A")
    if failing == "load":
        monkeypatch.setattr(workers, "load", raising)
        with pytest.raises(PayloadRefused, match="Planted: planted"):
            channel.derive(Odd)
    else:
        derived = channel.derive(Odd, at="consumer")
        events = derived.subscribe(timeout=PATIENCE)
        monkeypatch.setattr(workers, "do", raising)
        supplier.publish(Tick(1))
        with pytest.raises(FilterStopped, match="Planted: planted"):
            list(events)
        assert derived.errors.wait(1) and next(iter(derived.errors)).error == "Planted: planted"
    monkeypatch.undo()
    supplier.publish(Tick(2))
    assert fabric._membership._runtime.failure is None
    seen = [next(iter(beside)).content for _ in range(1 if failing == "load" else 2)]
    assert seen[-1] == Tick(2)


def test_a_batch_that_cannot_be_delivered_costs_its_subscription(
    fabric: ab.Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = fabric.channel("ticks", Tick)
    bad, good = channel.subscribe(timeout=PATIENCE), channel.subscribe(timeout=PATIENCE)
    monkeypatch.setattr(bad._queue, "put", raising)
    with channel.supplier("A") as supplier:
        supplier.publish(Tick(1))
        assert next(iter(good)).content == Tick(1)
        with pytest.raises(ab.ActiveBrokerError, match="could not deliver"):
            list(bad)
        supplier.publish(Tick(2))
        assert next(iter(good)).content == Tick(2)


def test_for_each_effect_it_is_settled_what_its_failure_costs() -> None:
    """Those of one stage cost that, a delivery its subscription, and all others the node."""
    stage: dict[type[Any], Any] = {
        RunStage: RunStage(1),
        RestoreStage: RestoreStage(1, {}),
        SnapshotStage: SnapshotStage(1),
        ChangeFilter: ChangeFilter(1, None),  # type: ignore[arg-type]
        AppendLog: AppendLog(1, ()),
        ReadLog: ReadLog(1, 7, 0, 0, 0),
    }
    for effect in stage.values():
        assert instead(effect, {}, Planted("planted"))
    node: set[type[Any]] = {
        Transmit, ForgetPeer, Knock, EndSubscription, DrainSupplier, EndSupplier, ResumeOutlet,
        UnloadStage, LeaveFabric, ShowFailures, Reply, SetTimer, CancelTimer, Depart,
    }  # fmt: skip
    assert {*stage, LoadStage, Deliver, *node} == set(Effect.__args__)
    assert instead(CancelTimer("x"), {}, Planted()) is None


def test_a_node_whose_thread_cannot_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(Unreachable, match="too many threads"):
        ab.Fabric()


def test_an_answer_s_deadline_keeps_its_text(fabric: ab.Fabric) -> None:
    """`concurrent.futures.TimeoutError` is the builtin one, as is our error's base."""
    node = fabric._membership._runtime
    text = "The directory says who was waited for."

    def handle(input: Any, now: float) -> list[Effect]:
        if isinstance(input, FrameArrived):
            return []
        return [Reply(input.id, error=DeadlineExceeded(text))] if hasattr(input, "id") else []

    real, node._node.handle = node._node.handle, handle  # type: ignore[method-assign]
    with pytest.raises(DeadlineExceeded, match=text):
        fabric.status()
    node._node.handle = real  # type: ignore[method-assign]


# --- forks ------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_in_a_forked_child_a_fabric_is_dead_and_says_so() -> None:
    with ab.Fabric() as fabric:
        channel = fabric.channel("ticks", Tick)
        events, supplier = channel.subscribe(timeout=PATIENCE), channel.supplier("A")
        attempts: dict[str, Callable[[], object]] = {
            "publish": lambda: supplier.publish(Tick(1)),
            "publish_batch": lambda: supplier.publish_batch([Tick(1)]),
            "iterate": lambda: next(iter(events)),
            "supplier": lambda: channel.supplier("B"),
            "subscribe": channel.subscribe,
            "status": fabric.status,
        }
        supplier._buffer._lock.acquire()  # as another thread may have, at that moment
        if (child := os.fork()) == 0:
            wrong = []
            try:
                for name, attempt in attempts.items():
                    try:
                        attempt()
                    except Closed as error:
                        if "made before the process forked" not in str(error):
                            wrong.append(f"{name}: {error}")
                    else:
                        wrong.append(name)
                began = time.monotonic()
                supplier.close()
                events.close()
                fabric.close()
                if time.monotonic() - began > 1:
                    wrong.append("closing")
                with ab.Fabric() as own:  # its own works
                    here = own.channel("ticks", Tick)
                    with here.subscribe(timeout=PATIENCE) as mine, here.supplier("A") as other:
                        other.publish(Tick(3))
                        if next(iter(mine)).content != Tick(3):
                            wrong.append("its own")
            except BaseException as error:  # noqa: BLE001 - whatever it is, the parent says it
                wrong.append(repr(error))
            for each in wrong:
                os.write(2, f"wrong: {each}\n".encode())
            os._exit(len(wrong))
        supplier._buffer._lock.release()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        supplier.publish(Tick(2))
        assert next(iter(events)).content == Tick(2)

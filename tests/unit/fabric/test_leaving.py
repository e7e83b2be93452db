"""How blocks are left, and what is said of events that may be lost: nothing waits for ever."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from trading_for_tests import PATIENCE, Dear, Stuck, Trade, eventually, trades

import activebroker as ab
from activebroker import aio
from activebroker.core.errors import Closed, DeadlineExceeded, MoveFailed, Unreachable
from activebroker.fabric.hosting import OnFailures, engines, join
from activebroker.node.links import peers
from activebroker.protocol.specs import Member
from activebroker.runtime import Runtime, publishing
from activebroker.transport import LocalHub, LocalTransport

KEY = b"k" * 32
STEPS = ("closing", "membership", "subscription", "supplier")


class OneOf:
    """A host of one node at a hub that others share."""

    signing_key = KEY

    def __init__(self, hub: LocalHub, name: str, directory: str | None) -> None:
        self._hub, self._name, self._directory = hub, name, directory

    def open(self, on_failures: OnFailures, succession: object = None) -> Runtime:
        runtime = Runtime(
            Member(self._name, f"local://{self._name}", True, 1),
            LocalTransport(self._name, self._hub),
            directory=self._directory,
            key=KEY,
            engines=engines(KEY),
            on_failures=on_failures,
        )
        if self._directory is not None:
            join(runtime, self._name, f"local://{self._name}", is_broker=True)
        return runtime

    def close(self) -> None:
        pass


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ab.Fabric, ab.Fabric]]:
    """The process with the directory, and another; a peer is found lost after half a second."""
    monkeypatch.setattr(peers, "LOST_AFTER", 0.5)
    hub = LocalHub()
    first = ab.Fabric(host=OneOf(hub, "hub", None))
    other = ab.Fabric(host=OneOf(hub, "other", "hub"))
    yield first, other
    for fabric in (other, first):
        fabric._membership._runtime.stop()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> float:
    """Seconds that closing may take."""
    for module in STEPS:
        monkeypatch.setattr(f"activebroker.fabric.{module}.CLOSING", 1.0)
    return 1.0


def stuff(supplier: ab.Supplier, monkeypatch: pytest.MonkeyPatch) -> int:
    """Publish until nothing more is taken; return how many events wait."""
    monkeypatch.setattr(publishing, "ROOM_ROWS", 1000)
    page = trades(*range(100_000))
    with pytest.raises(DeadlineExceeded):
        while True:
            supplier.publish_batch(page, timeout=0.1)
    return supplier._buffer._rows


# --- behind a consumer that takes nothing -----------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_an_error_leaves_its_blocks_as_what_it_is_and_in_time(
    error: type[BaseException], hasty: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(error), ab.Fabric(brokers=["atlanta"]) as fabric:
        channel = fabric.channel("trades", Trade)
        dear = channel.derive(Dear, at="atlanta")
        suppliers = channel.supplier("NYSE"), channel.supplier("LSE")
        with dear.subscribe(), channel.subscribe(), suppliers[0], suppliers[1]:
            for each in suppliers:
                stuff(each, monkeypatch)
            began = time.monotonic()
            raise error
    assert time.monotonic() - began < hasty + 2


def test_a_supplier_left_behind_a_stuck_consumer_says_how_much_waits(
    hasty: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ab.Fabric() as fabric:
        channel = fabric.channel("trades", Trade)
        subscription = channel.subscribe()
        nyse = channel.supplier("NYSE")
        waiting = stuff(nyse, monkeypatch)
        told = f"Nobody has taken the last {waiting} events"
        with pytest.raises(DeadlineExceeded, match=told), nyse:
            pass
        with pytest.raises(Closed):
            nyse.publish(Trade("IBM", 1.0))
        channel.supplier("LSE").close()  # others are not held up
        subscription.close()  # now it is taken, and the name becomes free
        eventually(lambda: nyse._buffer.empty, "it is not taken")


def test_callbacks_that_are_stuck_or_raise_keep_no_fabric_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in STEPS:
        monkeypatch.setattr(f"activebroker.fabric.{module}.CLOSING", 5.0)
    fabric = ab.Fabric()
    go_on, entered = threading.Event(), [threading.Event() for _ in range(2)]
    channel = fabric.channel("trades", Trade)

    def fail(event: ab.Event) -> None:
        eventually(lambda: fails._closed, "it is not closed")
        raise ZeroDivisionError(event.content.name)

    fails = channel.subscribe(fail)
    for each in entered:
        channel.subscribe(lambda event, each=each: (each.set(), go_on.wait(PATIENCE)))
    nyse = channel.supplier("NYSE")
    nyse.publish(Trade("IBM", 1.0))
    assert all(each.wait(PATIENCE) for each in entered)
    began = time.monotonic()
    with pytest.raises(ZeroDivisionError, match="IBM"):
        fabric.close()
    assert time.monotonic() - began < 5.0 + 2
    assert nyse._buffer.empty
    assert not fabric._membership._runtime._thread.is_alive()
    go_on.set()


def test_a_fabric_closed_behind_a_stuck_consumer_says_so_in_time(
    hasty: float, monkeypatch: pytest.MonkeyPatch, two: tuple[ab.Fabric, ab.Fabric]
) -> None:
    monkeypatch.setattr(peers, "LOST_AFTER", PATIENCE)
    first, other = two
    subscription = first.channel("trades", Trade).subscribe()
    nyse = other.channel("trades", Trade).supplier("NYSE")
    waiting = stuff(nyse, monkeypatch)
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded, match=f"Nobody has taken the last {waiting} events"):
        other.close()
    assert time.monotonic() - began < hasty + 2
    assert not other._membership._runtime._thread.is_alive()
    del subscription


# --- after a move that is overdue -------------------------------------------------------------

MOST = 10.0  # seconds; a deadline for slow machines, no pace: closing is given 1


@pytest.fixture
def held_up(tmp_path: Path) -> Iterator[Path]:
    """As long as there is this file, a filter does not return from an event."""
    (file := tmp_path / "stuck").touch()
    yield file
    file.unlink()


@pytest.mark.parametrize("ends", ["close", "with", "with supplier", KeyboardInterrupt, SystemExit])
def test_what_is_closed_amid_an_overdue_move_ends_in_time(
    ends: str | type[BaseException], held_up: Path, hasty: float
) -> None:
    fabric = ab.Fabric(brokers=["atlanta", "dallas"])
    channel = fabric.channel("trades", Trade)
    stuck = channel.derive((Stuck, held_up), at="atlanta")
    nyse, events = channel.supplier("NYSE"), stuck.subscribe()
    nyse.publish(Trade("IBM", 1.0))
    eventually(lambda: busy(fabric), "the filter has not begun")
    with pytest.raises(MoveFailed, match=r"still moving.*held up by 'atlanta'"):
        stuck.move("dallas", timeout=0.2)
    nyse.publish(Trade("IBM", 2.0))  # which comes to nobody
    began = time.monotonic()
    match ends:
        case "close" | "with":
            with pytest.raises(DeadlineExceeded):
                fabric.close() if ends == "close" else fabric.__exit__(None, None, None)
        case "with supplier":
            with pytest.raises(DeadlineExceeded), nyse:
                pass
        case _:
            assert isinstance(ends, type)
            with pytest.raises(ends), fabric, events, nyse:
                raise ends
    assert time.monotonic() - began < MOST
    fabric.close()
    assert time.monotonic() - began < 2 * MOST
    assert not fabric._membership._runtime._thread.is_alive()


def busy(fabric: ab.Fabric) -> bool:
    """Whether the filter at atlanta has taken an event."""
    return any(stage["taken_events"] for stage in fabric.status()["nodes"]["atlanta"]["stages"])


@pytest.mark.parametrize("error", [None, ZeroDivisionError, asyncio.CancelledError])
def test_so_does_it_in_asyncio(
    error: type[BaseException] | None, held_up: Path, hasty: float
) -> None:
    async def main() -> None:
        async with aio.open(ab.Fabric, ["atlanta", "dallas"]) as fabric:
            channel = await fabric.channel("trades", Trade)
            stuck = await channel.derive((Stuck, held_up), at="atlanta")
            async with stuck.subscribe(), channel.supplier("NYSE") as nyse:
                await nyse.publish(Trade("IBM", 1.0))
                await asyncio.to_thread(
                    eventually, lambda: busy(fabric.sync), "the filter has not begun"
                )
                with pytest.raises(MoveFailed, match=r"still moving.*held up by 'atlanta'"):
                    await stuck.move("dallas", timeout=0.2)
                began.append(time.monotonic())
                if error is not None:
                    raise error

    began: list[float] = []
    with pytest.raises(error or DeadlineExceeded):
        asyncio.run(main())
    assert time.monotonic() - began[0] < MOST


# --- when the fabric is gone ------------------------------------------------------------------


@pytest.mark.parametrize("say", ["publish", "flush", "close", "with", "fabric.close"])
@pytest.mark.parametrize("sent", [0, 7])
def test_a_supplier_that_lost_its_fabric_says_what_was_not_acknowledged(
    say: str, sent: int, two: tuple[ab.Fabric, ab.Fabric]
) -> None:
    first, other = two
    events = first.channel("trades", Trade).subscribe(timeout=PATIENCE)
    channel = other.channel("trades", Trade)
    own = channel.subscribe()
    nyse = channel.supplier("NYSE")
    nyse.publish_batch(trades(*range(5)))
    arrived = iter(events)
    assert [next(arrived).content.price for _ in range(5)] == [0, 1, 2, 3, 4]
    assert other._membership._runtime.wait_drained(PATIENCE)
    first._membership._runtime.stop()
    if sent:
        nyse.publish_batch(trades(*range(sent)))
    eventually(lambda: bool(other._membership._runtime.orphaned), "it is not found lost")
    with pytest.raises(Unreachable, match="directory at 'hub' does not answer"):
        list(own)
    text = rf"does not answer any more.*the last {sent} events were not acknowledged"
    actions: dict[str, Callable[[], object]] = {
        "publish": lambda: nyse.publish(Trade("IBM", 1.0)),
        "flush": nyse.flush,
        "close": nyse.close,
        "with": lambda: nyse.__exit__(None, None, None),
        "fabric.close": other.close,
    }
    if sent:
        with pytest.raises(Unreachable, match=text):
            actions[say]()
    elif say == "publish":
        with pytest.raises(Unreachable, match=r"any more\. Connect again\.$"):
            actions[say]()
    else:
        actions[say]()  # nothing is lost


def test_so_does_one_that_is_closed_before_that_is_found(
    two: tuple[ab.Fabric, ab.Fabric],
) -> None:
    first, other = two
    events = first.channel("trades", Trade).subscribe(timeout=PATIENCE)
    nyse = other.channel("trades", Trade).supplier("NYSE")
    nyse.publish_batch(trades(*range(5)))
    assert [next(iter(events)).content.price for _ in range(5)] == [0, 1, 2, 3, 4]
    assert other._membership._runtime.wait_drained(PATIENCE)
    first._membership._runtime.stop()
    nyse.publish_batch(trades(*range(7)))
    with pytest.raises(Unreachable, match="the last 7 events were not acknowledged"):
        nyse.close()


# --- forks ------------------------------------------------------------------------------------

FORKS = """
import concurrent.futures, multiprocessing, os, sys, time
from dataclasses import dataclass
import activebroker as ab
from activebroker.fabric import serve

@dataclass(frozen=True)
class Tick:
    n: int

KEY = ab.generate_key()

def publish(_):
    try:
        supplier.publish(Tick(1))
    except ab.ActiveBrokerError as error:
        return str(error)

if __name__ == "__main__":
    broker = serve("atlanta", "tcp://127.0.0.1:*", KEY)
    fabrics = [ab.Fabric(brokers=["dallas"]), ab.connect(broker.transport.address, KEY)]
    fork = multiprocessing.get_context("fork")
    for fabric in fabrics:
        channel = fabric.channel("ticks", Tick)
        supplier, events = channel.supplier("A"), channel.subscribe(timeout=30)
        began = time.monotonic()
        if (child := os.fork()) == 0:
            sys.exit(0 if publish(0) else 1)  # with all that runs at exit
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]
        with fork.Pool(2) as pool:
            said = pool.map(publish, range(2))
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=fork) as pool:
            said += pool.map(publish, range(2))
        process = fork.Process(target=publish, args=(0,))
        process.start()
        process.join()
        codes.append(process.exitcode)
        assert codes == [0, 0], codes
        assert all("made before the process forked" in each for each in said), said
        supplier.publish(Tick(2))
        assert next(iter(events)).content == Tick(2)
        assert time.monotonic() - began < 20
    for fabric in fabrics:
        fabric.close()
    broker.stop()
    print("good")
"""


@pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="no fork here")
def test_forked_children_of_all_kinds_end_at_once(tmp_path: Path) -> None:
    script = tmp_path / "forks.py"
    script.write_text(FORKS)
    ran = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "good\n"), ran.stderr

"""What everybody is told, and how soon all is closed, when a fabric's first broker has died."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from brokers_for_tests import Plain

import activebroker as ab
from activebroker.core.errors import ActiveBrokerError, DeadlineExceeded, Unreachable
from activebroker.node.links import peers

PATIENCE = 60.0
CLOSING = 10.0 + 3.0  # seconds, of which some are this machine's


class Hub(NamedTuple):
    fabric: ab.Fabric
    key: str
    pid: int
    gone: str  # how it is said that it is


@pytest.fixture(params=["plain", pytest.param("ray", marks=pytest.mark.ray)])
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hub]:
    """One broker, which is to die, and the fabric of who has started it."""
    if request.param == "ray":
        import ray

        from ray_deploy import RayFabric

        request.getfixturevalue("ray_cluster")
        fabric = RayFabric(["hub"])
        call = fabric._ray._actors["hub"].__ray_call__.remote(lambda actor: os.getpid())
        gone = r"cannot join its fabric again: The process of its first broker, 'hub', is gone"
        yield Hub(fabric, fabric.key, ray.get(call, timeout=PATIENCE), gone)
        _close(fabric)
        return
    plain = Plain(tmp_path, "hub")
    joined = ab.connect(plain.address, plain.key, reconnect=False)
    gone = "The fabric's directory at 'hub' does not answer any more"
    yield Hub(joined, plain.key, plain.pid("hub"), gone)
    _close(joined)
    plain.close()


def _close(what: ab.Fabric | ab.Supplier) -> None:
    with contextlib.suppress(Unreachable):  # of what was not acknowledged
        what.close()


def even(number: int) -> bool:
    return number % 2 == 0


@pytest.mark.timeout(180)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_all_is_told_and_ends_in_time(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "LOST_AFTER", 5.0)
    numbers = hub.fabric.channel("numbers", object)
    filtered = numbers.derive(even, at="hub")
    plain, some = numbers.subscribe(timeout=PATIENCE), filtered.subscribe(timeout=PATIENCE)
    one = numbers.supplier("one")
    one.publish(2)
    assert next(iter(plain)).content == next(iter(some)).content == 2
    check_a_fork(one)
    others = [ab.connect(hub.fabric.address, hub.key, reconnect=False) for _ in range(2)]
    ended: dict[str, tuple[float, BaseException | None]] = {}

    def leave(name: str, fabric: ab.Fabric, error: type[BaseException] | None) -> None:
        began, raised = time.monotonic(), None
        try:
            with fabric, fabric.channel("numbers").supplier(name) as supplier:
                ready[name].set()
                assert dead.wait(PATIENCE)
                began = time.monotonic()
                supplier.publish(4)
                if error is not None:
                    raise error
        except BaseException as failure:  # noqa: BLE001 - it is looked at below
            raised = failure
        ended[name] = time.monotonic() - began, raised

    dead = threading.Event()
    ready = {name: threading.Event() for name in ("left", "interrupted")}
    errors = (None, KeyboardInterrupt)
    threads = [
        threading.Thread(target=leave, args=each)
        for each in zip(ready, others, errors, strict=True)
    ]
    for thread in threads:
        thread.start()
    assert all(each.wait(PATIENCE) for each in ready.values())
    os.kill(hub.pid, signal.SIGKILL)
    dead.set()
    for events in (plain, some):
        with pytest.raises(Unreachable, match=hub.gone):
            list(events)
    with pytest.raises(Unreachable, match=hub.gone):
        for _ in range(1_000_000):
            one.publish(6, timeout=PATIENCE)
    for thread in threads:
        thread.join(PATIENCE)
    assert isinstance(ended["interrupted"][1], KeyboardInterrupt)
    assert isinstance(ended["left"][1], Unreachable | DeadlineExceeded)
    assert max(took for took, _ in ended.values()) < CLOSING
    began = time.monotonic()
    for each in (one, hub.fabric):
        _close(each)
    assert time.monotonic() - began < CLOSING


def check_a_fork(supplier: ab.Supplier) -> None:
    """It has none of its parent's threads: its publish raises."""
    if (child := os.fork()) == 0:
        try:
            supplier.publish(0)
        except ActiveBrokerError as error:
            os._exit(0 if "made before the process forked" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

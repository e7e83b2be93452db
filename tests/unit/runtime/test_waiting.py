"""A condition for which threads wait."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from activebroker.runtime.waiting import Condition

SURELY = 30.0  # seconds


class Gate:
    """Open or not; threads wait until it is."""

    def __init__(self) -> None:
        self.changed = Condition(threading.Lock())
        self.open = False
        self.looked = threading.Semaphore(0)  # released whenever somebody looks
        self.through: list[bool] = []

    def is_open(self) -> bool:
        self.looked.release()
        return self.open

    def wait(self, patience: float | None = SURELY) -> bool:
        with self.changed:
            return self.changed.wait_for(self.is_open, patience)

    def set(self, open: bool) -> None:
        with self.changed:
            self.open = open
            self.changed.notify_all()


def started(*targets: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=each, daemon=True) for each in targets]
    for each in threads:
        each.start()
    return threads


def join(threads: list[threading.Thread]) -> None:
    for each in threads:
        each.join(SURELY)
        assert not each.is_alive()


@pytest.mark.parametrize("patience", [None, SURELY, 1e12])
def test_all_who_wait_are_woken(patience: float | None) -> None:
    gate = Gate()
    threads = started(*[lambda: gate.through.append(gate.wait(patience))] * 5)
    for _ in threads:
        assert gate.looked.acquire(timeout=SURELY)
    gate.set(True)
    join(threads)
    assert gate.through == [True] * 5


def test_who_is_woken_for_nothing_waits_on() -> None:
    gate = Gate()
    threads = started(lambda: gate.through.append(gate.wait()))
    assert gate.looked.acquire(timeout=SURELY)
    for _ in range(3):
        gate.set(False)
        assert gate.looked.acquire(timeout=SURELY)
    assert gate.through == []
    gate.set(True)
    join(threads)
    assert gate.through == [True]


def test_what_is_so_already_is_not_waited_for() -> None:
    gate = Gate()
    gate.set(True)
    assert gate.wait(0.0) and gate.wait(None)


@pytest.mark.parametrize("patience", [-1.0, 0.0, 0.001])
def test_who_has_no_more_patience_is_forgotten(patience: float) -> None:
    gate = Gate()
    assert not gate.wait(patience)
    assert not gate.changed._threads
    gate.set(True)  # which has nobody to wake


def test_the_lock_is_held_again_where_waiting_is_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As by Ctrl-C in the main thread."""

    class Interrupted:
        waits = False

        def acquire(self, timeout: float = -1) -> bool:
            if self.waits:
                raise KeyboardInterrupt
            self.waits = True
            return True

    gate = Gate()
    lock = gate.changed._lock
    monkeypatch.setattr(threading, "Lock", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        gate.wait()
    assert not lock.locked() and not gate.changed._threads

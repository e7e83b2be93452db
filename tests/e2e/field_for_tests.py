"""A derivation amid real processes: a filter that can be held in each phase, suppliers and
consumers that are killed and frozen, and what they say of it in the end.

The processes are forked from a server that has imported all they need, so that hundreds can be
started.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import activebroker as ab
from activebroker.core.errors import ActiveBrokerError

PATIENCE = 90.0  # seconds; a deadline for slow machines, no pace
LOOK = 0.02  # seconds between looks at what nobody tells of by itself
PAGE = 10  # events that a supplier publishes at once, ...
PAUSE = 0.02  # ... and the seconds until it publishes the next ones


@dataclass(frozen=True)
class Reading:
    number: int


@dataclass(frozen=True)
class Counted:
    number: int
    count: int


class Gates:
    """What the filter waits for where it is loaded, tells its state and takes it over. A gate is
    shut while there is a file of its name."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def shut(self, gate: str) -> None:
        Path(self.folder, gate).touch()

    def open(self) -> None:
        for gate in Path(self.folder).iterdir():
            gate.unlink()

    def pass_(self, gate: str) -> None:
        while Path(self.folder, gate).exists():
            time.sleep(LOOK)

    def __getstate__(self) -> str:
        return self.folder

    def __setstate__(self, folder: str) -> None:
        """Runs where the filter is loaded."""
        self.folder = folder
        self.pass_("load")


class Count(ab.FIFOFilter):
    """Numbers the events of each supplier: that shows whether its state went with it."""

    output = Counted

    def __init__(self, gates: Gates) -> None:
        self.gates = gates
        self.count = 0

    def enqueue(self, event: ab.Event) -> None:
        self.count += 1
        super().enqueue(event.replace(Counted(event.content.number, self.count)))

    def snapshot(self) -> bytes:
        self.gates.pass_("snapshot")
        return str(self.count).encode()

    def restore(self, state: bytes) -> None:
        self.gates.pass_("restore")
        self.count = int(state)


class Started:
    """A process of the fabric that a test can kill, freeze, and talk with."""

    _context = multiprocessing.get_context("forkserver")
    # With pytest: each of them imports what runs as `__main__` here.
    _context.set_forkserver_preload(
        ["activebroker.cli.broker", "pandas", "pytest", "field_for_tests"]
    )

    def __init__(self, role: Callable[..., None], *arguments: Any) -> None:
        self._pipe, theirs = self._context.Pipe()
        self._process = self._context.Process(target=role, args=(theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def hear(self) -> Any:
        assert self._pipe.poll(PATIENCE), "it says nothing"
        try:
            return self._pipe.recv()
        except EOFError:
            raise AssertionError("it has ended") from None

    def ask(self, what: str) -> Any:
        self._pipe.send(what)
        return self.hear()

    def end(self) -> None:
        """SIGKILL, frozen or not; nothing is left of it."""
        self._process.kill()
        self._process.join(PATIENCE)
        self._process.close()
        self._pipe.close()


class Party(Started):
    """One that has said that it is ready."""

    def __init__(self, role: Callable[..., None], *arguments: Any) -> None:
        super().__init__(role, *arguments)
        self.hear()


def supply(pipe: Connection, address: str, key: str, channel: str, name: str) -> None:
    """Publish until told to stop; say how much, and the error that has ended it before."""
    with ab.connect(address, key, name=f"supplier of {channel}.{name}", reconnect=False) as fabric:
        supplier = fabric.channel(channel, Reading).supplier(name)
        pipe.send("ready")
        error: ActiveBrokerError | None = None
        while not pipe.poll(PAUSE):
            try:
                if error is None:
                    first = supplier.published
                    supplier.publish_batch([Reading(first + n) for n in range(PAGE)], PATIENCE)
            except ActiveBrokerError as failure:
                error = failure
        pipe.recv()
        pipe.send((supplier.published, error and f"{type(error).__name__}: {error}"))
        pipe.recv()  # the end


@dataclass
class Seen:
    """What a consumer has seen: the number of events by supplier, what broke the contract, and the
    error with which its subscription ended, if it did."""

    counts: dict[str, int] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    error: str | None = None
    ended: bool = False

    def take(self, event: ab.Event) -> None:
        expected = self.counts.get(event.supplier, 0)
        self.counts[event.supplier] = expected + 1
        came = (event.seq, event.content.number, event.content.count)
        if came != (expected, expected, expected + 1) and len(self.broken) < 10:
            self.broken.append(f"{event.supplier}: event {expected} expected, {came} came")


def consume(pipe: Connection, address: str, key: str, channel: str, name: str) -> None:
    """Take events and check each; say what was seen whenever asked."""
    seen = Seen()

    def take() -> None:
        try:
            for event in events:
                seen.take(event)
        except ActiveBrokerError as error:
            seen.error = f"{type(error).__name__}: {error}"
        seen.ended = True

    with ab.connect(address, key, name=f"consumer of {channel}, {name}", reconnect=False) as fabric:
        events = fabric.channel(channel).subscribe()
        threading.Thread(target=take, daemon=True).start()
        pipe.send("ready")
        while pipe.recv():
            pipe.send(seen)


def until(true: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Look until something is true; return it."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(LOOK)
    raise AssertionError(f"in {patience:g} s it did not come about that {what}")


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def freeze(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


def thaw(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)

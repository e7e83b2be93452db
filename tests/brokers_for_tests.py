"""Brokers in processes of their own, on Ray and without it: what is promised is the same.

The first, `atlanta`, keeps the directory and is not started again. The others are, whenever they
die: by Ray, or as by an init system.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import activebroker as ab

PATIENCE = 60.0  # seconds; a deadline for slow machines, no pace


class Brokers(Protocol):
    address: str
    key: str

    def pid(self, name: str) -> int:
        """Of a broker's process, once it is a member."""
        ...

    def lost_after(self, seconds: float) -> Any:
        """In this block the directory takes for lost who is silent for so long."""
        ...


class Plain:
    """Of the command `activebroker broker`."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.key = ab.generate_key()
        self._folder = folder
        self._script = folder / "broker.py"
        self._script.write_text(BROKER)
        self._closing = threading.Lock()
        self._closed = False
        self._running: dict[str, subprocess.Popen[str]] = {}
        first, *others = names
        self.address = self._start(first)
        self._threads = [threading.Thread(target=self._keep, args=(name,)) for name in others]
        for name, thread in zip(others, self._threads, strict=True):
            self._start(name, "--join", self.address)
            thread.start()

    def pid(self, name: str) -> int:
        return _member(self, name, lambda: self._running[name].pid)

    @contextmanager
    def lost_after(self, seconds: float) -> Iterator[None]:
        self._say(seconds)
        yield
        self._say(10.0)

    def close(self) -> None:
        with self._closing:
            self._closed = True
            for process in self._running.values():
                process.kill()
        for thread in self._threads:
            thread.join(PATIENCE)
        for process in self._running.values():
            with process:
                process.wait(PATIENCE)

    def _start(self, name: str, *more: str) -> str:
        process = self._spawn(name, *more)
        assert process.stdout is not None
        for line in process.stdout:
            if (found := re.search(r"listens at (tcp://\S+)", line)) is not None:
                return found.group(1)
        assert self._closed, f"broker {name!r} has ended"
        return ""

    def _spawn(self, name: str, *more: str) -> subprocess.Popen[str]:
        arguments = ["broker", "--listen", "tcp://127.0.0.1:*", "--name", name, *more]
        with Path(self._folder, f"{name}.log").open("a") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, self._script, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"ACTIVEBROKER_KEY": self.key, "COLUMNS": "200"},
            )
        return self._running[name]

    def _keep(self, name: str) -> None:
        while True:
            with self._running[name] as process:
                process.wait()
            with self._closing:
                if self._closed:
                    return
                self._spawn(name, "--join", self.address)

    def _say(self, seconds: float) -> None:
        process = next(iter(self._running.values()))
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{seconds}\n")
        process.stdin.flush()
        while process.stdout.readline() != f"lost after {seconds}\n":
            assert process.poll() is None


BROKER = """
import sys, threading
from activebroker.node.links import peers
from activebroker.cli import main

def listen():
    for line in sys.stdin:
        peers.LOST_AFTER = float(line)
        print("lost after", peers.LOST_AFTER, flush=True)

threading.Thread(target=listen, daemon=True).start()
main()
"""


class OnRay:
    """Of a RayFabric that is there already."""

    def __init__(self, fabric: Any) -> None:
        self.fabric = fabric
        self.address: str = fabric.address
        self.key: str = fabric.key

    def pid(self, name: str) -> int:
        return _member(self, name, lambda: int(self.ask(name, lambda actor: os.getpid())))

    @contextmanager
    def lost_after(self, seconds: float) -> Iterator[None]:
        self._say(seconds)
        yield
        self._say(10.0)

    def ask(self, name: str, look: Callable[[Any], Any]) -> Any:
        """What a function returns in a broker's process."""
        import ray

        call = self.fabric._ray._actors[name].__ray_call__.remote(look)
        return ray.get(call, timeout=PATIENCE)

    def _say(self, seconds: float) -> None:
        def set_it(actor: Any) -> None:
            from activebroker.node.links import peers

            peers.LOST_AFTER = seconds

        self.ask(next(iter(self.fabric._ray._actors)), set_it)


def _member(brokers: Brokers, name: str, pid: Callable[[], int]) -> int:
    """A pid that is the same before and after the broker was seen to be a member: an actor may
    be away for a moment."""

    def found() -> int:
        try:
            before = pid()
            return before if name in members(brokers) and pid() == before else 0
        except Exception as error:  # Ray's, which need not be here
            if not type(error).__module__.startswith("ray."):
                raise
            return 0

    return int(until(found, f"{name} is a member"))


@contextmanager
def joining(brokers: Any) -> Iterator[ab.Fabric]:
    """This process in their fabric, of which all channels end with the block."""
    with ab.connect(brokers.address, brokers.key) as fabric:
        yield fabric
        for channel in fabric.status()["channels"]:
            if channel["parent"] is None and not channel["closed"]:
                fabric.channel(channel["name"]).close()


def members(brokers: Brokers) -> set[str]:
    with ab.connect(brokers.address, brokers.key) as fabric:
        return {each["name"] for each in fabric.status()["members"]}


def until(true: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Look until something is true; return it."""
    end = time.monotonic() + patience
    while not (found := true()):
        assert time.monotonic() < end, f"in {patience:g} s it did not come about that {what}"
        time.sleep(0.05)
    return found

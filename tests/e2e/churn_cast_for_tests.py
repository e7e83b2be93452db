"""Who there is in a fabric in which processes come and go, as the test sees them.

Five processes stand all the time: the first broker with the directory, one more broker, a supplier,
a consumer of all events and one of what a stateful filter forwards.
"""

from __future__ import annotations

import itertools
import os
import signal
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import churn_for_tests as c
import psutil
from field_for_tests import Started, until

import activebroker as ab


class Bearer(Started):
    """A process that bears a name. `lost`: was taken for lost, as it was frozen, and lives;
    `ousted`: another one has got its name."""

    def __init__(self, log: Path, role: Callable[..., Any], name: str, *details: Any) -> None:
        super().__init__(c.play, str(log), role, *details)
        self.name = name
        self.ready = self.frozen = self.lost = self.ousted = False
        self.asked = ""  # what it does now
        self.notes: list[c.Note] = []
        self.code: int | None = None

    @property
    def runs(self) -> bool:
        if self.code is None and not self._process.is_alive():
            self.end()
        return self.code is None

    def drain(self) -> None:
        """Take what it has said."""

    def end(self) -> None:
        if self.code is None:
            self._process.kill()
            self._process.join()
            self.code = self._process.exitcode
            self.drain()
            super().end()


class Player(Bearer):
    """One that does what it is told."""

    def __init__(self, log: Path, role: type[c.Part], key: str, name: str, *details: Any) -> None:
        super().__init__(log, role, name, key, name, *details)
        self.details = details
        self.address = ""
        self.asked_for: tuple[Any, ...] = ()
        self.answers: dict[str, Any] = {}
        self.last: Any = None  # what it has said at the end

    def drain(self) -> None:
        try:
            while self._pipe.poll():
                what, *rest = self._pipe.recv()
                match what:
                    case "at":
                        (self.address,) = rest
                    case "ready":
                        self.ready = True
                    case "note":
                        self.notes.append(rest[0])
                    case "bye":
                        (self.last,) = rest
                    case "answer":
                        asked, answer = rest
                        self.asked = ""
                        self.answers[asked] = answer
        except EOFError:
            return

    def tell(self, what: str, *details: Any) -> None:
        assert not self.asked, f"{self.name} still does {self.asked}"
        self.asked, self.asked_for = what, details
        self._pipe.send((what, *details))

    def leave(self) -> None:
        self.tell("leave")

    def get(self, what: str, *details: Any) -> Any:
        """Ask, and wait for the answer."""
        self.tell(what, *details)
        until(self._answered, f"{self.name} answers {what}")
        return self.answers.pop(what)

    def _answered(self) -> bool:
        self.drain()
        return not self.asked

    @property
    def node(self) -> str:
        return f"process of {self.name}" if self.name == "steady" else self.name


class CommandBroker(Bearer):
    """One that `activebroker broker` runs."""

    def __init__(self, log: Path, key: str, name: str, join: str, replace: bool) -> None:
        self._log, self._before = log, log.stat().st_size if log.exists() else 0
        options = ["--listen", "tcp://127.0.0.1:*", "--name", name, "--join", join]
        options += ["--replace"] if replace else []
        super().__init__(log, c.command, name, key, "broker", *options)

    def drain(self) -> None:
        if not self.ready and self._log.exists():
            self.ready = "listens at" in self._log.read_text()[self._before :]

    def leave(self) -> None:
        """As Ctrl-C does."""
        os.kill(self.pid, signal.SIGINT)


class Standing:
    """What is measured at a process that stands."""

    def __init__(self, player: Player) -> None:
        self.player = player
        self.process = psutil.Process(player.pid)
        self.memory: list[float] = []

    def sample(self) -> None:
        self.memory.append(self.process.memory_info().rss / 2**20)

    def counts(self) -> dict[str, int]:
        return {"threads": self.process.num_threads(), "files": self.process.num_fds()}

    def growth(self) -> float:
        """Megabytes by which it has grown since the middle of the run."""
        tenth = max(1, len(self.memory) // 10)
        middle = len(self.memory) // 2
        late = statistics.median(self.memory[-tenth:])
        return late - statistics.median(self.memory[middle : middle + tenth])


class Cast:
    """Starts processes of one fabric, whose logs are in a folder; `watch` is this one's fabric."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.everyone: list[Bearer] = []
        self._folder = folder
        self._key = ab.generate_key()
        self._lives = itertools.count(1)
        stack.callback(self._end)
        hub = self.player(c.Broker, "hub", None)
        self.wait_for(hub)
        self.address = hub.address
        boston = self.player(c.Broker, "boston", self.address)
        self.wait_for(boston)
        self.plain = self.consumer("plain")
        self.counting = self.consumer("counting", "count")
        self.wait_for(self.plain, self.counting)
        self.steady = self.supplier("steady")
        self.wait_for(self.steady)
        stand = (hub, boston, self.steady, self.plain, self.counting)
        self.standing = [Standing(each) for each in stand]
        self.watch = stack.enter_context(ab.connect(self.address, self._key, name="watch"))
        self.counted = self.watch.channel("count of counting")

    def player(self, role: type[c.Part], name: str, *details: Any) -> Player:
        player = Player(self._folder / f"{name}.log", role, self._key, name, *details)
        self.everyone.append(player)
        return player

    def supplier(self, name: str) -> Player:
        return self.player(c.Supplier, name, self.address, next(self._lives))

    def consumer(self, name: str, kind: str = "numbers") -> Player:
        return self.player(c.Consumer, name, self.address, kind)

    def analyst(self, name: str) -> Player:
        return self.player(c.Analyst, name, self.address)

    def broker(self, name: str, replace: bool = False) -> CommandBroker:
        log = self._folder / f"{name}.log"
        broker = CommandBroker(log, self._key, name, self.address, replace)
        self.everyone.append(broker)
        return broker

    def wait_for(self, *bearers: Bearer) -> None:
        """Until they are ready."""

        def ready() -> bool:
            for each in bearers:
                each.drain()
                assert each.runs, f"{each.name} has ended: {each.code}"
            return all(each.ready for each in bearers)

        until(ready, f"{[each.name for each in bearers]} are ready")

    def _end(self) -> None:
        for each in self.everyone:
            each.end()

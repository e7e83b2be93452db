"""The course of a run: its time, which SimPy keeps, what goes wrong, and what is seen of it."""

from __future__ import annotations

import hashlib
import random
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any

import simpy
from simpy.events import Event, Timeout

from activebroker.node import effects as fx
from activebroker.simulation.edge import Cost
from activebroker.simulation.machines import Key
from activebroker.simulation.outcome import Covered, Happening
from activebroker.simulation.scenario import Options
from activebroker.simulation.silence import Silence
from activebroker.simulation.story import Flows, summary
from derivation.machine import Machine

Action = Callable[[Event], None]


class Course:
    """Hosts are known to it by their names. `record` keeps the history."""

    def __init__(self, rng: random.Random, options: Options, record: bool) -> None:
        self.random = rng
        self.options = options
        self.env = simpy.Environment()
        self.under_way = 0  # what is scheduled, timers left out
        self.last_timer = 0
        # Channels whose filters no host can load, or (channel, host) where only that cannot.
        self.unloadable: set[str | tuple[str, str]] = set()
        self.costly: list[Cost] = []  # what has failed at the edges of nodes
        self.failing: list[type[fx.Effect]] = []  # of each, the next one fails, wherever that is
        self.refusing: set[str] = set()  # hosts that can load no filter
        self.deaths: dict[str, None] = {}  # names of hosts of which a process has died
        self.leaving: dict[str, float] = {}  # brokers, and after how long each starts anew
        self.silence = Silence()
        self.record = record
        self.history: list[Happening] = []
        self.violations: list[str] = []
        self.covered: Counter[Covered] = Counter()
        self.counts: Counter[str] = Counter()
        self.names_of_flows = Flows()
        self._digest = hashlib.blake2b(digest_size=16)
        self._machines: dict[str, dict[Key, tuple[Machine, str]]] = {}
        self._attached: dict[str, dict[int, None]] = {}  # sources of derivations under way
        self._parties: dict[int, tuple[str, ...]] = {}  # of derivations

    # --- time ---------------------------------------------------------------------------------

    def soon(self, after: float, action: Action) -> None:
        """Do something in `after` seconds; until then something is under way."""
        self.under_way += 1
        callbacks = Timeout(self.env, after).callbacks
        assert callbacks is not None
        callbacks += (self._no_more, action)

    def _no_more(self, _: Event) -> None:
        self.under_way -= 1

    def later(self, after: float, action: Action) -> None:
        """The same for a timer, for which nobody waits."""
        callbacks = Timeout(self.env, after).callbacks
        assert callbacks is not None
        callbacks.append(action)

    def work_time(self) -> float:
        rng = self.random
        return self.options.work * rng.random() if rng.random() < 0.7 else 0.0

    # --- what is seen -------------------------------------------------------------------------

    def cover(self, kind: str, *names: str) -> None:
        """A fault takes effect at hosts: count it for every machine there."""
        for name in names:
            for (machine, _, _), (_, state) in self._machines.get(name, {}).items():
                self.covered[machine, state, kind] += 1
            for _ in self._attached.get(name, ()):
                self.covered["source", "ATTACHED", kind] += 1

    def cover_restart(self, name: str) -> None:
        """A process starts anew: count it for every machine that its predecessor had a part in."""
        for machines_ in self._machines.values():
            for (machine, move, _), (_, state) in machines_.items():
                if name in self._parties.get(move, ()):
                    self.covered[machine, state, "restart"] += 1
        for attached in self._attached.values():
            for move in attached:
                if name in self._parties.get(move, ()):
                    self.covered["source", "ATTACHED", "restart"] += 1

    def frame_fault(self, kind: str, source: str, target: str, frame: tuple[bytes, Any]) -> None:
        """Something happens to a frame, and so to both its ends."""
        self.counts[f"frame {kind}"] += 1
        if self._machines or self._attached:
            self.cover(kind, source, target)
        if self.record and kind in ("drop", "repeat", "cut"):
            what, move = self.names_of_flows.describe(frame)
            if what:
                kind = "drop" if kind == "cut" else kind
                self.note(kind, source, what, target, move)

    def told(self, source: str, target: str, frame: tuple[bytes, Any]) -> None:
        """A frame is sent. The trace hash is of these, so that it needs no history."""
        self._digest.update(struct.pack("d", self.env.now))
        self._digest.update(frame[0])
        if self.record:
            what, move = self.names_of_flows.describe(frame)
            if what:
                self.note("send", source, what, target, move)

    def arrived(self, source: str, target: str, frame: tuple[bytes, Any]) -> None:
        if self.record:
            what, move = self.names_of_flows.describe(frame)
            if what:
                self.note("arrive", source, what, target, move)

    def saw(self, name: str, deliver: fx.Deliver) -> None:
        """A consumer receives events."""
        batch = deliver.batch
        self.counts["events seen"] += len(batch)
        self._digest.update(batch.seqs.tobytes())
        if self.record:
            self.note("see", name, f"consumer {deliver.inlet}: {summary(batch)}")

    def note(
        self, kind: str, place: str, what: str, other: str = "", move: int | None = None
    ) -> None:
        if self.record:
            self.history.append(Happening(self.env.now, kind, place, what, other, move))

    def violated(self, kind: str, what: str) -> None:
        self.violations.append(f"{kind}: {what}")

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

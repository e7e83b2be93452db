"""What fails at hosts: crashes, silence and slowness, at a time or in a state of a machine."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from simpy.events import Event

from activebroker.simulation import edge
from activebroker.simulation.scenario import HUB, SHORT, Fault

if TYPE_CHECKING:
    from activebroker.simulation.host import Host
    from activebroker.simulation.world import World

AGAIN = 1.0  # seconds after which a process that was told that it is lost starts again
CLAIMS = 0.05  # seconds from which on a process asks for its name before it joins
PROMPT = 0.05  # seconds of delay with which an answer comes at once
HEARD = 3.0  # seconds without a fault in which a peer is surely heard


class Faults:
    """Carries the faults of a scenario out, until they end. It remembers who was silent."""

    def __init__(self, world: World) -> None:
        self.over = False
        self._world = world
        self._aimed: list[Fault] = []
        self._again: dict[str, None] = {}  # who starts anew when told that it is lost
        self._silence: dict[tuple[str, str], tuple[float, float]] = {}  # who, to whom: from, until
        self._excused: dict[str, float] = {}  # until when it was silent for longer than SHORT

    def plan(self, faults: Iterable[Fault]) -> None:
        """Let them happen, when their time has come or their machine is there."""
        for fault in faults:
            if fault.when is None:
                self._world.soon(fault.at, partial(self._strike, fault, 0))
            else:
                self._aimed.append(fault)

    def end(self) -> None:
        """No more of them, but for what those that have struck still bring about."""
        self.over = True
        self._aimed.clear()

    def entered(self, host: Host, machine: str, state: str) -> None:
        """A machine at a host enters a state."""
        for fault in [each for each in self._aimed if each.when == (machine, state)]:
            if fault.at <= self._world.env.now:
                self._aimed.remove(fault)
                base = list(self._world.hosts).index(host.name)
                self._world.soon(0.0, partial(self._strike, fault, base))

    def may_be_lost(self, host: Host) -> bool:
        """Whether the process was silent, to somebody, for so long that it may be expelled."""
        return host.born <= self._excused.get(host.name, -1.0)

    def expelled(self, host: Host) -> None:
        """The process has been told that it is taken for lost: as good as dead, from now on."""
        world = self._world
        if host.rejoins:
            if not host.rejoining:
                host.rejoining = True
                if not self.may_be_lost(host):
                    world.violated("expelled", f"{host.name} was heard, and is taken for lost")
                world.deaths[host.name] = None
                world.counts["hosts expelled"] += 1
            return
        host.expelled = True
        world.deaths[host.name] = None
        world.counts["hosts expelled"] += 1
        world.note("fault", host.name, "is taken for lost")
        if host.name in self._again:
            world.soon(AGAIN, lambda _: self.start_again(host))

    def start_again(self, host: Host) -> None:
        """A process that can do nothing more in the fabric ends, and its user starts another."""
        world = self._world
        if host.alive and world.hosts[host.name] is host:
            world.end_process(host)
            world.ended.append(host)
            self._start(host.name)

    def start(self, name: str) -> None:
        """A process of a name starts: it asks for that first, until it gets it."""
        again = lambda: self._world.soon(AGAIN, lambda _: self.start(name))  # noqa: E731
        if not self._world.hosts[name].alive:
            self._world.claim(name, lambda _: self._start(name), again)

    def _claim(self, host: Host) -> None:
        """Another process asks for a name, which is a living one's or not."""
        world = self._world

        def granted(_: object) -> None:
            if world.hosts[host.name] is not host or not host.alive:
                return
            if self._answers(host):
                world.violated("name", f"{host.name} answers, and has lost its name")
            self._excused[host.name] = max(world.env.now, self._excused.get(host.name, 0.0))

        world.claim(host.name, granted, lambda: None)

    def _answers(self, host: Host) -> bool:
        """Whether the host must have answered the directory at once."""
        world, now = self._world, self._world.env.now
        options = world.options
        calm = not (options.loss or options.straggling or options.reordering)
        prompt = options.slowest <= PROMPT and not options.bandwidth
        quiet = all(
            until < now - HEARD
            for (who, to), (_, until) in self._silence.items()
            if HUB in (who, to) or host.name in (who, to)
        )
        slow = max(host.slow_until, world.hosts[HUB].slow_until) > now - HEARD
        return calm and prompt and quiet and not slow and not host.paused

    def _start(self, name: str) -> None:
        world = self._world
        if world.hosts[name].alive:
            return
        host = world.restart(name)
        world.cover_restart(name)
        world.join(host)

    def _strike(self, fault: Fault, base: int, _: Event) -> None:
        if self.over:
            return
        world = self._world
        names = list(world.hosts)
        index = (base + fault.host) % len(names)
        if fault.do == "crash" and names[index] == HUB:
            index = (index + 1) % len(names)
        name = names[index]
        host = world.hosts[name]
        if not host.alive:
            return
        world.counts[f"fault {fault.do}"] += 1
        seconds = fault.seconds
        match fault.do:
            case "crash":
                world.kill(name)
                if seconds >= CLAIMS:
                    world.soon(seconds, lambda _: self.start(name))
                elif seconds > 0:
                    world.soon(seconds, lambda _: self._start(name))
            case "claim":
                self._claim(host)
            case "fail":
                world.failing.append(edge.FAILS[fault.other % len(edge.FAILS)])
            case "garble":
                world.note("fault", name, f"sends nonsense for {seconds:g} s")
                host.garbles_until = max(host.garbles_until, world.env.now + seconds)
            case "pause":
                if name == HUB:
                    seconds = min(seconds, SHORT)
                if host.paused:
                    return
                world.cover("pause", name)
                world.note("fault", name, f"stands still for {seconds:g} s")
                for other in names:
                    self._silent(name, other, seconds)
                if fault.again:
                    self._again[name] = None
                host.pause()
                world.soon(seconds, lambda _: self._resume(host))
            case "cut":
                other = names[(index + 1 + fault.other % (len(names) - 1)) % len(names)]
                world.cover("cut", name, other)
                world.note("fault", name, f"cut off for {seconds:g} s", other)
                self._cut(name, other, seconds)
                if fault.both:
                    self._cut(other, name, seconds)
                if fault.again:
                    self._again |= {name: None, other: None}
            case "slow":
                seconds = min(seconds, SHORT)
                world.cover("slow", name)
                world.note("fault", name, f"slow for {seconds:g} s")
                host.slow_until = max(host.slow_until, world.env.now + seconds)

    def _cut(self, source: str, target: str, seconds: float) -> None:
        self._silent(source, target, seconds, cut=True)
        self._world.network.cut(source, target, seconds, lasts=seconds > SHORT)
        if seconds > SHORT:
            self._world.soon(seconds, lambda _: None)  # until then something is under way

    def _silent(self, who: str, to: str, seconds: float, cut: bool = False) -> None:
        """Nothing of a host reaches another for a while, which may follow on another such."""
        now = self._world.env.now
        since, until = self._silence.get((who, to), (now, now))
        if now > until + HEARD:
            since = now
        until = max(until, now + seconds)
        self._silence[who, to] = since, until
        if until - since > SHORT:
            # Of two that are cut off from each other, the directory chooses.
            for name in (who, to) if cut else (who,):
                self._excused[name] = max(until, self._excused.get(name, 0.0))

    def _resume(self, host: Host) -> None:
        if host.alive:
            self._world.note("fault", host.name, "goes on")
        host.resume()

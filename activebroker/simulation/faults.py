"""What fails at hosts: crashes, silence and slowness, at a time or in a state of a machine."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from simpy.events import Event

from activebroker.protocol.requests import Dismiss
from activebroker.simulation import edge
from activebroker.simulation.host import Host
from activebroker.simulation.scenario import HUB, SHORT, Fault
from activebroker.simulation.silence import HEARD
from activebroker.simulation.world import World

CLAIMS = 0.05  # seconds from which on a process asks for its name before it joins
PROMPT = 0.05  # seconds of delay with which an answer comes at once


class Faults:
    """Carries the faults of a scenario out, until all heals."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._over = False
        self._aimed: list[Fault] = []
        world.on_state = self._entered

    def plan(self, faults: Iterable[Fault]) -> None:
        """Let them happen, when their time has come or their machine is there, and what the options
        say of frames."""
        self._world.network.options = self._world.options
        for fault in faults:
            if fault.when is None:
                self._world.soon(fault.at, partial(self._strike, fault, 0))
            else:
                self._aimed.append(fault)

    def heal(self) -> None:
        """No more faults, but for silence that lasts, and crashed hosts that come back."""
        self._world.note("fault", "network", "heals")
        self._over = True
        self._aimed.clear()
        self._world.network.heal()

    def _entered(self, host: Host, machine: str, state: str) -> None:
        """A machine at a host enters a state."""
        for fault in [each for each in self._aimed if each.when == (machine, state)]:
            if fault.at <= self._world.env.now:
                self._aimed.remove(fault)
                base = list(self._world.hosts).index(host.name)
                self._world.soon(0.0, partial(self._strike, fault, base))

    def _claim(self, host: Host) -> None:
        """Another process asks for a name, which is a living one's or not."""
        world = self._world

        def granted(_: object) -> None:
            if world.hosts[host.name] is not host or not host.alive:
                return
            if self._answers(host):
                world.violated("name", f"{host.name} answers, and has lost its name")
            world.silence.excuse(host.name, world.env.now)

        world.claim(host.name, granted, lambda: None)

    def _answers(self, host: Host) -> bool:
        """Whether the host must have answered the directory at once."""
        world, now = self._world, self._world.env.now
        options = world.options
        calm = not (options.loss or options.straggling or options.reordering)
        prompt = options.slowest <= PROMPT and not options.bandwidth
        quiet = world.silence.over(now, HUB, host.name)
        slow = max(host.slow_until, world.hosts[HUB].slow_until) > now - HEARD
        return calm and prompt and quiet and not slow and not host.paused

    def _strike(self, fault: Fault, base: int, _: Event) -> None:
        if self._over:
            return
        world = self._world
        names = list(world.hosts)
        index = (base + fault.host) % len(names)
        if fault.do == "crash" and names[index] == HUB:
            index = (index + 1) % len(names)
        name = names[index]
        host = world.hosts[name]
        if not host.alive or (fault.do == "leave" and not self._can_leave(host)):
            return
        world.counts[f"fault {fault.do}"] += 1
        seconds = fault.seconds
        match fault.do:
            case "crash":
                world.kill(name)
                seconds = seconds or world.comes_back(name)
                if seconds >= CLAIMS:
                    world.soon(seconds, lambda _: world.start(name))
                elif seconds > 0:
                    world.soon(seconds, lambda _: world.start_at_once(name))
            case "leave":
                world.leaving[name] = seconds
                world.hosts[HUB].request(Dismiss(name))
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
                    world.silence.begins(name, other, world.env.now, seconds)
                if fault.again:
                    world.again[name] = None
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
                    world.again |= {name: None, other: None}
            case "slow":
                seconds = min(seconds, SHORT)
                world.cover("slow", name)
                world.note("fault", name, f"slow for {seconds:g} s")
                host.slow_until = max(host.slow_until, world.env.now + seconds)

    def _can_leave(self, host: Host) -> bool:
        idle = host.has_users and not host.busy
        return host.member.is_broker and host.name != HUB and idle

    def _cut(self, source: str, target: str, seconds: float) -> None:
        world = self._world
        world.silence.begins(source, target, world.env.now, seconds, cut=True)
        world.network.cut(source, target, seconds, lasts=seconds > SHORT)
        if seconds > SHORT:
            world.soon(seconds, lambda _: None)  # until then something is under way

    def _resume(self, host: Host) -> None:
        if host.alive:
            self._world.note("fault", host.name, "goes on")
        host.resume()
